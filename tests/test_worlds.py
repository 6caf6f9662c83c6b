# SPDX-License-Identifier: Apache-2.0
"""Worlds of random jobs: what each habit of a job or a site does to the series, and that the truth is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_simulate import BANDWIDTH, TFLOPS, TIME, labelled, mean, scenario

from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.recordings.format import Series, to_openmetrics
from dashgen.simulator.dumps import Bucket, Run, run_job
from dashgen.simulator.simulate import simulate, together
from dashgen.worlds.priors import PRIORS, Uniform, WideDice
from dashgen.worlds.wide import wide_job
from dashgen.worlds.worlds import WORLDS, world_draw, world_trial

QUIET = {"biased": 0, "jitter": 0.001, "noise": 0.01, "inner_noise": 0.01}
RAILS = {"tp": 4, **QUIET}


def rail(run: Run) -> Bucket:
    """The large operation that the nodes of a rail do together."""
    return next(one for one in run.buckets if dict(one.labels)["message_size"] == "256-257MB")


# Draws.


@pytest.mark.parametrize("world", WORLDS)
def test_every_family_of_a_world_is_drawn_and_each_draw_is_a_scenario_of_a_real_site(world: str) -> None:
    what = WORLDS[world]
    drawn = set()
    for seed in range(0, 2 * len(what.schedule), 2):
        drawn.add(what.family(seed))
        _, scenarios = world_draw(world, seed)
        for one in scenarios:
            site = config.site(one.site, one.name)
            assert site.dump_interval == one.dump_interval
    assert drawn == set(what.families)


def test_a_seed_of_a_world_is_the_same_to_the_byte_and_another_is_not() -> None:
    one, again, other = (world_trial("wide", seed) for seed in (4, 4, 6))
    assert one.recording == again.recording
    assert "".join(to_openmetrics(one.series)) == "".join(to_openmetrics(again.series))
    assert one.scenario != other.scenario


def test_another_prior_leaves_all_other_values_as_they_were() -> None:
    one = wide_job(WideDice("seed"))
    other = wide_job(WideDice("seed", {**PRIORS, "jitter": Uniform(0.1, 0.2)}))
    assert one.keys() == other.keys()
    assert [key for key in one if one[key] != other[key]] == ["jitter"]


# What habits do.


def test_a_hiccup_makes_one_node_late_for_one_dump() -> None:
    hiccup = {"kind": "hiccup", "node": "node03", "percent": 60, "start": "6m", "end": "6m30s"}
    run = run_job(scenario(job={**RAILS, "step": "2s"}, events=[hiccup]), 0, 1)
    whole = run.written.all(axis=1)
    times = rail(run).exec_us[whole]
    waited = times > 1.1 * np.median(times, axis=0)
    assert not waited[:, 8:12].any()
    for gpu in (0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15):
        dumps = np.flatnonzero(waited[:, gpu])
        assert 1 <= len(dumps) <= 2 and np.ptp(dumps) == len(dumps) - 1
        assert (np.abs(run.dumps[whole][dumps, gpu] - 385) < 30).all()


def test_a_blinking_gpu_is_a_fault_each_time_and_shows_in_these_times_alone() -> None:
    spells = ((5, 9), (14, 18))
    what = {"kind": "late-gpu", "node": "node02", "gpu": 1, "percent": 40}
    events = [what | {"start": f"{start}m", "end": f"{end}m"} for start, end in spells]
    recording, series = simulate(scenario(lasts="24m", job=RAILS, events=events))
    offsets = [
        ((one.start - recording.start).total_seconds() / 60, (one.end - recording.start).total_seconds() / 60)
        for one in recording.faults
    ]
    assert offsets == list(spells)
    assert {one.gpu for one in recording.faults} == {"GPU1"}
    ((_, late),) = labelled(series, TIME, node="node02", gpu="GPU1", collective="AllGather", n_nodes="1")
    ((_, mate),) = labelled(series, TIME, node="node02", gpu="GPU2", collective="AllGather", n_nodes="1")
    for start, end in spells:
        during = [mean(one, recording, 60 * start + 60, 60 * end) for one in (late, mate)]
        after = [mean(one, recording, 60 * end + 60, 60 * end + 240) for one in (late, mate)]
        assert during[0] < 0.7 * during[1]
        assert after[0] == pytest.approx(after[1], rel=0.05)


def test_paths_across_domains_wander_slowly_and_links_within_do_not() -> None:
    job = {**RAILS, "wander": 0.1, "wander_over": "10m", "step": "2s"}
    run = run_job(scenario(lasts="3h", job=job), 0, 2)
    whole = run.written.all(axis=1)
    level = {dict(one.labels)["n_nodes"]: np.log(one.exec_us[whole].mean(axis=1)) for one in run.buckets}
    assert level["4"].std() > 0.05 > 5 * level["1"].std()
    assert np.corrcoef(level["4"][:-1], level["4"][1:])[0, 1] > 0.8


def test_uneven_paths_differ_for_ever() -> None:
    run = run_job(scenario(job={**RAILS, "uneven": 0.1, "step": "2s"}), 0, 3)
    times = np.log(rail(run).exec_us[run.written.all(axis=1)].reshape(-1, 4, 4).mean(axis=1))
    assert times.mean(axis=0).std() > 0.05 > 3 * times.std(axis=0).max()


def test_a_lasting_lateness_is_at_most_its_part_of_a_transfer() -> None:
    with_bias, without = (
        rail(run_job(scenario(job={**RAILS, "arrival_bias": bias}), 0, 4)).exec_us.mean(axis=0) for bias in (0.3, 0.0)
    )
    longer = with_bias / without - 1
    assert longer.min() == pytest.approx(0, abs=0.05)
    assert 0.1 < longer.max() < 0.35


def test_operations_all_through_a_long_step_are_in_every_dump_and_counted_once() -> None:
    long = {**RAILS, "step": "70s"}
    runs = {spread: run_job(scenario(lasts="30m", job={**long, "spread": spread}), 0, 5) for spread in (True, False)}
    inner = {
        spread: next(one for one in run.buckets if dict(one.labels)["n_nodes"] == "1") for spread, run in runs.items()
    }
    counts = {spread: inner[spread].count[1:-3] for spread in runs}
    assert (counts[True] > 0).all()
    assert (counts[False] == 0).any()
    last = {spread: run.total.max(axis=0) for spread, run in runs.items()}
    a_step = sum(one.count for one in runs[True].pulse.plans[0].operations)
    assert (np.abs(last[True] - last[False]) <= a_step).all()
    usual = [np.average(inner[spread].exec_us[1:-3], weights=counts[spread]) for spread in runs]
    assert usual[0] == pytest.approx(usual[1], rel=0.02)


def test_groups_of_one_shape_that_send_the_same_are_one_series_without_names_and_two_with() -> None:
    rows = [
        {"group": group, "operation": "AllReduce", "size": 64 * 2**20, "algorithm": "RING_SIMPLE", "share": 0.1}
        for group in ("tp", "cp")
    ]
    job = {"tp": 2, "cp": 2, "only": True, "traffic": rows}
    counts = []
    for names in ({}, {"tp": "TP"}):
        run = run_job(scenario(job={**job, "comm_names": names}), 0, 6)
        counts.append([int(one.count[2].max()) for one in run.buckets])
    assert len(counts[0]) == 1 and len(counts[1]) == 2
    assert counts[0][0] == sum(counts[1])


def test_ranks_that_wait_spinning_look_busy_and_the_log_may_count_the_wait() -> None:
    pause = {"kind": "checkpoint", "start": "6m", "lasts": "2m", "spins": True}
    job = {**RAILS, "log_counts": "pauses"}
    recording, series = simulate(scenario(job=job, events=[pause]))
    within = recording.start.timestamp() + np.array([395, 475])
    for name, value in ((upstream("gpu_util"), 100), (upstream("tensor_active"), 0)):
        for _, one in labelled(series, name):
            assert set(one.values[(one.times > within[0]) & (one.times < within[1])].tolist()) == {value}
    ((_, gauge),) = labelled(series, TFLOPS)
    assert gauge.values.min() < 0.3 * np.median(gauge.values)


# Who watches.


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("mtime", upstream("mtime")),
        ("dcgm_tensor", upstream("tensor_active")),
        ("dcgm_memory", upstream("memory_used")),
        ("dcgm_clock", upstream("sm_clock")),
    ],
)
def test_a_missing_companion_takes_its_series_and_nothing_else(key: str, name: str) -> None:
    (_, whole), (_, less) = (simulate(scenario(lasts="3m", companions={key: there})) for there in (True, False))
    kept = [one for one in whole if one.name != name]
    assert len(kept) < len(whole)
    assert "".join(to_openmetrics(kept)) == "".join(to_openmetrics(less))


def test_sends_across_domains_are_there_only_where_a_scenario_says_so() -> None:
    for there in (True, False):
        _, series = simulate(scenario("tp-pp-dp", lasts="3m", companions={"p2p_across": there}))
        assert any(one.name.startswith("nccl_p2p") for one in series) == there


def test_a_prometheus_that_is_away_has_no_sample_of_anything() -> None:
    recording, series = simulate(scenario(events=[{"kind": "prometheus-gone", "start": "4m", "end": "8m"}]))
    gone = recording.start.timestamp() + np.array([240, 480])
    assert not any(((one.times >= gone[0]) & (one.times < gone[1])).any() for one in series)
    assert {len(one.times) for _, one in labelled(series, "up")} == {49 - 16}
    assert [one.kind for one in recording.faults] == ["none"]


def test_a_flapping_exporter_misses_its_share_of_scrapes_on_its_node() -> None:
    flap = {"kind": "exporter-flap", "node": "node02", "share": 0.3, "start": "0s", "end": "60m"}
    _, series = simulate(scenario(lasts="60m", events=[flap]))
    up = {labels["instance"]: one.values.mean() for labels, one in labelled(series, "up", job="node")}
    assert up.pop("node02:9100") == pytest.approx(0.7, abs=0.1)
    assert set(up.values()) == {1.0}


def test_two_clusters_of_equal_names_never_share_a_label_set() -> None:
    one = world_trial("clusters", 2)
    seen = [(each.name, each.labels) for each in one.series]
    assert len(seen) == len(set(seen))
    by_cluster: dict[str, set[Any]] = {"east": set(), "west": set()}
    for name, labels in seen:
        own = dict(labels)
        by_cluster[own.pop("cluster")].add((name, own.get("instance"), own.get("slurm_job_id")))
    assert by_cluster["east"] & by_cluster["west"]
    assert {each.cluster for each in one.recording.faults} == {"east", "west"}
    assert config.site(one.recording.site, "test").labels.cluster == "cluster"


def test_recordings_that_share_a_series_are_not_put_together() -> None:
    recording, _ = simulate(scenario(lasts="2m"))
    mine: list[Series] = [Series(BANDWIDTH, (("node", "a"),), np.array([0.0]), np.array([1.0]))]
    with pytest.raises(UserError, match=rf'{upstream("busbw")}\{{node="a"\}}: two recordings have it'):
        together([(recording, mine), (recording, mine)])
