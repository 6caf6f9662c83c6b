# SPDX-License-Identifier: Apache-2.0
"""The pieces of a preview: units, field configuration, tables, lines, and text that stays text."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dashgen import build
from dashgen.config.site import Site
from dashgen.grafana import units
from dashgen.grafana.parsed import Board
from dashgen.preview import cells, draw, frames, lines, page, sections
from dashgen.preview.fields import Field, colour, field_of, ignored
from dashgen.preview.figures import Region, Span, joined_up_to, plain
from dashgen.preview.frames import Curve, NotDrawn
from dashgen.recordings.format import Series

START = 1_773_930_000.0
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u2028"


def series(*values: float, step: int = 30, **labels: str) -> Series:
    times = START + step * np.arange(len(values))
    return Series("m", tuple(sorted(labels.items())), times, np.array(values, float))


def span(points: int, step: int = 30) -> Span:
    return Span(START, START + step * (points - 1), step)


# Units.


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.123456, "percentunit", "12.3%"),
        (42.5, "percent", "42.5%"),
        (52.31, "GBs", "52.3 GB/s"),
        (0.742, "GBs", "742 MB/s"),
        (0, "GBs", "0 GB/s"),
        (850, "µs", "850 µs"),
        (12_600, "µs", "12.6 ms"),
        (90, "s", "1.50 mins"),
        (0.002, "s", "2 ms"),
        (1.7e10, "Bps", "17 GB/s"),
        (9000, "bytes", "8.79 KiB"),
        (90_400, "ops", "90.4K ops/s"),
        (1_234_567, "short", "1.23 Mil"),
        (314.2, "short", "314"),
        (314, "suffix:TFLOP/s", "314 TFLOP/s"),
        (7, "furlong", "7 furlong"),
        (1, "bool_on_off", "On"),
        (1_773_930_000_000, "dateTimeAsIso", "2026-03-19 14:20:00"),
        (1e300, "dateTimeAsIso", str(int(1e300))),
        (-0.0125, "percentunit", "-1.25%"),
        (math.nan, "s", "NaN"),
        (math.inf, "s", "∞"),
    ],
)
def test_a_value_is_written_with_its_unit(value: float, unit: str, text: str) -> None:
    assert units.written(value, unit) == text


def test_decimals_are_those_that_the_panel_asks_for() -> None:
    assert [units.written(2 / 3, "short", digits) for digits in (0, 1, 4)] == ["1", "0.7", "0.6667"]


def test_nothing_in_the_shipped_boards_is_left_out() -> None:
    boards = build.plain(Site()).dashboards.values()
    panels = [panel for board in boards for panel in Board(board).panels]
    assert len(panels) > 50
    assert {note for panel in panels for note in ignored(panel.json)} == set()


# Field configuration.


PANEL: dict[str, Any] = {
    "fieldConfig": {
        "defaults": {
            "unit": "s",
            "color": {"mode": "palette-classic"},
            "custom": {"lineWidth": 2},
            "thresholds": {
                "mode": "absolute",
                "steps": [{"value": None, "color": "#009E73"}, {"value": 5, "color": "red"}],
            },
            "mappings": [{"type": "value", "options": {"1": {"text": "down", "color": "#D55E00"}}}],
        },
        "overrides": [
            {
                "matcher": {"id": "byRegexp", "options": "/^usual\\b/"},
                "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash"}}, {"id": "unit", "value": "GBs"}],
            },
            {"matcher": {"id": "byName", "options": "a"}, "properties": [{"id": "decimals", "value": 1}]},
        ],
    }
}


def test_overrides_apply_to_what_they_name_and_leave_the_rest_alone() -> None:
    usual, other = field_of(PANEL, "usual a"), field_of(PANEL, "a")
    assert (usual.unit, usual.custom, usual.decimals) == ("GBs", {"lineWidth": 2, "lineStyle": {"fill": "dash"}}, None)
    assert (other.unit, other.custom, other.decimals) == ("s", {"lineWidth": 2}, 1)


def test_a_value_has_the_word_and_the_colour_of_its_mapping_or_else_of_its_threshold() -> None:
    field = field_of(PANEL, "x")
    assert (field.text(1), field.colour_of(1)) == ("down", "#D55E00")
    assert (field.text(2), field.colour_of(2), field.colour_of(5)) == ("2 s", "#009E73", "#F2495C")


@pytest.mark.parametrize("text", ['red;background:url(//x)"', "#12345", "javascript:x", None, 7])
def test_a_colour_is_a_colour_or_grey(text: object) -> None:
    assert colour(text) == "#808080"


def test_what_a_preview_does_not_do_is_told() -> None:
    assert list(ignored(PANEL)) == []
    odd = {
        "fieldConfig": {
            "defaults": {
                "unit": "furlong",
                "color": {"mode": "continuous-GrYlRd"},
                "custom": {"drawStyle": "bars", "stacking": {"mode": "normal"}},
            },
            "overrides": [
                {"matcher": {"id": "byType"}, "properties": []},
                {"matcher": {"id": "byName", "options": "a"}, "properties": [{"id": "custom.axisPlacement"}]},
                {"matcher": {"id": "byRegexp", "options": "/(?<a>/"}, "properties": []},
            ],
        }
    }
    assert list(ignored(odd)) == [
        *("unit furlong", "override byType", "custom.axisPlacement", "override /(?<a>/"),
        *("colours continuous-GrYlRd", "drawStyle bars", "stacking"),
    ]


# Tables.


def rows(tables: tuple[frames.Table, ...]) -> list[list[frames.Cell]]:
    (table,) = tables
    return [[row[name] for name in table.columns] for row in table.rows]


MERGED = [
    {"id": "filterFieldsByName", "options": {"include": {"names": ["node", "gpu", "Value #A", "Value #B"]}}},
    {"id": "merge", "options": {}},
    {
        "id": "organize",
        "options": {
            "excludeByName": {},
            "indexByName": {"node": 0, "gpu": 1, "Value #B": 2, "Value #A": 3},
            "renameByName": {"Value #A": "Worst", "Value #B": "Times"},
        },
    },
]


def test_rows_of_several_queries_are_joined_on_their_common_labels_named_and_ordered() -> None:
    answers = {
        "A": [series(0.5, node="n1", gpu="0", job="7"), series(0.9, node="n2", gpu="0", job="7")],
        "B": [series(4, node="n2", gpu="0", job="7"), series(1, node="n3", gpu="1", job="7")],
    }
    panel = {"transformations": MERGED, "options": {"sortBy": [{"displayName": "Worst", "desc": False}]}}
    (table,) = frames.table(answers, panel)
    assert table.columns == ("node", "gpu", "Times", "Worst")
    assert rows((table,)) == [["n1", "0", None, 0.5], ["n2", "0", 4, 0.9], ["n3", "1", 1, None]]


def test_a_row_with_less_labels_is_joined_with_every_row_it_agrees_with() -> None:
    answers = {
        "A": [series(1, job="7", transport="nvlink"), series(2, job="7", transport="network")],
        "B": [series(9, job="7")],
    }
    panel = {
        "transformations": [
            {
                "id": "filterFieldsByName",
                "options": {"include": {"names": ["job", "transport", "Value #A", "Value #B"]}},
            },
            MERGED[1],
        ]
    }
    assert rows(frames.table(answers, panel)) == [["7", "nvlink", 1, 9], ["7", "network", 2, 9]]


def test_a_single_query_has_a_column_called_value_and_no_others_disappear() -> None:
    (table,) = frames.table({"A": [series(1, node="n1")]}, {})
    assert table.columns == ("Time", "__name__", "node", "Value")
    assert rows((table,)) == [["2026-03-19 14:20:00", "m", "n1", 1]]


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"id": "joinByField", "options": {}}, "transformation joinByField"),
        ({"id": "filterFieldsByName", "options": {"include": {"pattern": "x"}}}, "filterFieldsByName"),
        ({"id": "organize", "options": {"includeByName": {"a": True}}}, "includeByName"),
    ],
)
def test_a_transformation_that_is_not_known_is_refused(step: Mapping[str, object], says: str) -> None:
    with pytest.raises(NotDrawn, match=says):
        frames.table({"A": [series(1, a="b")]}, {"transformations": [step]})


def test_answers_come_in_the_order_that_the_query_asks_for_and_equals_by_their_labels() -> None:
    found = [series(2, node="c"), series(1, node="b"), series(2, node="a"), series(math.nan, node="d")]

    def names(expr: str) -> list[str]:
        return [dict(one.labels)["node"] for one in frames.ordered(expr, found)]

    assert names("m") == ["a", "b", "c", "d"]
    assert names("sort_desc(m)") == ["a", "c", "b", "d"]
    assert names("bottomk(3, m)") == ["b", "a", "c", "d"]


def test_a_rounding_error_of_a_sum_disappears() -> None:
    (one,) = frames.settled([series(0.1 + 0.2, -2.2e-14, 45.18125000000001, 1e15 + 0.3, math.nan)])
    assert one.values[:4].tolist() == [0.3, 0.0, 45.18125, 1e15]
    assert math.isnan(one.values[4])


# Lines.


def lined(*curves: Curve, points: int, regions: tuple[Region, ...] = (), panel: Any = PANEL) -> Any:
    fields = [field_of(panel, each.name) for each in curves]
    return lines.time_series(panel, curves, fields, span(points), regions)


def test_a_line_has_the_values_of_its_series_on_the_scale_of_its_axis() -> None:
    figure = lined(Curve("x", series(0.001, 0.0025, 0.002)), points=3)
    (trace,) = figure.data
    assert (trace["x0"], trace["dx"], trace["y"]) == (START * 1000, 30_000, [1, 2.5, 2])
    assert figure.layout["yaxis"]["ticksuffix"] == " ms"


def test_a_second_unit_has_an_axis_of_its_own() -> None:
    figure = lined(Curve("x", series(1, 2)), Curve("usual x", series(50, 51)), points=2)
    assert [trace.get("yaxis") for trace in figure.data] == [None, "y2"]
    assert figure.layout["yaxis2"]["side"] == "right" and figure.layout["yaxis2"]["ticksuffix"] == " GB/s"
    assert figure.data[1]["line"]["dash"] == "dash"


def test_a_short_gap_is_crossed_and_a_long_one_is_not() -> None:
    panel = {"fieldConfig": {"defaults": {"custom": {"spanNulls": 90_000}}}}
    whole = series(1, 2, 3, 4, 5, 6, 7, 8, 9)
    keep = [0, 2, 3, 7, 8]
    gappy = Series("m", (), whole.times[keep], whole.values[keep])
    (trace,) = lined(Curve("x", gappy), points=9, panel=panel).data
    moments = [int((moment - START * 1000) / 30_000) for moment in trace["x"]]
    assert dict(zip(moments, trace["y"], strict=True)) == {0: 1, 2: 3, 3: 4, 4: None, 5: None, 6: None, 7: 8, 8: 9}


@pytest.mark.parametrize(("across", "places"), [(True, math.inf), (90_000, 3), (False, 0), (None, 0)])
def test_a_gap_is_as_long_for_lines_as_for_states(across: object, places: float) -> None:
    assert joined_up_to(across, Span(START, START + 300, 30)) == places


def test_a_lone_point_is_visible() -> None:
    (trace,) = lined(Curve("x", series(math.nan, 2, math.nan)), points=3).data
    assert trace["mode"] == "lines+markers" and trace["marker"]["size"] == [0, 5, 0]


def test_of_too_many_curves_the_odd_ones_are_drawn_and_the_rest_is_counted() -> None:
    curves = [Curve(f"gpu{number}", series(100 + number / 100, 100)) for number in range(95)]
    late = Curve("late", series(100, 50))
    figure = lined(*curves[:60], late, *curves[60:], points=2)
    assert len(figure.data) == figure.traces == lines.MOST_CURVES
    assert "late" in [trace["name"] for trace in figure.data]
    assert figure.notes == ("40 of 96 curves drawn: those that stray farthest from the middle one",)


def test_thresholds_and_annotations_are_drawn_where_the_panel_asks_for_them() -> None:
    panel = json.loads(json.dumps(PANEL))
    region = Region(START + 30, START + 60, "#D55E00")
    (shade,) = lined(Curve("x", series(1, 6)), points=2, regions=(region,), panel=panel).layout["shapes"]
    assert (shade["x0"], shade["x1"], shade["fillcolor"]) == ((START + 30) * 1000, (START + 30) * 1000, "#D55E00")
    panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] = {"mode": "dashed"}
    figure = lined(Curve("x", series(1, 6)), points=2, panel=panel)
    assert [(shape["y0"], shape["line"]["dash"]) for shape in figure.layout["shapes"]] == [(5, "dash")]
    assert figure.entries[-1].name == "threshold 5 s"


# Rectangles.


def test_a_state_lasts_until_the_next_one_and_says_its_word() -> None:
    config = PANEL["fieldConfig"]["defaults"]
    figure = cells.state_timeline({}, [Curve("x", series(1, 1, 2, 1))], [Field(config)], span(4))
    (bars,) = figure.data
    assert bars["text"] == ["down", "2 s", "down"]
    assert [(base - START * 1000) / 30_000 for base in bars["base"]] == [0, 2, 3]
    assert [width / 30_000 for width in bars["x"]] == [2, 1, 0]


def test_a_heatmap_has_a_row_for_every_curve_also_where_two_have_one_name() -> None:
    panel = {"options": {"color": {"scheme": "Cividis", "min": 0.5, "max": 1.2}, "cellValues": {"unit": "percentunit"}}}
    curves = [Curve("a", series(0.5, 1)), Curve("a", series(1, math.nan))]
    (trace,) = cells.heatmap(panel, curves, Field(), span(2)).data
    assert (trace["y"], trace["z"]) == (["a", "a (2)"], [[50, 100], [100, None]])
    assert (trace["zmin"], trace["zmax"]) == (50, 120)
    with pytest.raises(NotDrawn, match="calculated"):
        cells.heatmap({"options": {"calculate": True}}, curves, Field(), span(2))


def test_a_bar_is_as_long_as_its_value_and_says_it_with_its_unit() -> None:
    curves = [Curve(name, series(1)) for name in "ab"]
    (trace,) = cells.bar_gauge({}, curves, [Field({"unit": "GBs"})] * 2, [52.7, 0.742]).data
    assert (trace["x"], trace["text"]) == ([52.7, 0.742], ["52.7 GB/s", "742 MB/s"])


# Other people's text.


def test_text_in_a_figure_and_data_in_a_script_cannot_become_html() -> None:
    assert plain(HOSTILE) == "&lt;img src=x onerror=alert(1)&gt;&lt;/script&gt;&lt;script&gt;alert(2)&lt;/script&gt; "
    dumped = page.data({"a": HOSTILE + "<!-- &amp;"})
    packed = page.packed(dumped)
    assert re.fullmatch("[A-Za-z0-9+/=]+", packed)
    assert zlib.decompress(base64.b64decode(packed)).decode() == dumped
    assert json.loads(dumped) == {"a": HOSTILE + "<!-- &amp;"}


@pytest.mark.parametrize(
    "markdown",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](https://example.org/x.png)",
        "[x](data:text/html,x)",
    ],
)
def test_markdown_is_drawn_without_html_scripts_and_anything_to_load(markdown: str) -> None:
    drawn = sections._words(draw.Words(f"# Title\n\n**bold** {markdown}", True))
    assert "<h1>Title</h1>" in drawn and "<strong>bold</strong>" in drawn
    assert not any(each in drawn for each in ("<script", "<img", 'href="javascript', 'href="data'))
