# SPDX-License-Identifier: Apache-2.0
"""Time series panels: lines with their thresholds, gaps, units and annotations as Grafana draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from dashgen.grafana import units
from dashgen.grafana.parsed import Json, mapping
from dashgen.preview.fields import Field, number
from dashgen.preview.figures import (
    Entry,
    Figure,
    Region,
    Span,
    chosen,
    colours,
    finished,
    joined_up_to,
    plain,
    slots_of,
    time_axis,
    value_axis,
)
from dashgen.preview.frames import CALCULATIONS, Curve, NotDrawn

MOST_CURVES = 40
"""More curves on one panel cannot be told apart."""


def time_series(
    panel: Json, curves: Sequence[Curve], fields: Sequence[Field], span: Span, regions: Sequence[Region]
) -> Figure:
    """Lines over time; ``fields`` are those of the curves, in their order. Raises NotDrawn for more than two units."""
    by_curve = dict(zip(map(id, curves), fields, strict=True))
    drawn, notes = chosen(curves, MOST_CURVES, "curves")
    kept = [by_curve[id(each)] for each in drawn]
    axes = list(dict.fromkeys(each.unit for each in kept))
    if len(axes) > 2:
        raise NotDrawn("more than two units on one panel")
    slots = [slots_of(each, span) for each in drawn]
    scales, layout = _axes(axes, kept, slots, panel)
    traces, entries = [], []
    heads, reductions = _calculations(panel)
    for curve, field, points, colour in _in_order(zip(drawn, kept, slots, colours(kept), strict=True), panel):
        style = mapping(field.custom.get("lineStyle"))
        dashed = style.get("fill") in ("dash", "dot")
        second = axes.index(field.unit) > 0
        scaled = [None if value is None else units.short(value * scales[second].factor) for value in points]
        x, y = _joined(scaled, span, field.custom.get("spanNulls"))
        line = {"color": colour, "width": _width(field), **({"dash": str(style["fill"])} if dashed else {})}
        fill = number(field.custom.get("fillOpacity"))
        traces.append(
            go.Scatter(
                **x,
                y=y,
                name=plain(curve.name),
                line=line,
                **_markers(y, colour),
                **({"yaxis": "y2"} if second else {}),
                **({"fill": "tozeroy", "fillcolor": _faint(colour, fill / 100)} if fill else {}),
            )
        )
        values = tuple(field.number(reduce(curve.series)) for reduce in reductions)
        entries.append(Entry(colour, curve.name, values, dashed))
    lines = _threshold_lines(kept[0] if kept else Field(), scales[0])
    shapes = [*_shaded(regions, span), *(shape for shape, _ in lines)]
    layout |= {"shapes": shapes, "xaxis": time_axis(span), "hovermode": "x unified"}
    entries += [entry for _, entry in lines]
    return finished(traces, layout, entries=tuple(entries), heads=tuple(heads), notes=tuple(notes), traces=len(traces))


Drawn = tuple[Curve, Field, Sequence[float | None], str]


def _in_order(lines: Iterable[Drawn], panel: Json) -> list[Drawn]:
    """Lines as the legend sorts them by one of its values; those without one come last."""
    found = list(lines)
    legend = mapping(mapping(panel.get("options")).get("legend"))
    word = str(legend.get("sortBy") or "").lower().removesuffix(" *")
    reduce = next((each for name, each in CALCULATIONS.values() if name == word), None)
    if reduce is None:
        return found
    falling = bool(legend.get("sortDesc"))
    values = {id(line): reduce(line[0].series) for line in found}
    return sorted(
        found,
        key=lambda line: (math.isnan(values[id(line)]), -values[id(line)] if falling else values[id(line)]),
    )


def _calculations(panel: Json) -> tuple[list[str], list[Any]]:
    legend = mapping(mapping(panel.get("options")).get("legend"))
    asked = legend.get("calcs")
    known = [CALCULATIONS[each] for each in asked if each in CALCULATIONS] if isinstance(asked, list) else []
    return [word for word, _ in known], [reduce for _, reduce in known]


def _width(field: Field) -> float:
    return number(field.custom.get("lineWidth")) or 1.0


def _faint(colour: str, share: float) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:.2f})"


def _axes(
    names: Sequence[str], fields: Sequence[Field], slots: Sequence[Sequence[float | None]], panel: Json
) -> tuple[list[units.Scale], dict[str, Any]]:
    """A scale and an axis for the first unit, and others for a second, with room for the curves."""
    scales: list[units.Scale] = []
    layout: dict[str, Any] = {}
    for second in (False, True)[: max(1, min(2, len(names)))]:
        own = [
            (field, row) for field, row in zip(fields, slots, strict=True) if (names.index(field.unit) > 0) == second
        ]
        values = [value for _, row in own for value in row if value is not None]
        first = own[0][0] if own else Field()
        limits = [value for value, _ in _limits(first) if value is not None]
        reach = max(map(abs, values), default=0.0)
        scale = units.scale(first.unit, reach)
        low, high = _room(values, first, limits)
        axis = value_axis(
            range=[low * scale.factor, high * scale.factor],
            ticksuffix=plain(scale.suffix),
            tickprefix=plain(scale.prefix),
            nticks=6,
            hoverformat=".4~g",
            # Without it plotly would put its own k and M before the unit.
            exponentformat="none",
            separatethousands=True,
        )
        if second:
            axis |= {"overlaying": "y", "side": "right", "showgrid": False}
        layout["yaxis2" if second else "yaxis"] = axis
        scales.append(scale)
    return [*scales, *scales[-1:]], layout


def _room(values: Sequence[float], field: Field, limits: Sequence[float]) -> tuple[float, float]:
    """The range of an axis: the values, a threshold that is near, and what the panel fixes."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    near = high - low or abs(high) or 1.0
    for limit in limits:
        if low - near <= limit <= high + near:
            low, high = min(low, limit), max(high, limit)
    soft = [field.custom.get(name) for name in ("axisSoftMin", "axisSoftMax")]
    low, high = min([low, *_numbers(soft[:1])]), max([high, *_numbers(soft[1:])])
    fixed_low, fixed_high = field.limit("min"), field.limit("max")
    low, high = low if fixed_low is None else fixed_low, high if fixed_high is None else fixed_high
    pad = abs(high - low) * 0.06 or abs(high) * 0.1 or 0.5
    return low - pad if fixed_low is None else low, high + pad if fixed_high is None else high


def _numbers(values: Iterable[object]) -> list[float]:
    return [found for value in values if (found := number(value)) is not None]


def _limits(field: Field) -> list[tuple[float | None, str]]:
    """The thresholds that are drawn as lines."""
    mode = str(mapping(field.custom.get("thresholdsStyle")).get("mode") or "off")
    return [] if mode == "off" else [each for each in field.steps if each[0] is not None]


def _threshold_lines(field: Field, scale: units.Scale) -> list[tuple[dict[str, Any], Entry]]:
    found = []
    for value, colour in _limits(field):
        assert value is not None
        height = units.short(value * scale.factor)
        line = {"color": colour, "width": 1.5, "dash": "dash"}
        shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": height, "y1": height, "line": line}
        found.append((shape, Entry(colour, f"threshold {field.number(value)}", (), True)))
    return found


def _shaded(regions: Sequence[Region], span: Span) -> list[dict[str, Any]]:
    """Stretches as shades, with an edge where something was really wrong; a moment as a line."""
    return [
        {
            "type": "line" if each.start == each.end else "rect",
            "yref": "paper",
            "x0": each.start * 1000,
            "x1": min(each.end, span.end) * 1000,
            "y0": 0,
            "y1": 1,
            "layer": "below",
            **_look(each),
        }
        for each in regions
        if each.start <= span.end
    ]


def _look(region: Region) -> dict[str, Any]:
    if region.start == region.end:
        return {"line": {"color": region.colour, "width": 1.5, "dash": "dot"}}
    edge = {"color": region.colour, "width": 1, "dash": "dot"} if region.truth else {"width": 0}
    return {"fillcolor": region.colour, "opacity": 0.2 if region.truth else 0.14, "line": edge}


def _joined(points: list[Any], span: Span, across: object) -> tuple[dict[str, Any], list[Any]]:
    """The points of a line that crosses gaps of up to ``across`` milliseconds, and all of them where it is true.

    plotly crosses every gap or none, so the empty places of a short one are left out, and then each point says when it
    is.
    """
    regular = {"x0": span.start * 1000, "dx": span.step * 1000}
    longest = joined_up_to(across, span)
    keep = [True] * len(points)
    before = None
    for place, value in enumerate(points):
        if value is None:
            continue
        if before is not None and 1 < place - before <= longest:
            keep[before + 1 : place] = [False] * (place - before - 1)
        before = place
    if all(keep):
        return regular, points
    moments = [int((span.start + place * span.step) * 1000) for place, wanted in enumerate(keep) if wanted]
    return {"x": moments}, [value for value, wanted in zip(points, keep, strict=True) if wanted]


def _markers(points: Sequence[Any], colour: str) -> dict[str, Any]:
    """A point that has no neighbours would be invisible as a line."""
    alone = [
        value is not None
        and (place == 0 or points[place - 1] is None)
        and (place + 1 == len(points) or points[place + 1] is None)
        for place, value in enumerate(points)
    ]
    if not any(alone):
        return {"mode": "lines"}
    return {"mode": "lines+markers", "marker": {"color": colour, "size": [5 if each else 0 for each in alone]}}
