# SPDX-License-Identifier: Apache-2.0
"""What all plotly figures of a preview share: frame, axes, names, and which curves are drawn.

plotly reads a little HTML in every text (``<b>``, ``<a href>``), and label values are other people's text: everything
that becomes a text in a figure goes through ``plain`` first.
"""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from dashgen.grafana.parsed import Json
from dashgen.preview.fields import CLASSIC, Field, number, shade
from dashgen.preview.frames import Curve

_GRID, AXIS = "#e6e8eb", "#5b6470"
_FONT = {"family": "Inter, Roboto, Helvetica, Arial, sans-serif", "size": 11, "color": "#24292e"}


@dataclass(frozen=True)
class Span:
    """A time range with a step, in seconds since the epoch, and how many columns of the grid it is drawn over."""

    start: float
    end: float
    step: int
    width: int = 12


@dataclass(frozen=True)
class Region:
    """A stretch of time that an annotation shades, or in which something was really wrong (``truth``).

    Without any length it is a moment.
    """

    start: float
    end: float
    colour: str
    truth: bool = False


@dataclass(frozen=True)
class Entry:
    """A line of the legend: colour, name, dashed or not, whether it is a curve, and its values in words."""

    colour: str
    name: str
    values: tuple[str, ...] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Figure:
    """What plotly draws, with the legend that stands below it; ``curves`` of its entries belong to a trace each."""

    data: tuple[Json, ...]
    layout: Json
    entries: tuple[Entry, ...] = ()
    heads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    traces: int = 0


def plain(text: str) -> str:
    """Text that plotly shows as it is."""
    return html.escape("".join(" " if char.isspace() else char for char in text), quote=False)


def finished(drawn: Sequence[Any], layout: Mapping[str, Any], **more: Any) -> Figure:
    """Through plotly's own classes: an attribute that plotly does not know is an error here, not in a browser."""
    base = {
        "template": "none",
        "font": _FONT,
        "margin": {"l": 8, "r": 8, "t": 6, "b": 6},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hoverlabel": {"namelength": -1, "bgcolor": "#ffffff", "font": {**_FONT}},
    }
    figure = go.Figure(data=list(drawn), layout=go.Layout({**base, **layout})).to_plotly_json()
    figure["layout"].pop("template", None)
    return Figure(tuple(figure["data"]), figure["layout"], **more)


def time_axis(span: Span) -> dict[str, Any]:
    return {
        "type": "date",
        "range": [span.start * 1000, span.end * 1000],
        "gridcolor": _GRID,
        "linecolor": _GRID,
        "tickcolor": _GRID,
        "tickfont": {"color": AXIS},
        "hoverformat": "%H:%M:%S UTC",
        # The day only where there are several; the page says which one it is.
        "tickformat": "%H:%M" if span.end - span.start <= 86400 else "%H:%M\n%m-%d",
        "nticks": max(5, min(14, span.width)),
        "tickangle": 0,
        "automargin": True,
        "zeroline": False,
    }


def value_axis(**more: Any) -> dict[str, Any]:
    base = {"gridcolor": _GRID, "linecolor": _GRID, "tickfont": {"color": AXIS}, "zeroline": False, "automargin": True}
    return {**base, **more}


# Which curves to draw.


def chosen(curves: Sequence[Curve], most: int, what: str) -> tuple[list[Curve], list[str]]:
    """The curves that are drawn, in their order, and a note when that is not all of them.

    Those are kept that stray farthest from the middle of the panel: the odd ones are what a reader looks for.
    """
    if len(curves) <= most:
        return list(curves), []
    middle = statistics.median(_mean(each) for each in curves)
    scores = [max((abs(value - middle) for value in _finite(each)), default=0.0) for each in curves]
    kept = sorted(sorted(range(len(curves)), key=lambda place: (-scores[place], place))[:most])
    note = f"{most} of {len(curves)} {what} drawn: those that stray farthest from the middle one"
    return [curves[place] for place in kept], [note]


def _finite(curve: Curve) -> list[float]:
    return [value for value in curve.series.values.tolist() if math.isfinite(value)]


def _mean(curve: Curve) -> float:
    values = _finite(curve)
    return math.fsum(values) / len(values) if values else 0.0


def slots_of(curve: Curve, span: Span) -> list[float | None]:
    """A value, or nothing, for every step of the time range."""
    count = int((span.end - span.start) // span.step) + 1
    slots: list[float | None] = [None] * count
    for moment, value in zip(curve.series.times.tolist(), curve.series.values.tolist(), strict=True):
        place = round((moment - span.start) / span.step)
        if 0 <= place < count and math.isfinite(value):
            slots[place] = value
    return slots


# Names, colours and numbers.


def colours(fields: Sequence[Field]) -> list[str]:
    """A colour for every curve: its own, a shade of its family's, or the next of the classic palette."""
    used: dict[str, int] = {}
    found = []
    for place, field in enumerate(fields):
        mode, own = field.own_colour
        if own and mode == "shades":
            found.append(shade(own, used.get(own, 0)))
            used[own] = used.get(own, 0) + 1
        else:
            found.append(own or CLASSIC[place % len(CLASSIC)])
    return found


def different(names: Sequence[str]) -> list[str]:
    """Rows of the same name stay rows of their own."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def joined_up_to(across: object, span: Span) -> float:
    """How many places apart two points may be and still be one line: ``across`` is Grafana's ``spanNulls``."""
    return math.inf if across is True else (number(across) or 0.0) / 1000 / span.step
