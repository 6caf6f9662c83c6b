# SPDX-License-Identifier: Apache-2.0
"""Incidents as annotations in Grafana, so that every board shows them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from dashgen.errors import UserError
from dashgen.live.client.access import access
from dashgen.live.client.http import Client, Limits, Parameters
from dashgen.live.incidents import report as words
from dashgen.live.incidents.windows import Incident

TAGS = ("dashgen", "nccl-incident")
_MOST = 1000  # annotations that are read to see what is there already


class _Annotation(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    text: str = ""
    time: float = 0.0
    tags: tuple[str, ...] = ()


def grafana(url: str, *, seconds: float = 60.0) -> Client:
    """The Grafana at an address, entered as ``DASHGEN_GRAFANA_*`` says. Raises UserError for a bad one."""
    return Client(url, access("GRAFANA"), Limits(seconds), what="a Grafana")


def annotate(server: Client, found: Sequence[Incident]) -> int:
    """Write an annotation for each incident that has ended and has none yet; the answer is how many were written.

    Raises UserError when Grafana refuses.
    """
    ended = [one for one in found if not one.ongoing]
    if not ended:
        return 0
    first, last = min(one.start for one in ended), max(one.end for one in ended)
    asked: Parameters = {
        "from": str(_ms(first) - 1),
        "to": str(_ms(last) + 1),
        "limit": str(_MOST),
        "tags": list(TAGS),
    }
    body = server.get("/api/annotations", asked)
    try:
        there = {(each.time, each.text) for each in TypeAdapter(tuple[_Annotation, ...]).validate_json(body)}
    except ValidationError as error:
        raise UserError(f"{server.url}: not the answer of a Grafana; check the address") from error
    count = 0
    for one in ended:
        if (_ms(one.start), text(one)) in there:
            continue
        made = {"time": _ms(one.start), "timeEnd": _ms(one.end), "tags": [*TAGS, *_tags(one)], "text": text(one)}
        server.request("POST", "/api/annotations", json.dumps(made).encode(), {"Content-Type": "application/json"})
        count += 1
    return count


def _ms(moment: float) -> int:
    return round(moment * 1000)


def _tags(one: Incident) -> list[str]:
    named = {"job": words.name(one), "suspect": one.suspect, "node": one.node}
    return [one.state, *(f"{key}:{value}" for key, value in named.items() if value)]


def text(one: Incident) -> str:
    """What an annotation says; equal incidents say the same. Grafana shows HTML, so no label may hold any."""
    parts = [f"Job {words.name(one)} {words.what(one)}", words.where(one), f"depth {words.depth(one)}"]
    said = ", ".join([*parts, f"{words.cost(one)} GPU hours lost"])
    return said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
