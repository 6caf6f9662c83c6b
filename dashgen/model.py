# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the project: frozen values that are checked when they are made.

A **Metric** is a series that somebody else exposes. A **Signal** is a question that an operator asks, answered by one
recorded series; panels, alerts, runbooks and documentation take the question, the unit and the name from it. PromQL
is literal, with placeholders in angle brackets (``<job>``, ``<3 dumps>``) that dashgen.build fills in for a site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Literal


class Sensitivity(StrEnum):
    """How much the on-call wants to hear: what fires in a tier also fires in the next one."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Severity(StrEnum):
    """What an alert asks for: critical pages, warning opens a ticket, info is context for nobody's pager."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Unit(StrEnum):
    """Units by their Grafana id."""

    GBPS = "GBs"  # decimal GB/s, as NCCL counts
    MICROSECONDS = "µs"
    SECONDS = "s"
    HOURS = "h"
    NONE = "none"  # a whole number that is written in full
    RATIO = "percentunit"
    PERCENT = "percent"
    COUNT = "short"
    PER_SECOND = "ops"
    PER_HOUR = "suffix:per hour"  # of what is rare
    BYTES = "bytes"
    MEBIBYTES = "mbytes"
    BYTES_PER_SECOND = "Bps"
    TIMESTAMP = "dateTimeAsIso"  # of milliseconds
    CELSIUS = "celsius"
    WATTS = "watt"
    TFLOPS = "tflops"
    BOOL = "bool_on_off"


SignalKind = Literal["degradation", "outlier", "stall", "telemetry", "fabric"]
Scope = Literal["job", "node"]

_METRIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RECORD_NAME = re.compile(r"(job|peer|gpu|node):[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")
# A number that somebody chose: a fraction other than the median's, a span in dumps, a range.
_CHOSEN = re.compile(r"(?<![\w:.])(?!0\.5\b)\d+\.\d+|<\d+ dumps|\[\d+[mh]\]")
_VALUE = re.compile(r"<([a-z]+)(?: %| dumps)?>")
_ALERT_NAME = re.compile(r"Nccl([A-Z][a-z0-9]+){2,}")
_SLUG = re.compile(r"[a-z][a-z0-9-]*")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


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
        _require(_METRIC_NAME.fullmatch(self.name), f"{self.name}: not a metric name")
        _require(self.meaning and self.source, f"{self.name}: needs a meaning and a source")


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
        _require(_RECORD_NAME.fullmatch(self.name), f"{self.name}: a signal is called level:metric:operations")
        _require(self.question.endswith("?"), f"{self.name}: the question ends with a question mark")
        _require(self.healthy and self.expr and self.labels, f"{self.name}: needs healthy, expr and labels")
        _require(
            bool(self.branches) == ("<branches>" in self.expr), f"{self.name}: branches and <branches> belong together"
        )
        rule = " ".join((self.expr, *(branch for _, branch in self.branches)))
        _require(not _CHOSEN.search(rule) or self.sources, f"{self.name}: has thresholds or durations without sources")


@dataclass(frozen=True, kw_only=True)
class Tier:
    """What one sensitivity asks of an alert: a threshold, a duration in dumps, a severity.

    ``hold`` is the hysteresis in dumps (``keep_firing_for``). ``extra`` are further thresholds by placeholder name.
    """

    threshold: float
    dumps: int
    severity: Severity
    hold: int = 0
    extra: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require(self.dumps >= 0 and self.hold >= 0, "durations are not negative")


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """What a tired person reads: meaning, first look, how to tell the causes apart, what to do."""

    meaning: str
    look_first: tuple[str, ...]
    tell_apart: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require(self.meaning and self.look_first, "a runbook says what it means and where to look first")


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A rule that tells a person: an expression over signals with ``<threshold>``, and three tiers of it.

    ``limit`` says in words what the expression asks for; ``<threshold>`` and further thresholds by their name stand for
    a tier's values, ``<threshold %>`` for a share and ``<threshold dumps>`` for a time.
    ``rises`` is True when a larger threshold is the stricter one. A tier that is missing is not in that pack.
    ``explained_by`` names coarser alerts, and whether they speak for this one in the same job or only on the same node:
    while one of them fires, nobody is told of this one.
    """

    name: str
    kind: SignalKind
    signal: str
    expr: str
    limit: str
    summary: str
    description: str
    tiers: Mapping[Sensitivity, Tier]
    runbook: Runbook
    dashboard: str
    labels: Mapping[str, str] = field(default_factory=dict)
    explained_by: Mapping[str, Scope] = field(default_factory=dict)
    rises: bool = True
    companion: str = ""
    sources: str = ""

    def __post_init__(self) -> None:
        _require(_ALERT_NAME.fullmatch(self.name), f"{self.name}: an alert is called Nccl<Subject><Fault>")
        _require(self.summary and self.description, f"{self.name}: needs a summary and a description")
        _require("{{" not in self.summary.replace("{{ $labels.", ""), f"{self.name}: a summary holds labels only")
        _require(self.signal in self.expr, f"{self.name}: the expression does not use {self.signal}")
        _require(self.sources, f"{self.name}: thresholds cite where they come from")
        said = set(_VALUE.findall(self.limit)) - {"threshold"}
        _require(self.limit and all(said <= set(tier.extra) for tier in self.tiers.values()), f"{self.name}: its limit")
        self._check_order()

    def _check_order(self) -> None:
        """low ⊂ medium ⊂ high: an alert of a lower tier is in the higher one, and there no stricter."""
        order = [self.tiers.get(level) for level in Sensitivity]
        for calmer, keener in pairwise(order):
            if calmer is None:
                continue
            _require(keener is not None, f"{self.name}: is in a tier but not in the next more sensitive one")
            assert keener is not None
            _require(set(calmer.extra) == set(keener.extra), f"{self.name}: tiers have different extra thresholds")
            pairs = [
                (calmer.threshold, keener.threshold),
                *((calmer.extra[name], keener.extra[name]) for name in keener.extra),
            ]
            stricter = all(low >= high if self.rises else low <= high for low, high in pairs)
            _require(stricter, f"{self.name}: a threshold of a lower tier is laxer than that of a higher one")
            _require(calmer.dumps >= keener.dumps, f"{self.name}: a lower tier waits shorter than a higher one")


PanelType = Literal["timeseries", "stat", "table", "heatmap", "state-timeline", "bargauge", "text"]


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query of a panel: PromQL with placeholders, and the legend in Grafana's ``{{label}}`` form.

    ``companion`` names the source without which the query is left out of its panel.
    """

    expr: str
    legend: str = ""
    instant: bool = False
    companion: str = ""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel: a question, how to read the answer, and what a bad picture looks like.

    ``width`` and ``height`` are Grafana grid units (24 columns). ``steps`` are threshold steps as (value, colour
    role), where None is the base. ``states`` name the values of a state timeline, and ``column_states`` those of a
    column. ``companion`` names the optional source without which the panel is empty. ``interval`` is the least distance
    of two points, by default a dump; ``points`` is how many points a curve has at most, for a coarser step over a long
    time.

    ``line_units`` are units, by Grafana's id, and ``line_colours`` colour roles, of the lines whose name holds a word;
    ``line_names`` are better names for lines; ``lowest_first`` puts the lowest line on top of the legend, not the
    highest.

    A table with ``across`` is a grid: its first column holds a label, and the values of the label ``across`` are the
    others, in the order of ``columns`` and as far as there are any.

    A table with ``trend`` shows values as small curves; ``order`` is the title of the column that it is sorted by, with
    a minus in front for the largest on top; ``words`` are better words for what labels say. A ``sentence`` is a stat
    that shows the names of its series, coloured by their values.
    """

    title: str
    description: str
    type: PanelType
    unit: Unit
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    steps: tuple[tuple[float | None, str], ...] = ()
    states: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    column_units: Mapping[str, Unit] = field(default_factory=dict)
    column_states: Mapping[str, Mapping[int, tuple[str, str]]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    companion: str = ""
    no_value: str = "no data"
    interval: str = ""
    points: int = 0
    line_units: Mapping[str, str] = field(default_factory=dict)
    line_colours: Mapping[str, str] = field(default_factory=dict)
    line_names: Mapping[str, str] = field(default_factory=dict)
    lowest_first: bool = False
    trend: bool = False
    across: str = ""
    order: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    sentence: bool = False

    def __post_init__(self) -> None:
        _require(self.title and self.description and self.unit, f"{self.title}: needs a title, description and unit")
        _require(self.queries or self.type == "text", f"{self.title}: asks nothing")
        _require(1 <= self.width <= 24 and self.height >= 2, f"{self.title}: does not fit the grid")
        _require(not self.trend or self.type == "table", f"{self.title}: only a table shows small curves")
        grid = self.type == "table" and len(self.queries) <= 1 and len(self.columns) > 1
        _require(not self.across or grid, f"{self.title}: a grid is a table of one query, with its columns")
        known = not self.order or self.order.removeprefix("-") in self.columns.values()
        _require(known, f"{self.title}: is sorted by a column that it does not show")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A titled band of panels; collapsed rows load only when opened."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A dashboard variable, filled from the values of a label of a series.

    ``narrows`` makes All stand for the listed values instead of anything: it then confines series of the world outside,
    which do not know the job, to the job's machines. A ``hidden`` variable follows the others and is not shown.
    """

    name: str
    label: str
    series: str
    multi: bool = True
    title: str
    narrows: bool = False
    hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """Moments and spans, drawn over every graph of a board while ``expr`` is 1.

    ``heading`` and ``text`` may show labels, in Grafana's ``{{label}}`` form. ``role`` is a colour role.
    """

    title: str
    expr: str
    heading: str
    text: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """One board that answers one question; ``place`` is where it stands among those that somebody walks through."""

    slug: str
    title: str
    question: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...]
    annotations: tuple[Annotation, ...] = ()
    span: str = "now-3h"
    place: int = 0

    def __post_init__(self) -> None:
        _require(_SLUG.fullmatch(self.slug), f"{self.slug}: a slug is lower case with dashes")
        titles = [panel.title for panel in self.panels]
        _require(len(titles) == len(set(titles)), f"{self.slug}: two panels share a title")

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, top to bottom."""
        return tuple(panel for row in self.rows for panel in row.panels)


@dataclass(frozen=True, kw_only=True)
class RecordingRule:
    """A recording rule, ready to write."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """An alert rule, ready to write; durations are Prometheus durations, empty when there is none."""

    alert: str
    expr: str
    hold: str
    keep: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated one after the other, every ``interval``."""

    name: str
    interval: str
    rules: tuple[RecordingRule | AlertRule, ...]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Everything that one build produces, before any target gives it a form.

    ``dashboards`` maps a slug to Grafana JSON as plain data, ``runbooks`` an alert name to Markdown. ``folder`` is the
    Grafana folder, ``overlays`` the jsonnet sources, by path, that have changed the rest.
    """

    dashboards: Mapping[str, Mapping[str, object]]
    recording: tuple[RuleGroup, ...]
    alerts: Mapping[Sensitivity, tuple[RuleGroup, ...]]
    runbooks: Mapping[str, str]
    alertmanager: Mapping[str, object]
    folder: str = "NCCL"
    overlays: Mapping[str, str] = field(default_factory=dict)
