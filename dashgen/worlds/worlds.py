# SPDX-License-Identifier: Apache-2.0
"""Worlds of random jobs: each says how often which family occurs, and in what it differs from the wide priors.

As in ``draw``, even seeds are for choosing rules and odd seeds are held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import MappingProxyType

from dashgen.errors import UserError
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.simulate import simulate, together
from dashgen.worlds.draft import MINUTE, Draft, span
from dashgen.worlds.draw import START, Trial, trial
from dashgen.worlds.happenings import happen
from dashgen.worlds.priors import HOUR, PRIORS, Choice, Log, Prior, Sometimes, Uniform, WideDice


@dataclass(frozen=True)
class World:
    """How often each family is drawn, and the priors that differ; two ``clusters`` give the same names to all."""

    families: Mapping[str, int]
    priors: Mapping[str, Prior] = field(default_factory=dict)
    clusters: tuple[str, str] | None = None

    @property
    def schedule(self) -> tuple[str, ...]:
        """All families by their shares, evenly mixed, so that a part of a run is a small run."""
        places = [((turn + 0.5) / share, name) for name, share in self.families.items() for turn in range(share)]
        return tuple(name for _, name in sorted(places))

    def family(self, seed: int) -> str:
        """The family that a seed belongs to."""
        return self.schedule[seed // 2 % len(self.schedule)]


LINKS = frozenset({"network", "nic", "nvlink"})

WIDE: Mapping[str, int] = {
    "network": 13,
    "nic": 6,
    "nvlink": 6,
    "late-gpu": 12,
    "slow-node": 5,
    "intermittent": 4,
    "repeated": 2,
    "overlapping": 3,
    "two-jobs": 1,
    "hang": 5,
    "short-hang": 1,
    "dead-rank": 2,
    "exporter-gone": 2,
    "unreadable": 1,
    "prometheus-gone": 1,
    "healthy": 9,
    "ended": 1,
    "killed": 3,
    "restart": 2,
    "short-jobs": 1,
}
LONG: Mapping[str, Prior] = {
    "minutes": Uniform(6 * 60, 24 * 60),
    "gpus": Choice({16: 3, 24: 1, 32: 1}),
    "step": Log(4, 30),
    "scrape interval": Choice({15: 1, 30: 4, 60: 1}),
    "onset": Choice({0.05: 1, 0.1: 1, 0.2: 2, 0.35: 1}),
    "fault lasts": Log(30 * MINUTE, 10 * HOUR),
    "pause every": Sometimes(0.6, Log(15 * MINUTE, 4 * HOUR)),
    "pause lasts": Log(20, 15 * MINUTE),
    "evaluation every": Sometimes(0.2, Log(1 * HOUR, 6 * HOUR)),
    "hiccup every": Sometimes(0.5, Log(40 * MINUTE, 4 * HOUR)),
    "burst every": Sometimes(0.2, Log(40 * MINUTE, 4 * HOUR)),
    "wander over": Log(10 * MINUTE, 8 * HOUR),
    "killed": Choice({False: 7, True: 3}),
    "neighbours": Choice({0: 1}),
}
LARGE: Mapping[str, Prior] = {
    "minutes": Uniform(60, 70),
    "gpus": Choice({256: 2, 512: 2, 1024: 2}),
    "gpus per node": Choice({8: 1}),
    "layout": Choice({"flat": 1, "hsdp": 2, "rails": 2, "tp-dp": 2, "tp-fsdp": 1, "pipeline": 2}),
    "step": Log(3, 30),
    "further sizes": Choice({0: 1, 1: 1, 2: 1}),
    "scrape interval": Choice({30: 1}),
    "neighbours": Choice({0: 1}),
    "onset": Choice({0.4: 1}),
    "fault lasts": Log(10 * MINUTE, 25 * MINUTE),
}
RACKS: Mapping[str, Prior] = {
    "minutes": Uniform(50, 80),
    "gpus": Choice({32: 2, 64: 2, 96: 1}),
    "gpus per node": Choice({4: 1}),
    "layout": Choice({"rack": 1}),
    "neighbours": Choice({0: 1}),
}
FEW_GPUS: Mapping[str, Prior] = {
    "gpus": Choice({2: 3, 3: 2}),
    "gpus per node": Choice({1: 1, 2: 1, 3: 1}),
    "layout": Choice({"flat": 1}),
    "neighbours": Choice({0: 1}),
}

WORLDS: Mapping[str, World] = MappingProxyType(
    {
        "wide": World(WIDE),
        "slow-dumps": World(WIDE, {"dump interval": Choice({60: 1, 120: 1}), "minutes": Uniform(60, 150)}),
        "long": World(
            {
                "network": 2,
                "nic": 1,
                "nvlink": 1,
                "late-gpu": 2,
                "slow-node": 1,
                "intermittent": 1,
                "repeated": 1,
                "overlapping": 1,
                "hang": 1,
                "dead-rank": 1,
                "healthy": 1,
                "ended": 1,
                "killed": 1,
                "restart": 1,
            },
            LONG,
        ),
        "racks": World({"nvlink": 2, "slow-node": 2, "late-gpu": 2, "nic": 1, "network": 1, "healthy": 1}, RACKS),
        "few-gpus": World({"late-gpu": 4, "slow-node": 1, "network": 2, "nic": 1, "hang": 1, "healthy": 2}, FEW_GPUS),
        "large": World({"nic": 2, "late-gpu": 1, "slow-node": 1, "healthy": 1, "network": 1}, LARGE),
        "requeues": World({"requeued": 1}, {"neighbours": Choice({0: 1}), "minutes": Uniform(45, 90)}),
        "clusters": World(
            {"network": 3, "late-gpu": 3, "nic": 1, "nvlink": 1, "hang": 2, "healthy": 1, "exporter-gone": 1},
            {"gpus": Choice({16: 3, 32: 1}), "minutes": Uniform(45, 80), "neighbours": Choice({0: 1})},
            ("east", "west"),
        ),
    }
)
"""The worlds besides that of ``draw``."""


def _scenario(name: str, family: str, draft: Draft) -> Scenario:
    return Scenario.model_validate(
        {
            "name": name,
            "story": f"A random job of the family {family}.",
            "start": START,
            "lasts": span(draft.lasts),
            "companions": draft.companions,
            "jobs": draft.jobs,
            "events": draft.events,
            **draft.rest,
        }
    )


def world_draw(world: str, seed: int, attempt: int = 0) -> tuple[str, list[Scenario]]:
    """The family of a seed, and its scenarios: one, or one of each cluster."""
    what = WORLDS[world]
    family, name = what.family(seed), f"{world}-{seed}"
    if not what.clusters:
        return family, [_scenario(name, family, happen(_dice(what, f"{world} {seed} {attempt}"), family))]
    other = what.family(7 * seed + 2)
    east, west = what.clusters
    first = happen(_dice(what, f"{world} {seed} {attempt} {east}"), family)
    # One Prometheus looks at both, and they know nothing of each other.
    shared = {
        "minutes": first.lasts / MINUTE,
        "prefix": first.rest["node_prefix"],
        "instances": first.rest["instances"],
        "scrape interval": first.rest["scrape_interval"],
        "dump interval": first.rest["dump_interval"],
        "throughput": first.companions["throughput"],
    }
    more = {key: Choice({value: 1}) for key, value in shared.items()}
    second = happen(_dice(what, f"{world} {seed} {attempt} {west}", more), other)
    first.rest["labels"] = {"cluster": east}
    second.rest |= {"labels": {"cluster": west}, "site": first.rest["site"]}
    first.rest["site"]["labels"] = {"cluster": "cluster"}
    return f"{family}+{other}", [_scenario(name, family, draft) for draft in (first, second)]


def _dice(what: World, words: str, more: Mapping[str, Prior] = MappingProxyType({})) -> WideDice:
    return WideDice(words, {**PRIORS, **what.priors, **more})


def world_trial(world: str, seed: int) -> Trial:
    """The trial of a seed: the first of its draws that can be simulated. Several clusters are told by the first."""
    for attempt in count():
        try:
            family, scenarios = world_draw(world, seed, attempt)
            recording, series = together([simulate(one) for one in scenarios])
        except (UserError, ValueError):
            continue  # for example a loss that the job's traffic cannot cost
        if any(fault.kind in LINKS and not fault.transport for fault in recording.faults):
            continue  # a slow link that nobody uses
        return Trial(seed, family, scenarios[0], recording, series)
    raise AssertionError("unreachable")


TRIALS: Mapping[str, Callable[[int], Trial]] = {
    "trials": trial,
    **{name: partial(world_trial, name) for name in WORLDS},
}
"""How to make the trial of a seed in each world."""
