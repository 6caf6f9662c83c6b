# SPDX-License-Identifier: Apache-2.0
"""Boards: panels with their queries, in rows, with variables and annotations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dashgen.model.words import Unit, require

_SLUG = re.compile(r"[a-z][a-z0-9-]*")

PanelType = Literal["timeseries", "stat", "table", "heatmap", "state-timeline", "bargauge"]


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
    ``line_names`` are better names for lines; ``lowest_first`` puts the lowest line on top of legend and tooltip, not
    the highest.

    A table with ``across`` is a grid: its first column holds a label, and the values of the label ``across`` are the
    others, in the order of ``columns`` and as far as there are any.

    ``order`` is the title of the column that a table is sorted by, with a minus in front for the largest on top;
    ``words`` are better words for what labels say. A ``sentence`` is a stat that shows the names of its series,
    coloured by their values.
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
    across: str = ""
    order: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    sentence: bool = False

    def __post_init__(self) -> None:
        require(self.title and self.description and self.unit, f"{self.title}: needs a title, description and unit")
        require(self.queries, f"{self.title}: asks nothing")
        require(1 <= self.width <= 24 and self.height >= 2, f"{self.title}: does not fit the grid")
        grid = self.type == "table" and len(self.queries) <= 1 and len(self.columns) > 1
        require(not self.across or grid, f"{self.title}: a grid is a table of one query, with its columns")
        known = not self.order or self.order.removeprefix("-") in self.columns.values()
        require(known, f"{self.title}: is sorted by a column that it does not show")


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
        require(_SLUG.fullmatch(self.slug), f"{self.slug}: a slug is lower case with dashes")
        titles = [panel.title for panel in self.panels]
        require(len(titles) == len(set(titles)), f"{self.slug}: two panels share a title")

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, top to bottom."""
        return tuple(panel for row in self.rows for panel in row.panels)
