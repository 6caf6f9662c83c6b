# SPDX-License-Identifier: Apache-2.0
"""Rules about panels and what they ask."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dashgen import promql
from dashgen.grafana.parsed import Board, PanelView, mapping, objects
from dashgen.grafana.variables import legend_labels
from dashgen.lint import Hit
from dashgen.lint.frame import PLACEHOLDER

_NUMBER_TYPES = frozenset({"timeseries", "stat", "gauge", "bargauge", "table", "heatmap", "graph", "singlestat"})
_ALWAYS_KNOWN = frozenset({"ALERTS", "ALERTS_FOR_STATE", "up"})

_LINK_LABEL = re.compile(r"\$\{__field\.labels\.(\w+)")
_OWN_COLUMN = re.compile(r"(Time|Value|Trend)\b.*")


def panel_title_description(board: Board) -> Iterator[Hit]:
    """Every panel has a title and says in its description how to read it."""
    for panel in board.asking:
        missing = [key for key in ("title", "description") if not panel.json.get(key)]
        if missing:
            yield panel.where, f"add a {' and a '.join(missing)}"


def panel_units(board: Board) -> Iterator[Hit]:
    """Numbers have a unit, unless value mappings turn them into words."""
    for panel in board.asking:
        if panel.type in _NUMBER_TYPES and not panel.defaults.get("unit") and not panel.defaults.get("mappings"):
            yield panel.where, "choose a unit"


def panel_no_targets(board: Board) -> Iterator[Hit]:
    """A panel asks something."""
    for panel in board.asking:
        if not objects(panel.json.get("targets")) and "libraryPanel" not in panel.json:
            yield panel.where, "add a query, or remove the panel"


def duplicate_title(board: Board) -> Iterator[Hit]:
    """A title names one panel: people on a call say titles, not ids."""
    counts = Counter(panel.title for panel in board.panels if panel.title)
    for title, count in counts.items():
        if count > 1:
            yield title, f"tell the {count} panels of this title apart"


def target_promql(board: Board) -> Iterator[Hit]:
    """Every query is PromQL."""
    for query in board.queries:
        if query.tree is None and not PLACEHOLDER.search(query.expr):
            yield query.where, f"correct the PromQL {' '.join(query.expr.split())}"


def target_rate_interval(board: Board) -> Iterator[Hit]:
    """Rates drawn over time use $__rate_interval, which fits every zoom and scrape interval."""
    for panel in board.panels:
        for query in panel.queries:
            fixed = query.tree is not None and set(promql.rate_windows(query.tree)) - {promql.VARIABLE_WINDOW}
            if fixed and not query.target.get("instant"):
                yield query.where, "take rates over [$__rate_interval]"


def target_counter_agg(board: Board) -> Iterator[Hit]:
    """A counter is read as a rate or an increase: its height only says how long it has been counting."""
    for query in (query for panel in board.panels for query in panel.queries):
        if query.tree is not None:
            for name in dict.fromkeys(promql.bare_counters(query.tree)):
                yield query.where, f"read {name} through rate() or increase()"


def legend_label_dropped(board: Board) -> Iterator[Hit]:
    """A legend shows labels that its query still has; the others come out empty and the lines look alike."""
    for panel in board.panels:
        asked = [(query, promql.labels(query.tree, board.labels)) for query in panel.queries if query.tree is not None]
        if any(promql.VARIABLE_NAME in kept.names for _, kept in asked):
            continue
        for query, kept in asked:
            used = legend_labels(str(query.target.get("legendFormat") or ""))
            for label in dict.fromkeys(used):
                if label not in kept and label != "__name__":
                    yield panel.where, f"keep the label {label} in the query, or take it out of the legend"
        for label in dict.fromkeys([*_columns(panel), *_linked_labels(panel)]):
            if asked and not any(label in kept for _, kept in asked):
                yield panel.where, f"keep the label {label} in a query, or take it out of the columns and links"


def _columns(panel: PanelView) -> list[str]:
    """The labels that a table is told to show; the columns of a matrix are the values of one."""
    steps = [(each.get("id"), mapping(each.get("options"))) for each in objects(panel.json.get("transformations"))]
    for kind, options in steps:
        if kind == "groupingToMatrix":
            return [str(options[name]) for name in ("rowField", "columnField") if name in options]
    names = [name for kind, options in steps if kind == "organize" for name in mapping(options.get("renameByName"))]
    return [name for name in names if not _OWN_COLUMN.fullmatch(name)]


def _linked_labels(panel: PanelView) -> list[str]:
    return [
        label for link in objects(panel.defaults.get("links")) for label in _LINK_LABEL.findall(str(link.get("url")))
    ]


def unknown_series(board: Board) -> Iterator[Hit]:
    """Queries read series that exist; checked where the caller knows which do."""
    if board.known is None:
        return
    for query in board.queries:
        for name in dict.fromkeys(selector.name for selector in query.selectors):
            if name and name not in board.known and name not in _ALWAYS_KNOWN and name != promql.VARIABLE_NAME:
                yield query.where, f"no rule or exporter has the series {name}"


def unknown_label(board: Board) -> Iterator[Hit]:
    """Queries choose by labels that their series have; checked where the caller knows which labels those are."""
    for query in board.queries:
        for selector in query.selectors:
            if selector.name in board.labels:
                for label in dict.fromkeys(each.label for each in selector.matchers):
                    if label not in board.labels[selector.name]:
                        yield query.where, f"{selector.name} has no label {label}"
