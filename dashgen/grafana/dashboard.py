# SPDX-License-Identifier: Apache-2.0
"""Turns a dashboard of the model into Grafana JSON.

This module makes the frame (links, annotations, variables, grid), dashgen.grafana.panels the panels, both with
grafanalib, and dashgen.grafana.schema brings the whole to the current schema. Nothing else knows that schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from grafanalib import core

from dashgen.grafana.looks import PALETTE
from dashgen.grafana.panels import TYPES, Style, build
from dashgen.grafana.schema import GRID_COLUMNS, MAX_UID, UID, Json, modernise, overlay, plain
from dashgen.model import Annotation, Dashboard, Row, Variable

__all__ = ["PALETTE", "TYPES", "Style", "dashboard", "panel_ids", "text", "uid"]


def uid(style: Style, slug: str) -> str:
    """The uid of a board, by which alerts and other boards link to it."""
    name = style.uid_prefix + slug
    if not UID.fullmatch(name):
        raise ValueError(f"{name}: a dashboard uid has at most {MAX_UID} letters, digits, dashes and underscores")
    return name


def dashboard(board: Dashboard, style: Style, links: Sequence[Dashboard] = ()) -> dict[str, object]:
    """Grafana JSON of a board whose PromQL has no placeholders left; ``links`` are the boards to offer beside it."""
    picks = dict.fromkeys([style.refresh, "1m", "5m", "15m", "1h"])
    raw = core.Dashboard(
        title=style.title_prefix + board.title,
        uid=uid(style, board.slug),
        description=board.question,
        tags=list(style.tags),
        editable=style.editable,
        refresh=style.refresh,
        timezone=style.timezone,
        time=core.Time(board.span, "now"),
        timePicker=core.TimePicker(refreshIntervals=list(picks), timeOptions=[]),
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        annotations=core.Annotations([_BUILT_IN_ANNOTATION, *(_annotation(each, style) for each in board.annotations)]),
        links=[_board_link(board, other, style) for other in links if other.slug != board.slug],
    )
    extra = {
        "fiscalYearStartMonth": 0,
        "preload": False,
        "templating": {"list": [_datasource(style), *(_variable(each, style) for each in board.variables)]},
        "panels": list(_layout(board.rows, style)),
    }
    return modernise(overlay(plain(raw), extra))


def panel_ids(board: Dashboard) -> dict[str, int]:
    """The number of each panel by its title, counted in reading order with the row headings."""
    numbered = (
        title for row in board.rows for title in (*[""] * bool(row.title), *(each.title for each in row.panels))
    )
    return {title: number for number, title in enumerate(numbered, 1) if title}


def text(board: Mapping[str, object]) -> str:
    """The JSON file of a dashboard; equal dashboards give equal bytes."""
    return json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# The frame of a board: links, annotations, variables.

_BUILT_IN_ANNOTATION: Json = {
    "builtIn": 1,
    "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    "enable": True,
    "hide": True,
    "iconColor": PALETTE["info"],
    "name": "Annotations & Alerts",
    "type": "dashboard",
}


def _annotation(annotation: Annotation, style: Style) -> Json:
    """A region for as long as the expression is 1: Grafana joins moments that are one interval apart."""
    return {
        "name": annotation.title,
        "datasource": style.source,
        "enable": True,
        "hide": False,
        "iconColor": PALETTE[annotation.role],
        "titleFormat": annotation.heading,
        "textFormat": annotation.text,
        "useValueForTime": False,
        "target": {
            "datasource": style.source,
            "editorMode": "code",
            "expr": annotation.expr,
            "interval": style.min_interval,
            "refId": "Anno",
        },
    }


def _board_link(board: Dashboard, other: Dashboard, style: Style) -> core.DashboardLink:
    """Grafana hands all variables over by their names; a choice that is called otherwise there needs telling."""
    own = {each.name for each in board.variables}
    handed = [
        f"var-{theirs.name}=${{{ours.name}}}"
        for theirs in other.variables
        for ours in board.variables
        # One value fits where several can be chosen, and not the other way round.
        if theirs.name not in own and (theirs.label, theirs.series) == (ours.label, ours.series)
        if theirs.multi or not ours.multi
    ]
    return core.DashboardLink(
        type="link",
        title=other.title,
        tooltip=other.question,
        icon="dashboard",
        uri=f"/d/{uid(style, other.slug)}" + "?" * bool(handed) + "&".join(handed),
        includeVars=True,
        keepTime=True,
    )


def _datasource(style: Style) -> Json:
    raw = core.Template(
        name=style.datasource,
        label="Data source",
        type="datasource",
        query="prometheus",
        default=style.datasource_default,
        regex=style.datasource_regex,
    )
    return overlay(plain(raw), {})


def _variable(variable: Variable, style: Style) -> Json:
    """A choice of label values, read again whenever the time range changes, as jobs come and go.

    All is ``.*``, which also matches series that lack the label, unless the variable narrows.
    """
    query = f"label_values({variable.series}, {variable.label})"
    raw = core.Template(
        name=variable.name,
        label=variable.title,
        dataSource=style.source,
        query={"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        multi=variable.multi,
        includeAll=variable.multi,
        allValue=".*" if variable.multi and not variable.narrows else None,
        refresh=core.REFRESH_ON_TIME_RANGE_CHANGE,
        hide=core.HIDE_VARIABLE if variable.hidden else core.SHOW,
        # The newest job comes first, everything else as in a telephone book.
        sort=core.SORT_NUMERIC_DESC if variable.title == "Job" else core.SORT_ALPHA_ASC,
    )
    everything = {"text": "All", "value": "$__all"} if variable.multi else None
    return overlay(plain(raw), {"allowCustomValue": True, "current": everything, "definition": query})


# The grid.


def _layout(rows: Sequence[Row], style: Style) -> Iterator[Json]:
    """Panels from left to right and top to bottom under their row headings, numbered in reading order.

    A collapsed row holds its panels itself and takes one line; a row without a title has no heading.
    """
    number, top = 0, 0
    for row in rows:
        number += bool(row.title)
        heading = _heading(row, number, top)
        top += bool(row.title)
        placed = []
        left, below = 0, top
        for panel in row.panels:
            if left + panel.width > GRID_COLUMNS:
                left, top = 0, below
            number += 1
            position = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            placed.append(overlay(build(panel, style), {"id": number, "gridPos": position}))
            left += panel.width
            below = max(below, top + panel.height)
        if row.collapsed and row.title:
            top = heading["gridPos"]["y"] + heading["gridPos"]["h"]
            yield {**heading, "panels": placed}
        else:
            top = below
            yield from [heading] * bool(row.title)
            yield from placed


def _heading(row: Row, number: int, top: int) -> Json:
    raw = core.RowPanel(title=row.title, collapsed=row.collapsed, id=number)
    return overlay(plain(raw), {"gridPos": {"x": 0, "y": top, "w": GRID_COLUMNS, "h": 1}})
