# SPDX-License-Identifier: Apache-2.0
"""Rules about what can be chosen: variables and data sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dashgen.grafana.parsed import (
    Board,
    PanelView,
    mapping,
    objects,
    references,
    source_name,
    variable_place,
    variable_query,
)
from dashgen.lint import Hit

_INTERNAL_SOURCES = frozenset({"grafana", "-- Grafana --", "-- Mixed --", "-- Dashboard --", "__expr__"})


def template_datasource(board: Board) -> Iterator[Hit]:
    """There is a data source variable, so that the dashboard works in any Grafana."""
    if not any(variable.get("type") == "datasource" for variable in board.variables):
        yield "dashboard", "add a variable of the type datasource and use it everywhere"


def panel_datasource(board: Board) -> Iterator[Hit]:
    """Every panel names its data source, instead of taking whatever the organisation's default is today."""
    for panel in board.asking:
        if not panel.json.get("datasource"):
            yield panel.where, "set the data source to the data source variable"


def hard_coded_datasource(board: Board) -> Iterator[Hit]:
    """A data source is the variable, never the uid or name of one Grafana's data source."""
    places = [
        (panel.where, each) for panel in board.panels for each in (panel.json, *objects(panel.json.get("targets")))
    ]
    places += [(variable_place(each), each) for each in board.variables]
    places += [(f"annotation {each.get('name')}", each) for each in board.annotations]
    for where, name in dict.fromkeys((where, source_name(each.get("datasource"))) for where, each in places):
        if name and name not in _INTERNAL_SOURCES and not name.startswith(("$", "[[")):
            yield where, f"replace the data source {name} by the data source variable"


def template_on_time_change_reload(board: Board) -> Iterator[Hit]:
    """Query variables are read again when the time range changes, or yesterday's jobs cannot be chosen."""
    for variable in board.variables:
        if variable.get("type") == "query" and variable.get("refresh") != 2:
            yield variable_place(variable), 'set "refresh": 2, on time range change'


def variable_unused(board: Board) -> Iterator[Hit]:
    """Every variable does something when it is changed."""
    panels = [*objects(board.json.get("panels")), *(panel.json for panel in board.panels)]
    repeats = {str(panel.get("repeat")) for panel in panels}
    used = references({**board.json, "templating": None}) | repeats
    each_uses = [references(variable) for variable in board.variables]
    users = Counter(name for names in each_uses for name in names)
    for variable, itself in zip(board.variables, each_uses, strict=True):
        name = str(variable.get("name"))
        if variable.get("type") != "adhoc" and name not in used and users[name] <= (name in itself):
            yield variable_place(variable), "use the variable in a query, or remove it"


def variable_undefined(board: Board) -> Iterator[Hit]:
    """What looks like a variable is one; Grafana sends an unknown one to Prometheus as it is."""
    defined = {str(variable.get("name")) for variable in board.variables}
    places: list[tuple[str, object]] = [(panel.where, _shown(panel)) for panel in board.panels]
    places += [(variable_place(each), [variable_query(each), each.get("datasource")]) for each in board.variables]
    places += [(f"annotation {each.get('name')}", each) for each in board.annotations]
    places += [(f"link {each.get('title')}", each.get("url")) for each in objects(board.json.get("links"))]
    for where, value in places:
        for name in sorted(references(value) - defined):
            yield where, f"define the variable {name}, or do not use it"


def _shown(panel: PanelView) -> list[object]:
    """What Grafana fills variables into."""
    overrides = objects(mapping(panel.json.get("fieldConfig")).get("overrides"))
    links = [panel.defaults.get("links"), *(each.get("properties") for each in overrides), panel.json.get("links")]
    return [panel.title, panel.json.get("datasource"), panel.json.get("targets"), links]


def unusable_all(board: Board) -> Iterator[Hit]:
    """Where several values can be chosen the query matches with =~, or choosing All finds nothing."""
    several = {str(each.get("name")) for each in board.variables if each.get("multi") or each.get("includeAll")}
    for query in board.queries:
        matchers = [matcher for selector in query.selectors for matcher in selector.matchers]
        for matcher in dict.fromkeys(matchers):
            if matcher.op in ("=", "!=") and references(matcher.value) & several:
                better = "=~" if matcher.op == "=" else "!~"
                yield query.where, f'write {matcher.label}{better}"{matcher.value}", several values can be chosen'
