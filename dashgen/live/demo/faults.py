# SPDX-License-Identifier: Apache-2.0
"""Faults that can be injected: ``late-gpu@2m`` or ``network@30s+1m``, and what each of them does to a scenario."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from dashgen.durations import seconds
from dashgen.errors import UserError
from dashgen.guard.text import line, listed
from dashgen.simulator.events import Event
from dashgen.simulator.scenario import Scenario

_ASKED = re.compile(r"(?P<fault>[a-z0-9-]+)@(?P<at>[^+@]+)(?:\+(?P<lasts>[^+@]+))?")
_EVENT = TypeAdapter[Event](Event)

USUAL_DUMPS = 24
"""How long a fault lasts where nobody says: twelve minutes at 30 s, long enough to be reported and to end in time."""

LONGEST = 86400.0
"""Seconds; a demo is not left running for longer."""

RESTARTS = {"prometheus-restart": "prometheus", "alertmanager-restart": "alertmanager"}
"""What happens to the stack itself, by the program that is started again."""


@dataclass(frozen=True)
class Injection:
    """A fault that somebody asked for: when it begins and how long it lasts, in seconds of the machine's clock."""

    fault: str
    at: float
    lasts: float | None = None


def parse(asked: str) -> Injection:
    """A fault as it is written on the command line. Raises UserError."""
    match = _ASKED.fullmatch(asked)
    if match is None:
        raise UserError(f"--inject {line(asked, 60)}: write it as FAULT@TIME, such as late-gpu@2m or network@30s+1m")
    if match["fault"] not in NAMES:
        raise UserError(f"--inject {line(asked, 60)}: no such fault; there are {listed(NAMES, match['fault'], 400)}")
    where = f"--inject {line(asked, 60)}"
    lasts = None if match["lasts"] is None else duration(match["lasts"], where)
    return Injection(match["fault"], duration(match["at"], where, least=0.0), lasts)


def duration(text: str, where: str, least: float = 1.0) -> float:
    """Seconds, of a duration as people write it. Raises UserError, which begins with ``where``."""
    try:
        found = seconds(text)
    except ValueError as error:
        raise UserError(f"{where}: {line(str(error), 120)}") from error
    if not least <= found <= LONGEST:
        raise UserError(f"{where}: {line(text, 40)} is not between {least:g} s and a day; give another time")
    return found


def _second_node(scenario: Scenario) -> str:
    job = scenario.jobs[0]
    return scenario.nodes[job.first_node - 1 + min(1, job.nodes - 1)]


def _last_gpu(scenario: Scenario) -> int:
    return scenario.jobs[0].gpus_per_node - 1


def _on_gpu(scenario: Scenario) -> dict[str, Any]:
    return {"node": _second_node(scenario), "gpu": _last_gpu(scenario)}


def _on_node(scenario: Scenario) -> dict[str, Any]:
    return {"node": _second_node(scenario)}


Place = Callable[[Scenario], dict[str, Any]]
_EVENTS: dict[str, tuple[tuple[dict[str, Any], Place], ...]] = {
    "network": (({"kind": "network", "loss": 0.15}, lambda _: {}),),
    "nic": (({"kind": "nic", "bandwidth": 0.4, "discards": 400.0}, _on_gpu),),
    "nvlink": (({"kind": "nvlink", "bandwidth": 0.35}, _on_node),),
    "late-gpu": (({"kind": "late-gpu", "percent": 25.0}, _on_gpu),),
    "slow-node": (({"kind": "slow-node", "percent": 25.0}, _on_node),),
    "hang": (({"kind": "hang"}, lambda _: {}),),
    "dead-rank": (({"kind": "dead-rank"}, _on_gpu),),
    "checkpoint": (({"kind": "checkpoint", "lasts": "150s"}, lambda _: {}),),
    "exporter-gone": (({"kind": "exporter-gone"}, _on_node),),
    "node-gone": (({"kind": "exporter-gone"}, _on_node), ({"kind": "dead-rank"}, _on_gpu)),
}
"""What a fault is made of: events of a scenario and where they happen, on the second node of the first job."""

_ENDS = {"kill": "killed", "end": "clean"}
"""Faults that end the job, by how it ends: ``kill`` leaves its files behind."""

NAMES = (*_EVENTS, *_ENDS, *RESTARTS)
"""All faults, harmless events among them."""


def injected(scenario: Scenario, injections: tuple[Injection, ...], begin: float, speed: float) -> Scenario:
    """A scenario with more faults; ``begin`` is the second of its story at which the machine's clock starts.

    Raises UserError when one of them does not fit the scenario.
    """
    events, job = list(scenario.events), scenario.jobs[0]
    usual = USUAL_DUMPS * scenario.dump_interval
    for each in sorted(injections, key=lambda one: one.at):
        at = begin + each.at * speed
        if each.fault in _ENDS:
            job = job.model_copy(update={"to": at, "ends": _ENDS[each.fault]})
        for fields, place in _EVENTS.get(each.fault, ()):
            until = at + (usual if each.lasts is None else each.lasts * speed)
            moments = {"start": f"{at:.3f}s", "end": f"{until:.3f}s"}
            events.append(_EVENT.validate_python({**fields, **place(scenario), **moments, "job": job.id}))
    if job.to is not None and job.to <= begin:
        raise UserError(f"{scenario.name}: the job has ended before the demo begins; take another scenario")
    jobs = (job, *scenario.jobs[1:])
    return scenario.model_copy(update={"events": tuple(events), "jobs": jobs})
