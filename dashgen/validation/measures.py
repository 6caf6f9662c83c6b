# SPDX-License-Identifier: Apache-2.0
"""What many trials say of a pack: recall, time to detect, attribution, localisation, false alarms and pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dashgen.validation.cases import SLOWDOWNS
from dashgen.validation.judge import Alarm, Incident, Verdict

NOTICED = 0.06
"""A loss of throughput that is noticed: the smallest dip in NVIDIA's blog of 2026-05-07."""


@dataclass(frozen=True)
class View:
    """One pack on some trials."""

    incidents: tuple[Incident, ...]
    alarms: tuple[Alarm, ...]
    healthy_hours: float

    @cached_property
    def slow(self) -> View:
        """The incidents in which a job lost at least 6 % of the throughput that it had."""
        return self.where(lambda one: one.family in SLOWDOWNS and one.fell and (one.loss or 0) >= NOTICED)

    @cached_property
    def core(self) -> View:
        """The incidents that every pack has to see."""
        return self.where(lambda one: one.core)

    def where(self, wanted: Callable[[Incident], bool]) -> View:
        """The same pack on some of the incidents."""
        return replace(self, incidents=tuple(filter(wanted, self.incidents)))

    @property
    def recall(self) -> float | None:
        """The part of the incidents that was seen, or that came back while the alert of an earlier time was open."""
        return _share(one.known or one.after is not None for one in self.incidents)

    def after(self, quantile: float) -> float | None:
        """Seconds until this part of the seen incidents was seen."""
        times = [one.after for one in self.incidents if one.after is not None]
        return float(np.quantile(times, quantile, method="inverted_cdf")) if times else None

    @property
    def attribution(self) -> float | None:
        """The part of the verdicts that was right."""
        return _share(one.attributed for one in self.incidents if one.attributed is not None)

    def right(self, what: str) -> float | None:
        """The part of the seen incidents whose suspect, transport, node or gpu was named rightly at first."""
        return _share(one.right[what] for one in self.incidents if one.after is not None and what in one.right)

    @property
    def coverage(self) -> float | None:
        """The part of the time from detection to the fault's end in which the alert held."""
        return _mean(one.coverage for one in self.incidents if one.coverage is not None)

    @property
    def localisation(self) -> float | None:
        """The part of the incidents with a place to name in which that place, and no other, was named."""
        return _share(one.located is True for one in self.incidents if one.place)

    @property
    def blamed(self) -> float | None:
        """Innocent nodes and GPUs named, per incident."""
        return _mean(one.blamed for one in self.incidents)

    @property
    def pages(self) -> float | None:
        """Critical alerts per incident that paged."""
        return _mean(one.pages for one in self.incidents if one.pages)

    @property
    def episodes(self) -> float | None:
        """Critical and warning alerts per incident that was seen."""
        return _mean(one.episodes for one in self.incidents if one.after is not None)

    def alarm_rate(self, *severities: str) -> float | None:
        """False alarms per 100 healthy job-hours."""
        found = sum(one.severity in severities for one in self.alarms)
        return 100 * found / self.healthy_hours if self.healthy_hours else None


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _share(values: Iterable[bool]) -> float | None:
    return _mean(map(float, values))


def view(results: Iterable[Verdict], pack: str) -> View:
    """What a pack made of trials or recordings."""
    seen = list(results)
    return View(
        tuple(one for each in seen for one in each.incidents if one.pack == pack),
        tuple(one for each in seen for one in each.alarms if one.pack == pack),
        sum(each.healthy_hours for each in seen),
    )


def shown(unit: str, value: float | None) -> str:
    """A value for people."""
    if value is None:
        return "-"
    return f"{value:.1%}" if unit == "share" else f"{value:.0f} s" if unit == "seconds" else f"{value:.2f}"
