# SPDX-License-Identifier: Apache-2.0
"""The lint rules: each finds its fault, and a generated dashboard has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import dashgen
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_board import BOARD, OTHER, SERIES

import dashgen as package
from dashgen.catalogue.metrics import upstream
from dashgen.findings import Finding
from dashgen.grafana import dashboard as grafana
from dashgen.lint.rules import RULES, documentation, lint, render
from dashgen.promql import bare_counters, empty, labels, names, parse, selectors

Json = dict[str, Any]
FORMS = ("text", "json", "sarif", "github")
CLEAN: Json = json.loads(grafana.text(grafana.dashboard(BOARD, grafana.Style(), [BOARD, OTHER])))


def test_a_generated_dashboard_has_no_fault() -> None:
    assert lint(CLEAN, SERIES) == []


# One fault per rule, put into the clean dashboard.


def curve(board: Json) -> Json:
    found: Json = next(each for each in board["panels"] if each["type"] == "timeseries")
    return found


def expr(board: Json, promql: str) -> None:
    curve(board)["targets"][0]["expr"] = promql


def editable(board: Json) -> None:
    board["editable"] = True


def long_uid(board: Json) -> None:
    board["uid"] = "a" * 41


def old_legend(board: Json) -> None:
    del curve(board)["options"]["legend"]["showLegend"]


def left_to_fill_in(board: Json) -> None:
    expr(board, 'up{slurm_job_id=~"$job", cluster="your_cluster"}')


def covering(board: Json) -> None:
    curve(board)["gridPos"]["x"] += 1


def no_datasource_variable(board: Json) -> None:
    del board["templating"]["list"][0]


def default_datasource(board: Json) -> None:
    del curve(board)["datasource"]


def one_grafanas_datasource(board: Json) -> None:
    curve(board)["datasource"]["uid"] = "P1809F7CD0C75ACF3"


def read_once(board: Json) -> None:
    board["templating"]["list"][1]["refresh"] = 1


def idle_variable(board: Json) -> None:
    board["templating"]["list"].append({**board["templating"]["list"][1], "name": "node"})


def missing_variable(board: Json) -> None:
    expr(board, 'up{node="$node"}')


def exact_match(board: Json) -> None:
    expr(board, 'up{slurm_job_id="$job"}')


def no_description(board: Json) -> None:
    del curve(board)["description"]


def no_unit(board: Json) -> None:
    del curve(board)["fieldConfig"]["defaults"]["unit"]


def no_query(board: Json) -> None:
    curve(board)["targets"] = []


def same_title(board: Json) -> None:
    curve(board)["title"] = "Bandwidth by GPU"


def broken_query(board: Json) -> None:
    expr(board, "sum(rate(up[)")


def fixed_window(board: Json) -> None:
    expr(board, "rate(up[2m])")


def empty_legend(board: Json) -> None:
    expr(board, "sum by (node) (up)")


def misspelt_series(board: Json) -> None:
    expr(board, "job:nccl_bandwith:best")


def foreign_label(board: Json) -> None:
    expr(board, 'job:nccl_bandwidth:best{host=~"$job"}')


def bare_counter(board: Json) -> None:
    expr(board, f"sum by (slurm_job_id, transport) ({upstream('collectives')})")


def wrong_title(board: Json) -> None:
    curve(board)["title"] = "Bandwidth across domains"
    expr(board, 'up{transport="nvlink"}')


def of_type(board: Json, kind: str) -> Json:
    every = [panel for each in board["panels"] for panel in (each, *each.get("panels", []))]
    found: Json = next(each for each in every if each["type"] == kind)
    return found


def coloured_by_thresholds(board: Json) -> None:
    timeline = of_type(board, "state-timeline")
    timeline["options"]["mergeValues"] = True
    timeline["fieldConfig"]["defaults"]["color"] = {"mode": "thresholds"}


def nothing_but_silence(board: Json) -> None:
    target = of_type(board, "state-timeline")["targets"][0]
    target["expr"] = target["expr"].split(" or ")[0]


def zero_without_telemetry(board: Json) -> None:
    target = of_type(board, "stat")["targets"][0]
    target["expr"] = f"{target['expr']} or vector(0)"


def two_minutes_apart(board: Json) -> None:
    expr(board, 'rate(up{slurm_job_id=~"$job"}[$__rate_interval])')
    curve(board)["targets"][0]["interval"] = "2m"
    curve(board)["targets"][0]["legendFormat"] = ""
    curve(board)["fieldConfig"]["defaults"].pop("links", None)


def joined_by_labels(board: Json) -> None:
    names = next(
        step["options"]["include"]["names"]
        for step in of_type(board, "table")["transformations"]
        if step["id"] == "filterFieldsByName"
    )
    names.remove("Time")


def job_in_percent(board: Json) -> None:
    for rule in of_type(board, "table")["fieldConfig"]["overrides"]:
        rule["properties"] = [item for item in rule["properties"] if item["value"] != "string"]


def yellow_on_white(board: Json) -> None:
    curve(board)["fieldConfig"]["defaults"]["color"] = {"mode": "fixed", "fixedColor": "#F0E442"}


FAULTS: dict[str, Callable[[Json], None]] = {
    "uneditable-dashboard": editable,
    "uid-too-long": long_uid,
    "legacy-schema": old_legend,
    "placeholder": left_to_fill_in,
    "overlapping-grid": covering,
    "template-datasource": no_datasource_variable,
    "panel-datasource": default_datasource,
    "hard-coded-datasource": one_grafanas_datasource,
    "template-on-time-change-reload": read_once,
    "variable-unused": idle_variable,
    "variable-undefined": missing_variable,
    "unusable-all": exact_match,
    "panel-title-description": no_description,
    "panel-units": no_unit,
    "panel-no-targets": no_query,
    "duplicate-title": same_title,
    "target-promql": broken_query,
    "target-rate-interval": fixed_window,
    "target-counter-agg": bare_counter,
    "legend-label-dropped": empty_legend,
    "unknown-series": misspelt_series,
    "unknown-label": foreign_label,
    "title-query-mismatch": wrong_title,
    "merged-states": coloured_by_thresholds,
    "empty-timeline": nothing_but_silence,
    "false-green": zero_without_telemetry,
    "widened-rate": two_minutes_apart,
    "unjoined-table": joined_by_labels,
    "number-like-label": job_in_percent,
    "faint-colour": yellow_on_white,
}


def test_every_rule_has_a_fault_and_a_documentation() -> None:
    assert set(FAULTS) == set(RULES)
    assert all(rule.__doc__ for rule in RULES.values())


def test_the_page_about_the_rules_is_what_the_rules_say_of_themselves() -> None:
    page = (Path(package.__file__).parent / "docs" / "lint.md").read_text(encoding="utf-8")
    assert page == documentation(), "write dashgen.lint.rules.documentation() to dashgen/docs/lint.md"
    assert re.findall("^## (.+)$", page, re.MULTILINE) == list(RULES)


@pytest.mark.parametrize("rule", FAULTS)
def test_a_rule_finds_its_fault(rule: str) -> None:
    board = deepcopy(CLEAN)
    FAULTS[rule](board)
    found = {finding.rule for finding in lint(board, SERIES)}
    # Without its variable every reference to the data source is undefined as well.
    assert found == {rule} | ({"variable-undefined"} if rule == "template-datasource" else set())


# A dashboard with the faults that NVIDIA's template for NCCL Inspector had in NCCL 2.30.7, written anew.

HOSTS = "label_values(your_job_metric{your_job_label=~'$jobid'}, your_hostname_label)"


def vendor_panel(number: int, title: str, series: str, nodes: str) -> Json:
    matchers = f'slurm_job_id="$jobid", p2p_operation="Send", {nodes}'
    by = "message_size, nranks" if "!=" not in nodes else "message_size, nranks, n_nodes"
    return {
        "id": number,
        "title": title,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": 6 * (number - 2), "y": 1, "w": 6, "h": 8},
        "fieldConfig": {"defaults": {}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "expr": f"avg by ({by}) ({series}{{{matchers}}})",
                "legendFormat": "{{message_size}} {{gpu}}",
            }
        ],
    }


VENDOR: Json = {
    "id": 7,
    "uid": "nccl-inspector",
    "title": "NCCL Inspector",
    "editable": True,
    "schemaVersion": 42,
    "templating": {
        "list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {"name": "logs", "type": "datasource", "query": "loki"},
            {
                "name": "cluster",
                "type": "query",
                "query": "SELECT name FROM slurm_clusters",
                "datasource": "mysql",
                "refresh": 1,
            },
            {
                "name": "jobid",
                "type": "query",
                "query": "label_values(slurm_job_id)",
                "multi": True,
                "includeAll": True,
            },
            {"name": "host", "type": "query", "query": HOSTS, "refresh": 2},
        ]
    },
    "panels": [
        {"id": 1, "type": "row", "title": "P2P Send", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}, "panels": []},
        vendor_panel(2, "Bandwidth [NVLink Only]", upstream("p2p_busbw"), 'n_nodes="1"'),
        vendor_panel(3, "Bandwidth [NET]", upstream("p2p_busbw"), 'n_nodes!="1"'),
        vendor_panel(4, "Exec Time [NET]", upstream("p2p_exec"), 'n_nodes!="1"'),
        vendor_panel(5, "Exec Time [NVLink Only]", upstream("p2p_exec"), 'n_nodes!="1"'),
    ],
}


def found(rule: str) -> list[str]:
    return [finding.where for finding in lint(VENDOR) if finding.rule == rule]


def test_the_one_mistitled_panel_of_the_vendor_is_found_and_no_other() -> None:
    assert found("title-query-mismatch") == ["P2P Send / Exec Time [NVLink Only]"]


def test_all_panels_of_the_vendor_lack_units_and_descriptions() -> None:
    assert len(found("panel-units")) == len(found("panel-title-description")) == 4


def test_what_the_vendor_leaves_to_fill_in_is_found() -> None:
    messages = {finding.message for finding in lint(VENDOR) if finding.rule == "placeholder"}
    assert messages == {"fill in your_job_metric", "fill in your_job_label", "fill in your_hostname_label"}


def test_choosing_all_jobs_shows_nothing_in_the_vendors_panels() -> None:
    assert len(found("unusable-all")) == 4


def test_the_vendors_variables_that_do_nothing_are_found() -> None:
    assert found("variable-unused") == ["variable logs", "variable cluster", "variable host"]


def test_the_vendors_own_database_is_found() -> None:
    assert found("hard-coded-datasource") == ["variable cluster"]


def test_a_legend_label_that_the_vendor_aggregates_away_is_found() -> None:
    assert len(found("legend-label-dropped")) == 4


# The command, on a folder of somebody else's dashboards.


def test_the_command_reports_the_vendors_faults_in_every_form_and_fails(tmp_path: Path) -> None:
    folder = tmp_path / "boards" / "deeper"
    folder.mkdir(parents=True)
    (folder / "vendor.json").write_text(json.dumps(VENDOR), encoding="utf-8")
    (tmp_path / "boards" / "clean.json").write_text(json.dumps(CLEAN), encoding="utf-8")
    done = {form: dashgen("lint", "boards", "--format", form, cwd=tmp_path) for form in FORMS}
    assert {each.returncode for each in done.values()} == {1}
    count = len(lint(VENDOR))
    assert len(done["text"].stdout.splitlines()) == len(done["github"].stdout.splitlines()) == count
    assert {each["file"] for each in json.loads(done["json"].stdout)} == {"boards/deeper/vendor.json"}
    assert len(json.loads(done["sarif"].stdout)["runs"][0]["results"]) == count
    line = "P2P Send / Exec Time [NVLink Only]: correct the title or the query: NVLink against network"
    assert f"boards/deeper/vendor.json: {line} [title-query-mismatch]" in done["text"].stdout.splitlines()


def test_a_folder_of_ones_own_build_is_clean_whatever_else_lies_in_it(tmp_path: Path) -> None:
    targets = [word for target in ("files", "terraform", "resources") for word in ("--target", target)]
    assert dashgen("build", *targets, cwd=tmp_path).returncode == 0
    done = dashgen("lint", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("key", ["dashboard", "spec"])
def test_a_dashboard_is_the_same_in_what_grafanas_api_wraps_around_it(tmp_path: Path, key: str) -> None:
    (tmp_path / "vendor.json").write_text(json.dumps(VENDOR), encoding="utf-8")
    plain = dashgen("lint", "vendor.json", cwd=tmp_path)
    (tmp_path / "vendor.json").write_text(json.dumps({key: VENDOR, "meta": {"slug": "x"}}), encoding="utf-8")
    for path in ("vendor.json", "."):
        wrapped = dashgen("lint", path, cwd=tmp_path)
        assert (wrapped.returncode, wrapped.stdout) == (1, plain.stdout)


def test_the_command_is_content_with_a_clean_dashboard(tmp_path: Path) -> None:
    (tmp_path / "clean.json").write_text(json.dumps(CLEAN), encoding="utf-8")
    done = dashgen("lint", "clean.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Rules in doubt stay silent.


@pytest.mark.parametrize(
    "title, promql",
    [
        ("NVLink and network", 'up{n_nodes="1"}'),
        ("NVLink", 'up{transport="$transport"}'),
        ("NVLink", 'up{transport=~"nvlink|mixed"}'),
        ("NVLink errors", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"),
        ("within one NVLink domain", 'up{n_nodes="1"}'),
        ("across NVLink domains", 'up{n_nodes!="1"}'),
        ("Network share of all", 'up{transport="network"} / ignoring (transport) up{transport="nvlink"}'),
        ("AllReduce", 'up{collective=~"AllReduce|AllGather"}'),
    ],
)
def test_a_title_that_fits_or_says_nothing_is_no_mismatch(title: str, promql: str) -> None:
    board = deepcopy(CLEAN)
    curve(board)["title"] = title
    expr(board, promql)
    assert "title-query-mismatch" not in {finding.rule for finding in lint(board)}


def test_what_a_regular_expression_captures_is_no_placeholder() -> None:
    board = deepcopy(CLEAN)
    expr(board, 'label_replace(up, "transport", "$rest", "instance", "(?P<rest>.+)")')
    assert "placeholder" not in {finding.rule for finding in lint(board)}


@pytest.mark.parametrize("window", ["$__rate_interval", "${__range}", "${__range_s}s"])
def test_any_window_that_grafana_fills_in_is_a_good_one(window: str) -> None:
    board = deepcopy(CLEAN)
    expr(board, f"rate(up[{window}]) / max_over_time(up[{window}:$__interval])")
    assert lint(board) == []


@pytest.mark.parametrize(
    "promql",
    [
        "sum(increase(up_total[$__range]))",
        "count(up_total)",
        "up and on (a) up_total",
        "rate(up_total[$__rate_interval])",
    ],
)
def test_a_counter_may_be_counted_and_read_as_a_rate(promql: str) -> None:
    assert list(bare_counters(parse(promql))) == []


@pytest.mark.parametrize(
    "promql", ["up_total", "max by (a) (up_total) > 3", "max_over_time(up_total[1h])", "-up_total"]
)
def test_the_height_of_a_counter_is_found_wherever_it_is_read(promql: str) -> None:
    assert list(bare_counters(parse(promql))) == ["up_total"]


@pytest.mark.parametrize("promql", ["# isn't\nrate(x[$__rate_interval]) # can't", "x # ${y}"])
def test_comments_are_no_part_of_an_expression(promql: str) -> None:
    assert [each.name for each in selectors(parse(promql))] == ["x"]


def test_queries_of_other_data_sources_are_left_alone() -> None:
    board = deepcopy(CLEAN)
    source = {"type": "loki", "uid": "${datasource}"}
    curve(board).update(datasource=source, targets=[{"expr": '{app="x"} |= "error"', "datasource": source}])
    assert lint(board) == []


def keys_of(value: Any) -> set[str]:
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    return {*value, *(key for item in value.values() for key in keys_of(item))} if isinstance(value, dict) else set()


keys = st.sampled_from(sorted(keys_of(CLEAN) | {"rows", "repeat"}))
words = st.sampled_from(
    ["row", "timeseries", "heatmap", "query", "sum(up) by (a)", "label_values(up, a)", "$a", "{{b}}"]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | words
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6))
things = anything | st.lists(st.dictionaries(keys, anything, max_size=6), max_size=3)
boards = st.fixed_dictionaries(
    {},
    optional={
        "panels": things,
        "rows": things,
        "templating": st.fixed_dictionaries({"list": things}) | anything,
        "annotations": st.fixed_dictionaries({"list": things}) | anything,
        "links": things,
        "uid": anything,
    },
)


@settings(deadline=None)  # a busy machine is not a fault
@given(boards)
def test_no_json_however_broken_stops_the_lint(board: Json) -> None:
    lint(board, SERIES)


# Which labels a result has.


@pytest.mark.parametrize(
    "promql, kept, dropped",
    [
        ("up", "any", ""),
        ("sum(up)", "", "any"),
        ("sum by (a, b) (rate(up[5m]))", "a b", "c"),
        ("sum without (a) (up)", "b", "a"),
        ("topk(3, up)", "a", ""),
        ('count_values("v", up)', "v", "a"),
        ('sum by (a, new) (label_replace(sum by (a) (up), "new", "$1", "a", "(.*)"))', "a new", "b"),
        ("sum by (a, b) (up) / on (a) sum by (a) (up)", "a", "b"),
        ("sum by (a, b) (up) * on (a) group_left (n) up", "a b n", "c"),
        ("sum by (a, b) (up) / ignoring (b) sum by (a) (up)", "a", "b"),
        ("sum by (a, b) (up) - sum by (a, c) (up)", "a", "b c"),
        ("sum by (a) (up) and on (a) up", "a", "b"),
        ("sum by (a) (up) or sum by (b) (up)", "a b", "c"),
        ("2 * sum by (a) (up) > bool 1", "a", "b"),
        ("max_over_time(sum by (a) (up)[1h:1m])", "a", "b"),
        ("histogram_quantile(0.9, sum by (le, a) (up))", "a", "le"),
        ("quantile_over_time(0.5, sum by (a) (up)[1h:1m])", "a", "b"),
        ("vector(1)", "", "a"),
    ],
)
def test_the_labels_of_a_result_follow_prometheus(promql: str, kept: str, dropped: str) -> None:
    result = labels(parse(promql))
    assert [label for label in kept.split() if label not in result] == []
    assert [label for label in dropped.split() if label in result] == []


def test_a_legend_label_that_the_series_itself_lacks_is_found_where_its_labels_are_known() -> None:
    known = dict.fromkeys(SERIES, ("slurm_job_id", "transport", "node", "gpu"))
    assert lint(CLEAN, known) == []
    faults = lint(CLEAN, {**known, "job:nccl_bandwidth:best": ("slurm_job_id",)})
    assert {(each.rule, each.where) for each in faults} == {
        ("legend-label-dropped", "Bandwidth now"),
        ("legend-label-dropped", "Curves / Bandwidth by transport"),
    }


def test_a_series_named_by_a_matcher_is_found() -> None:
    promql = '{__name__="up", a="b"} + rate(down[5m] offset 1h) + {a="c"}'
    assert [each.name for each in selectors(parse(promql))] == ["up", "down", ""]
    assert names(promql) == {"up", "down"}


# Whether a result can be there at all.


@pytest.mark.parametrize(
    "promql, is_empty",
    [
        ("a", True),
        ("b", False),
        ("rate(a[5m])", True),
        ("sum by (x) (a)", True),
        ("a or b", False),
        ("a and b", True),
        ("b and a", True),
        ("b unless a", False),
        ("1 - a / b", True),
        ("absent(a)", False),
        ("a or vector(0)", False),
        ("max_over_time((a > 1)[1h:1m])", True),
        ("time() - b", False),
    ],
)
def test_a_result_is_missing_where_what_it_is_made_of_is(promql: str, is_empty: bool) -> None:
    assert empty(parse(promql), {"a"}) is is_empty


# Reports.

FINDING = Finding("panel-units", "Row / 100%, of\nall", "choose a unit", file="a,b.json")


def test_text_names_file_place_remedy_and_rule() -> None:
    assert render([FINDING]) == "a,b.json: Row / 100%, of all: choose a unit [panel-units]\n"
    assert render([replace(FINDING, file="")]).startswith("Row / ")


def test_json_holds_the_findings() -> None:
    assert json.loads(render([FINDING], "json"))[0]["rule"] == "panel-units"


def test_a_title_cannot_end_a_workflow_command() -> None:
    line = "::warning file=a%2Cb.json,title=panel-units::Row / 100%25, of all: choose a unit\n"
    assert render([FINDING], "github") == line


def test_no_form_of_a_report_holds_a_command_or_a_control_character() -> None:
    hostile = Finding(
        "r", "\r::error file=x::owned\x1b[2J ##[add-mask]a ##vso[task.x]", "::stop-commands::t", file="::b\u202e.json"
    )
    for form in ("text", "github"):
        (told,) = render([hostile], form).splitlines()  # type: ignore[arg-type]
        assert told.isprintable() and "##" not in told and told.startswith("::warning ") == (form == "github")
        assert told.startswith("::") == (form == "github")
    for form in ("json", "sarif"):
        told = render([hostile], form)  # type: ignore[arg-type]
        assert "##[" not in told and "##[add-mask]" in json.dumps(json.loads(told))
        assert not any(each.strip().startswith("::") for each in told.splitlines())


def test_sarif_documents_every_rule_and_points_to_the_file() -> None:
    (run,) = json.loads(render([FINDING], "sarif"))["runs"]
    assert {each["id"] for each in run["tool"]["driver"]["rules"]} == set(RULES)
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a,b.json"
    (run,) = json.loads(render([Finding("r", "w", "m", "sp ace/%#.json")], "sarif"))["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "sp%20ace/%25%23.json"
