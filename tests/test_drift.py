# SPDX-License-Identifier: Apache-2.0
"""What a reviewer is told about a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import dashgen
from targets import render

from dashgen.config import site as config
from dashgen.output import changes as drift
from dashgen.output.writer import Change


def rules(*alerts: dict[str, Any]) -> str:
    return yaml.safe_dump({"groups": [{"name": "g", "rules": list(alerts)}]})


def alert(expr: str, name: str = "NcclX", tier: str = "low", **more: Any) -> dict[str, Any]:
    return {"alert": name, "expr": expr, "labels": {"sensitivity": tier}, "annotations": {"summary": "x"}, **more}


def told(before: str, after: str, path: str = "rules/alerts/low.yaml") -> list[str]:
    return drift.summary([Change(path, "changed", before, after)])


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("x > 0.1", "x > 0.2", "stricter"),
        ("x > 0.2", "x > 0.1", "laxer"),
        ("x < 0.8", "x < 0.7", "stricter"),
        ("x <= 0.7", "x <= 0.8", "laxer"),
        ('x{a="1"} > 3 * 30', 'x{a="1"} > 4 * 30', "stricter"),
        ("x > 1 or y < 2", "x > 2 or y < 1", "stricter"),
        ("x > 1 or y > 2", "x > 2 or y > 1", "changed"),
        ("x > 1 unless y > 2", "x > 2 unless y > 2", "stricter"),
        ("x > 1 unless y > 2", "x > 1 unless y > 3", "changed"),
        ('x{a="1"} > 3', 'x{a="2"} > 3', "changed"),
        ("x[5m] > 3", "x[6m] > 3", "changed"),
        ("x > 3 * 30", "x > 3 * 60", "changed"),
        ("x > 3", "y > 3", "changed"),
    ],
)
def test_a_threshold_that_moves_makes_an_alert_stricter_or_laxer(before: str, after: str, verdict: str) -> None:
    assert told(rules(alert(before)), rules(alert(after))) == [f"1 alert {verdict} in low (NcclX)"]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"for": "2m"}, "stricter"),
        ({"for": "1m"}, None),
        ({"for": "30s"}, "laxer"),
        ({"for": "2m", "expr": "x > 0"}, "changed"),
        ({"keep_firing_for": "9m"}, "changed"),
        ({"annotations": {"summary": "y"}}, "reworded"),
        ({"labels": {"sensitivity": "low", "severity": "critical"}}, "changed"),
    ],
)
def test_a_duration_a_label_and_a_text_count_as_what_they_are(change: dict[str, Any], verdict: str | None) -> None:
    before = alert("x > 1", **{"for": "1m"})
    expected = [f"1 alert {verdict} in low (NcclX)"] if verdict else []
    assert told(rules(before), rules({**before, **change})) == expected


def test_alerts_are_counted_by_what_happened_and_where() -> None:
    def pack(tier: str, value: int, *names: str) -> str:
        return rules(*(alert(f"x > {value}", name, tier) for name in names))

    changes = [
        Change("low.yaml", "changed", pack("low", 1, "A", "B"), pack("low", 2, "A", "B", "C")),
        Change("high.yaml", "changed", pack("high", 1, "A", "D"), pack("high", 2, "A")),
    ]
    assert drift.summary(changes) == [
        "1 alert stricter in low and high (A)",
        "1 alert stricter in low (B)",
        "1 alert added in low (C)",
        "1 alert removed in high (D)",
    ]


def test_alerts_of_one_name_and_two_severities_are_told_by_either() -> None:
    def pack(slow: int, slower: int) -> str:
        return rules(alert(f"x > {slow}"), alert(f"x > {slower}"))

    assert told(pack(1, 2), pack(3, 2)) == told(pack(1, 2), pack(1, 3)) == ["1 alert stricter in low (NcclX)"]
    assert told(pack(1, 3), pack(2, 2)) == told(pack(1, 3), rules(alert("x > 1"))) == ["1 alert changed in low (NcclX)"]


def board(*titles: str, **more: Any) -> str:
    panels = [
        {"title": title, "type": "stat", "id": number, "gridPos": {"y": number}} for number, title in enumerate(titles)
    ]
    return json.dumps({"title": "Job", "schemaVersion": 42, "panels": panels, **more})


def test_panels_are_told_by_title_and_one_that_only_moved_is_not_told() -> None:
    path = "dashboards/job.json"
    assert told(board("A", "B"), board("X", "A", "B"), path) == ["1 panel added (Job: X)"]
    assert told(board("A", "B"), board("B"), path) == ["1 panel removed (Job: A)"]
    assert told(board(*"ABCDEF"), board("A"), path) == ["5 panels removed (Job: B, Job: C, Job: D and 2 more)"]


def test_recording_rules_boards_runbooks_and_other_files_are_counted() -> None:
    record = {"record": "job:x:max", "expr": "1"}
    changes = [
        Change(
            "rules/recording.yaml",
            "changed",
            rules(record),
            rules({**record, "expr": "2"}, {**record, "record": "job:y:max"}),
        ),
        Change("dashboards/new.json", "added", None, board("A")),
        Change("rules/runbooks/A.md", "removed", "x", None),
        Change("rules/alertmanager.yaml", "changed", "a: 1", "a: 2"),
    ]
    assert drift.summary(changes) == [
        "1 recording rule added (job:y:max)",
        "1 recording rule changed (job:x:max)",
        "1 dashboard added (Job)",
        "1 runbook removed (A.md)",
        "1 other file changed (alertmanager.yaml)",
    ]


def test_a_first_build_is_no_news_and_a_damaged_file_is_called_that() -> None:
    assert drift.summary([Change("rules/recording.yaml", "added", None, rules())]) == []
    damaged = ["rules/alerts/low.yaml: what is there is damaged"]
    assert told(rules(alert("x > 1")), "title: x\ndata: [1, 2]\n") == damaged
    assert told("{", rules(alert("x > 1"))) == damaged


@pytest.mark.parametrize(
    "target", ["files", "prometheusrule", "configmap", "grafana-operator", "grafana-alerting", "terraform", "resources"]
)
def test_the_words_are_the_same_whatever_the_form(target: str) -> None:
    def files(data: dict[str, Any]) -> dict[str, str]:
        return render(target, config.site(data, "test"))

    before, after = files({}), files({"alerts": {"NcclJobDegraded": {"medium": {"threshold": 0.09}}}, "fabric": "xGMI"})
    changes = [Change(path, "changed", before[path], after[path]) for path in before if before[path] != after.get(path)]
    lines = drift.summary(changes)
    if target not in ("configmap", "resources"):
        assert "1 alert stricter in medium (NcclJobDegraded)" in lines
    if target in ("configmap", "resources", "files"):
        assert any("panel" in line for line in lines)


@pytest.mark.heavy
def test_check_tells_the_meaning_and_makes_annotations(tmp_path: Path) -> None:
    assert dashgen("build", cwd=tmp_path).returncode == 0
    (tmp_path / "dashgen.yaml").write_text("alerts: {NcclJobDegraded: {low: {threshold: 0.9}}}\n")
    done = dashgen("build", "--check", cwd=tmp_path)
    assert done.returncode == 1
    assert "+++ b/rules/alerts/low.yaml" in done.stdout
    assert "1 alert stricter in low (NcclJobDegraded)\n" in done.stderr
    github = dashgen("build", "--check", "--format", "github", cwd=tmp_path)
    assert github.returncode == 1
    assert "::warning file=rules/alerts/low.yaml,title=stale::changed: 1 alert stricter in low" in github.stdout
    assert all(line.startswith("::") for line in github.stdout.splitlines())
    found = json.loads(dashgen("build", "--check", "--format", "json", cwd=tmp_path).stdout)
    assert {each["file"] for each in found} >= {"rules/alerts/low.yaml"}
    assert dashgen("build", cwd=tmp_path).returncode == 0
    clean = dashgen("build", "--check", "--format", "github", cwd=tmp_path)
    assert (clean.returncode, clean.stdout) == (0, "")
    wrong = dashgen("build", "--format", "github", cwd=tmp_path)
    assert wrong.returncode == 2 and "add --check" in wrong.stderr


@pytest.mark.parametrize("path", ["rules/recording.yaml", "dashboards/job.json"])
def test_a_file_that_would_become_too_much_says_nothing(path: str) -> None:
    bomb = "\n".join(f"a{n}: &a{n} [{f'*a{n - 1}, *a{n - 1}' if n else 1}]" for n in range(60))
    deep = "[" * 50_000
    for text in (bomb, deep, "groups: &a [*a]"):
        assert drift.summary([Change(path, "changed", text, "{}")])
