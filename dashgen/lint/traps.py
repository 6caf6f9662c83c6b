# SPDX-License-Identifier: Apache-2.0
"""Rules about what only Grafana does: panels whose queries are right and which show something else.

Each of them was seen with Grafana's own code on recorded answers (tests/grafana).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from dashgen import durations, promql
from dashgen.grafana.parsed import Board, PanelView, mapping, objects
from dashgen.guard.text import counted
from dashgen.lint import Hit

_SINGLE = frozenset({"stat", "gauge", "bargauge", "singlestat"})
_WORDS = frozenset({"", "none", "string"})
_OWN_COLUMN = re.compile(r"(__name__|Time|Value|Trend)\b.*")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")

WIDEST = 60
"""Seconds: four times that, the window of $__rate_interval, still shows what happens within minutes."""

FAINTEST = 1.6
"""The least contrast with white (WCAG 2.2, relative luminance) of a line that is seen at all: that of Okabe and Ito's
yellow is 1.3, of their orange 2.2."""


def merged_states(board: Board) -> Iterator[Hit]:
    """A state timeline shows its states: coloured by thresholds it merges values, unless told not to, and then draws
    the thresholds as states, without any word or colour of the value mappings (grafana/grafana#71804, #41075)."""
    for panel in _timelines(board):
        mode = mapping(panel.defaults.get("color")).get("mode", "thresholds")
        merges = mapping(panel.json.get("options")).get("mergeValues") is not False
        if merges and mode == "thresholds" and panel.defaults.get("mappings"):
            yield panel.where, "set options.mergeValues to false, or the colour mode to fixed"


def empty_timeline(board: Board) -> Iterator[Hit]:
    """A state timeline always has a line, as in ``… or vector(8)`` with a mapping of 8 to "no data": of an empty one
    Grafana says "Data does not have a time field", and of a stat that shows names nothing, whatever words it has for no
    value."""
    for panel in (*_timelines(board), *filter(_shows_names, board.panels)):
        trees = [query.tree for query in panel.queries if query.tree is not None]
        if trees and all(promql.empty(tree, promql.read(tree)) for tree in trees):
            yield panel.where, "let a query fall back to a value that a mapping calls no data"


def false_green(board: Board) -> Iterator[Hit]:
    """A single value is empty where nothing is known: ``or vector(0)`` is a green zero where no telemetry arrives.
    Count what there is to be counted: ``count(x == 1) or 0 * count(x)``."""
    for panel in board.panels:
        for query in panel.queries if panel.type in _SINGLE and not _shows_names(panel) else ():
            reads = promql.read(query.tree) if query.tree is not None else frozenset()
            if query.tree is not None and reads and not promql.empty(query.tree, reads):
                yield query.where, "let the query be empty where its series are missing"


def widened_rate(board: Board) -> Iterator[Hit]:
    """A rate over $__rate_interval has no interval of its own beyond a minute: the window is at least four times that,
    and what lasts half a minute cannot be seen in eight. Fewer points without a wider window are ``maxDataPoints``."""
    for panel in board.panels:
        for query in panel.queries:
            least = _seconds(str(query.target.get("interval") or panel.json.get("interval") or ""))
            if least > WIDEST and "__rate_interval" in query.expr:
                yield query.where, f"remove the interval, or the rate goes over {counted(4 * least // 60, 'minute')}"


def unjoined_table(board: Board) -> Iterator[Hit]:
    """Tables that are merged share a column even where one of them is empty: an empty answer has no labels, so without
    Time nothing is merged, and the reader gets the first table and a choice below it."""
    for panel in board.panels:
        for before, step in pairwise(objects(panel.json.get("transformations"))):
            names = mapping(mapping(before.get("options")).get("include")).get("names")
            filters = before.get("id") == "filterFieldsByName" and isinstance(names, list)
            if filters and step.get("id") == "merge" and isinstance(names, list) and "Time" not in names:
                yield panel.where, "keep Time in front of merge, and hide it behind"


def number_like_label(board: Board) -> Iterator[Hit]:
    """Labels in a table have the unit string: Grafana takes what looks like a number for one, and writes a job called
    41502 as 41.5 K, or in percent as 4150200%, also into links."""
    for panel in board.panels:
        if panel.type != "table" or str(panel.defaults.get("unit") or "") in _WORDS:
            continue
        own = {
            str(mapping(rule.get("matcher")).get("options"))
            for rule in objects(mapping(panel.json.get("fieldConfig")).get("overrides"))
            if any(each.get("id") == "unit" for each in objects(rule.get("properties")))
        }
        labels = {title or name for name, title in _renamed(panel).items() if not _OWN_COLUMN.fullmatch(name)}
        if wrong := sorted(labels - own):
            yield panel.where, f"give the unit string to {', '.join(wrong)}"


def faint_colour(board: Board) -> Iterator[Hit]:
    """A line has a colour that can be seen on white, as half of all readers see it."""
    for panel in board.panels:
        for colour in dict.fromkeys(_colours(panel)) if panel.type == "timeseries" else ():
            if _HEX.fullmatch(colour) and contrast(colour, "#ffffff") < FAINTEST:
                yield panel.where, f"choose a darker colour than {colour}"


def contrast(one: str, other: str) -> float:
    """How well two colours can be told apart, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _shows_names(panel: PanelView) -> bool:
    return panel.type == "stat" and mapping(panel.json.get("options")).get("textMode") == "name"


def _timelines(board: Board) -> Iterator[PanelView]:
    return (panel for panel in board.panels if panel.type == "state-timeline")


def _renamed(panel: PanelView) -> Mapping[str, str]:
    """The columns that a table is told to show, by their names before."""
    steps = [each for each in objects(panel.json.get("transformations")) if each.get("id") == "organize"]
    options = (mapping(mapping(each.get("options")).get("renameByName")) for each in steps)
    return {str(name): str(title) for each in options for name, title in each.items()}


def _colours(panel: PanelView) -> Iterator[str]:
    rules = objects(mapping(panel.json.get("fieldConfig")).get("overrides"))
    properties = [item for rule in rules for item in objects(rule.get("properties")) if item.get("id") == "color"]
    for each in (mapping(panel.defaults.get("color")), *(mapping(item.get("value")) for item in properties)):
        yield str(each.get("fixedColor") or "")


def _seconds(duration: str) -> int:
    """A panel's interval; none where it is a variable of the board, or nothing."""
    try:
        return int(durations.seconds(duration.removeprefix(">")))
    except ValueError:
        return 0
