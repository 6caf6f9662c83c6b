# SPDX-License-Identifier: Apache-2.0
"""Rules about a dashboard as a whole: its form, its identity, its grid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dashgen.grafana import schema
from dashgen.grafana.parsed import Board, Json, PanelView, mapping, objects, source_name, variable_place, variable_query
from dashgen.lint import Hit

Area = tuple[int, int, int, int]
"""Left, top, right and bottom on the grid."""

_OLD_TYPES = frozenset({"graph", "singlestat", "table-old", "grafana-piechart-panel", "grafana-worldmap-panel"})
# What an author leaves for the reader to fill in.
PLACEHOLDER = re.compile(r"(?<!\?P)<[a-z][a-z0-9_ ]*>|\byour_\w+|\$\{(?:DS|VAR)_[A-Z0-9_-]+\}")


def uneditable_dashboard(board: Board) -> Iterator[Hit]:
    """A provisioned dashboard says that it cannot be edited: what is edited there is lost at the next rollout."""
    if board.json.get("editable") is not False:
        yield "dashboard", 'set "editable": false'


def uid_too_long(board: Board) -> Iterator[Hit]:
    """A dashboard has a uid that Grafana takes, or links to it break with every import."""
    uid = str(board.json.get("uid") or "")
    if not uid:
        yield "dashboard", "give it a uid, so that links survive an import"
    elif not schema.UID.fullmatch(uid):
        yield "dashboard", f"shorten the uid {uid} to {schema.MAX_UID} letters, digits, dashes and underscores"


def legacy_schema(board: Board) -> Iterator[Hit]:
    """Nothing is left that a current Grafana has to migrate: migrations change what a panel shows."""
    version = board.json.get("schemaVersion")
    if not isinstance(version, int) or version < schema.SCHEMA_VERSION:
        yield "dashboard", f"bring schemaVersion {version} to {schema.SCHEMA_VERSION}, with its migrations"
    if keys := _present(board.json, schema.LEGACY_BOARD_KEYS):
        yield "dashboard", f"remove the keys {keys}"
    for variable in board.variables:
        if keys := _present(variable, schema.LEGACY_VARIABLE_KEYS):
            yield variable_place(variable), f"remove the keys {keys}"
    for panel in board.panels:
        if problems := "; ".join(_legacy_panel(panel)):
            yield panel.where, problems
    if places := list(_nulls(board.json, "dashboard")):
        yield places[0], f"remove null values ({len(places)} in all): strict readers reject them"


def _present(value: Json, keys: frozenset[str]) -> str:
    return ", ".join(sorted(keys & value.keys()))


def _legacy_panel(panel: PanelView) -> Iterator[str]:
    if panel.type in _OLD_TYPES:
        yield f"replace the panel type {panel.type}, which current Grafana no longer has"
    old = schema.LEGACY_PANEL_KEYS | (schema.LEGACY_HEATMAP_KEYS if panel.type == "heatmap" else frozenset())
    if keys := _present(panel.json, old):
        yield f"remove the keys {keys}"
    # Of Prometheus queries only: other data sources have a right to a "query".
    targets = {key: None for query in panel.queries for key in query.target}
    if keys := _present(targets, schema.LEGACY_TARGET_KEYS):
        yield f"remove the query keys {keys}"
    options = mapping(panel.json.get("options"))
    if "fieldOptions" in options:
        yield "move options.fieldOptions to fieldConfig"
    if "displayMode" in mapping(options.get("legend")) and "showLegend" not in options["legend"]:
        yield "set options.legend.showLegend, without which the legend is hidden"
    if "displayMode" in mapping(panel.defaults.get("custom")):
        yield "replace custom.displayMode by custom.cellOptions"
    steps = objects(mapping(panel.defaults.get("thresholds")).get("steps"))
    if any(each.get("value") == "null" for each in steps):
        yield 'write the base threshold as null, not as the text "null"'


def _nulls(value: object, path: str) -> Iterator[str]:
    """Where nulls are, the base step of thresholds excepted: there the schema wants one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            base = key == "value" and path.rpartition("[")[0].endswith(".steps")
            if item is None and not base:
                yield f"{path}.{key}"
            yield from _nulls(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nulls(item, f"{path}[{index}]")


def placeholder(board: Board) -> Iterator[Hit]:
    """Nothing is left for the reader to fill in; Grafana asks for ``__inputs`` in its import dialogue only."""
    texts = [(query.where, query.expr) for query in board.queries]
    texts += [(variable_place(each), variable_query(each)) for each in board.variables]
    texts += [(panel.where, source_name(panel.json.get("datasource"))) for panel in board.panels]
    for where, text in dict.fromkeys(texts):
        for found in dict.fromkeys(PLACEHOLDER.findall(text)):
            yield where, f"fill in {found}"


def overlapping_grid(board: Board) -> Iterator[Hit]:
    """Panels stay within the grid and do not cover each other, as Grafana would move them in an order of its own."""
    top = objects(board.json.get("panels"))
    for group in (top, *(objects(row.get("panels")) for row in top if row.get("type") == "row")):
        placed = [(PanelView(panel, "").where, _area(panel)) for panel in group if panel.get("gridPos")]
        for name, (left, _, right, _) in placed:
            if left < 0 or right > schema.GRID_COLUMNS:
                yield name, f"place the panel within the {schema.GRID_COLUMNS} columns"
        for number, (name, one) in enumerate(placed):
            covered = (other for other, two in placed[number + 1 :] if _meet(one, two))
            if other := next(covered, None):
                yield name, f"move the panel, it covers {other}"


def _meet(one: Area, two: Area) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def _area(panel: Json) -> Area:
    position = mapping(panel["gridPos"])
    x, y, w, h = (each if isinstance(each := position.get(key), int) else 0 for key in "xywh")
    return x, y, x + w, y + h
