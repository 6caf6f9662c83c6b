# SPDX-License-Identifier: Apache-2.0
"""Packs judged on recordings: the engine, what is counted, and the command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import slow_network
from command import dashgen, environment
from hypothesis import given
from hypothesis import strategies as st
from processes import exact, rule_engine, tool

from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import Firing, evaluate
from dashgen.engine.scheduled import Moments, Outcome
from dashgen.errors import UserError
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series, read_samples, read_story
from dashgen.recordings.importing import save
from dashgen.validation.cases import ANY, SIGNALS, Case
from dashgen.validation.judge import Incident, verdict
from dashgen.validation.packs import apart, own, rule_files, theirs
from dashgen.validation.recorded import GHOST, Engine, judge_all, left, presence
from dashgen.validation.spans import length, overlap, union

RECORDINGS = Path(__file__).parent / "recordings"
START, END = slow_network.START, slow_network.START + 900
FAULT = START + 300
SITE = config.Site()


@pytest.fixture(scope="module")
def program() -> str:
    """The engine, built once for all tests of this machine."""
    return rule_engine()


# The engine.

HIGH = """
groups:
- name: alerts
  interval: 30s
  rules:
  - {alert: Slow, expr: 'job:bandwidth:avg < 80', for: 30s, keep_firing_for: 1m, labels: {sensitivity: medium}}
"""
MEAN = f"""
groups:
- name: recording
  interval: 30s
  rules:
  - {{record: 'job:bandwidth:avg', expr: avg by (slurm_job_id) ({upstream("busbw")})}}
"""


SAME = f"label_replace({upstream('busbw')}, 'gpu', '', 'gpu', '.*')"  # four series become one


def moments(*, offsets: bool) -> Moments:
    return Moments(START, END, 15.0, 30.0, offsets)


@pytest.mark.parametrize("name", ["network-25-short", "killed"])
def test_without_offsets_the_engine_says_what_promtool_says(program: str, name: str) -> None:
    tool("promtool")
    story, samples = read_story(RECORDINGS / name), read_samples(RECORDINGS / name)
    # promtool evaluates every group at the one interval of its test.
    files = {
        path: re.sub(r"interval: \S+", "interval: 30s", text)
        for path, text in rule_files(config.site(story.site, name)).items()
    }
    start, end = story.start.timestamp(), story.end.timestamp()
    ours = engine.replay(program, files, samples, Moments.of(story, 30.0, offsets=False), "job:.*")
    theirs = evaluate(files, samples, start, end, 30, story.scrape_interval, '{__name__=~"ALERTS|job:.*"}')
    assert [each for each in ours.alerts if each.firing] == [each for each in theirs.alerts if each.firing]
    assert any(each.firing for each in ours.alerts)
    found = sorted(ours.series, key=lambda one: (one.name, one.labels))
    assert [(one.name, one.labels) for one in found] == [(one.name, one.labels) for one in theirs.series]
    # The engine is that of 2.42, and promtool whatever is installed.
    if not exact():
        return
    for one, other in zip(found, theirs.series, strict=True):
        # The order of a sum is not the same.
        np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-12, err_msg=one.name)
        np.testing.assert_allclose(one.times, other.times, err_msg=one.name)


def test_with_offsets_no_rule_depends_on_the_order_of_files(program: str) -> None:
    samples = slow_network.samples()
    for offsets in (True, False):
        one, other = (
            engine.replay(program, files, samples, moments(offsets=offsets), "job:.*")
            for files in ({"a.yaml": MEAN, "b.yaml": HIGH}, {"a.yaml": HIGH, "b.yaml": MEAN})
        )
        assert (one.alerts == other.alerts) is offsets
    assert engine.shift("node01:9100", 15.0) != engine.shift("node02:9100", 15.0)


def test_rules_that_fail_are_told_with_their_name(program: str) -> None:
    text = MEAN.replace(f"avg by (slurm_job_id) ({upstream('busbw')})", f'"{SAME}"')
    failing = HIGH.replace("labels:", "annotations: {summary: '{{ .Nothing }}'}, labels:").replace("< 80", "> 0")
    found = engine.replay(program, {"a.yaml": text, "b.yaml": failing}, slow_network.samples(), moments(offsets=False))
    failures = {one.rule: one.message for one in found.rules if one.failures}
    assert "same labelset" in failures["job:bandwidth:avg"]
    assert set(failures) == {"job:bandwidth:avg"}
    found = engine.replay(program, {"a.yaml": MEAN, "b.yaml": failing}, slow_network.samples(), moments(offsets=False))
    assert "Nothing" in {one.rule: one.message for one in found.rules if one.failures}["Slow"]


def test_a_rejected_rule_file_is_one_line_that_names_it(program: str) -> None:
    with pytest.raises(UserError, match=r"^team\.yaml: .*parse error.*mend the rule file$"):
        engine.check(program, {"team.yaml": MEAN.replace("avg by", "avg bye")})


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 1", "engine: exits with code 1 and says nothing; set DASHGEN_REPLAY to a working one"),
        ("echo never heard of it >&2; exit 2", "engine: never heard of it; set DASHGEN_REPLAY to a working one"),
        ("exit 0", "engine: its answer is not that of the rule engine; set DASHGEN_REPLAY to a working one"),
        ("cat", "engine: its answer is not that of the rule engine; set DASHGEN_REPLAY to a working one"),
        ("kill -9 $$", "dashgen-replay: killed by signal 9; give it more memory, or a smaller recording"),
    ],
)
def test_what_is_no_engine_is_one_line_that_names_it(
    script: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("DASHGEN_REPLAY", str(program))
    with pytest.raises(UserError) as error:
        engine.replay("dashgen-replay", {"a.yaml": MEAN}, slow_network.samples(), moments(offsets=True))
    assert str(error.value).removeprefix(f"{tmp_path}/") == says


@given(
    places=st.sets(st.integers(0, 40), min_size=1),
    instance=st.text("abc:0123", max_size=6),
    scrape=st.sampled_from([5.0, 15.0, 30.0]),
)
def test_offsets_keep_every_sample_and_move_it_by_less_than_a_scrape(
    places: set[int], instance: str, scrape: float
) -> None:
    times = START + scrape * np.array(sorted(places))
    one = Series("x", (("instance", instance),), times, np.arange(times.size, dtype=float))
    at = Moments(START, START + 60 * scrape, scrape, 30.0, False)
    still, moved = (engine.packed([one], each) for each in (at, Moments(START, at.end, scrape, 30.0, True)))
    assert still.partition(b"\n")[0] == moved.partition(b"\n")[0]
    count = json.loads(still.partition(b"\n")[0])["series"][0]["samples"]
    one_body, other_body = still.partition(b"\n")[2], moved.partition(b"\n")[2]
    assert one_body[8 * count :] == other_body[8 * count :]
    late = np.frombuffer(other_body, "<i8", count) - np.frombuffer(one_body, "<i8", count)
    assert np.unique(late).size == 1
    assert 0 <= late[0] < 1000 * scrape


def test_a_series_that_goes_is_marked_stale_at_the_scrape_that_misses_it() -> None:
    one = Series("x", (), START + 15.0 * np.array([0, 1, 4]), np.array([1.0, 2.0, np.nan]))
    head, _, body = engine.packed([one], moments(offsets=False)).partition(b"\n")
    count = json.loads(head)["series"][0]["samples"]
    assert (np.frombuffer(body, "<i8", count) / 1000 - START).tolist() == [0, 15, 30, 60, 75]
    stale = np.frombuffer(body, "<u8", count, 8 * count) == 0x7FF0000000000002
    assert stale.tolist() == [False, False, True, False, True]


# What is counted.


def test_spans_are_joined_measured_and_intersected() -> None:
    assert union([(5, 7), (0, 2), (1, 3), (4, 4)]) == [(0, 3), (5, 7)]
    assert length([(0, 2), (1, 3)]) == 3
    assert overlap([(0, 10), (5, 12)], [(2, 4), (11, 20)]) == 3


def fault(**changes: object) -> dict[str, object]:
    return {
        "kind": "network",
        "start": slow_network.FAULT,
        "end": "2026-03-19T14:30:00Z",
        "job": "7",
        "suspect": "network",
        "transport": ["network"],
        **changes,
    }


def case(*faults: dict[str, object], labels: config.Labels | None = None) -> Case:
    story = slow_network.story(faults=[fault(), *faults][bool(faults) :])
    return Case(story, labels or SITE.labels, {("", "7"): [(START, END)]}, False)


def fired(start: float, end: float, **labels: str) -> Firing:
    given = {"signal": "degradation", "severity": "critical", "sensitivity": "medium", "slurm_job_id": "7", **labels}
    given = {name: value for name, value in given.items() if value}
    return Firing("Slow", tuple(sorted(given.items())), (), ((FAULT + start, FAULT + end),))


def only(judged: Case, *firings: Firing, pack: str = "medium") -> Incident:
    (incident,) = verdict(judged, firings, [pack], "medium").incidents
    return incident


def test_the_lowest_tier_detects_by_pages_alone() -> None:
    ticket = fired(60, 120, severity="warning", sensitivity="low")
    page = fired(90, 120, sensitivity="low")
    assert only(case(), ticket, pack="low").after is None
    assert only(case(), ticket, page, pack="low").after == 90
    assert only(case(), fired(60, 120, severity="warning")).after == 60


def test_coverage_is_that_of_pages_where_a_page_detected_and_else_that_of_the_signal() -> None:
    page, ticket = fired(100, 200), fired(100, 300, severity="warning", transport="network")
    assert only(case(), page, ticket).coverage == pytest.approx(0.5)
    assert only(case(), ticket, fired(150, 200, signal="outlier")).coverage == pytest.approx(1.0)
    assert only(case(), fired(100, 150), fired(250, 400)).coverage == pytest.approx(0.5)
    assert only(case()).coverage is None


def test_what_is_named_first_is_judged_where_the_truth_knows_it() -> None:
    first = fired(60, 90, suspect="network", transport="mixed")
    found = only(case(), first, fired(120, 180, suspect="straggler", transport="network", node="n1", gpu="GPU3"))
    assert found.right == {"suspect": True, "transport": False}
    somewhere = fault(kind="late-gpu", suspect="straggler", transport=[], node="n1")
    late = fired(60, 90, signal="outlier", node="n1", gpu="GPU3")
    assert only(case(somewhere), late).right == {"suspect": True, "node": True, "gpu": True}
    assert only(case({**somewhere, "gpu": "GPU2"}), late).right == {"suspect": True, "node": True, "gpu": False}
    assert only(case(somewhere), fired(60, 90)).right == {"suspect": False, "node": False}
    rail = fired(60, 90, suspect="network", gpu="GPU3")
    port = fired(120, 180, signal="fabric", node="n1")
    assert only(case({**somewhere, "suspect": "network"}), rail).right == {"suspect": True, "node": False}
    nic = case({**somewhere, "gpu": "GPU3", "suspect": "network"})
    assert only(nic, rail).right == {"suspect": True, "node": False, "gpu": False}
    assert only(nic, rail, port).right == {"suspect": True, "node": True, "gpu": True}


@pytest.mark.parametrize(
    ("changes", "core"),
    [
        ({"throughput_loss": 0.08}, True),
        ({"throughput_loss": 0.07}, False),
        ({}, True),
        ({"kind": "late-gpu", "throughput_loss": 0.0}, True),
        ({"kind": "unreadable"}, True),
    ],
)
def test_core_faults_are_those_that_cost_enough_or_leave_no_doubt(changes: dict[str, object], core: bool) -> None:
    assert only(case(fault(**changes))).core is core


def test_jobs_of_one_id_are_told_apart_by_their_cluster() -> None:
    two = case(fault(cluster="east"), labels=config.Labels(cluster="cluster"))
    assert only(two, fired(60, 90, cluster="west")).after is None
    assert only(two, fired(60, 90, cluster="east")).after == 60
    assert len(verdict(two, [fired(60, 90, cluster="west")], ["medium"]).alarms) == 1


def test_alerts_without_dashgens_labels_may_mean_anything_but_need_a_job() -> None:
    bare = fired(60, 90, signal="", severity="", sensitivity="")
    assert only(case(), bare).after == 60
    assert only(case(), bare).pages == 0
    assert only(case(), fired(60, 90, signal="", slurm_job_id="")).after is None


@pytest.mark.parametrize(("kind", "alarms"), [("mtu", 0), ("none", 1), ("kill", 1)])
def test_a_fault_of_another_kind_is_no_incident_but_an_excuse(kind: str, alarms: int) -> None:
    found = verdict(case(fault(kind=kind)), [fired(60, 90)], ["medium"])
    assert not found.incidents
    assert len(found.alarms) == alarms


def test_healthy_hours_are_those_in_which_inspector_wrote_without_faults() -> None:
    story = slow_network.story()
    gone = [one for one in slow_network.samples() for one in [_without(one, START + 60, START + 240)]]
    found = presence(story, gone, SITE)
    assert found == {("", "7"): [(START, START + 60), (START + 240, END + 15)]}
    assert not presence(story, [Series("up", (("slurm_job_id", "7"),), gone[0].times, gone[0].values)], SITE)
    healthy = Case(story, SITE.labels, found, False).healthy_hours
    assert healthy == pytest.approx((60 + 60 + 15) / 3600)


def _without(one: Series, start: float, end: float) -> Series:
    there = (one.times < start) | (one.times >= end)
    return Series(one.name, one.labels, one.times[there], one.values[there])


def test_what_outlives_its_job_by_two_hours_is_a_ghost() -> None:
    here = {("", "7"): [(START, END)], ("", "8"): [(START, END + 3600)]}
    late = np.array([END + GHOST + 30.0])
    series = [Series("job:x:y", (("slurm_job_id", job),), late, np.ones(1)) for job in ("7", "8")]
    alert = Firing("A", (("slurm_job_id", "7"),), (), ((START, END + GHOST + 60),))
    found = left(Outcome([alert], [], [*series, Series("node:x:y", (), late, np.ones(1))]), here, SITE.labels)
    assert json.dumps(found) == "2"


# Packs.


def test_packs_are_told_by_their_label_and_otherwise_named_as_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.yaml").write_text(HIGH)
    (folder / "deep" / "b.yml").write_text(
        MEAN + HIGH.split("rules:")[1].replace(", labels: {sensitivity: medium}", "")
    )
    (folder / "alertmanager.yaml").write_text("route: {receiver: team}\n")
    found = theirs(folder, [])
    assert found.names == ("medium", "team")
    assert list(found.at(SITE)) == ["deep/b.yml", "a.yaml"]
    assert theirs(folder, [Sensitivity.MEDIUM]).names == ("medium",)
    with pytest.raises(UserError, match="no alert with sensitivity low"):
        theirs(folder, [Sensitivity.LOW])


def test_groups_of_one_name_are_told_apart_for_promtool() -> None:
    found = apart({"a.yaml": MEAN, "b.yaml": MEAN})
    assert found["a.yaml"] == MEAN
    assert "name: 'b.yaml: recording'" in found["b.yaml"]


def test_own_packs_are_those_of_the_site_and_of_the_tiers_asked_for() -> None:
    site = config.site({"labels": {"job": "job_name"}}, "test")
    files = own([Sensitivity.LOW]).at(site)
    assert list(files) == ["recording.yaml", "alerts-low.yaml"]
    assert "job_name" in files["alerts-low.yaml"]


# The command.

PACK = f"""
groups:
- name: alerts
  interval: 30s
  rules:
  - alert: JobSlow
    expr: job:bandwidth:avg < 80
    for: 30s
    labels: {{signal: degradation, severity: critical, suspect: network, transport: network, sensitivity: medium}}
  - alert: AlwaysThere
    expr: vector(1) and on () {upstream("busbw")}
    labels: {{signal: outlier, severity: warning, slurm_job_id: '7', sensitivity: medium}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder with a world of two recordings, and one with rules."""
    save(tmp_path / "world" / "slow", slow_network.story(faults=[fault()]), slow_network.samples())
    quiet = [Series(one.name, one.labels, one.times, np.full(one.times.size, 100.0)) for one in slow_network.samples()]
    save(tmp_path / "world" / "quiet", slow_network.story(faults=[]), quiet)
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "recording.yaml").write_text(MEAN)
    (tmp_path / "rules" / "alerts.yaml").write_text(PACK)
    return tmp_path


@pytest.mark.usefixtures("program")
def test_a_known_pack_gets_the_score_that_it_deserves(world: Path) -> None:
    done = dashgen("score", "--recordings", "world", "--rules", "rules", "--json", "score.json", cwd=world)
    assert (done.returncode, done.stderr) == (0, "")
    assert "world: 2 recordings, 1 fault, 0.3 healthy job-hours" in done.stdout
    assert "total" not in done.stdout
    data = json.loads((world / "score.json").read_text())
    assert (data["engine"], data["offsets"], data["total"]) == ("dashgen-replay", True, data["worlds"]["world"])
    found = data["total"]["packs"]["medium"]
    (incident,) = data["incidents"]
    # Seen at the second evaluation after the first scrape that shows it.
    assert 30 <= incident["after"] <= 30 + 15 + 30
    assert incident["said"] == {"suspect": "network", "transport": "network"}
    assert found["recall"] == found["recall_core"] == found["suspect_right"] == found["transport_right"] == 1
    assert found["coverage"] == 1
    assert found["pages_per_incident"] == 1
    # The other alert is there before anything is wrong, and in the healthy recording.
    assert [(one["recording"], one["alert"], one["severity"]) for one in data["alarms"]] == [
        ("quiet", "AlwaysThere", "warning"),
        ("slow", "AlwaysThere", "warning"),
    ]
    assert found["critical_false_alarms_per_100_hours"] == 0
    # A quarter of an hour, and its first five minutes; a scrape stands for the 15 seconds after it.
    hours = (915 + 300 + 15) / 3600
    assert found["false_alarms_per_100_hours"] == pytest.approx(200 / hours, rel=1e-3)


def test_two_worlds_get_a_table_each_and_a_total(world: Path) -> None:
    save(world / "other" / "slow", slow_network.story(faults=[fault()]), slow_network.samples())
    arguments = ("--recordings", "world", "--recordings", "other", "--rules", "rules")
    done = dashgen("score", *arguments, "--no-offsets", cwd=world)
    assert done.returncode == 0, done.stderr
    titles = [line.split(":")[0] for line in done.stdout.splitlines() if " recording" in line]
    assert titles == ["world", "other", "total"]


def test_without_the_engine_promtool_takes_its_place_and_a_line_says_so(world: Path, tmp_path: Path) -> None:
    promtool = tool("promtool")
    nothing = {"PATH": "/nowhere", "DASHGEN_REPLAY": "", "DASHGEN_GO": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env = environment(DASHGEN_PROMTOOL=promtool, **nothing)
    done = dashgen("score", "--recordings", "world", "--rules", "rules", "--json", "score.json", cwd=world, env=env)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "using promtool" in line
    data = json.loads((world / "score.json").read_text())
    assert (data["engine"], data["offsets"], data["total"]["ghosts"]) == ("promtool", False, None)
    assert data["incidents"][0]["after"] == 30
    (world / "rules" / "recording.yaml").write_text(MEAN.replace("avg by", "avg bye"))
    done = dashgen("score", "--recordings", "world", "--rules", "rules", cwd=world, env=env)
    assert done.returncode == 2
    assert "recording.yaml" in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PACK.replace("< 80", "<< 80"), "alerts.yaml: .*parse error"),
        (PACK.replace("alert: JobSlow", "alarm: JobSlow"), "alerts.yaml: .*alarm"),
        ("groups: [", "alerts.yaml: not readable as a rule file"),
        ("groups: 5", "alerts.yaml: groups: not a list"),
    ],
    ids=["expression", "key", "yaml", "groups"],
)
def test_bad_rules_are_one_line_and_exit_code_two(world: Path, text: str, complaint: str) -> None:
    (world / "rules" / "alerts.yaml").write_text(text)
    done = dashgen("score", "--recordings", "world", "--rules", "rules", "--json", "score.json", cwd=world)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert re.search(complaint, line), line
    assert not (world / "score.json").exists()


def test_rules_that_are_not_there_are_one_line(world: Path) -> None:
    done = dashgen("score", "--recordings", "world", "--rules", "nowhere", cwd=world)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "nowhere: no rule file" in done.stderr


@pytest.mark.usefixtures("program")
def test_a_rule_that_fails_on_a_recording_is_listed(world: Path) -> None:
    failing = PACK.replace(f"vector(1) and on () {upstream('busbw')}", f'"{SAME}"')
    (world / "rules" / "alerts.yaml").write_text(failing)
    done = dashgen("score", "--recordings", "world", "--rules", "rules", cwd=world)
    assert done.returncode == 1
    assert "world/slow: AlwaysThere: fails" in done.stdout


def test_own_packs_see_a_network_fault_on_the_engine(program: str) -> None:
    folder = RECORDINGS / "network-25-short"
    (found,) = judge_all([("world", folder, SITE)], own(list(Sensitivity)), Engine(program, True))
    assert [one.after is not None for one in found.incidents if one.pack != "low"] == [True, True]
    assert not found.errors
    assert found.ghosts == 0
    assert found.seconds > 0


def test_with_rare_dumps_promtool_and_the_engine_evaluate_as_often(program: str) -> None:
    tool("promtool")
    rare = [("world", RECORDINGS / "network-25-short", config.site({"dump_interval": "2m"}, "test"))]
    packs = own([Sensitivity.MEDIUM])
    (one,), (other,) = (judge_all(rare, packs, Engine(which, False)) for which in (program, None))
    assert [each.after for each in one.incidents] == [each.after for each in other.incidents]
    assert one.incidents[0].after is not None


# Its page.


def test_the_page_about_scores_tells_every_kind_of_fault_and_which_signals_tell_it() -> None:
    page = (Path(__file__).parents[1] / "dashgen/docs/score.md").read_text()
    told = {
        kind: frozenset(re.findall("`([^`]+)`", signals))
        for kinds, signals in re.findall(r"^\| (`[^|]+) \| [^|]+ \| ([^|]*)\|$", page, re.MULTILINE)
        for kind in re.findall("`([^`]+)`", kinds)
    }
    del told["kind"]
    assert told == {kind: SIGNALS.get(kind, frozenset()) for kind in ANY | {"none"}}
