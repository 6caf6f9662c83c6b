# SPDX-License-Identifier: Apache-2.0
"""The clock of a story and that of the machine, and what becomes of recorded values between the two."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dashgen.catalogue.metrics import METRICS
from dashgen.engine.ruletest import is_timestamp
from dashgen.recordings.format import Series
from dashgen.simulator.scenario import Scenario

_COUNTERS = frozenset(metric.name for metric in METRICS if metric.kind == "counter")
_OF_THE_FILE = "nccl_"  # Inspector's own counters count operations, however fast time goes


@dataclass(frozen=True)
class Clock:
    """``origin`` is the machine's time, in seconds since the epoch, of the start of a story ``speed`` times as fast."""

    speed: float
    origin: float

    def machine(self, story: float) -> float:
        """The machine's time of a second of the story."""
        return self.origin + story / self.speed

    def story(self, machine: float) -> float:
        """The second of the story at a time of the machine."""
        return (machine - self.origin) * self.speed

    def compressed(self, scenario: Scenario, series: Iterable[Series]) -> list[Series]:
        """Recorded series on the machine's clock.

        Values that are points in time move along with their samples. Counters rise as much a second of the machine as
        they would have in a second of the story, so that rates stay what they are.
        """
        start = scenario.start.timestamp()
        found = []
        for one in series:
            values = one.values
            if is_timestamp(one.name):
                values = np.floor(self.origin + (values - start) / self.speed)
            elif one.name in _COUNTERS and not one.name.startswith(_OF_THE_FILE):
                values = np.floor(values / self.speed)
            found.append(replace(one, times=self.origin + (one.times - start) / self.speed, values=values))
        return found
