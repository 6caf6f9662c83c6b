# SPDX-License-Identifier: Apache-2.0
"""Random trials: how they are drawn, how what fired is judged, and whether the packs are as good as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from processes import FULL, rule_engine

from dashgen.config import site as config
from dashgen.engine.prometheus import Firing
from dashgen.recordings.format import Fault, Recording
from dashgen.simulator.scenario import Scenario
from dashgen.validation.criteria import CRITERIA, by_kind, measures, worse
from dashgen.validation.judge import Alarm, Incident
from dashgen.validation.measures import view
from dashgen.validation.trials import Result, judge
from dashgen.worlds.draw import SCHEDULE, Trial, draw, family, seeds
from dashgen.worlds.families import FAMILIES

BENCHMARK = Path(__file__).parent / "benchmarks" / "detection.py"
MINUTE = 60.0

# Drawing.


def test_the_same_seed_draws_the_same_scenario() -> None:
    assert draw(17) == draw(17)
    assert draw(17) != draw(17, attempt=1)


def test_seeds_for_tuning_and_seeds_held_out_are_apart() -> None:
    tuning, held_out = set(seeds("tuning", 300)), set(seeds("held-out", 300))
    assert len(tuning) == len(held_out) == 300
    assert not tuning & held_out


def test_one_round_of_the_schedule_holds_every_family_by_its_share() -> None:
    for split in ("tuning", "held-out"):
        drawn = [family(seed) for seed in seeds(split, len(SCHEDULE))]  # type: ignore[arg-type]
        assert {name: drawn.count(name) for name in FAMILIES} == {name: share for name, (share, _) in FAMILIES.items()}


def test_a_round_of_scenarios_is_valid_and_has_small_jobs() -> None:
    for seed in seeds("tuning", len(SCHEDULE)):
        scenario = draw(seed)
        config.site(scenario.site, scenario.name)
        for job in scenario.jobs:
            assert 16 <= job.nodes * job.gpus_per_node <= 64
            assert 1 <= job.step <= 12


# Judging.


def story(*faults: dict[str, object], **job: object) -> Trial:
    """A quiet hour of one job, with faults by minutes."""
    scenario = Scenario.model_validate(
        {
            "name": "test",
            "story": "A test.",
            "start": "2026-07-01T00:00:00Z",
            "lasts": "60m",
            "jobs": [{"id": "7", "preset": "fsdp", "nodes": 4, **job}],
        }
    )
    recording = Recording(
        format=1,
        story="A test.",
        source="simulated",
        made_by="a test",
        start=scenario.start,
        end=scenario.start + timedelta(hours=1),
        scrape_interval=15,
        faults=tuple(
            Fault.model_validate(
                {
                    "kind": "network",
                    "job": "7",
                    "suspect": "network",
                    "transport": ("mixed",),
                    "throughput_loss": 0.2,
                    **fault,
                    "start": scenario.start + timedelta(minutes=float(str(fault["start"]))),
                    "end": scenario.start + timedelta(minutes=float(str(fault["end"]))),
                }
            )
            for fault in faults
        ),
    )
    return Trial(0, "test", scenario, recording, ())


def fired(
    alert: str, *minutes: float, signal: str = "degradation", severity: str = "critical", **labels: str
) -> Firing:
    """An alert of the medium pack that fires for a minute at each of these minutes."""
    start = story().recording.start.timestamp()
    given = {"signal": signal, "severity": severity, "sensitivity": "medium", "slurm_job_id": "7", **labels}
    spans = tuple((start + MINUTE * minute, start + MINUTE * (minute + 1)) for minute in minutes)
    return Firing(alert, tuple(sorted(given.items())), (), spans)


def only(result: Result) -> Incident:
    """The one incident as the medium pack saw it."""
    (incident,) = (one for one in result.incidents if one.pack == "medium")
    return incident


def slow(*minutes: float, **labels: str) -> Firing:
    return fired("NcclJobDegraded", *minutes, **{"suspect": "network", "transport": "mixed", **labels})


def test_an_alert_during_a_fault_detects_it_and_is_no_false_alarm() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(22)])
    assert only(result).after == 120
    assert only(result).attributed is True
    assert only(result).pages == 1
    assert not result.alarms


@pytest.mark.parametrize(
    ("first", "last", "again", "known"),
    [
        pytest.param(22, 40, {}, True, id="outlasts it"),
        pytest.param(22, 36, {}, False, id="ends before"),
        pytest.param(19, 40, {}, False, id="began before the first"),
        pytest.param(22, 40, {"transport": ("nvlink",)}, False, id="another fault"),
    ],
)
def test_a_fault_that_comes_back_while_its_alert_still_fires_is_no_miss(
    first: int, last: int, again: Mapping[str, object], known: bool
) -> None:
    page = slow(first)
    start = story().recording.start.timestamp()
    page = replace(page, firing=((start + MINUTE * first, start + MINUTE * last),))
    result = judge(story({"start": 20, "end": 30}, {"start": 34, "end": 38, **again}), [page])
    told, second = (one for one in result.incidents if one.pack == "medium")
    assert (told.known, second.known, second.after) == (False, known, None)
    assert view([result], "medium").recall == ((first == 22) + known) / 2


def test_packs_that_say_nothing_missed_the_fault() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(22)])
    assert [one.after for one in result.incidents if one.pack != "medium"] == [None, None]


def test_an_alert_that_began_before_the_fault_detects_nothing_and_is_a_false_alarm() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(19.5)])
    assert only(result).after is None
    assert [(one.pack, one.severity, one.at) for one in result.alarms] == [("medium", "critical", 19.5 * MINUTE)]


def test_an_alert_shortly_after_the_fault_is_too_late_but_no_false_alarm() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(31.5)])
    assert only(result).after is None
    assert not result.alarms


def test_a_long_past_fault_excuses_nothing() -> None:
    assert judge(story({"start": 20, "end": 30}), [slow(33)]).alarms


def test_the_fault_of_one_job_excuses_no_alert_about_another() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(22, slurm_job_id="8")])
    assert only(result).after is None
    assert result.alarms


def test_a_wrong_suspect_or_a_healthy_transport_is_a_wrong_attribution() -> None:
    trial = story({"start": 20, "end": 30})
    assert only(judge(trial, [slow(22, suspect="straggler")])).attributed is False
    assert only(judge(trial, [slow(22, transport="nvlink")])).attributed is False


def test_the_first_verdict_counts_however_often_it_changes() -> None:
    result = judge(story({"start": 20, "end": 30}), [slow(22, suspect="unknown"), slow(24)])
    assert only(result).attributed is False
    assert only(result).pages == 2


def test_an_outlier_alert_does_not_detect_a_slow_network_and_blames_an_innocent() -> None:
    late = fired("NcclGpuLate", 22, signal="outlier", severity="warning", node="node01", gpu="GPU1")
    incident = only(judge(story({"start": 20, "end": 30}), [late]))
    assert incident.after is None
    assert incident.blamed == 1


LATE = {"kind": "late-gpu", "suspect": "straggler", "transport": (), "node": "node02", "gpu": "GPU3"}


@pytest.mark.parametrize(
    ("places", "located"),
    [
        ([("node02", "GPU3")], True),
        ([("node02", "GPU1")], False),
        ([("node02", "GPU3"), ("node01", "GPU3")], False),
        ([], None),
    ],
)
def test_a_late_gpu_is_located_where_it_and_no_other_is_named(
    places: list[tuple[str, str]], located: bool | None
) -> None:
    alerts = [
        fired("NcclGpuLate", 22, signal="outlier", severity="warning", node=node, gpu=gpu) for node, gpu in places
    ]
    assert only(judge(story({"start": 20, "end": 30, **LATE}), alerts)).located is located


def test_an_outlier_alert_says_straggler_without_a_label() -> None:
    late = fired("NcclGpuLate", 22, signal="outlier", severity="warning", node="node02", gpu="GPU3")
    assert only(judge(story({"start": 20, "end": 30, **LATE}), [late])).attributed is True


def test_a_page_about_a_job_whose_exporter_is_gone_is_a_false_alarm() -> None:
    gone = {"start": 20, "end": 30, "kind": "exporter-gone", "suspect": None, "transport": (), "node": "node01"}
    stalled = fired("NcclJobStalled", 24, signal="stall")
    lost = fired("NcclNodeTelemetryLost", 24, signal="telemetry", severity="warning", node="node01")
    result = judge(story(gone), [stalled, lost])
    assert [one.alert for one in result.alarms] == ["NcclJobStalled"]


def test_info_is_neither_detection_nor_alarm() -> None:
    result = judge(story({"start": 20, "end": 30}), [fired("NcclJobQuiet", 22, 40, signal="stall", severity="info")])
    assert only(result).after is None
    assert not result.alarms


def test_a_benign_event_is_no_incident() -> None:
    result = judge(story({"start": 20, "end": 30, "kind": "none"}), [slow(22)])
    assert not result.incidents
    assert result.alarms


def test_healthy_hours_leave_out_faults_with_five_minutes_of_recovery() -> None:
    assert judge(story({"start": 20, "end": 30}), []).healthy_hours == pytest.approx(0.75)
    assert judge(story(to="30m", ends="killed"), []).healthy_hours == pytest.approx(0.5)


def test_a_fault_from_the_start_is_told_from_one_that_began_later() -> None:
    assert only(judge(story({"start": 20, "end": 30}), [])).fell
    assert not only(judge(story({"start": 2, "end": 60, **LATE}, start="2m"), [])).fell


# Scoring.


def incident(**changes: object) -> Incident:
    data: dict[str, object] = {
        "pack": "medium",
        "family": "network",
        "lasts": 600.0,
        "loss": 0.2,
        "percent": None,
        "fell": True,
        "evidence": True,
        "place": False,
        "after": 90.0,
        "attributed": True,
        "located": None,
        "blamed": 0,
        "pages": 1,
        "episodes": 1,
    }
    return Incident(**{**data, **changes})  # type: ignore[arg-type]


def outcome(*incidents: Incident, alarms: int = 0, hours: float = 10.0) -> Result:
    alarm = Alarm(pack="medium", severity="critical", alert="NcclJobDegraded", labels={}, at=0.0)
    return Result(
        seed=1, family="network", healthy_hours=hours, seconds=1.0, incidents=incidents, alarms=(alarm,) * alarms
    )


def test_recall_and_time_to_detect_are_counted_over_all_trials() -> None:
    one = view([outcome(incident(after=60.0)), outcome(incident(after=None), incident(after=120.0))], "medium")
    assert one.recall == pytest.approx(2 / 3)
    assert one.after(0.5) == 60
    assert one.after(0.9) == 120


def test_false_alarms_are_counted_per_hundred_healthy_hours() -> None:
    assert view([outcome(alarms=1), outcome()], "medium").alarm_rate("critical") == pytest.approx(5)


def test_a_place_that_nobody_names_is_not_located() -> None:
    one = view([outcome(incident(place=True, located=None), incident(place=True, located=True))], "medium")
    assert one.localisation == 0.5


def test_nothing_measured_is_no_number() -> None:
    assert set(measures([outcome()], ["medium"])["standstill: recall"].values()) == {None}


def test_incidents_are_told_apart_by_family_and_by_what_they_cost() -> None:
    one = view([outcome(incident(), incident(loss=0.1), incident(loss=0.01), incident(family="hang"))], "medium")
    assert list(by_kind(one)) == ["hang, with GPU activity", "network 6-13 %", "network < 6 %", "network >= 13 %"]


def test_a_run_below_the_floor_says_what_became_worse() -> None:
    good = measures([outcome(incident())], ["medium"])
    bad = measures([outcome(incident(), incident(after=None), alarms=1)], ["medium"])
    assert not list(worse(good, good))
    found = " | ".join(worse(bad, good))
    assert "recall" in found
    assert "critical false alarms" in found
    assert not list(worse(good, bad))


def test_criteria_have_names_of_their_own() -> None:
    assert len({each.name for each in CRITERIA}) == len(CRITERIA)


# The packs.


@pytest.mark.heavy
def test_the_packs_are_as_good_as_in_the_last_good_run() -> None:
    """A part of the tuning seeds by default, so that held-out seeds stay held out; all held-out trials in full."""
    rule_engine()
    chosen = ["--held-out"] if FULL else ["--tuning", "--reduced"]
    jobs = str(os.cpu_count() or 1)
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), *chosen, "--jobs", jobs], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_the_sweep_moves_numbers_that_the_rules_have() -> None:
    sweep = BENCHMARK.with_name("sweep.py")
    done = subprocess.run([sys.executable, str(sweep), "--list"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for number in (
        "[2h]",
        "[1d]",
        "<pause>",
        "<20 dumps>",
        "alerts: depth_without_throughput",
        "alerts: paged_loss",
        "NcclJobDegraded: keep_firing",
    ):
        assert number in done.stdout, number
    assert len(done.stdout.splitlines()) > 50


def test_the_floor_holds_a_reduced_and_a_whole_run() -> None:
    floors = json.loads(BENCHMARK.with_suffix(".json").read_text(encoding="utf-8"))
    assert {name.split()[0] for name in floors} == {"tuning", "held-out"}
    for each in floors.values():
        assert set(each["measures"]) == {one.name for one in CRITERIA}
