# SPDX-License-Identifier: Apache-2.0
"""Rules and queries executed by the real promtool and the real Prometheus."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import tool
from servers import Reply, answering

from dashgen import durations
from dashgen.catalogue.metrics import upstream
from dashgen.engine import prometheus
from dashgen.engine.loopback import answers, reserved_ports
from dashgen.engine.programs import find
from dashgen.engine.prometheus import (
    ExpressionError,
    Server,
    check_rules,
    evaluate,
    make_blocks,
    rendered_annotations,
)
from dashgen.engine.ruletest import is_timestamp, unit_test
from dashgen.errors import UserError
from dashgen.recordings.format import Series

START = 1_773_930_000.0
SCRAPE = 15
INTERVAL = 30


@pytest.fixture(autouse=True)
def _installed() -> None:
    tool("promtool")
    tool("prometheus")


def series(name: str, values: Sequence[float | None], **labels: str) -> Series:
    """A series on the scrape grid; None is a scrape without it."""
    samples = [(START + SCRAPE * step, value) for step, value in enumerate(values) if value is not None]
    times, numbers = zip(*samples, strict=True)
    return Series(name, tuple(sorted(labels.items())), np.array(times), np.array(numbers, float))


def rules(*lines: str, name: str = "g") -> str:
    return f"groups:\n- name: {name}\n  interval: 30s\n  rules:\n" + "".join(f"  - {line}\n" for line in lines)


SUM = "{record: 'job:x:sum', expr: 'sum by (job) (x)'}"
HIGH = "{alert: NcclXHigh, expr: 'job:x:sum > 10', for: 1m, labels: {severity: info}, annotations: {summary: %s}}"


def run(text: str, given: Sequence[Series], steps: int, watch: str | None = None) -> prometheus.Evaluation:
    return evaluate({"rules.yaml": text}, given, START, START + SCRAPE * steps, INTERVAL, SCRAPE, watch)


def as_text(found: Sequence[Series]) -> dict[tuple[object, ...], list[tuple[float, float]]]:
    return {(one.name, *one.labels): list(zip(one.times.tolist(), one.values.tolist(), strict=True)) for one in found}


# Tools.


def test_a_tool_is_found_on_path() -> None:
    assert Path(find("promtool")).is_file()


def test_a_missing_tool_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"^promtool: not found; install it .*DASHGEN_PROMTOOL to its path$"):
        check_rules({"rules.yaml": rules(SUM)})


def test_the_environment_names_the_tool_to_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'FAILED:' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("DASHGEN_PROMTOOL", str(fake))
    assert find("promtool") == str(fake)
    assert check_rules({"rules.yaml": ""}) == ["rules.yaml: promtool exits with 1"]


def test_a_tool_that_cannot_run_is_a_user_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("DASHGEN_PROMTOOL", str(broken))
    with pytest.raises(UserError, match="does not run"):
        check_rules({"rules.yaml": ""})


def test_a_tool_that_does_not_end_is_a_user_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("DASHGEN_PROMTOOL", str(slow))
    monkeypatch.setattr(prometheus, "_CHECK_SECONDS", 0.1)
    with pytest.raises(UserError, match=r"no result after 0\.1 s"):
        check_rules({"rules.yaml": ""})


# Checking.


def test_good_rules_have_no_findings() -> None:
    assert check_rules({"a.yaml": rules(SUM), "b.yaml": rules(SUM, HIGH % "hello")}) == []


def test_a_broken_rule_is_a_finding_that_names_its_file_and_no_temporary_one() -> None:
    (finding,) = check_rules({"good.yaml": rules(SUM), "bad.yaml": rules("{record: 'job:x:sum', expr: 'sum by (job'}")})
    assert finding.startswith("bad.yaml: ") and "parse error" in finding and "dashgen-" not in finding


def test_a_rule_that_is_there_twice_is_a_finding() -> None:
    (finding,) = check_rules({"twice.yaml": rules(SUM, SUM)})
    assert finding.startswith("twice.yaml: lint error 1 duplicate rule(s) found. Metric: job:x:sum")


# Executing.


def test_a_recording_rule_gives_what_prometheus_gives_on_the_same_samples(tmp_path: Path) -> None:
    generator = np.random.default_rng(7)
    given = [
        series("x", [None] * late + generator.lognormal(1, 2, 40 - late).tolist(), job=job, gpu=str(gpu))
        for gpu, (job, late) in enumerate([("a", 0), ("a", 3), ("b", 0), ("b", 17)])
    ]
    # One that is gone for a while, as when its exporter restarts.
    given.append(series("x", [1.5] * 10 + [None] * 11 + [2.25] * 19, job="c", gpu="9"))
    text = rules(
        SUM,
        "{record: 'job:x:max1m', expr: 'max by (job) (max_over_time(x[1m]))'}",
        "{record: 'job:x:share', expr: 'job:x:sum / on () group_left () sum(job:x:sum)'}",
    )
    result = run(text, given, 39)
    direct = {
        "job:x:sum": "sum by (job) (x)",
        "job:x:max1m": "max by (job) (max_over_time(x[1m]))",
        "job:x:share": "sum by (job) (x) / on () group_left () sum(sum by (job) (x))",
    }
    make_blocks(tmp_path, given)
    # Blocks have no stale markers; with less than a scrape of lookback a series is gone when its samples are.
    with Server(tmp_path, lookback=SCRAPE - 1) as server:
        for name, expr in direct.items():
            recorded = as_text([one for one in result.series if one.name == name])
            answers = server.query_range(expr, START, START + 39 * SCRAPE, INTERVAL)
            expected = as_text([replace(one, name=name) for one in answers])
            assert recorded.keys() == expected.keys()
            for key, points in expected.items():
                # Prometheus adds in no fixed order, so the last bits of a sum of sums differ from run to run.
                np.testing.assert_allclose(recorded[key], points, rtol=1e-12)


def test_a_series_that_vanishes_is_gone_at_once() -> None:
    result = run(rules(SUM), [series("x", [1.0] * 4 + [None] * 4 + [2.0] * 2, job="a")], 9)
    assert as_text(result.series) == {("job:x:sum", ("job", "a")): [(START, 1), (START + 30, 1), (START + 120, 2)]}


def test_a_series_that_ends_is_gone_before_the_recording_ends() -> None:
    result = run(rules(SUM), [series("x", [1.0] * 4, job="a")], 9)
    assert result.series[0].times.tolist() == [START, START + 30]


def test_values_survive_unchanged() -> None:
    values = [0.1, 0.30000000000000004, 1e300, -1e-300, 0.0, -2.5, 1e15, 123456789.125]
    given = [series("x", [value for value in values for _ in range(2)], job="a")]
    assert run(rules(SUM), given, 15).series[0].values.tolist() == values


def test_infinite_and_absent_numbers_survive() -> None:
    values = [np.inf, np.inf, -np.inf, -np.inf, np.nan, np.nan]
    np.testing.assert_array_equal(run(rules(SUM), [series("x", values, job="a")], 5).series[0].values, values[::2])


def test_odd_label_values_survive() -> None:
    odd = 'a "quoted\\ {x="1"} 2, ü\n\tπ 🙂'
    (one,) = run(rules(SUM), [series("x", [1.0], job=odd)], 0).series
    assert one.labels == (("job", odd),)


def test_repeated_values_are_written_short() -> None:
    given = [series("x", [None, 1.0, 1.0, 1.0, None, None, None, 2.0, None])]
    content = unit_test({"r": rules(SUM)}, given, START, START + 8 * SCRAPE, INTERVAL, SCRAPE, {})
    (test,) = content["tests"]  # type: ignore[misc]
    assert test["input_series"] == [{"series": "x", "values": "_x1 1x2 stale _x2 2 stale"}]  # type: ignore[index]


def test_samples_between_two_scrapes_are_seen_at_the_next_whatever_the_jitter() -> None:
    jitter = np.array([0.0, 0.01, -0.01, 0.01, 0.0])
    for offset, seen in ((0.0, [1, 3, 5]), (0.1, [1, 3, 5]), (0.4, [2, 4]), (SCRAPE - 0.4, [2, 4])):
        times = START + offset + jitter + SCRAPE * np.arange(5)
        late = Series("x", (("job", "a"),), times, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
        assert run(rules(SUM), [late], 4).series[0].values.tolist() == seen, offset


def test_an_alert_is_pending_for_its_duration_then_fires_and_resolves() -> None:
    given = [series("x", [5.0] * 4 + [11.0] * 10 + [5.0] * 6, job="a")]
    (alert,) = run(rules(SUM, HIGH % "hello"), given, 19).alerts
    assert (alert.alert, alert.labels) == ("NcclXHigh", (("job", "a"), ("severity", "info")))
    assert alert.pending == ((START + 60, START + 120),)
    assert alert.firing == ((START + 120, START + 210),)


def test_an_alert_keeps_firing_as_long_as_it_says() -> None:
    kept = (HIGH % "hello").replace("for: 1m", "keep_firing_for: 1m")
    given = [series("x", [11.0] * 4 + [5.0] * 12, job="a")]
    assert run(rules(SUM, kept), given, 15).alerts[0].firing == ((START, START + 120),)


def test_an_alert_that_flaps_has_one_interval_each_time() -> None:
    given = [series("x", ([11.0] * 2 + [5.0] * 2) * 3, job="a")]
    alerts = run(rules(SUM, (HIGH % "hello").replace("for: 1m, ", "")), given, 11).alerts
    assert [start - START for start, _ in alerts[0].firing] == [0, 60, 120]


def test_groups_are_evaluated_in_the_order_of_the_files() -> None:
    files = {
        "z.yaml": rules(SUM, name="z"),
        "a.yaml": rules("{record: 'job:x:double', expr: '2 * job:x:sum'}", name="a"),
        "m.yaml": rules("{record: 'job:x:triple', expr: 'job:x:double + job:x:sum'}", name="m"),
    }
    given = [series("x", [1.0, 1.0, 2.0, 2.0], job="a")]
    result = evaluate(files, given, START, START + 45, INTERVAL, SCRAPE)
    assert {one.name: one.values.tolist() for one in result.series} == {
        "job:x:sum": [1, 2],
        "job:x:double": [2, 4],
        "job:x:triple": [3, 6],
    }


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match=r"a\.yaml, b\.yaml: group g: used twice"):
        evaluate({"a.yaml": rules(SUM), "b.yaml": rules(SUM)}, [], START, START, INTERVAL, SCRAPE)


def test_what_is_not_a_rule_file_is_refused() -> None:
    with pytest.raises(UserError, match=r"a\.yaml: groups: not a rule file"):
        evaluate({"a.yaml": "rules: []"}, [], START, START, INTERVAL, SCRAPE)


def test_points_in_time_agree_with_the_clock_and_come_back_as_they_were() -> None:
    mtimes = [START - 100] * 2 + [START + 28] * 2
    text = rules(
        f"{{record: 'job:age:seconds', expr: 'time() - max({upstream('mtime')})'}}",
        f"{{record: 'job:file:timestamp_seconds', expr: 'max({upstream('mtime')})'}}",
    )
    result = run(text, [series(upstream("mtime"), mtimes, file="f.prom")], 3)
    assert {one.name: one.values.tolist() for one in result.series} == {
        "job:age:seconds": [100, 2],
        "job:file:timestamp_seconds": [START - 100, START + 28],
    }


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (upstream("mtime"), True),
        ("job_last_success_timestamp_seconds", True),
        ("job:dump:timestamp_seconds", True),
        ("job:dump_timestamp_seconds:max", True),
        ("process_start_time_seconds", True),
        ("job:nccl_verdict:since", True),
        ("job:nccl_progress:timestamp", True),
        ("job:dump_age:seconds", False),
        ("job:dump_timestamp_seconds:count", False),
        (upstream("exec"), False),
        ("downtime_seconds", False),
    ],
)
def test_points_in_time_are_known_by_name(name: str, is_one: bool) -> None:
    assert is_timestamp(name) is is_one


def test_a_watch_limits_what_comes_back() -> None:
    given = [series("x", [11.0] * 8, job="a")]
    result = run(rules(SUM, HIGH % "hello"), given, 7, watch="ALERTS")
    assert result.series == [] and len(result.alerts) == 1 and len(result.alert_series) == 2


def test_a_rule_that_does_not_parse_is_an_expression_error_without_temporary_names() -> None:
    with pytest.raises(ExpressionError, match=r"^promtool: rules\.yaml: .*parse error"):
        run(rules("{record: 'job:x:sum', expr: 'sum('}"), [series("x", [1.0])], 0)


def test_a_rule_that_cannot_be_computed_is_an_expression_error_that_names_it() -> None:
    given = [series("x", [1.0] * 3, job="a", gpu=gpu) for gpu in "12"]
    many = rules("{record: 'job:x:ratio', expr: 'x / on (job) x'}")
    with pytest.raises(ExpressionError, match=r"^job:x:ratio: fails 0s after the start: .*many-to-many"):
        run(many, given, 2)


def test_more_series_than_promtool_can_hold_are_a_user_error_with_the_remedy() -> None:
    given = [series("x", [1.0], job="a", gpu=str(gpu)) for gpu in range(10_001)]
    with pytest.raises(UserError, match=r"^job:x:sum: more samples than promtool evaluates at once; use .* fewer GPUs"):
        run(rules(SUM), given, 0)


def test_a_killed_promtool_is_a_user_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dying = tmp_path / "dying"
    dying.write_text("#!/bin/sh\nkill -9 $$\n")
    dying.chmod(0o755)
    monkeypatch.setenv("DASHGEN_PROMTOOL", str(dying))
    with pytest.raises(UserError, match="killed by signal 9; give it more memory"):
        run(rules(SUM), [], 0)


def test_annotations_come_back_filled_in() -> None:
    text = rules(SUM, HIGH % "'job {{ $labels.job }}: \"{{ $value }}\" of {ten}'")
    given = [series("x", [11.0] * 8 + [12.0] * 8, job="a"), series("x", [20.0] * 16, job="b")]
    moments = {"NcclXHigh": [START + 90, START + 210], "NcclOther": [START]}
    assert rendered_annotations({"r.yaml": text}, given, START, INTERVAL, SCRAPE, moments) == {
        "NcclXHigh": [
            {"summary": 'job a: "11" of {ten}'},
            {"summary": 'job b: "20" of {ten}'},
            {"summary": 'job a: "12" of {ten}'},
        ],
        "NcclOther": [],
    }


@pytest.mark.parametrize(
    ("text", "expected"), [("0s", 0), ("1m30s", 90), ("2h", 7200), ("500ms", 0.5), ("1d1h", 90000)]
)
def test_durations_are_read_as_seconds(text: str, expected: float) -> None:
    assert durations.seconds(text) == expected


# A server.


def test_a_reserved_port_is_for_a_server_and_for_nobody_who_asks_for_any() -> None:
    with reserved_ports(3) as ports:
        assert len(set(ports)) == 3
        with socket.create_server(("127.0.0.1", ports[0])) as server:
            assert server.getsockname()[1] == ports[0]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", ports[1]))


def test_an_error_is_an_answer_but_not_that_of_a_server_that_is_ready() -> None:
    replies = iter([Reply(b"starting", 503), Reply(b"ready")])
    with answering(lambda _: next(replies)) as (url, asked):
        assert [answers(url), answers(url)] == [False, True]
    assert len(asked) == 2 and not answers(url)


def test_a_server_answers_from_blocks(tmp_path: Path) -> None:
    make_blocks(tmp_path, [series("x", [1.0, 2.0, 3.0], job="a"), series("y", [4.0], job="b")])
    with Server(tmp_path) as server:
        assert as_text(server.query("x", START + 30)) == {("x", ("job", "a")): [(START + 30, 3)]}
        assert as_text(server.query_range("2 * x", START, START + 30, 15)) == {
            ("", ("job", "a")): [(START, 2), (START + 15, 4), (START + 30, 6)],
        }
        assert server.query("scalar(x)", START)[0].values.tolist() == [1]
        assert server.label_values("job") == ["a", "b"]
        assert server.label_values("job", "y") == ["b"]
        assert server.series("y") == [{"__name__": "y", "job": "b"}]


def test_a_sample_does_not_outlive_the_lookback(tmp_path: Path) -> None:
    make_blocks(tmp_path, [series("x", [1.0, None, None, None, None, 1.0])])
    with Server(tmp_path, lookback=20) as server:
        assert [bool(server.query("x", START + age)) for age in (0, 19, 21, 75)] == [True, True, False, True]


def test_a_query_that_prometheus_refuses_is_an_expression_error(tmp_path: Path) -> None:
    make_blocks(tmp_path, [series("x", [1.0])])
    with Server(tmp_path) as server, pytest.raises(ExpressionError, match=r"^sum\(: .*unclosed left parenthesis"):
        server.query("sum(", START)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("not a directory")
    with pytest.raises(UserError, match=r"^prometheus: does not start: .*not a directory"), Server(data):
        pass


def test_a_server_ends_with_its_block_even_when_the_block_fails(tmp_path: Path) -> None:
    make_blocks(tmp_path, [series("x", [1.0])])
    server = Server(tmp_path)
    with pytest.raises(RuntimeError, match="on purpose"), server:
        process = server._service.pid
        raise RuntimeError("on purpose")
    assert not server._service.running
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.parametrize("cut", [Reply(b'{"data', length=99), Reply(b'{"data'), Reply(b"\xff")])
def test_an_answer_that_breaks_off_is_a_user_error(tmp_path: Path, cut: Reply) -> None:
    make_blocks(tmp_path, [series("x", [1.0])])
    with answering(lambda _: cut) as (url, _), Server(tmp_path) as server:
        server._url = url
        with pytest.raises(UserError, match="no answer to x"):
            server.query("x", START)


def test_a_server_that_died_is_a_user_error(tmp_path: Path) -> None:
    make_blocks(tmp_path, [series("x", [1.0])])
    with Server(tmp_path) as server:
        server._service.stop()
        with pytest.raises(UserError, match="no answer to x"):
            server.query("x", START)


def test_blocks_that_promtool_cannot_make_are_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="promtool makes no blocks"):
        make_blocks(tmp_path / "file", [series("name", [1.0])])
