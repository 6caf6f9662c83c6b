# SPDX-License-Identifier: Apache-2.0
"""Grafana JSON from the model, judged by Grafana's own published models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from grafana_models import misread, units
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_board import BOARD, OTHER

from dashgen.grafana import dashboard as grafana
from dashgen.grafana import schema as modernise
from dashgen.model import Dashboard, Panel, Query, Row, Unit

STYLE = grafana.Style()
RAW = grafana.dashboard(BOARD, STYLE, [BOARD, OTHER])
JSON: dict[str, Any] = json.loads(grafana.text(RAW))


def panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def panel(title: str, board: dict[str, Any] = JSON) -> dict[str, Any]:
    return next(each for each in panels(board) if each["title"] == title)


def items(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in the JSON with its path, list positions left out."""
    yield path, value
    for key, item in value.items() if isinstance(value, dict) else []:
        yield from items(item, f"{path}.{key}")
    for item in value if isinstance(value, list) else []:
        yield from items(item, path)


def area(each: dict[str, Any]) -> set[tuple[int, int]]:
    x, y, w, h = (each["gridPos"][key] for key in "xywh")
    assert x >= 0 and x + w <= 24
    return {(column, row) for column in range(x, x + w) for row in range(y, y + h)}


def assert_disjoint(group: list[dict[str, Any]]) -> None:
    for one, two in combinations(group, 2):
        assert not area(one) & area(two), (one["title"], two["title"])


def one_panel(**fields: Any) -> dict[str, Any]:
    """The JSON of a board with this one panel."""
    defaults = {
        "title": "T",
        "description": "D",
        "type": "timeseries",
        "unit": Unit.GBPS,
        "queries": (Query(expr="up"),),
    }
    row = Row(title="", panels=(Panel(**{**defaults, **fields}),))
    board = Dashboard(slug="one", title="One", question="Why?", rows=(row,), variables=())
    return grafana.dashboard(board, STYLE)["panels"][0]  # type: ignore[index,no-any-return]


# What Grafana's own models make of it.


def test_grafanas_models_read_every_key_and_add_only_known_defaults() -> None:
    assert misread(JSON) == []


@pytest.mark.parametrize("unit", Unit)
def test_grafana_knows_the_unit(unit: Unit) -> None:
    assert unit.value in units() or unit.value.startswith("suffix:")


# The modernised whole.


def test_every_panel_type_is_in_the_sample_and_says_which_grafana_it_is_for() -> None:
    shown = [each for each in panels(JSON) if each["type"] != "row"]
    assert {each["type"] for each in shown} == set(grafana.TYPES)
    assert {each["pluginVersion"] for each in shown} == {modernise.PLUGIN_VERSION}
    assert JSON["schemaVersion"] == 42


def test_nothing_is_null_but_the_base_of_thresholds() -> None:
    assert {path for path, value in items(JSON) if value is None} == {
        ".panels.fieldConfig.defaults.thresholds.steps.value",
        ".panels.panels.fieldConfig.defaults.thresholds.steps.value",
    }


def test_modernising_twice_changes_nothing() -> None:
    assert modernise.modernise(RAW) == RAW


def test_modernising_leaves_its_input_alone() -> None:
    old = {
        "schemaVersion": 12,
        "rows": [],
        "panels": [{"type": "timeseries", "error": False, "targets": [{"expr": "up"}]}],
    }
    before = json.dumps(old)
    assert modernise.modernise(old) != old
    assert json.dumps(old) == before


def test_a_bar_gauge_of_grafanalib_keeps_its_unit_limits_and_thresholds() -> None:
    from grafanalib import core

    old = core.BarGauge(title="T", format="GBs", min=0, max=50, decimals=0, thresholds=[core.Threshold("red", 0, 0.0)])
    new = modernise.modernise({"panels": [modernise.plain(old)]})["panels"][0]
    defaults = new["fieldConfig"]["defaults"]
    assert (defaults["unit"], defaults["min"], defaults["max"], defaults["decimals"]) == ("GBs", 0, 50, 0)
    assert defaults["thresholds"]["steps"] == [{"color": "red", "value": None}]
    assert "fieldOptions" not in new["options"]


def test_the_data_source_is_the_variable_everywhere() -> None:
    sources = [value for path, value in items(JSON) if path.endswith(".datasource")]
    assert {json.dumps(each, sort_keys=True) for each in sources} == {
        '{"type": "grafana", "uid": "-- Grafana --"}',
        '{"type": "prometheus", "uid": "${datasource}"}',
    }
    assert all("datasource" in target for each in panels(JSON) for target in each.get("targets", []))
    assert JSON["templating"]["list"][0]["type"] == "datasource"


def test_equal_boards_give_equal_bytes_in_every_process() -> None:
    script = (
        "from sample_board import BOARD, OTHER; from dashgen.grafana import dashboard as grafana;"
        "print(grafana.text(grafana.dashboard(BOARD, grafana.Style(), [BOARD, OTHER])), end='')"
    )
    paths = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7", "PYTHONUTF8": "1"}
    again = subprocess.run([sys.executable, "-c", script], env=paths, capture_output=True, check=True)
    assert again.stdout.decode() == grafana.text(RAW)
    assert again.stdout.endswith(b"}\n")


# The grid.


def test_ids_are_unique_and_in_reading_order() -> None:
    numbers = [each["id"] for each in panels(JSON)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_collapsed_row_holds_its_panels_and_takes_one_line() -> None:
    row, after = panel("Details"), panel("After the fold")
    assert [each["title"] for each in row["panels"]] == ["Slowest GPUs", "Jobs"]
    assert after["gridPos"]["y"] == row["gridPos"]["y"] + 1
    assert all(each["gridPos"]["y"] > row["gridPos"]["y"] for each in row["panels"])


sizes = st.lists(st.tuples(st.integers(1, 24), st.integers(2, 12)), max_size=12)


@settings(deadline=None)  # a busy machine is not a fault
@given(st.lists(st.tuples(sizes, st.booleans(), st.sampled_from(["", "Row"])), max_size=4))
def test_panels_of_any_size_never_overlap(bands: list[tuple[list[tuple[int, int]], bool, str]]) -> None:
    rows = []
    for number, (band, collapsed, title) in enumerate(bands):
        made = [
            Panel(
                title=f"{number}.{index}",
                description="D",
                type="stat",
                unit=Unit.COUNT,
                queries=(Query(expr="up"),),
                width=w,
                height=h,
            )
            for index, (w, h) in enumerate(band)
        ]
        rows.append(Row(title=title, panels=tuple(made), collapsed=collapsed))
    board = Dashboard(slug="any", title="Any", question="?", rows=tuple(rows), variables=())
    made_board: dict[str, Any] = grafana.dashboard(board, STYLE)
    assert_disjoint(made_board["panels"])
    for row in made_board["panels"]:
        assert_disjoint(row.get("panels", []))
    assert sum(each["type"] == "stat" for each in panels(made_board)) == sum(len(band) for band, _, _ in bands)


# The frame.


def test_a_board_links_to_the_others_with_time_and_variables() -> None:
    (link,) = JSON["links"]
    assert (link["url"], link["includeVars"], link["keepTime"]) == ("/d/dashgen-nccl-fleet", True, True)


def test_an_annotation_is_drawn_in_its_colour_as_often_as_the_dumps_come() -> None:
    own = JSON["annotations"]["list"][1]
    assert (own["name"], own["iconColor"]) == ("Alerts", grafana.PALETTE["bad"])
    assert own["target"]["expr"] == 'ALERTS{alertstate="firing",slurm_job_id=~"$job"}'
    assert own["target"]["interval"] == STYLE.min_interval


def test_the_number_of_a_panel_is_known_before_it_is_drawn() -> None:
    assert grafana.panel_ids(BOARD) == {each["title"]: each["id"] for each in panels(JSON) if each["type"] != "row"}


def test_a_variable_with_several_values_starts_with_all_and_one_with_a_single_value_does_not() -> None:
    single = replace(BOARD, variables=(replace(BOARD.variables[0], multi=False),))
    made: dict[str, Any] = grafana.dashboard(single, STYLE)
    several, one = JSON["templating"]["list"][1], made["templating"]["list"][1]
    assert several["current"] == {"text": "All", "value": "$__all"}
    assert (several["multi"], several["includeAll"], several["allValue"]) == (True, True, ".*")
    assert (one["current"], one["multi"], one["includeAll"]) == ({}, False, False)
    assert several["query"]["query"] == several["definition"] == "label_values(job:nccl_bandwidth:best, slurm_job_id)"
    assert several["refresh"] == 2


def test_a_uid_that_grafana_would_refuse_is_an_error() -> None:
    with pytest.raises(ValueError, match="at most 40"):
        grafana.uid(STYLE, "a" * 40)


@settings(deadline=None)  # a busy machine is not a fault
@given(st.text(), st.text())
def test_untrusted_text_stays_text(title: str, url: str) -> None:
    made = one_panel(title=title or "T", description=title or "D", links={title or "T": url})
    back = json.loads(grafana.text(made))
    assert (back["title"], back["description"]) == (title or "T", title or "D")
    assert back["fieldConfig"]["defaults"]["links"][0]["url"] == url


# Panels.


def test_a_time_series_has_fractional_limits_gaps_in_milliseconds_and_a_legend() -> None:
    curve = panel("Bandwidth by transport")
    defaults = curve["fieldConfig"]["defaults"]
    assert (defaults["min"], defaults["max"]) == (0, 0.5)
    assert defaults["custom"]["spanNulls"] == STYLE.span_nulls_ms
    assert curve["options"]["legend"] == {
        "calcs": ["lastNotNull", "min", "max"],
        "displayMode": "table",
        "placement": "bottom",
        "showLegend": True,
        # The odd one out is on top.
        "sortBy": "Max",
        "sortDesc": True,
    }
    assert "maxDataPoints" not in curve


def test_queries_are_current_and_no_finer_than_the_dumps() -> None:
    for target in (target for each in panels(JSON) for target in each.get("targets", [])):
        assert target["range"] is not target["instant"]
        assert (target["editorMode"], target["exemplar"], target["interval"]) == ("code", False, "30s")
        assert not modernise.LEGACY_TARGET_KEYS & target.keys()


def test_a_transport_has_one_colour_on_every_board() -> None:
    overrides = panel("Bandwidth by transport")["fieldConfig"]["overrides"]
    colours = {each["matcher"]["options"]: each["properties"][0]["value"] for each in overrides}
    assert colours["/^network\\b/"] == {"mode": "fixed", "fixedColor": grafana.PALETTE["network"]}
    shades = one_panel(queries=(Query(expr="up", legend="{{transport}} {{collective}}"),))["fieldConfig"]["overrides"]
    assert shades[0]["properties"][0]["value"] == {"mode": "shades", "fixedColor": grafana.PALETTE["nvlink"]}
    assert one_panel(queries=(Query(expr="up", legend="{{node}}"),))["fieldConfig"]["overrides"] == []


def test_a_heatmap_is_drawn_from_series_and_shows_zeros() -> None:
    options = panel("Bandwidth by GPU")["options"]
    assert options["calculate"] is False
    assert (options["color"]["min"], options["color"]["max"]) == (0.5, 1.0)
    assert options["cellValues"] == {"unit": "percentunit"}
    assert options["filterValues"]["le"] < 0


def test_a_state_timeline_names_and_colours_its_states() -> None:
    defaults = panel("State")["fieldConfig"]["defaults"]
    (mapping,) = defaults["mappings"]
    # By thresholds, Grafana would merge the values and forget the states: grafana/grafana#71804.
    assert defaults["color"] == {"mode": "fixed", "fixedColor": grafana.PALETTE["neutral"]}
    assert mapping["options"]["1"] == {"text": "degraded", "color": grafana.PALETTE["bad"], "index": 1}


def test_a_table_joins_its_queries_and_shows_the_listed_columns_in_order() -> None:
    table = panel("Jobs")
    keep, merge, organize = table["transformations"]
    assert (keep["id"], merge["id"], organize["id"]) == ("filterFieldsByName", "merge", "organize")
    assert keep["options"]["include"]["names"] == ["Time", "slurm_job_id", "Value #A", "Value #B"]
    assert organize["options"]["excludeByName"] == {"Time": True}
    assert organize["options"]["renameByName"]["Value #A"] == "Bandwidth"
    assert organize["options"]["indexByName"] == {"slurm_job_id": 0, "Value #A": 1, "Value #B": 2}
    overrides = {each["matcher"]["options"]: each["properties"] for each in table["fieldConfig"]["overrides"]}
    assert overrides["/.+/"] == [{"id": "noValue", "value": "–"}]
    assert overrides["Degraded"] == [{"id": "unit", "value": "bool_on_off"}]
    assert overrides["Bandwidth"][0]["value"] == {"type": "color-background", "mode": "basic"}
    assert [each["options"] for each in (rule["matcher"] for rule in table["fieldConfig"]["overrides"])].count(
        "Job"
    ) == 2
    assert overrides["Job"][0]["id"] == "links"
    assert {(each["format"], each["instant"]) for each in table["targets"]} == {("table", True)}
    assert table["options"]["sortBy"] == [{"displayName": "Bandwidth", "desc": True}]


def test_a_line_to_compare_with_is_dashed() -> None:
    made = one_panel(queries=(Query(expr="up", legend="{{a}}"), Query(expr="up", legend="usual {{a}}")))
    (override,) = made["fieldConfig"]["overrides"]
    assert override["matcher"] == {"id": "byRegexp", "options": "/^usual\\b/"}
    assert {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [6, 6]}} in override["properties"]


def test_the_value_of_a_single_query_has_no_letter() -> None:
    table = one_panel(type="table", columns={"job": "Job", "Value #A": "Rate"})
    assert table["transformations"][-1]["options"]["renameByName"] == {"job": "Job", "Value": "Rate"}


def test_a_link_to_a_column_that_is_not_shown_is_an_error() -> None:
    with pytest.raises(ValueError, match="reads the column node"):
        one_panel(type="table", columns={"job": "Job"}, links={"Node": "/d/x?var-node=${__data.fields.node}"})


def test_an_unknown_colour_role_is_an_error() -> None:
    with pytest.raises(ValueError, match="no colour role red"):
        one_panel(steps=((None, "red"),))


def test_thresholds_without_a_base_are_an_error() -> None:
    with pytest.raises(ValueError, match="first threshold step"):
        one_panel(steps=((0.5, "ok"),))
