# SPDX-License-Identifier: Apache-2.0
"""Series: those of the world outside, and those that rules record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dashgen.model.words import Unit, require

SignalKind = Literal["degradation", "outlier", "stall", "telemetry", "fabric"]

_METRIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RECORD_NAME = re.compile(r"(job|peer|gpu|node):[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")
# A number that somebody chose: a fraction other than the median's, a span in dumps, a range.
_CHOSEN = re.compile(r"(?<![\w:.])(?!0\.5\b)\d+\.\d+|<\d+ dumps|\[\d+[mh]\]")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A series of the world outside: what it is called there, in what unit, and what it really means.

    ``companion`` names the optional source that exposes it; empty for Inspector itself.
    """

    key: str
    name: str
    unit: Unit
    meaning: str
    labels: tuple[str, ...]
    source: str
    kind: Literal["gauge", "counter"] = "gauge"
    companion: str = ""
    variants: str = ""

    def __post_init__(self) -> None:
        require(_METRIC_NAME.fullmatch(self.name), f"{self.name}: not a metric name")
        require(self.meaning and self.source, f"{self.name}: needs a meaning and a source")


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One question, answered by one recorded series.

    ``labels`` are the labels the series keeps (placeholders allowed), ``group`` the rule group it is evaluated in.
    ``healthy`` tells a reader what a good value looks like. ``companion`` names the optional source it needs.
    ``sources`` says where the numbers in the rule come from: a published figure, or the sweep that chose them.
    Where several sources can answer, ``expr`` holds ``<branches>``, and ``branches`` are pairs of companion (empty
    for always) and PromQL, best source first; those that a site lacks are left out.
    """

    name: str
    question: str
    healthy: str
    expr: str
    unit: Unit
    labels: tuple[str, ...]
    group: str
    companion: str = ""
    branches: tuple[tuple[str, str], ...] = ()
    join: str = "or on (<job>)"
    sources: str = ""

    def __post_init__(self) -> None:
        require(_RECORD_NAME.fullmatch(self.name), f"{self.name}: a signal is called level:metric:operations")
        require(self.question.endswith("?"), f"{self.name}: the question ends with a question mark")
        require(self.healthy and self.expr and self.labels, f"{self.name}: needs healthy, expr and labels")
        require(
            bool(self.branches) == ("<branches>" in self.expr), f"{self.name}: branches and <branches> belong together"
        )
        rule = " ".join((self.expr, *(branch for _, branch in self.branches)))
        require(not _CHOSEN.search(rule) or self.sources, f"{self.name}: has thresholds or durations without sources")

    @property
    def of_a_job(self) -> bool:
        """Whether its rows name a job; what switches say knows none."""
        return "<job>" in self.labels
