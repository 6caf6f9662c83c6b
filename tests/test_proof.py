# SPDX-License-Identifier: Apache-2.0
"""Packs and dashboards judged on small recordings, by the real promtool and the real Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import tool
from slow_network import BANDWIDTH, START, samples, story

from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup, Sensitivity
from dashgen.recordings.format import Recording, Series, write_samples, write_story
from dashgen.recordings.sites import made_at
from dashgen.validation.validate import Proof, Scoreboard, check_packs, prove, prove_all, unproven

LOW, MEDIUM, HIGH = Sensitivity
JOB = "slurm_job_id"


@pytest.fixture(autouse=True)
def _installed() -> None:
    tool("promtool")
    tool("prometheus")


def expecting(**changes: object) -> Recording:
    """The story with what has to fire in it."""
    expect = {"medium": [slow("14:25:30", "14:27:00")], "high": [slow("14:25:00", "14:26:00")]}
    return story(**{"expect": expect} | changes)


def slow(after: str | None, before: str | None, **labels: str) -> dict[str, object]:
    entry: dict[str, object] = {"alert": "NcclBandwidthLow", "labels": {"slurm_job_id": "7", **labels}}
    moments = {"after": after, "before": before}
    return entry | {key: f"2026-03-19T{moment}Z" for key, moment in moments.items() if moment}


def alert(tier: Sensitivity, threshold: float, hold: str) -> tuple[RuleGroup, ...]:
    rule = AlertRule(
        alert="NcclBandwidthLow",
        expr=f"job:nccl_busbw:max < {threshold}",
        for_=hold,
        keep_firing_for="",
        labels={"severity": "warning", "signal": "degradation", "sensitivity": tier.value},
        annotations={"summary": "slow"},
    )
    return (RuleGroup(name="nccl-alerts", interval="30s", rules=(rule,)),)


RECORDED = RecordingRule(record="job:nccl_busbw:max", expr=f"max by (slurm_job_id) ({BANDWIDTH})")


def panel(title: str, expr: str, legend: str = "", kind: str = "timeseries") -> dict[str, object]:
    target = {"refId": "A", "expr": expr, "legendFormat": legend, "instant": kind == "table"}
    return {"type": kind, "title": title, "targets": [target]}


def board(*panels: Mapping[str, object], series: str = "job:nccl_busbw:max") -> dict[str, object]:
    job = {
        "name": "job",
        "type": "query",
        "query": {"query": f"label_values({series}, slurm_job_id)", "refId": "V"},
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }
    return {"title": "Jobs", "panels": list(panels), "templating": {"list": [job]}}


SPEED = panel("Speed", 'job:nccl_busbw:max{slurm_job_id=~"$job"}', "{{slurm_job_id}}")
EMPTY = panel("Clock", upstream("sm_clock"))


def bundle(**changes: object) -> Bundle:
    data: dict[str, object] = {
        "dashboards": {},
        "recording": (RuleGroup(name="nccl-job", interval="30s", rules=(RECORDED,)),),
        "alerts": {LOW: alert(LOW, 40, "90s"), MEDIUM: alert(MEDIUM, 60, "1m"), HIGH: alert(HIGH, 80, "30s")},
        "runbooks": {},
        "alertmanager": {},
    }
    return Bundle(**(data | changes))  # type: ignore[arg-type]


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Writes a recording; the keywords change its story."""

    def write(name: str = "slow-network", series: list[Series] | None = None, **changes: object) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        write_story(folder, expecting(**changes))
        write_samples(folder, samples() if series is None else series)
        return folder

    return write


def complaints(proof: Proof) -> list[str]:
    return [deviation.what for deviation in proof.deviations]


# Alerts.


def test_a_recording_that_goes_as_told_is_proven_in_every_tier(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record())
    assert complaints(proof) == []
    assert (proof.name, proof.source, proof.tiers) == ("slow-network", "simulated", (LOW, MEDIUM, HIGH))
    assert {tier: proof.verdict(tier) for tier in proof.tiers} == dict.fromkeys(Sensitivity, "ok")
    assert proof.evaluation_seconds > 0


def test_the_time_to_detect_counts_from_the_start_of_the_fault(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record())
    assert [proof.time_to_detect(tier) for tier in proof.tiers] == [None, 60, 30]
    assert {(found.fault, found.alert) for found in proof.detections} == {("network", "NcclBandwidthLow")}


def test_only_the_tiers_that_are_asked_for_are_judged(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record(expect={}), [LOW])
    assert (proof.tiers, complaints(proof)) == ((LOW,), [])


def test_an_alert_that_does_not_fire_is_missed(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record(expect={"low": [slow(None, "14:29:00")]}), [LOW])
    assert complaints(proof) == ['low: NcclBandwidthLow{slurm_job_id="7"} did not fire before 14:29:00']
    assert proof.verdict(LOW) == "missed"


def test_an_alert_that_fires_too_late_is_missed_and_the_finding_says_when_it_fired(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record(expect={"medium": [slow(None, "14:25:45")]}), [MEDIUM])
    assert complaints(proof) == [
        'medium: NcclBandwidthLow{slurm_job_id="7"} did not fire before 14:25:45, but at 14:26:00'
    ]


@pytest.mark.parametrize(
    ("labels", "kinds"), [({"slurm_job_id": ""}, ["missed", "noise"]), ({"slurm_job_id": "7", "gpu": ""}, [])]
)
def test_an_alert_with_a_label_that_it_has_to_lack_is_noise(
    record: Callable[..., Path], labels: dict[str, str], kinds: list[str]
) -> None:
    proof = prove(bundle(), record(expect={"medium": [{"alert": "NcclBandwidthLow", "labels": labels}]}), [MEDIUM])
    assert [each.kind for each in proof.deviations] == kinds


def test_an_alert_on_another_job_does_not_count(record: Callable[..., Path]) -> None:
    proof = prove(
        bundle(), record(expect={"medium": [{"alert": "NcclBandwidthLow", "labels": {"slurm_job_id": "8"}}]}), [MEDIUM]
    )
    assert complaints(proof) == [
        'medium: NcclBandwidthLow{slurm_job_id="8"} did not fire',
        'medium: NcclBandwidthLow{slurm_job_id="7"} fired at 14:26:00, which the recording does not list',
    ]


def test_an_alert_that_no_entry_lists_is_noise(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record(expect={"high": [slow(None, None)]}))
    assert complaints(proof) == [
        'medium: NcclBandwidthLow{slurm_job_id="7"} fired at 14:26:00, which the recording does not list'
    ]
    (deviation,) = proof.deviations
    assert (deviation.kind, deviation.tier, deviation.alert) == ("noise", MEDIUM, "NcclBandwidthLow")
    assert deviation.when == START + 360
    assert [proof.verdict(tier) for tier in proof.tiers] == ["ok", "noise", "ok"]


def test_an_alert_that_fires_before_it_may_is_early(record: Callable[..., Path]) -> None:
    proof = prove(bundle(), record(expect={"high": [slow("14:26:00", None) | {"optional": True}]}), [HIGH])
    assert complaints(proof) == ['high: NcclBandwidthLow{slurm_job_id="7"} fired at 14:25:30, before 14:26:00']
    assert proof.verdict(HIGH) == "noise"


def test_an_optional_alert_may_fire_or_stay_silent(record: Callable[..., Path]) -> None:
    optional = [slow(None, None) | {"optional": True}]
    proof = prove(bundle(), record(expect={"low": optional, "medium": optional, "high": optional}))
    assert complaints(proof) == []
    assert proof.detections == ()


def test_a_pending_alert_is_no_noise(record: Callable[..., Path]) -> None:
    packs = {HIGH: alert(HIGH, 80, "10m")}
    assert complaints(prove(bundle(alerts=packs), record(expect={}), [HIGH])) == []


def test_a_rule_that_prometheus_cannot_compute_fails_the_recording(record: Callable[..., Path]) -> None:
    broken = replace(RECORDED, expr=f"{BANDWIDTH} / on (slurm_job_id) {BANDWIDTH}")
    proof = prove(bundle(recording=(RuleGroup(name="nccl-job", interval="30s", rules=(broken,)),)), record())
    (what,) = complaints(proof)
    assert what.startswith("job:nccl_busbw:max: fails 0s after the start: ")
    assert proof.verdict(LOW) == "failed"


def test_a_damaged_recording_is_a_user_error(record: Callable[..., Path]) -> None:
    folder = record()
    (folder / "series.om.gz").write_bytes(b"not gzip")
    with pytest.raises(UserError, match=r"series\.om\.gz: .*make the recording again"):
        prove(bundle(), folder)


# Panels.


def test_a_board_that_the_recording_lists_shows_data_in_every_panel(record: Callable[..., Path]) -> None:
    table = panel("GPUs", f'{BANDWIDTH}{{slurm_job_id=~"${{job:regex}}"}}', "{{node}} {{gpu}}", kind="table")
    firing = panel("Alerts", 'ALERTS{alertstate="firing",alertname=~"Nccl.*"}', "{{alertname}}")
    averaged = panel(
        "Mean", f"avg(avg_over_time({BANDWIDTH}[$__rate_interval])) + 0 * avg(avg_over_time({BANDWIDTH}[$__range]))"
    )
    row = {"type": "row", "title": "More", "collapsed": True, "panels": [table, firing, averaged]}
    words = {"type": "text", "title": "Read me"}
    proof = prove(bundle(dashboards={"jobs": board(SPEED, words, row)}), record(boards=["jobs"]))
    assert complaints(proof) == []
    assert [(one.board, one.title, one.proven) for one in proof.panels] == [
        ("jobs", title, True) for title in ("Speed", "GPUs", "Alerts", "Mean")
    ]


def test_an_empty_panel_on_a_listed_board_is_a_finding(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(SPEED, EMPTY)}
    assert complaints(prove(bundle(dashboards=boards), record(boards=["jobs"]))) == ["jobs: Clock: returns no data"]


def test_an_empty_panel_is_no_finding_where_the_recording_does_not_list_the_board(record: Callable[..., Path]) -> None:
    proof = prove(bundle(dashboards={"jobs": board(SPEED, EMPTY)}), record())
    assert complaints(proof) == []
    assert [one.proven for one in proof.panels] == [True, False]


def test_a_panel_that_needs_a_source_the_recording_lacks_may_be_empty(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(EMPTY)}
    needs = {("jobs", "Clock"): [upstream("sm_clock"), upstream("gpu_util")]}
    proof = prove(bundle(dashboards=boards), record(boards=["jobs"]), panel_needs=needs)
    assert complaints(proof) == [] and proof.panels[0].excused
    other = replace(samples()[0], name=upstream("gpu_util"))
    folder = record("with-dcgm", [*samples(), other], boards=["jobs"])
    proof = prove(bundle(dashboards=boards), folder, panel_needs=needs)
    assert complaints(proof) == ["jobs: Clock: returns no data"]


def test_a_panel_that_is_never_a_number_is_empty(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(panel("Ratio", f"0 * {BANDWIDTH} / 0"))}
    assert complaints(prove(bundle(dashboards=boards), record(boards=["jobs"]))) == ["jobs: Ratio: returns no data"]


def test_a_panel_that_answers_only_during_the_fault_is_proven(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(panel("Slow now", "job:nccl_busbw:max < 60", kind="stat"))}
    assert complaints(prove(bundle(dashboards=boards), record(boards=["jobs"]))) == []


def test_a_query_that_prometheus_refuses_is_a_finding_on_any_board(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(panel("Broken", f"sum by (job ({BANDWIDTH})"))}
    (what,) = complaints(prove(bundle(dashboards=boards), record()))
    assert what.startswith("jobs: Broken: query A: sum by (job (")


def test_a_legend_with_a_label_that_a_series_lacks_is_a_finding(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(panel("Speed", "job:nccl_busbw:max", "{{slurm_job_id}} on {{node}}"))}
    assert complaints(prove(bundle(dashboards=boards), record(boards=["jobs"]))) == [
        "jobs: Speed: the legend shows node, which a series lacks"
    ]


def test_a_variable_without_values_is_a_finding_on_a_listed_board(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(SPEED, series="job:nothing:max")}
    assert complaints(prove(bundle(dashboards=boards), record(boards=["jobs"]))) == [
        "jobs: variable job: has no values"
    ]


def test_a_series_that_ended_is_not_drawn_on(record: Callable[..., Path]) -> None:
    times = START + 15.0 * np.arange(21)
    ended = Series(BANDWIDTH, (("gpu", "0"), ("node", "n1"), ("slurm_job_id", "7")), times, np.full(21, 100.0))
    late = panel("Late", "job:nccl_busbw:max and on () (vector(time()) > 1773930360)")
    proof = prove(bundle(dashboards={"jobs": board(late)}), record(series=[ended], expect={}))
    assert not proof.panels[0].proven


# The site of a recording.

GIVEN = {
    "labels": {"job": "job_name", "cluster": "zone"},
    "source": "nccl-otlp",
    "selector": 'zone="a"',
    "dump_interval": "60s",
    "acceptance": {"AllReduce": {"mixed": {"large": 900}}},
    "alerts": {"NcclJobDegraded": {"low": {"threshold": 0.15}}},
}


def test_what_was_simulated_has_the_default_names_whatever_the_configuration_calls_them(
    record: Callable[..., Path],
) -> None:
    site, given = made_at(record(expect={}), config.site(GIVEN, "test")), config.site({}, "test")
    own = ("source", "labels", "metrics", "selector", "dump_interval", "acceptance")
    assert [getattr(site, key) for key in own] == [getattr(given, key) for key in own]
    assert site.alerts == config.site(GIVEN, "test").alerts
    assert not site.companions.textfile.enabled


def test_a_recording_has_the_names_that_it_says_and_no_others(record: Callable[..., Path]) -> None:
    folder = record(source="recorded", expect={}, site={"labels": {"node": "host"}})
    site = made_at(folder, config.site(GIVEN, "test"))
    assert site.labels == config.Labels(node="host")
    assert (site.selector, site.dump_interval, site.acceptance) == ("", 60, config.site(GIVEN, "test").acceptance)


def test_a_recording_in_which_no_rule_finds_a_job_proves_nothing_and_says_so_in_one_line(
    record: Callable[..., Path],
) -> None:
    proof = prove(bundle(), record(), job="job_name")
    told = "no rule finds a job by the label job_name; say under `site` in its recording.yaml how its series are named"
    assert (complaints(proof), proof.verdict(LOW)) == ([told], "failed")


# Many recordings.


def test_recordings_are_proven_beside_each_other_in_the_order_of_the_jobs(record: Callable[..., Path]) -> None:
    silent = record("silent", expect={"low": [slow(None, None)]})
    heard: list[str] = []
    proofs = prove_all(
        [(bundle(), silent, JOB), (bundle(), record(), JOB)], [LOW], progress=lambda proof: heard.append(proof.name)
    )
    assert [proof.name for proof in proofs] == ["silent", "slow-network"]
    assert [proof.verdict(LOW) for proof in proofs] == ["missed", "ok"]
    assert sorted(heard) == ["silent", "slow-network"]


def test_a_recording_that_cannot_be_proven_does_not_cost_the_others(
    record: Callable[..., Path], tmp_path: Path
) -> None:
    lost, fine = prove_all([(bundle(), tmp_path / "nowhere", JOB), (bundle(), record(), JOB)], [LOW])
    assert (lost.name, lost.verdict(LOW), fine.verdict(LOW)) == ("nowhere", "failed", "ok")
    assert re.search(r"nowhere/recording\.yaml: No such file", lost.deviations[0].what)
    assert not Scoreboard(packs=(), proofs=(lost, fine)).ok
    with pytest.raises(UserError, match="No such file"):
        prove_all([(bundle(), tmp_path / "nowhere", JOB)])


def test_a_missing_tool_is_told_before_any_work(record: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHGEN_PROMETHEUS", "/no/such/prometheus")
    with pytest.raises(UserError, match=r"^/no/such/prometheus: not found"):
        prove_all([(bundle(), record(), JOB)])


def test_what_no_recording_shows_is_unproven(record: Callable[..., Path]) -> None:
    boards = {"jobs": board(SPEED, EMPTY)}
    clock = replace(samples()[0], name=upstream("sm_clock"))
    proofs = [prove(bundle(dashboards=boards), record())]
    assert [each.what for each in unproven(proofs)] == ["jobs: Clock: query A returns no data on any recording"]
    proofs.append(prove(bundle(dashboards=boards), record("with-dcgm", [*samples(), clock])))
    assert unproven(proofs) == []


def test_the_scoreboard_is_json(record: Callable[..., Path]) -> None:
    proof = prove(bundle(dashboards={"jobs": board(SPEED, EMPTY)}), record())
    scoreboard = Scoreboard(
        packs=(), proofs=(replace(proof, evaluation_seconds=1.234),), unproven=tuple(unproven([proof]))
    )
    assert not scoreboard.ok
    assert json.loads(scoreboard.to_json()) == {
        "ok": False,
        "packs": [],
        "recordings": [
            {
                "name": "slow-network",
                "source": "simulated",
                "tiers": {
                    "low": {"verdict": "ok", "time_to_detect_seconds": None},
                    "medium": {"verdict": "ok", "time_to_detect_seconds": 60},
                    "high": {"verdict": "ok", "time_to_detect_seconds": 30},
                },
                "panels": {"proven": 1, "total": 2},
                "evaluation_seconds": 1.23,
                "deviations": [],
            }
        ],
        "unproven": ["jobs: Clock: query A returns no data on any recording"],
    }
    assert Scoreboard(packs=(), proofs=(proof,)).ok


# The packs as such.


def test_sound_packs_have_no_findings() -> None:
    assert check_packs(bundle(dashboards={"jobs": board(SPEED)}), {BANDWIDTH}) == []


def test_a_series_that_nobody_exposes_is_a_finding_wherever_it_is_read() -> None:
    packs = bundle(
        dashboards={"jobs": board(EMPTY, series="job:nothing:max")},
        alerts={LOW: (RuleGroup(name="g", interval="30s", rules=(replace(_rule(), expr="job:nccl_busbw:min < 4"),)),)},
    )
    assert [(each.rule, each.where, each.message.split(",")[0]) for each in check_packs(packs, set())] == [
        ("unknown-series", "recording.yaml: job:nccl_busbw:max", f"reads {BANDWIDTH}"),
        ("unknown-series", "alerts-low.yaml: NcclBandwidthLow", "reads job:nccl_busbw:min"),
        ("unknown-series", "jobs: Clock", f"reads {upstream('sm_clock')}"),
        ("unknown-series", "jobs: variable job", "reads job:nothing:max"),
    ]


def test_a_rule_that_promtool_refuses_is_a_finding() -> None:
    # In process it is known; an old promtool does not know it, and a newer one wants it enabled.
    new = replace(RECORDED, expr=f"mad_over_time({BANDWIDTH}[5m])")
    (finding,) = check_packs(bundle(recording=(RuleGroup(name="g", interval="30s", rules=(new,)),)), {BANDWIDTH})
    assert (finding.rule, finding.where) == ("promtool", "recording.yaml")
    words = r'unknown function with name "mad_over_time"|function "mad_over_time" is not enabled'
    assert re.search(words, finding.message), finding.message


def test_a_panel_that_is_not_promql_is_a_finding() -> None:
    (finding,) = check_packs(bundle(dashboards={"jobs": board(panel("Broken", "sum by (job (x)"))}), {BANDWIDTH})
    assert (finding.rule, finding.where) == ("promql", "jobs: Broken")


def _rule() -> AlertRule:
    (group,) = alert(LOW, 40, "90s")
    (rule,) = group.rules
    assert isinstance(rule, AlertRule)
    return rule
