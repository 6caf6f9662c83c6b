# SPDX-License-Identifier: Apache-2.0
"""The simulator keeps the physics of collectives and the contract of NCCL Inspector's files."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dashgen.catalogue.metrics import upstream
from dashgen.errors import UserError
from dashgen.recordings.format import SAMPLES, STORY, Recording, Series, read_samples, read_story
from dashgen.recordings.inspector import message_size_range
from dashgen.simulator.dumps import run_job
from dashgen.simulator.plans import PRESETS, bus_bytes
from dashgen.simulator.scenario import Scenario, load_scenario, scenario_names, scenario_path
from dashgen.simulator.simulate import make_recording, simulate

RECORDINGS = Path(__file__).parent / "recordings"
BANDWIDTH, TIME = upstream("busbw"), upstream("exec")
TFLOPS = "megatron_training_throughput_tflops"
PARALLEL = {"fsdp": {}, "cp-fsdp": {"cp": 4}, "tp-fsdp": {"tp": 2}, "tp-dp": {"tp": 4}, "tp-pp-dp": {"tp": 2, "pp": 2}}


def scenario(preset: str = "tp-dp", lasts: str = "12m", job: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    """A small scenario of one job on four nodes with four GPUs each."""
    shape = {"id": "7", "preset": preset, "nodes": 4, "gpus_per_node": 4, **PARALLEL[preset], **(job or {})}
    base = {"name": "test", "story": "A test.", "start": "2026-01-01T00:00:00Z", "lasts": lasts, "torn": 0, "empty": 0}
    return Scenario.model_validate({**base, "jobs": [shape], **keys})


def labelled(series: list[Series], name: str, **labels: str) -> list[tuple[dict[str, str], Series]]:
    """The series of a name whose labels have these values, with their labels."""
    found = [(dict(one.labels), one) for one in series if one.name == name]
    return [(have, one) for have, one in found if labels.items() <= have.items()]


def mean(one: Series, recording: Recording, start: float, end: float) -> float:
    """The mean of a series between two moments, in seconds since the recording's start."""
    offsets = one.times - recording.start.timestamp()
    return float(one.values[(offsets >= start) & (offsets < end)].mean())


@pytest.mark.parametrize("preset", ["tp-dp", "tp-fsdp", "cp-fsdp"])
@settings(max_examples=5, deadline=None)
@given(percent=st.integers(15, 60), gpu=st.integers(0, 3), seed=st.integers(0, 1000))
def test_a_late_gpu_has_the_shortest_time_of_its_group_in_every_dump(
    preset: str, percent: int, gpu: int, seed: int
) -> None:
    late = {"kind": "late-gpu", "node": "node02", "gpu": gpu, "percent": percent, "start": "4m"}
    run = run_job(scenario(preset, job={"biased": 0}, events=[late]), 0, seed)
    size = run.job.tp * run.job.cp
    culprit = 4 + gpu
    mates = [one for one in range(16) if one // size == culprit // size]
    inner = [bucket for bucket in run.buckets if dict(bucket.labels)["n_nodes"] == "1"]
    assert inner
    for bucket in inner:
        during = bucket.exec_us[(run.dumps[:, culprit] > 300) & run.written[:, mates].all(axis=1)]
        assert len(during) > 10
        assert (during[:, mates].argmin(axis=1) == mates.index(culprit)).all()


def test_all_gpus_of_the_late_gpus_node_arrive_late_at_the_other_nodes() -> None:
    late = {"kind": "late-gpu", "node": "node02", "gpu": 1, "percent": 40, "start": "4m"}
    recording, series = simulate(scenario(events=[late]))
    times: dict[str, list[float]] = defaultdict(list)
    for labels, one in labelled(series, TIME, nranks="4", n_nodes="4", message_size="256-257MB"):
        times[labels["node"]].append(mean(one, recording, 360, 700))
    assert max(times.pop("node02")) < 0.8 * min(min(each) for each in times.values())


@pytest.mark.parametrize("preset", PARALLEL)
@pytest.mark.parametrize("loss", [0.03, 0.13, 0.25])
def test_a_network_constraint_costs_the_throughput_that_its_label_says(preset: str, loss: float) -> None:
    constraint = {"kind": "network", "loss": loss, "start": "10m"}
    recording, series = simulate(scenario(preset, lasts="20m", events=[constraint]))
    ((_, gauge),) = labelled(series, TFLOPS)
    seen = 1 - mean(gauge, recording, 660, 1200) / mean(gauge, recording, 60, 600)
    assert seen == pytest.approx(loss, abs=0.01)
    assert recording.faults[0].throughput_loss == pytest.approx(loss, abs=0.01)


def test_a_network_constraint_leaves_the_bandwidth_within_nodes_alone() -> None:
    constraint = {"kind": "network", "loss": 0.13, "start": "6m"}
    recording, series = simulate(scenario("tp-fsdp", events=[constraint]))
    left = {
        (labels["n_nodes"], labels["message_size"]): mean(one, recording, 450, 720) / mean(one, recording, 0, 360)
        for labels, one in labelled(series, BANDWIDTH, gpu="GPU2", node="node03")
    }
    assert left["4", "96-97MB"] < 0.8
    assert left["1", "64-65MB"] == pytest.approx(1, abs=0.05)


def test_chosen_collectives_alone_are_slow() -> None:
    constraint = {"kind": "network", "loss": 0.13, "start": "6m", "collectives": ["AllGather"]}
    recording, series = simulate(scenario("fsdp", events=[constraint]))
    for labels, one in labelled(series, BANDWIDTH, message_size="134-135MB"):
        left = mean(one, recording, 450, 720) / mean(one, recording, 0, 360)
        assert left < 0.7 if labels["collective"] == "AllGather" else left == pytest.approx(1, abs=0.05)


def test_a_slow_nic_slows_its_own_rail_alone() -> None:
    slow = {"kind": "nic", "node": "node02", "gpu": 1, "bandwidth": 0.4, "start": "6m", "discards": 100}
    recording, series = simulate(scenario(events=[slow]))
    for labels, one in labelled(series, TIME, n_nodes="4", message_size="256-257MB"):
        longer = mean(one, recording, 450, 720) / mean(one, recording, 0, 360)
        assert longer == pytest.approx(2.5 if labels["gpu"] == "GPU1" else 1, rel=0.1)
    discards = labelled(series, upstream("ib_discards"), device="mlx5_1")
    assert [one.values[-1] > 10_000 for labels, one in discards if labels["instance"] == "node02:9100"] == [True]
    assert sum(one.values.max() for labels, one in discards if labels["instance"] != "node02:9100") == 0


@settings(max_examples=10, deadline=None)
@given(preset=st.sampled_from(sorted(PARALLEL)), seed=st.integers(0, 1000), noise=st.sampled_from([0.0, 0.3]))
def test_bandwidth_times_time_is_never_less_than_the_bytes_moved(preset: str, seed: int, noise: float) -> None:
    constraint = {"kind": "network", "loss": 0.1, "noise": noise, "start": "3m"}
    _, series = simulate(scenario(preset, lasts="6m", events=[constraint]), seed)
    sizes = {(one.operation, message_size_range(one.size)): one.size for one in PRESETS[preset]}
    times = {one.labels: one for one in series if one.name == TIME}
    for labels, one in labelled(series, BANDWIDTH):
        size = sizes[labels["collective"], labels["message_size"]]
        moved = bus_bytes(labels["collective"], size, int(labels["nranks"]))
        assert (one.values * times[one.labels].values * 1e3 >= moved * (1 - 2e-5)).all()


def test_counters_count_every_collective_once() -> None:
    run = run_job(scenario("tp-fsdp", companions={"counters": True}), 0, 3)
    each_step = sum(one.count for one in run.pulse.plans[0].operations)
    steps = np.searchsorted(run.pulse.ends, np.where(run.written, run.dumps, 0).max(axis=0), side="right")
    assert (run.total[-1] == steps * each_step).all()
    kept = sum(bucket.count for bucket in run.buckets).sum(axis=0)
    assert (run.total[-1] - run.dropped[-1] == kept).all()
    assert (np.diff(run.total, axis=0) >= 0).all() and (np.diff(run.dropped, axis=0) >= 0).all()


def test_same_seed_same_bytes_and_another_seed_other_bytes(tmp_path: Path) -> None:
    source = tmp_path / "small.yaml"
    data = yaml.safe_load(scenario_path("bursts").read_text(encoding="utf-8"))
    source.write_text(yaml.safe_dump({**data, "lasts": "4m", "events": []}), encoding="utf-8")
    for folder, seed in (("one", None), ("two", None), ("three", 5)):
        make_recording(source, tmp_path / folder, seed)
    make_recording(source, tmp_path / "two")
    samples = [(tmp_path / folder / SAMPLES).read_bytes() for folder in ("one", "two", "three")]
    assert samples[0] == samples[1] != samples[2]
    assert (tmp_path / "one" / STORY).read_bytes() == (tmp_path / "two" / STORY).read_bytes()
    assert read_story(tmp_path / "three").made_by == "dashgen simulate small --seed 5"
    assert len(read_samples(tmp_path / "one")) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "small.yaml", "three", "two"]


def test_a_hang_freezes_values_and_mtimes_while_gpus_look_busy() -> None:
    recording, series = simulate(scenario(events=[{"kind": "hang", "start": "6m"}]))
    after = recording.start.timestamp() + 360 + 32
    for name in (BANDWIDTH, TIME, upstream("mtime"), TFLOPS):
        for _, one in labelled(series, name):
            assert len(set(one.values[one.times > after].tolist())) == 1
            assert one.times[-1] == recording.end.timestamp()
    for name, value in ((upstream("gpu_util"), 100), (upstream("tensor_active"), 0)):
        assert all(set(one.values[one.times > after].tolist()) == {value} for _, one in labelled(series, name))


def test_files_of_a_hung_job_with_counters_are_rewritten_without_bandwidths() -> None:
    hang = {"kind": "hang", "start": "6m"}
    recording, series = simulate(scenario(events=[hang], companions={"counters": True}))
    after = recording.start.timestamp() + 360 + 62
    assert not any((one.times > after).any() for _, one in labelled(series, BANDWIDTH))
    for _, one in labelled(series, upstream("collectives")):
        assert len(set(one.values[one.times > after].tolist())) == 1
    for _, one in labelled(series, upstream("mtime")):
        assert one.times[-1] - one.values[-1] < 35


def test_a_killed_job_leaves_its_files_and_idle_gpus() -> None:
    recording, series = simulate(scenario(job={"to": "6m", "ends": "killed"}))
    assert all(one.times[-1] == recording.end.timestamp() for _, one in labelled(series, BANDWIDTH))
    assert all(one.values[-1] < one.times[-1] - 350 for _, one in labelled(series, upstream("mtime")))
    assert all(one.values[-1] == 0 for _, one in labelled(series, upstream("gpu_util")))
    assert all(one.values[-1] < 100 for _, one in labelled(series, upstream("memory_used")))
    assert [fault.kind for fault in recording.faults] == ["kill"]


def test_a_clean_end_removes_the_files_and_a_dead_rank_does_not() -> None:
    recording, series = simulate(scenario(job={"to": "6m", "ends": "clean"}))
    gone = recording.start.timestamp() + 360 + 45
    for name in (BANDWIDTH, TIME, upstream("mtime"), TFLOPS):
        assert all(one.times[-1] <= gone for _, one in labelled(series, name))
    dead = {"kind": "dead-rank", "node": "node02", "gpu": 1, "start": "6m"}
    recording, series = simulate(scenario(events=[dead]))
    assert all(one.times[-1] == recording.end.timestamp() for _, one in labelled(series, BANDWIDTH))
    last = [one.values[-1] for _, one in labelled(series, upstream("gpu_util"))]
    assert sorted(last) == [0] + [100] * 15


def test_a_later_job_takes_over_the_files_of_a_killed_one() -> None:
    jobs = [
        {"id": "1", "preset": "tp-dp", "nodes": 4, "gpus_per_node": 4, "tp": 4, "to": "4m", "ends": "killed"},
        {"id": "2", "preset": "tp-dp", "nodes": 2, "gpus_per_node": 4, "tp": 4, "start": "5m"},
    ]
    _, series = simulate(scenario(jobs=jobs))
    last = {labels["node"]: labels["slurm_job_id"] for labels, one in labelled(series, BANDWIDTH)
            if one.times[-1] == max(one.times[-1] for _, one in labelled(series, BANDWIDTH))}  # fmt: skip
    assert last == {"node01": "2", "node02": "2", "node03": "1", "node04": "1"}
    files = [(labels["instance"], labels["file"]) for labels, _ in labelled(series, upstream("mtime"))]
    assert len(files) == len(set(files)) == 16


def test_checkpoints_freeze_files_and_evaluations_drop_gradients() -> None:
    pause = {"kind": "checkpoint", "start": "4m", "lasts": "2m"}
    forward = {"kind": "evaluation", "start": "8m", "end": "11m"}
    recording, series = simulate(scenario(events=[pause, forward]))
    start = recording.start.timestamp()
    for _, one in labelled(series, upstream("mtime")):
        assert len(set(one.values[(one.times > start + 285) & (one.times < start + 360)].tolist())) == 1
    for labels, one in labelled(series, BANDWIDTH):
        there = bool(((one.times > start + 560) & (one.times < start + 650)).any())
        assert there == (labels["n_nodes"] == "1")
    assert [fault.kind for fault in recording.faults] == ["none", "none"]


def test_a_torn_file_misses_its_series_and_sets_the_scrape_error() -> None:
    unreadable = {"kind": "unreadable", "node": "node03", "gpu": 1, "start": "4m", "end": "8m"}
    recording, series = simulate(scenario(events=[unreadable]))
    start = recording.start.timestamp()
    ((_, error),) = labelled(series, upstream("textfile_error"), instance="node03:9100")
    during = (error.times >= start + 240) & (error.times < start + 480)
    assert (error.values == during).all()
    missing = labelled(series, BANDWIDTH, node="node03", gpu="GPU1")
    assert missing and all(set(one.times.tolist()) == set(error.times[~during].tolist()) for _, one in missing)


@pytest.mark.parametrize("node", ["node03", None])
def test_where_nothing_can_be_written_files_stay_as_they_are(node: str | None) -> None:
    _, before = simulate(scenario())
    recording, series = simulate(scenario(events=[{"kind": "unwritable", "node": node, "start": "4m"}]))
    muted = recording.start.timestamp() + 240
    usual = {one.labels: one for _, one in labelled(before, BANDWIDTH)}
    for labels, one in labelled(series, BANDWIDTH):
        since = one.times >= muted + 15
        if node in (None, labels["node"]):
            assert since.any() and len(set(one.values[since].tolist())) == 1
        else:
            assert (one.values == usual[one.labels].values).all()
    for labels, one in labelled(series, upstream("mtime")):
        old = one.values[-1] < muted
        assert old == (node in (None, labels["instance"].partition(":")[0]))


def test_an_exporter_that_is_gone_takes_everything_of_its_node_but_not_dcgm() -> None:
    gone = {"kind": "exporter-gone", "node": "node02", "start": "4m", "end": "8m"}
    recording, series = simulate(scenario(events=[gone]))
    start = recording.start.timestamp()
    for one in series:
        labels = dict(one.labels)
        during = (one.times >= start + 240) & (one.times < start + 480)
        if labels["instance"] == "node02:9100":
            assert (one.values[during] == 0).all() if one.name == "up" else not during.any()
        elif labels["job"] == "dcgm":
            assert during.any()


def test_equal_gpu_labels_lose_series_and_show_as_gathering_errors() -> None:
    _, series = simulate(scenario(job={"one_visible_gpu": True}))
    assert {labels["gpu"] for labels, _ in labelled(series, BANDWIDTH)} == {"GPU0"}
    assert len(labelled(series, upstream("mtime"))) == 16
    errors = [one.values for _, one in labelled(series, upstream("gathering_errors"), cause="gathering")]
    assert len(errors) == 4 and all((np.diff(values) == 1).all() for values in errors)


def test_bytes_are_counted_as_an_impossible_size_at_an_impossible_bandwidth() -> None:
    _, series = simulate(scenario(job={"poisoned": True}))
    poisoned = labelled(series, BANDWIDTH, message_size="16777215-16777216TB")
    assert len(poisoned) == 16 and all((one.values > 1e14).all() for _, one in poisoned)


def test_published_readings_stand_at_their_moments() -> None:
    recording, series = simulate(load_scenario(scenario_path("attribution")))
    ((_, gauge),) = labelled(series, TFLOPS)
    start = recording.start.timestamp()
    for moment, value in ((2387, 314), (2448, 295), (2520, 289), (2642, 311)):
        assert gauge.values[np.searchsorted(gauge.times, start + moment, side="right") - 1] == value


@given(size=st.integers(8192, 2**45))
def test_a_message_size_range_holds_its_size(size: int) -> None:
    match = re.fullmatch(r"(\d+)-(\d+)(B|KB|MB|GB|TB)", message_size_range(size))
    assert match is not None
    unit = 1024 ** ("B", "KB", "MB", "GB", "TB").index(match[3])
    low, high = int(match[1]), int(match[2])
    assert low * unit <= size < high * unit
    assert high == low + 1 and 1 <= low < 1024


CONTRACT = {
    "version": r"v5\.1",
    "slurm_job_id": r"7",
    "node": r"node0[1-4]",
    "gpu": r"GPU[0-3]",
    "comm_name": r"unknown",
    "n_nodes": r"[124]",
    "nranks": r"\d+",
    "message_size": r"\d+-\d+(KB|MB|GB)",
    "job": r"node",
    "instance": r"node0[1-4]:9100",
}
COLLECTIVE = {
    "collective": r"AllReduce|AllGather|ReduceScatter",
    "algo_proto": r"(TREE|RING|NVLS)_(LL|LL128|SIMPLE)",
}
P2P = {"p2p_operation": "Send|Recv"}


@pytest.mark.parametrize("flavour", ["nvidia", "rccl"])
@pytest.mark.parametrize("preset", PARALLEL)
def test_inspector_series_have_the_labels_of_the_contract(preset: str, flavour: str) -> None:
    _, series = simulate(
        scenario(preset, lasts="2m", flavour=flavour, cluster="alola", companions={"p2p_across": True})
    )
    shapes = {
        BANDWIDTH: CONTRACT | COLLECTIVE,
        TIME: CONTRACT | COLLECTIVE,
        upstream("p2p_busbw"): CONTRACT | P2P,
        upstream("p2p_exec"): CONTRACT | P2P,
    }
    ours = [one for one in series if one.name.startswith("nccl_")]
    assert {one.name for one in ours} == set(list(shapes)[: 4 if preset == "tp-pp-dp" else 2])
    for one in ours:
        labels = dict(one.labels)
        assert labels.pop("cluster", None) == ("alola" if flavour == "rccl" else None)
        assert labels.keys() == shapes[one.name].keys()
        assert all(re.fullmatch(pattern, labels[key]) for key, pattern in shapes[one.name].items())
        assert all(float(f"{value:.6g}") == value for value in one.values.tolist())
        assert (one.times % 15 == 0).all()


def test_every_built_in_scenario_has_an_up_to_date_recording() -> None:
    names = scenario_names()
    assert len(names) >= 40
    assert sorted(path.name for path in RECORDINGS.iterdir() if (path / SAMPLES).exists()) >= list(names)
    for name in names:
        want, have = load_scenario(scenario_path(name)), read_story(RECORDINGS / name)
        assert have.made_by == f"dashgen simulate {name}" and have.source == "simulated"
        same = ("story", "start", "scrape_interval", "site", "boards", "expect")
        assert [getattr(want, key) for key in same] == [getattr(have, key) for key in same], name
    assert sum((RECORDINGS / name / SAMPLES).stat().st_size for name in names) < 30e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lasts": 40}, r"lasts: .*is not a duration, write for example 90s"),
        ({"colour": "red"}, r"colour: no such key"),
        ({"start": "2026-01-01T00:00:07Z"}, r"start is not a multiple of scrape_interval"),
        ({"events": [{"kind": "flood"}]}, r"events.0: .*flood"),
        (
            {"jobs": [{"id": "7", "preset": "tp-fsdp", "nodes": 1, "start": "9h"}]},
            r"jobs.0 \(7\): start is not before the end",
        ),
        ({"events": [{"kind": "network"}]}, r"give either loss or bandwidth"),
        ({"events": [{"kind": "nvlink", "node": "node77", "bandwidth": 0.5}]}, r"node 'node77' is not one of node01"),
        ({"events": [{"kind": "hang", "job": "8"}]}, r"job '8' is not in jobs"),
        ({"start": "2099-12-31T23:59:00Z"}, r"start and lasts: the scenario ends after 2099"),
        (
            {"jobs": [{"id": "7", "preset": "tp-fsdp", "nodes": 1, "start": "2m", "to": "1m", "ends": "killed"}]},
            r"jobs.0: to comes before start",
        ),
        ({"jobs": [{"id": "7", "preset": "tp-fsdp", "nodes": 1, "dwell": 10**30}]}, r"jobs.0.dwell: "),
        (
            {"events": [{"kind": "port-errors", "node": "node01", "gpu": 0, "counters": {"symbol_error": -1}}]},
            r"events.0.*symbol_error: ",
        ),
    ],
)
def test_a_bad_scenario_is_refused_in_one_line_that_names_file_and_key(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "bad.yaml"
    data = yaml.safe_load(scenario_path("bursts").read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**data, **change}), encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        load_scenario(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_a_recording_says_how_often_its_jobs_dump_where_that_is_not_usual() -> None:
    assert simulate(scenario())[0].site == {}
    slow = {"dump_interval": 60, "site": {"cardinality_budget": 30}}
    assert simulate(scenario(**slow))[0].site == {"dump_interval": "60s", "cardinality_budget": 30}


def test_a_loss_that_no_traffic_can_cause_is_refused() -> None:
    constraint = {"kind": "network", "loss": 0.5, "collectives": ["Broadcast"]}
    with pytest.raises(UserError, match="no traffic of job 7 costs that"):
        simulate(scenario(events=[constraint]))


def test_an_unknown_built_in_scenario_is_refused_with_the_known_names() -> None:
    with pytest.raises(UserError, match=r"no built-in scenario; name one of healthy, .* more"):
        scenario_path("helthy")


def test_a_job_that_starts_at_the_very_end_has_no_series_yet() -> None:
    _, series = simulate(scenario(job={"start": "11m55s", "poisoned": True}))
    assert not labelled(series, BANDWIDTH)
