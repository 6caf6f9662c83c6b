# SPDX-License-Identifier: Apache-2.0
"""One panel, whatever its type: what it asks, and what is to be shown of the answers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dashgen.engine.panels import Viewer
from dashgen.engine.prometheus import ExpressionError
from dashgen.grafana.parsed import Json, PanelView, Query, mapping
from dashgen.grafana.variables import fill
from dashgen.preview import cells, lines
from dashgen.preview.fields import Field, field_of, ignored
from dashgen.preview.figures import Figure, Region, Span
from dashgen.preview.frames import Cell, Curve, NotDrawn, Table, legend, ordered, reduction, settled, table
from dashgen.recordings.format import Series

MOST_LINES = 200
"""Lines of a table that anybody scrolls through."""


@dataclass(frozen=True)
class Tile:
    """A single value; ``colour`` is that of its background, empty where it has none."""

    name: str
    text: str
    colour: str = ""


@dataclass(frozen=True, eq=False)
class Box:
    """A cell of a table: a text, a background, and the anchor on the page that it leads to."""

    text: str
    colour: str = ""
    link: str = ""
    number: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table as it is shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Box, ...], ...]


@dataclass(frozen=True)
class Words:
    """The text of a text panel; ``markdown`` where it is that."""

    text: str
    markdown: bool


@dataclass(frozen=True)
class Empty:
    """Why there is nothing to see; ``wrong`` where that is a fault."""

    text: str
    wrong: bool = False


Body = Figure | Sheet | Words | Empty | tuple[Tile, ...]


@dataclass(frozen=True)
class Drawn:
    """A panel ready for the page.

    ``size`` is its width and height on Grafana's grid, ``place`` its left and top; None where it has none of its own.
    """

    title: str
    description: str
    row: str
    size: tuple[int, int]
    place: tuple[int, int] | None
    body: Body
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What panels of a board share.

    ``needs`` are the metrics, by title, without any of which a panel has nothing to show; ``present`` the names of all
    series there are; ``anchors`` the places on the page by the uid of a board.
    """

    viewer: Viewer
    regions: tuple[Region, ...]
    needs: Mapping[str, Collection[str]]
    present: Collection[str]
    anchors: Mapping[str, str]

    def span(self, width: int) -> Span:
        """The time range, drawn over some columns of the grid."""
        return Span(self.viewer.start, self.viewer.end, self.viewer.step, width)


def draw(panel: PanelView, around: Surroundings) -> Drawn:
    """A panel with what Prometheus answers to its queries."""
    notes: tuple[str, ...] = ()
    try:
        body = _body(panel, around)
    except NotDrawn as error:
        body = Empty(f"not drawn here: {error}")
    except ExpressionError as error:
        body = Empty(f"Prometheus refuses {error}", wrong=True)
    if not isinstance(body, Empty):
        skipped = list(dict.fromkeys(ignored(panel.json)))
        notes = (f"not done here: {', '.join(skipped)}",) if skipped else ()
    if isinstance(body, Words) and not body.markdown:
        notes = (*notes, "shown as it is written")
    if isinstance(body, Figure):
        notes = (*body.notes, *notes)
    elif isinstance(body, Sheet) and len(body.rows) > MOST_LINES:
        notes = (*notes, f"{MOST_LINES} of {len(body.rows)} lines shown")
        body = replace(body, rows=body.rows[:MOST_LINES])
    size, place = _grid(panel.json)
    return Drawn(
        title=panel.title or f"Panel {panel.json.get('id', 'without title')}",
        description=str(panel.json.get("description") or ""),
        row=panel.row,
        size=size,
        place=place,
        body=body,
        notes=notes,
    )


def _grid(panel: Json) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """Size and place; what reaches beyond the grid is put inside."""
    grid = mapping(panel.get("gridPos"))
    width = min(24, max(1, _cells(grid.get("w"), 12)))
    place = (min(_cells(grid.get("x"), 0), 24 - width), _cells(grid.get("y"), 0)) if "y" in grid else None
    return (width, min(60, max(2, _cells(grid.get("h"), 8)))), place


def _cells(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100_000 else otherwise


def _body(panel: PanelView, around: Surroundings) -> Body:
    if panel.type == "text":
        return _words(panel.json)
    if panel.type not in ("timeseries", "stat", "bargauge", "table", "heatmap", "state-timeline"):
        raise NotDrawn(f"panel type {panel.type or 'without name'}")
    if panel.json.get("repeat"):
        raise NotDrawn("repeated panel")
    if panel.type != "table" and panel.json.get("transformations"):
        raise NotDrawn(f"transformations on a {panel.type}")
    if not panel.queries and panel.json.get("targets"):
        raise NotDrawn("queries of another data source")
    asked = [query for query in panel.queries if not query.target.get("hide")]
    answers = {_ref(query): _ask(query, panel, around.viewer) for query in asked}
    if not any(answers.values()):
        return _nothing(panel, around)
    if panel.type == "table":
        return _sheet(panel.json, table(answers, panel.json), around)
    words = around.viewer.values | around.viewer.chosen
    legends = {_ref(query): fill(str(query.target.get("legendFormat") or ""), words) for query in asked}
    curves = [Curve(legend(one, legends[ref]), one) for ref, found in answers.items() for one in found]
    fields = [field_of(panel.json, each.name) for each in curves]
    called = [str(field.config.get("displayName") or each.name) for each, field in zip(curves, fields, strict=True)]
    curves = [replace(each, name=name) for each, name in zip(curves, called, strict=True)]
    span = around.span(_grid(panel.json)[0][0])
    if panel.type == "timeseries":
        return lines.time_series(panel.json, curves, fields, span, around.regions)
    if panel.type == "heatmap":
        return cells.heatmap(panel.json, curves, fields[0], span)
    if panel.type == "state-timeline":
        return cells.state_timeline(panel.json, curves, fields, span)
    reduce = reduction(panel.json)
    values = [reduce(each.series) for each in curves]
    if panel.type == "bargauge":
        return cells.bar_gauge(panel.json, curves, fields, values)
    return _tiles(panel.json, curves, fields, values)


def _ref(query: Query) -> str:
    return str(query.target.get("refId") or "A")


def _ask(query: Query, panel: PanelView, viewer: Viewer) -> list[Series]:
    if not query.target.get("instant"):
        # A single value is that of the shown moment, also where it is the last of a curve.
        until = viewer.now if panel.type in ("stat", "bargauge") else None
        return settled(viewer.ask(query.expr, until))
    found = ordered(query.expr, settled(viewer.ask_now(query.expr)))
    # A table shows that a value is no number; a curve of it is none.
    return [one for one in found if panel.type == "table" or not math.isnan(float(one.values[-1]))]


def _nothing(panel: PanelView, around: Surroundings) -> Empty:
    """The panel's own words, or what the recording lacks where that is the reason."""
    needs = sorted(around.needs.get(panel.title, ()))
    if needs and not any(name in around.present for name in needs):
        return Empty(f"No data: needs {_some(needs)}, which this recording does not have")
    words = field_of(panel.json, "").no_value or "no data"
    reads = dict.fromkeys(each.name for query in panel.queries for each in query.selectors if each.name)
    absent = [name for name in reads if name not in around.present]
    reason = f": there is no series {_some(absent)}" if absent and words == "no data" else ""
    return Empty(words[:1].upper() + words[1:] + reason)


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(names[:3])
    return f"{listed} or {len(names) - 3} others" if len(names) > 3 else listed


# Single values.


def _tiles(panel: Json, curves: Sequence[Curve], fields: Sequence[Field], values: Sequence[float]) -> tuple[Tile, ...]:
    options = mapping(panel.get("options"))
    coloured = str(options.get("colorMode") or "value") != "none"
    named, sentences = len(curves) > 1, options.get("textMode") == "name"
    return tuple(
        Tile(
            each.name if named and not sentences else "",
            each.name if sentences else field.text(value),
            field.colour_of(value) if coloured else "",
        )
        for each, field, value in zip(curves, fields, values, strict=True)
    )


# Tables.

_BOARD = re.compile(r"/d/([a-zA-Z0-9_-]+)")


def _sheet(panel: Json, tables: Sequence[Table], around: Surroundings) -> Body:
    if not tables:
        return Empty("No data")
    if len(tables) > 1:
        raise NotDrawn("several tables in one panel")
    shown = tables[0]
    fields = {name: field_of(panel, name) for name in shown.columns}
    links = {name: _anchor(field, around.anchors) for name, field in fields.items()}
    return Sheet(
        shown.columns,
        tuple(tuple(_box(row[name], fields[name], links[name]) for name in shown.columns) for row in shown.rows),
    )


def _anchor(field: Field, anchors: Mapping[str, str]) -> str:
    """The board that a column leads to, if it is on the page; a preview leads nowhere else."""
    for each in field.links:
        match = _BOARD.match(str(each.get("url") or ""))
        if match and match[1] in anchors:
            return anchors[match[1]]
    return ""


def _box(cell: Cell, field: Field, link: str) -> Box:
    style = mapping(field.custom.get("cellOptions"))
    if cell is None or cell == "":
        return Box(field.no_value)
    if isinstance(cell, str):
        return Box(field.word(cell), link=link)
    colour = field.colour_of(cell) if str(style.get("type") or "").startswith("color-background") else ""
    return Box(field.text(cell), colour, link, number=True)


# Text.


def _words(panel: Json) -> Words:
    options = mapping(panel.get("options"))
    return Words(str(options.get("content") or ""), str(options.get("mode") or "markdown") == "markdown")
