# SPDX-License-Identifier: Apache-2.0
"""Conditions of a Grafana: are the boards there, and are they those of this dashgen.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dashgen.errors import UserError
from dashgen.live.client.http import Refused
from dashgen.live.doctor.probe import Diagnosis, Probe, shipped

# What Grafana itself writes into a dashboard.
_ITS_OWN = frozenset({"id", "version", "iteration", "__inputs", "__requires", "pluginVersion"})


class _Board(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    dashboard: dict[str, Any]


def boards(probe: Probe) -> Iterator[Diagnosis]:
    """A board is missing in Grafana, or somebody has changed it."""
    if probe.grafana is None:
        return
    for slug, wanted in shipped(probe.site).dashboards.items():
        uid = str(wanted["uid"])
        try:
            body = probe.grafana.get(f"/api/dashboards/uid/{uid}")
            there = _Board.model_validate_json(body).dashboard
        except Refused as refusal:
            if refusal.status != 404:
                raise
            yield Diagnosis(f"dashboards/{slug}.json", f"Grafana has no dashboard {uid}")
            continue
        except ValidationError as error:
            raise UserError(f"{probe.grafana.url}: not the answer of a Grafana; check the address") from error
        if changed := sorted(_differences(wanted, there)):
            yield Diagnosis(f"dashboards/{slug}.json", f"Grafana's {uid} differs in {', '.join(changed[:5])}")


def _differences(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """The keys, or titles of panels, in which two dashboards differ."""
    for key, value in _plain(wanted).items():
        other = _plain(there).get(key)
        if key == "panels" and isinstance(other, list):
            titles = {str(each.get("title")): each for each in other if isinstance(each, dict)}
            yield from (
                f"panel {panel.get('title')!r}" for panel in value if titles.get(str(panel.get("title"))) != panel
            )
        elif other != value:
            yield key


def _plain(value: Any) -> Any:
    """JSON without what Grafana itself writes, lists and maps as they come back."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in json.loads(json.dumps(value)).items() if key not in _ITS_OWN}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value
