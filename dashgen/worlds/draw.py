# SPDX-License-Identifier: Apache-2.0
"""A random scenario from a seed: one family of fault or false friend, everything else as varied as jobs are.

Even seeds are for tuning rules, odd seeds are held out: what is published comes from odd seeds alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal

from dashgen.errors import UserError
from dashgen.recordings.format import Recording, Series
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.simulate import simulate
from dashgen.worlds.draft import Dice, span
from dashgen.worlds.families import FAMILIES

Split = Literal["tuning", "held-out"]

START = "2026-07-01T00:00:00Z"


def _schedule() -> tuple[str, ...]:
    """All families by their shares, evenly mixed, so that a part of a run is a small run."""
    places = [((turn + 0.5) / share, name) for name, (share, _) in FAMILIES.items() for turn in range(share)]
    return tuple(name for _, name in sorted(places))


SCHEDULE = _schedule()


def seeds(split: Split, runs: int) -> Iterator[int]:
    """The first seeds of a split."""
    return islice(count(0 if split == "tuning" else 1, 2), runs)


def family(seed: int) -> str:
    """The family that a seed belongs to."""
    return SCHEDULE[seed // 2 % len(SCHEDULE)]


def draw(seed: int, attempt: int = 0) -> Scenario:
    """The scenario of a seed. Some draws cannot be simulated; a further attempt is another draw of the same family."""
    name = family(seed)
    draft = FAMILIES[name][1](Dice(f"{seed} {attempt}"))
    return Scenario.model_validate(
        {
            "name": f"trial-{seed}",
            "story": f"A random job of the family {name}.",
            "start": START,
            "lasts": span(draft.lasts),
            "companions": draft.companions,
            "jobs": draft.jobs,
            "events": draft.events,
            **draft.rest,
        }
    )


@dataclass(frozen=True, eq=False)
class Trial:
    """A scenario, and what Prometheus would have recorded of it."""

    seed: int
    family: str
    scenario: Scenario
    recording: Recording
    series: Sequence[Series]


def trial(seed: int) -> Trial:
    """The trial of a seed: the first of its draws that can be simulated."""
    for attempt in count():
        scenario = draw(seed, attempt)
        try:
            recording, series = simulate(scenario)
        except UserError:
            continue  # for example a loss that the job's traffic cannot cost
        return Trial(seed, family(seed), scenario, recording, series)
    raise AssertionError("unreachable")
