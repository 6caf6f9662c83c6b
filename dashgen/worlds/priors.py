# SPDX-License-Identifier: Apache-2.0
"""What jobs, fabrics, sites and faults are like, as wide as they come: every value is drawn for each job anew.

Where somebody published or measured a value, the prior reaches beyond it on both sides and names the source; all
others are as wide as a job could be and still make sense. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from dashgen.worlds.draft import MINUTE, Dice

HOUR = 60 * MINUTE
KB, MB, GB = 1024, 1024**2, 1024**3

TRACES = "ByteDance-Seed/StragglerAnalysis, durations of single operations by rank"
BLOG = "NVIDIA's NCCL Inspector blog of 2026-05-07, samples of a real job"
TESTS = "NVIDIA/nccl-tests#290 and #252, bus bandwidths"
NEBIUS = "nebius/nebius-solutions-library, healthy Megatron runs: the first rank is the fastest of nearly every group"


class Prior(Protocol):
    """How often a value occurs."""

    def draw(self, dice: Dice) -> Any:
        """One value."""


@dataclass(frozen=True)
class Uniform:
    """Any number between two, equally often."""

    low: float
    high: float
    source: str = ""

    def draw(self, dice: Dice) -> float:
        """One value."""
        return dice.uniform(self.low, self.high)


@dataclass(frozen=True)
class Log:
    """A positive number whose magnitude is uniform."""

    low: float
    high: float
    source: str = ""

    def draw(self, dice: Dice) -> float:
        """One value."""
        return dice.log_uniform(self.low, self.high)


@dataclass(frozen=True)
class Choice:
    """One of these values, by their shares."""

    shares: Mapping[Any, float]
    source: str = ""

    def draw(self, dice: Dice) -> Any:
        """One value."""
        return dice.choices(list(self.shares), list(self.shares.values()))[0]


@dataclass(frozen=True)
class Sometimes:
    """Something that most jobs do not have; None for those."""

    chance: float
    prior: Prior
    source: str = ""

    def draw(self, dice: Dice) -> Any:
        """One value."""
        return self.prior.draw(dice) if dice.chance(self.chance) else None


PRIORS: Mapping[str, Prior] = MappingProxyType(
    {
        # The job.
        "layout": Choice(
            {
                "flat": 3,
                "hsdp": 3,
                "rails": 4,
                "tp-dp": 4,
                "tp-fsdp": 3,
                "cp-fsdp": 2,
                "pipeline": 3,
                "merged": 2,
                "rack": 2,
            }
        ),
        "gpus per node": Choice({4: 3, 8: 7}),
        "gpus": Choice({16: 4, 24: 2, 32: 4, 48: 2, 64: 2}),
        "step": Log(0.5, 60),
        "tflops": Uniform(150, 900),
        "log seconds": Log(4, 90),
        "log counts": Choice({"steps": 6, "pauses": 4}),
        "jitter": Log(0.001, 0.05, TRACES),
        "imbalance": Sometimes(0.3, Log(0.02, 1.2), TRACES + ": 6.5 % balanced, 45 % by sequence lengths"),
        "dwell": Choice({1: 7, 5: 1, 20: 1, 60: 1}),
        "position bias": Uniform(0.02, 0.3, NEBIUS),
        "biased": Log(0.005, 0.5),
        "arrival bias": Sometimes(0.5, Uniform(0.02, 0.3)),
        "compute wander": Sometimes(0.5, Log(0.001, 0.01)),
        "warm-up": Sometimes(0.15, Uniform(1 * MINUTE, 15 * MINUTE)),
        "poisoned": Choice({False: 95, True: 5}),
        "names": Choice({"none": 6, "all": 2, "some": 2}, "pytorch/pytorch#192487: unset until 2026-08"),
        "neighbours": Choice({0: 8, 1: 2}),
        # What it sends.
        "size factor": Log(0.2, 4, BLOG + ": 134 MB"),
        "share factor": Uniform(0.5, 1.2),
        "further sizes": Choice({0: 2, 1: 2, 2: 3, 4: 2, 7: 1}),
        "further size": Log(10 * KB, 1 * GB),
        "further share": Log(0.0005, 0.03),
        "every": Choice({1: 5, 2: 1, 5: 1, 10: 1, 50: 1}),
        "small noise": Log(0.04, 0.4, "AMD MI300 and TraceLens reports: below 1 ms 4 to 12 %, and slow drift"),
        # The fabric.
        "nic": Choice({46.0: 5, 23.0: 2, 12.0: 2, 6.0: 1}, TESTS),
        "nvlink": Choice({476.0: 4, 440.0: 2, 360.0: 2, 180.0: 1, 25.0: 1}, TESTS + "; the last is PCIe"),
        "noise": Log(0.01, 0.3, TRACES + ": 0.6 to 4.3 %; " + BLOG + ": about 0.3 contended"),
        "inner noise": Log(0.005, 0.06, TRACES),
        "tails": Sometimes(0.3, Log(0.001, 0.03)),
        "wander": Sometimes(0.6, Log(0.005, 0.08)),
        "uneven": Sometimes(0.5, Log(0.003, 0.08)),
        "wander over": Log(4 * MINUTE, 4 * HOUR),
        # Its days.
        "pause every": Sometimes(0.5, Log(6 * MINUTE, 3 * HOUR)),
        "pause lasts": Log(10, 6 * MINUTE),
        "pause spins": Choice({False: 6, True: 4}),
        "evaluation every": Sometimes(0.2, Log(12 * MINUTE, 2 * HOUR)),
        "evaluation lasts": Log(30, 8 * MINUTE),
        "hiccup every": Sometimes(0.4, Log(8 * MINUTE, 2 * HOUR)),
        "hiccup percent": Log(10, 200),
        "burst every": Sometimes(0.2, Log(6 * MINUTE, 2 * HOUR)),
        "burst lasts": Log(5, 50),
        "flap share": Sometimes(0.08, Log(0.05, 0.6)),
        "blind": Sometimes(0.06, Log(2 * MINUTE, 15 * MINUTE)),
        "size change": Sometimes(0.06, Choice({0.5: 1, 0.66: 1, 1.25: 1, 1.5: 1, 2.0: 1, 4.0: 1})),
        # The site.
        "dump interval": Choice({30: 8, 60: 2}),
        "scrape interval": Choice({15: 6, 30: 3, 60: 1}),
        "torn": Log(0.0001, 0.01),
        "missed": Sometimes(0.25, Log(0.002, 0.1)),
        "mtime": Choice({True: 85, False: 15}),
        "counters": Choice({False: 75, True: 25}),
        "host memory": Choice({True: 85, False: 15}, "node_exporter's default, and it exposes Inspector's files"),
        "dcgm": Choice({True: 7, False: 3}),
        "dcgm field": Choice({True: 7, False: 3}),
        "infiniband": Choice({False: 7, True: 3}),
        "throughput": Choice(
            {
                None: 65,
                "megatron_training_throughput_tflops": 12,
                "training_throughput_tflops_per_gpu": 12,
                "trainer_tflops": 11,
            }
        ),
        "throughput known": Choice({True: 7, False: 3}),
        "prefix": Choice({"node": 4, "gpu-": 3, "dgx": 2, "slinky-": 1}),
        "instances": Choice({"names": 9, "addresses": 1}),
        # Faults.
        "minutes": Uniform(45, 120),
        "onset": Choice({0.06: 1, 0.2: 2, 0.3: 3, 0.4: 2}, "parts of the recording"),
        "fault lasts": Log(4 * MINUTE, 60 * MINUTE, BLOG + ": four minutes"),
        "outlasts": Choice({False: 7, True: 3}),
        "loss": Choice(
            {(0.03, 0.05): 1, (0.06, 0.13): 5, (0.13, 0.3): 4, (0.3, 0.5): 1},
            BLOG + ": 6-8 % and 13 % in its two cases",
        ),
        "by loss": Choice({True: 6, False: 4}),
        "bandwidth": Log(0.15, 0.8),
        "fault noise": Log(0.02, 0.3),
        "ramp": Sometimes(0.3, Log(5, 600)),
        "late percent": Log(8, 120),
        "node percent": Log(8, 80),
        "throttled": Choice({True: 5, False: 5}),
        "from start": Choice({False: 85, True: 15}),
        "on": Uniform(3 * MINUTE, 7 * MINUTE),
        "off": Uniform(3 * MINUTE, 9 * MINUTE),
        "killed": Choice({False: 5, True: 5}),
        "watchdog": Uniform(480, 630, "PyTorch's heartbeat monitor: 480 to 600 s"),
    }
)
"""The prior of every value by its name."""


class WideDice(Dice):
    """Random values by the names of their priors.

    Every name has random numbers of its own, so that a new or changed prior leaves all other values as they were.
    """

    def __init__(self, words: str, priors: Mapping[str, Prior] = PRIORS) -> None:
        super().__init__(words)
        self._words, self._priors = words, priors
        self._own: dict[str, Dice] = {}

    def of(self, name: str) -> Any:
        """One value of what this name stands for."""
        own = self._own.setdefault(name, Dice(f"{self._words} {name}"))
        return self._priors[name].draw(own)
