# SPDX-License-Identifier: Apache-2.0
"""Panels made of rectangles: heatmaps, state timelines and bar gauges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.exceptions import PlotlyError

from dashgen.grafana import units
from dashgen.grafana.parsed import Json, mapping
from dashgen.preview.fields import CLASSIC, Field, number
from dashgen.preview.figures import (
    AXIS,
    Entry,
    Figure,
    Span,
    chosen,
    colours,
    different,
    finished,
    joined_up_to,
    plain,
    slots_of,
    time_axis,
    value_axis,
)
from dashgen.preview.frames import Curve, NotDrawn
from dashgen.recordings.format import clock

MOST_ROWS = 256
"""Rows of a heatmap that is half a screen high."""

MOST_STATES = 40
"""Rows of a state timeline that can still be read."""


# Heatmaps.


def heatmap(panel: Json, curves: Sequence[Curve], field: Field, span: Span) -> Figure:
    """One row a curve, the value as colour. Raises NotDrawn for a heatmap that counts buckets."""
    options = mapping(panel.get("options"))
    if options.get("calculate"):
        raise NotDrawn("heatmap with calculated buckets")
    drawn, notes = chosen(curves, MOST_ROWS, "rows")
    unit = str(mapping(options.get("cellValues")).get("unit") or field.unit)
    slots = [slots_of(each, span) for each in drawn]
    values = [value for row in slots for value in row if value is not None]
    scale = units.scale(unit, max(map(abs, values), default=0.0))
    colour = mapping(options.get("color"))
    low = _bound(colour.get("min"), min(values, default=0.0)) * scale.factor
    high = _bound(colour.get("max"), max(values, default=1.0)) * scale.factor
    names = different([plain(each.name) for each in drawn])
    trace = go.Heatmap(
        x0=span.start * 1000,
        dx=span.step * 1000,
        y=names,
        z=[[None if value is None else units.short(value * scale.factor) for value in row] for row in slots],
        zmin=low,
        zmax=high if high > low else low + 1,
        colorscale=_colour_scale(colour),
        colorbar={"ticksuffix": plain(scale.suffix), "thickness": 10, "outlinewidth": 0, "tickfont": {"color": AXIS}},
        hovertemplate=f"%{{y}}<br>%{{x|%H:%M:%S}} UTC<br>%{{z:.4~g}}{plain(scale.suffix)}<extra></extra>",
        ygap=1 if len(drawn) < 80 else 0,
    )
    reverse = mapping(options.get("yAxis")).get("reverse")
    axis = value_axis(type="category", showgrid=False, **({"autorange": "reversed"} if reverse else {}))
    return finished([trace], {"xaxis": time_axis(span), "yaxis": axis}, notes=tuple(notes))


def _bound(value: object, otherwise: float) -> float:
    found = number(value)
    return otherwise if found is None else found


def _colour_scale(colour: Json) -> list[list[Any]]:
    """Grafana's colour scheme, Cividis where plotly has none of that name, bent by the exponent."""
    exponent = number(colour.get("exponent")) if colour.get("scale") == "exponential" else 1.0
    places = [step / 24 for step in range(25)]
    bent = [place ** (exponent or 1.0) for place in places]
    if colour.get("reverse"):
        bent = [1 - place for place in bent]
    try:
        shades = sample_colorscale(str(colour.get("scheme") or "Cividis"), bent)
    except PlotlyError:
        shades = sample_colorscale("Cividis", bent)
    return [[place, tone] for place, tone in zip(places, shades, strict=True)]


# State timelines.


def state_timeline(panel: Json, curves: Sequence[Curve], fields: Sequence[Field], span: Span) -> Figure:
    """One row a curve, a bar for as long as its value keeps its meaning."""
    by_curve = dict(zip(map(id, curves), fields, strict=True))
    drawn, notes = chosen(curves, MOST_STATES, "rows")
    names = different([plain(each.name) for each in drawn])
    bars: list[tuple[str, float, float, str, str]] = []
    for name, curve in zip(names, drawn, strict=True):
        bars += [(name, *bar) for bar in _states(slots_of(curve, span), by_curve[id(curve)], span)]
    trace = go.Bar(
        orientation="h",
        y=[bar[0] for bar in bars],
        base=[bar[1] * 1000 for bar in bars],
        x=[(bar[2] - bar[1]) * 1000 for bar in bars],
        marker={"color": [bar[4] for bar in bars], "line": {"width": 0}},
        text=[plain(bar[3]) for bar in bars],
        textposition="inside",
        insidetextanchor="start",
        constraintext="inside",
        textangle=0,
        textfont={"color": "#ffffff"},
        customdata=[[clock(round(bar[1])), clock(round(bar[2]))] for bar in bars],
        hovertemplate="%{y}<br>%{text}<br>%{customdata[0]} to %{customdata[1]} UTC<extra></extra>",
        width=0.85,
    )
    axis = value_axis(type="category", autorange="reversed", showgrid=False, categoryarray=names)
    layout = {
        "xaxis": time_axis(span),
        "yaxis": axis,
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": 9},
    }
    states = dict.fromkeys((bar[4], bar[3]) for bar in bars)
    return finished([trace], layout, entries=tuple(Entry(colour, word) for colour, word in states), notes=tuple(notes))


def _states(points: Sequence[float | None], field: Field, span: Span) -> list[tuple[float, float, str, str]]:
    """Start, end, word and colour of each stretch; a short gap belongs to what came before it."""
    longest = joined_up_to(field.custom.get("spanNulls"), span)
    found: list[tuple[float, float, str, str]] = []
    before = None
    for place, value in enumerate(points):
        if value is None:
            continue
        start, end = span.start + place * span.step, min(span.start + (place + 1) * span.step, span.end)
        word, colour = field.text(value), field.colour_of(value) or CLASSIC[0]
        joined = before is not None and place - before <= max(1.0, longest)
        if found and joined:
            old = found[-1]
            same = (old[2], old[3]) == (word, colour)
            found[-1] = (old[0], end if same else start, old[2], old[3])
            if not same:
                found.append((start, end, word, colour))
        else:
            found.append((start, end, word, colour))
        before = place
    return found


# Bar gauges.


def bar_gauge(panel: Json, curves: Sequence[Curve], fields: Sequence[Field], values: Sequence[float]) -> Figure:
    """A bar a value. Raises NotDrawn for values that cannot be compared."""
    if len({each.unit for each in fields}) > 1:
        raise NotDrawn("bars of several units")
    names = different([plain(each.name) for each in curves])
    shades = colours(fields)
    finite = [value for value in values if math.isfinite(value)]
    scale = units.scale(fields[0].unit if fields else "", max(map(abs, finite), default=0.0))
    tones = [
        shade_ if field.own_colour[1] else field.colour_of(value) or shade_
        for field, value, shade_ in zip(fields, values, shades, strict=True)
    ]
    trace = go.Bar(
        orientation="h",
        y=names,
        x=[units.short(value * scale.factor) for value in values],
        marker={"color": tones, "line": {"width": 0}},
        text=[plain(field.text(value)) for field, value in zip(fields, values, strict=True)],
        textposition="auto",
        hovertemplate="%{y}<br>%{text}<extra></extra>",
        width=0.8,
    )
    low, high = (fields[0].limit(name) if fields else None for name in ("min", "max"))
    top = max([*(value * scale.factor for value in finite), 0.0]) * 1.08
    bottom = 0.0 if low is None and all(value >= 0 for value in finite) else low
    limits = {
        "range": [
            min(finite, default=0.0) * scale.factor if bottom is None else bottom * scale.factor,
            (top or 1.0) if high is None else high * scale.factor,
        ]
    }
    layout = {
        "xaxis": value_axis(
            ticksuffix=plain(scale.suffix), tickprefix=plain(scale.prefix), exponentformat="none", **limits
        ),
        "yaxis": value_axis(type="category", autorange="reversed", showgrid=False),
    }
    return finished([trace], layout)
