# SPDX-License-Identifier: Apache-2.0
"""Faults of a Grafana dashboard that Grafana itself shows without a word.

A rule is one function that yields where it found a fault and what to do about it; its id, its documentation and its
test share one name in RULES. The rules with ids of grafana/dashboard-linter ask for the same as there. Any dashboard
can be checked, however old or broken.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from dashgen import findings, promql
from dashgen.findings import Finding, Format
from dashgen.grafana import schema as modernise
from dashgen.grafana.parsed import Board, Json, PanelView, mapping, objects, references, variable_place, variable_query
from dashgen.lint import traps

Hit = tuple[str, str]
Rule = Callable[[Board], Iterable[Hit]]

_UID = re.compile(r"[a-zA-Z0-9_-]*")

_NUMBER_TYPES = frozenset({"timeseries", "stat", "gauge", "bargauge", "table", "heatmap", "graph", "singlestat"})
_OLD_TYPES = frozenset({"graph", "singlestat", "table-old", "grafana-piechart-panel", "grafana-worldmap-panel"})
_INTERNAL_SOURCES = frozenset({"grafana", "-- Grafana --", "-- Mixed --", "-- Dashboard --", "__expr__"})
_ALWAYS_KNOWN = frozenset({"ALERTS", "ALERTS_FOR_STATE", "up"})

_PLACEHOLDER = re.compile(r"(?<!\?P)<[a-z][a-z0-9_ ]*>|\byour_\w+|\$\{(?:DS|VAR)_[A-Z0-9_-]+\}")
_LEGEND_LABEL = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_LINK_LABEL = re.compile(r"\$\{__field\.labels\.(\w+)")
_OWN_COLUMN = re.compile(r"(Time|Value|Trend)\b.*")


def lint(dashboard: Json, known: Collection[str] | None = None) -> list[Finding]:
    """All faults of a dashboard; ``known`` are the series that exist, a mapping of them says which labels each has."""
    board = Board(dashboard, known)
    return [Finding(name, where, message) for name, rule in RULES.items() for where, message in rule(board)]


def render(found: Sequence[Finding], form: Format = "text") -> str:
    """Findings in a form of dashgen.findings, with what the rules stand for where it has a place for that."""
    return findings.render(found, form, {name: (rule.__doc__ or "").split("\n\n")[0] for name, rule in RULES.items()})


def documentation() -> str:
    """Every rule by its id, in Markdown: what is kept in dashgen/docs/lint.md."""
    rules = "".join(f"\n## {name}\n\n{inspect.getdoc(rule)}\n" for name, rule in RULES.items())
    return _INTRODUCTION + rules


_INTRODUCTION = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# What dashgen lint finds

`dashgen lint PATH...` reads Grafana dashboards as JSON, files or folders of them, whoever wrote them and however old
they are, and says where they break or mislead. It exits with 1 when it finds anything.

| `--format` | for |
|---|---|
| `text` | people: file, place, remedy, rule |
| `json` | programs |
| `sarif` | code scanning of GitHub and GitLab |
| `github` | annotations of a pull request |

Each rule says what is right; what it reports is where a dashboard does otherwise. Rules in doubt stay silent: a query
that is not Prometheus', or that holds a variable where the rule needs a name, is left alone. Rules that share an id
with [dashboard-linter](https://github.com/grafana/dashboard-linter) ask for the same as there. The two rules about
unknown series and labels work only on dashgen's own boards, where it knows which there are.
"""


def _defaults(panel: PanelView) -> Json:
    return mapping(mapping(panel.json.get("fieldConfig")).get("defaults"))


# Rules about the dashboard as a whole.


def uneditable_dashboard(board: Board) -> Iterator[Hit]:
    """A provisioned dashboard says that it cannot be edited: what is edited there is lost at the next rollout."""
    if board.json.get("editable") is not False:
        yield "dashboard", 'set "editable": false'


def uid_too_long(board: Board) -> Iterator[Hit]:
    """A dashboard has a uid that Grafana takes, or links to it break with every import."""
    uid = str(board.json.get("uid") or "")
    if not uid:
        yield "dashboard", "give it a uid, so that links survive an import"
    elif len(uid) > modernise.MAX_UID or not _UID.fullmatch(uid):
        yield "dashboard", f"shorten the uid {uid} to {modernise.MAX_UID} letters, digits, dashes and underscores"


def legacy_schema(board: Board) -> Iterator[Hit]:
    """Nothing is left that a current Grafana has to migrate: migrations change what a panel shows."""
    version = board.json.get("schemaVersion")
    if not isinstance(version, int) or version < modernise.SCHEMA_VERSION:
        yield "dashboard", f"bring schemaVersion {version} to {modernise.SCHEMA_VERSION}, with its migrations"
    if keys := _present(board.json, modernise.LEGACY_BOARD_KEYS):
        yield "dashboard", f"remove the keys {keys}"
    for variable in board.variables:
        if keys := _present(variable, modernise.LEGACY_VARIABLE_KEYS):
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
    old = modernise.LEGACY_PANEL_KEYS | (modernise.LEGACY_HEATMAP_KEYS if panel.type == "heatmap" else frozenset())
    if keys := _present(panel.json, old):
        yield f"remove the keys {keys}"
    # Of Prometheus queries only: other data sources have a right to a "query".
    old_targets = [_present(query.target, modernise.LEGACY_TARGET_KEYS) for query in panel.queries]
    if any(old_targets):
        yield f"remove the query keys {max(old_targets)}"
    options = mapping(panel.json.get("options"))
    if "fieldOptions" in options:
        yield "move options.fieldOptions to fieldConfig"
    if "displayMode" in mapping(options.get("legend")) and "showLegend" not in options["legend"]:
        yield "set options.legend.showLegend, without which the legend is hidden"
    if "displayMode" in mapping(_defaults(panel).get("custom")):
        yield "replace custom.displayMode by custom.cellOptions"
    steps = objects(mapping(_defaults(panel).get("thresholds")).get("steps"))
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
    texts += [(panel.where, _source_name(panel.json.get("datasource"))) for panel in board.panels]
    for where, text in dict.fromkeys(texts):
        for found in dict.fromkeys(_PLACEHOLDER.findall(text)):
            yield where, f"fill in {found}"


def overlapping_grid(board: Board) -> Iterator[Hit]:
    """Panels stay within the grid and do not cover each other, as Grafana would move them in an order of its own."""
    top = objects(board.json.get("panels"))
    for group in (top, *(objects(row.get("panels")) for row in top if row.get("type") == "row")):
        placed = [(PanelView(panel, "").where, _area(panel)) for panel in group if panel.get("gridPos")]
        for name, (left, _, right, _) in placed:
            if left < 0 or right > modernise.GRID_COLUMNS:
                yield name, f"place the panel within the {modernise.GRID_COLUMNS} columns"
        for (name, one), (other, two) in combinations(placed, 2):
            if one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]:
                yield name, f"move the panel, it covers {other}"


def _area(panel: Json) -> tuple[int, int, int, int]:
    position = mapping(panel["gridPos"])
    x, y, w, h = (each if isinstance(each := position.get(key), int) else 0 for key in "xywh")
    return x, y, x + w, y + h


# Rules about variables and data sources.


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
    for where, name in dict.fromkeys((where, _source_name(each.get("datasource"))) for where, each in places):
        if name and name not in _INTERNAL_SOURCES and not name.startswith(("$", "[[")):
            yield where, f"replace the data source {name} by the data source variable"


def _source_name(source: object) -> str:
    return source if isinstance(source, str) else str(mapping(source).get("uid") or "")


def template_on_time_change_reload(board: Board) -> Iterator[Hit]:
    """Query variables are read again when the time range changes, or yesterday's jobs cannot be chosen."""
    for variable in board.variables:
        if variable.get("type") == "query" and variable.get("refresh") != 2:
            yield variable_place(variable), 'set "refresh": 2, on time range change'


def variable_unused(board: Board) -> Iterator[Hit]:
    """Every variable does something when it is changed."""
    panels = [*objects(board.json.get("panels")), *(panel.json for panel in board.panels)]
    repeats = {str(panel.get("repeat")) for panel in panels}
    for variable in board.variables:
        others = [each for each in board.variables if each is not variable]
        used = references({**board.json, "templating": {"list": others}}) | repeats
        if variable.get("type") != "adhoc" and str(variable.get("name")) not in used:
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
    links = [_defaults(panel).get("links"), *(each.get("properties") for each in overrides), panel.json.get("links")]
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


# Rules about panels.


def panel_title_description(board: Board) -> Iterator[Hit]:
    """Every panel has a title and says in its description how to read it."""
    for panel in board.asking:
        missing = [key for key in ("title", "description") if not panel.json.get(key)]
        if missing:
            yield panel.where, f"add a {' and a '.join(missing)}"


def panel_units(board: Board) -> Iterator[Hit]:
    """Numbers have a unit, unless value mappings turn them into words."""
    for panel in board.asking:
        if panel.type in _NUMBER_TYPES and not _defaults(panel).get("unit") and not _defaults(panel).get("mappings"):
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


# Rules about queries.


def target_promql(board: Board) -> Iterator[Hit]:
    """Every query is PromQL."""
    for query in board.queries:
        if query.tree is None and not _PLACEHOLDER.search(query.expr):
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
            used = _LEGEND_LABEL.findall(str(query.target.get("legendFormat") or ""))
            for label in dict.fromkeys(used):
                if label not in kept and label != "__name__":
                    yield panel.where, f"keep the label {label} in the query, or take it out of the legend"
        for label in dict.fromkeys([*_columns(panel), *_linked_labels(panel)]):
            if asked and not any(label in kept for _, kept in asked):
                yield panel.where, f"keep the label {label} in a query, or take it out of the columns and links"


def _columns(panel: PanelView) -> Iterator[str]:
    """The labels that a table is told to show."""
    for step in objects(panel.json.get("transformations")):
        names = mapping(mapping(step.get("options")).get("renameByName"))
        yield from (name for name in names if step.get("id") == "organize" and not _OWN_COLUMN.fullmatch(name))


def _linked_labels(panel: PanelView) -> list[str]:
    return [
        label for link in objects(_defaults(panel).get("links")) for label in _LINK_LABEL.findall(str(link.get("url")))
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


_ACROSS = re.compile(r"\bacross (?:\w+ )?domains\b|\bnetwork\b|\bRDMA\b|\bInfiniBand\b|\bRoCE\b", re.IGNORECASE)
_NET = re.compile(r"\bNET\b")
_WITHIN = re.compile(r"\bNVLink\b|\bxGMI\b", re.IGNORECASE)
_OPERATION_LABELS = ("collective", "p2p_operation")
_OPERATION = re.compile(r"\b(AllReduce|AllGather|AllGatherV|ReduceScatter|Broadcast|Reduce|All2All|Send|Recv)\b")


def title_query_mismatch(board: Board) -> Iterator[Hit]:
    """A title promises the transport and the operation that its query selects.

    NCCL counts NVLink domains as nodes: ``n_nodes="1"`` is within one domain, anything else goes across.
    """
    for panel in board.panels:
        for query in panel.queries:
            matchers = [matcher for selector in query.selectors for matcher in selector.matchers]
            transports = {_selected_transport(each) for each in matchers} - {""}
            transport = _titled_transport(panel.title) or _titled_transport(panel.row)
            if transport and transports and transport not in transports:
                yield query.where, _mismatch({transport}, transports)
            operations = {each.value for each in matchers if each.label in _OPERATION_LABELS and each.op == "="}
            selected = set(_OPERATION.findall(" ".join(operations)))
            titled = set(_OPERATION.findall(panel.title) or _OPERATION.findall(panel.row))
            if titled and selected and not titled & selected:
                yield query.where, _mismatch(titled, selected)


def _mismatch(titled: set[str], selected: set[str]) -> str:
    return f"correct the title or the query: {' and '.join(sorted(titled))} against {' and '.join(sorted(selected))}"


def _titled_transport(title: str) -> str:
    """What a title promises; nothing where it names both, as comparisons do."""
    rest = _NET.sub("", _ACROSS.sub("", title))
    across, within = rest != title, bool(_WITHIN.search(rest))
    return "" if across == within else "network" if across else "NVLink"


def _selected_transport(matcher: promql.Matcher) -> str:
    """The side that a matcher selects: NVLink, network, or nothing where it says neither."""
    inside = {"n_nodes": "1", "transport": "nvlink"}.get(matcher.label)
    values = set(matcher.value.split("|")) if matcher.op in ("=~", "!~") else {matcher.value}
    if inside is None or references(matcher.value) or not all(value.isalnum() for value in values):
        return ""
    if matcher.op in ("!=", "!~"):
        return "network" if values == {inside} else ""
    if inside in values:
        return "NVLink" if values == {inside} else ""
    return "network"


RULES: Mapping[str, Rule] = {
    "uneditable-dashboard": uneditable_dashboard,
    "uid-too-long": uid_too_long,
    "legacy-schema": legacy_schema,
    "placeholder": placeholder,
    "overlapping-grid": overlapping_grid,
    "template-datasource": template_datasource,
    "panel-datasource": panel_datasource,
    "hard-coded-datasource": hard_coded_datasource,
    "template-on-time-change-reload": template_on_time_change_reload,
    "variable-unused": variable_unused,
    "variable-undefined": variable_undefined,
    "unusable-all": unusable_all,
    "panel-title-description": panel_title_description,
    "panel-units": panel_units,
    "panel-no-targets": panel_no_targets,
    "duplicate-title": duplicate_title,
    "target-promql": target_promql,
    "target-rate-interval": target_rate_interval,
    "target-counter-agg": target_counter_agg,
    "legend-label-dropped": legend_label_dropped,
    "unknown-series": unknown_series,
    "unknown-label": unknown_label,
    "title-query-mismatch": title_query_mismatch,
    "merged-states": traps.merged_states,
    "empty-timeline": traps.empty_timeline,
    "false-green": traps.false_green,
    "widened-rate": traps.widened_rate,
    "unjoined-table": traps.unjoined_table,
    "number-like-label": traps.number_like_label,
    "faint-colour": traps.faint_colour,
}
