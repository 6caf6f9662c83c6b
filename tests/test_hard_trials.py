# SPDX-License-Identifier: Apache-2.0
"""Trials that rules like these get wrong easily, and faults that last: each of them holds a rule in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import yaml
from processes import FULL, rule_engine

from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.engine import scheduled as engine
from dashgen.engine.ruletest import Firing
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series
from dashgen.simulator.scenario import Scenario, scenario_path
from dashgen.simulator.simulate import simulate
from dashgen.validation.judge import Incident
from dashgen.validation.packs import rule_files
from dashgen.validation.trials import PACKS, Result, execute, run
from dashgen.worlds.draw import Trial, family
from dashgen.worlds.worlds import world_trial

pytestmark = pytest.mark.heavy

USUAL = yaml.safe_load(scenario_path("network-25").read_text())
MEDIUM = (Sensitivity.MEDIUM,)
MOVED = [
    each | told
    for each in USUAL["jobs"]
    for told in ({"to": "20m", "ends": "killed"}, {"start": "23m", "first_node": 5})
]
"""The job is killed, and goes on under its id on other nodes."""


@pytest.fixture(scope="module", autouse=True)
def _with_rule_engine() -> None:
    rule_engine()


def simulated(told: Mapping[str, object]) -> Trial:
    """A trial of a scenario."""
    scenario = Scenario.model_validate(told)
    return Trial(0, scenario.name, scenario, *simulate(scenario))


def judged(seed: int, kind: str) -> Result:
    assert family(seed) == kind, "the schedule of families has changed: choose another seed"
    return run(seed)


def incidents(seed: int, kind: str) -> Mapping[str, Incident]:
    """The one fault of the trial, as each pack saw it."""
    seen = judged(seed, kind).incidents
    assert [each.pack for each in seen] == list(PACKS)
    return {each.pack: each for each in seen}


def paged(one: Trial, site: Site) -> list[tuple[str, float, float]]:
    """The suspect of each page of medium about a job, from when to when."""
    return [
        (dict(each.labels)["suspect"], start, end)
        for each in execute(one, rule_files(site, MEDIUM))
        for start, end in each.firing
        if each.alert == "NcclJobDegraded"
    ]


# What one verdict per job does not tell yet; strict, so that whoever mends one of them takes its mark away.
def weak(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


def fired(
    site: Site,
    told: Mapping[str, object],
    change: Callable[[list[Series]], Iterable[Series]] = list,
    tiers: Collection[Sensitivity] = tuple(Sensitivity),
) -> list[Firing]:
    """The alerts of the packs of some tiers in a variant of a scenario with a slow network, its series changed."""
    one = simulated(USUAL | {"name": "variant", "expect": {}} | told)
    return execute(replace(one, series=list(change(one.series))), rule_files(site, tiers))


def said_of(one: Trial, tiers: Collection[Sensitivity] = tuple(Sensitivity)) -> list[Firing]:
    """The alerts of the packs of some tiers in a trial, for the site that it was drawn with."""
    return execute(one, rule_files(config.site(one.scenario.site, one.scenario.name), tiers))


def recorded(told: Mapping[str, object], names: str, *, offsets: bool) -> tuple[float, Sequence[Series]]:
    """When a scenario begins, and the series of these names that the rules record in it."""
    one, site = simulated(told), Site()
    moments = engine.Moments.of(one.recording, site.dump_interval, offsets=offsets)
    found = engine.replay(rule_engine(), rule_files(site, MEDIUM), one.series, moments, names, moments.start)
    return moments.start, found.series


def reading(values: Mapping[str, float], start: int, end: int) -> Callable[[list[Series]], Iterator[Series]]:
    """The change of a recording in which metrics read something else between two of its minutes."""

    def changed(series: list[Series]) -> Iterator[Series]:
        for one in series:
            since = one.times - one.times[0]
            meanwhile = (since > start * 60) & (since < end * 60)
            yield replace(one, values=np.where(meanwhile, values.get(one.name, one.values), one.values))

    return changed


def alone(told: Mapping[str, object]) -> list[dict[str, str]]:
    """The labels of every tier's alerts in a scenario of its own."""
    return [dict(each.labels) for each in execute(simulated(told), rule_files(Site()))]


def heard(
    site: Site, told: Mapping[str, object], tiers: Collection[Sensitivity] = tuple(Sensitivity)
) -> dict[str, set[str]]:
    """The severities that the pack of each of these tiers fired with."""
    found: dict[str, set[str]] = {tier.value: set() for tier in tiers}
    for each in fired(site, told, tiers=tiers):
        labels = dict(each.labels)
        found[labels["sensitivity"]].add(labels["severity"])
    return found


SLOW_NETWORK = {"kind": "network", "loss": 0.25, "ramp": "20s", "start": "1500s"}
# From the middle of a dump on, so that a part of it is in two.
SLOW_NODE = {"kind": "slow-node", "node": "node02", "percent": 150, "start": "1515s"}


@pytest.mark.parametrize(
    ("fault", "end", "severities"),
    [
        pytest.param(SLOW_NETWORK, "1560s", "", id="network-60"),
        pytest.param(SLOW_NETWORK, "1620s", "warning", id="network-120"),
        pytest.param(SLOW_NETWORK, "1650s", "critical warning", id="network-150"),
        pytest.param(SLOW_NODE, "1560s", "", id="node-45"),
        pytest.param(SLOW_NODE, "1605s", "warning", id="node-90"),
        pytest.param(SLOW_NODE, "1665s", "critical warning", id="node-150"),
    ],
)
def test_a_hiccup_is_nothing_what_lasts_longer_a_ticket_and_what_stays_a_page(
    fault: Mapping[str, object], end: str, severities: str
) -> None:
    everybody = set(severities.split())
    assert heard(Site(), {"lasts": "40m", "events": [{**fault, "end": end}]}) == {
        "low": everybody & {"critical"},
        "medium": everybody,
        "high": everybody,
    }


@pytest.mark.parametrize("dump", [30, 600])
@pytest.mark.parametrize(("loss", "severities"), [(0.02, set()), (0.06, {"critical", "warning"})], ids=["2", "6"])
def test_a_dump_weighs_the_same_however_often_it_is_evaluated(dump: int, loss: float, severities: set[str]) -> None:
    fault = {"kind": "network", "loss": loss, "start": f"{33 * dump}s", "end": f"{45 * dump}s"}
    [job] = USUAL["jobs"]
    rhythm = {"lasts": f"{46 * dump}s", "dump_interval": dump, "scrape_interval": 60 if dump > 60 else 15}
    site = config.site({"dump_interval": dump}, "test")
    assert heard(site, {**rhythm, "jobs": [job | {"nodes": 2}], "events": [fault]}, MEDIUM) == {"medium": severities}


@pytest.mark.parametrize("source", ["counters", "host_memory"])
@pytest.mark.parametrize(
    ("told", "pages"),
    [
        pytest.param({"to": "25m", "ends": "killed"}, False, id="killed"),
        pytest.param({"kind": "hang", "start": "25m"}, True, id="hang"),
        pytest.param({"kind": "dead-rank", "start": "25m", "node": "node02", "gpu": 1}, True, id="dead-rank"),
    ],
)
def test_where_one_source_alone_tells_who_lives_a_hang_pages_and_a_job_that_was_killed_does_not(
    told: Mapping[str, object], pages: bool, source: str
) -> None:
    [job] = USUAL["jobs"]
    variant = {"events": [told]} if "kind" in told else {"events": [], "jobs": [job | told]}
    found = heard(Site(), {"lasts": "40m", "companions": {"dcgm": False, source: True}, **variant})
    assert {tier: "critical" in severities for tier, severities in found.items()} == dict.fromkeys(found, pages)


@pytest.mark.parametrize("start", ["26m30s", "27m30s", "29m40s"])
def test_a_killed_job_whose_files_another_one_overwrites_is_not_silent(start: str) -> None:
    [job] = USUAL["jobs"]
    jobs = [job | {"to": "25m", "ends": "killed"}, job | {"id": "2", "start": start}]
    companions = {"dcgm_memory": False, "dcgm_tensor": False, "throughput": None}
    found = heard(Site(), {"lasts": "40m", "companions": companions, "jobs": jobs, "events": []})
    assert not any("critical" in severities for severities in found.values())


def test_what_a_job_has_left_behind_on_other_nodes_says_nothing_of_it() -> None:
    """It was killed, and goes on under its id elsewhere; its old files tell the speed of a healthy network."""
    torn = {"kind": "unreadable", "node": "node06", "gpu": 1, "start": "28m", "end": "38m"}
    slow = {"kind": "network", "loss": 0.25, "start": "45m", "end": "60m"}
    found = fired(Site(), {"lasts": "65m", "jobs": MOVED, "events": [torn, slow]})
    told = {(each.alert, *map(dict(each.labels).get, ("suspect", "node", "severity"))) for each in found}
    assert told == {
        ("NcclTextfileUnreadable", None, "node06", "warning"),
        ("NcclJobDegraded", "network", None, "critical"),
        ("NcclTransportDegraded", "network", None, "warning"),
    }
    assert len([each for each in found if each.alert == "NcclJobDegraded"]) == len(Sensitivity)


def test_a_node_that_a_job_has_left_is_not_dark_although_scrapes_fail() -> None:
    flaps = [{"kind": "exporter-flap", "start": "0s", "node": f"node0{node}", "share": 0.4} for node in (5, 6, 7, 8)]
    gone = {"kind": "exporter-gone", "node": "node07", "start": "70m"}
    found = fired(Site(), {"lasts": "85m", "jobs": MOVED, "events": [*flaps, gone]}, tiers=MEDIUM)
    dark = [each for each in found if each.alert == "NcclNodeTelemetryLost"]
    assert "node07" in {dict(each.labels)["node"] for each in dark}
    assert min(start for each in dark for start, _ in each.firing) > USUAL["start"].timestamp() + 70 * 60


def test_the_node_that_a_job_goes_on_without_after_a_restart_is_not_dark() -> None:
    [job] = USUAL["jobs"]
    smaller = [job | {"to": "20m", "ends": "killed"}, job | {"start": "23m", "nodes": 3}]
    found = fired(Site(), {"lasts": "45m", "jobs": smaller, "events": []}, tiers=MEDIUM)
    assert not [each for each in found if each.alert == "NcclNodeTelemetryLost"]


def test_a_killed_job_stays_gone_although_others_have_its_gpus() -> None:
    taken = reading({"DCGM_FI_DEV_FB_USED": 60_000.0, "DCGM_FI_DEV_GPU_UTIL": 99.0}, 40, 80)
    [job] = USUAL["jobs"]
    told = {"lasts": "80m", "jobs": [job | {"to": "25m", "ends": "killed"}], "events": []}
    assert {dict(each.labels)["signal"] for each in fired(Site(), told, taken)} == {"telemetry"}


def test_a_frozen_file_is_one_sample_however_long_it_is_seen() -> None:
    """Prometheus meets the job in a pause that began while two GPUs were late for a moment."""

    def first_met(series: list[Series]) -> Iterator[Series]:
        for one in series:
            met = one.times >= one.times[0] + 570
            yield replace(one, times=one.times[met], values=one.values[met])

    hiccup = {"kind": "late-gpu", "start": "520s", "end": "600s", "percent": 60}
    events = [hiccup | {"node": f"node0{number}", "gpu": number} for number in (1, 2)]
    pause = {"kind": "checkpoint", "start": "10m", "lasts": "6m"}
    companions = {"throughput": None, "dcgm": False}
    assert not fired(Site(), {"lasts": "40m", "events": [*events, pause], "companions": companions}, first_met)


@pytest.mark.parametrize(
    ("then", "pages"),
    [
        pytest.param({"kind": "checkpoint", "start": "32m", "lasts": "210s"}, False, id="checkpoint"),
        pytest.param({"kind": "hang", "start": "30m"}, True, id="hang"),
    ],
)
def test_while_prometheus_was_away_nobody_was_silent(then: Mapping[str, object], pages: bool) -> None:
    away = {"kind": "prometheus-gone", "start": "25m", "end": "33m"}
    found = heard(Site(), {"lasts": "39m", "events": [away, then]})
    assert {tier: "critical" in severities for tier, severities in found.items()} == dict.fromkeys(found, pages)


@pytest.mark.parametrize(
    ("silences", "pages"),
    [
        pytest.param(
            [{"kind": "hang", "start": f"{start}m", "end": f"{start + 14}m"} for start in (20, 50)], 2, id="hangs"
        ),
        pytest.param(
            [{"kind": "checkpoint", "start": "20m", "lasts": "7m", "every": "30m", "spins": True}], 1, id="pauses"
        ),
    ],
)
def test_a_pause_excuses_the_next_one_and_a_hang_excuses_nothing(silences: list[object], pages: int) -> None:
    stalls = [each for each in fired(Site(), {"lasts": "70m", "events": silences}) if each.alert == "NcclJobStalled"]
    assert [len(each.firing) for each in stalls] == [pages] * len(Sensitivity)


@pytest.mark.parametrize(("end", "pages"), [("33m", False), ("41m", True)], ids=["evaluation", "hang"])
def test_a_silence_in_which_tensor_cores_work_becomes_a_stall_when_they_have_rested_for_long(
    end: str, pages: bool
) -> None:
    works = reading({"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.3}, 24, 32)
    silent = {"kind": "hang", "start": "24m", "end": end}
    stalls = [each for each in fired(Site(), {"lasts": "45m", "events": [silent]}, works) if "Stalled" in each.alert]
    assert len(stalls) == pages * len(Sensitivity)


@pytest.mark.parametrize("source", ["dcgm", "counters"])
def test_a_dead_process_is_one_page_that_keeps_its_name_although_scrapes_fail(source: str) -> None:
    """A GPU rests alone, as the driver counts, or its file alone is no longer written, as CUDA counts."""
    dead = {"kind": "dead-rank", "start": "25m", "node": "node02", "gpu": 1}
    flaps = [{"kind": "exporter-flap", "start": "0s", "node": f"node0{node}", "share": 0.15} for node in (1, 2, 3, 4)]
    known = {"dcgm": False, source: True}
    one = simulated(USUAL | {"name": "dead", "lasts": "55m", "companions": known, "events": [dead, *flaps]})
    stalls = [each for each in said_of(one) if each.alert == "NcclJobStalled"]
    [fault] = (each for each in one.recording.faults if each.kind == "dead-rank")
    assert [(*map(dict(each.labels).get, ("node", "gpu")), len(each.firing)) for each in stalls] == [
        (fault.node, fault.gpu, 1)
    ] * len(Sensitivity)


@pytest.mark.parametrize("gone", [1560, 1590])
def test_a_late_gpu_is_told_as_soon_although_a_dump_of_its_node_was_not_scraped(gone: int) -> None:
    late = {"kind": "late-gpu", "start": "25m", "end": "40m", "node": "node02", "gpu": 1, "percent": 40}
    missed = {"kind": "exporter-gone", "start": f"{gone}s", "end": f"{gone + 30}s", "node": "node02"}
    whole, gappy = (
        {each.labels: each.firing for each in fired(Site(), {"lasts": "45m", "events": events})}
        for events in ([late], [late, missed])
    )
    assert gappy == whole and len(whole) == 5, "a page of every pack, and two tickets"


@pytest.mark.parametrize("tp", [2, 4])
def test_the_late_gpu_of_one_of_several_communicators_of_a_node_is_named_and_nobody_else(tp: int) -> None:
    """Its mates wait inside the node, its stage and the network wait for all of them."""
    job = {"id": "1", "preset": "tp-pp-dp", "nodes": 4, "gpus_per_node": 8, "tp": tp, "pp": 2}
    late = {"kind": "late-gpu", "node": "node02", "gpu": 4, "percent": 20, "start": "20m", "end": "34m"}
    found = [dict(each.labels) for each in fired(Site(), {"lasts": "35m", "jobs": [job], "events": [late]})]
    assert {each["sensitivity"] for each in found} == {tier.value for tier in Sensitivity}
    assert {(each["suspect"], each["node"], each["gpu"]) for each in found} == {("straggler", "node02", "GPU4")}


def in_a_pipeline(tp: int, pp: int, event: Mapping[str, object], **companions: object) -> list[dict[str, str]]:
    """The labels of what fires for an event of GPU4 of node02, in a job of eight nodes of eight GPUs."""
    found = alone(
        {
            "name": "pipeline",
            "story": "A job of several stages.",
            "start": "2026-07-01T00:00:00Z",
            "lasts": "35m",
            "jobs": [{"id": "1", "preset": "tp-pp-dp", "nodes": 8, "gpus_per_node": 8, "tp": tp, "pp": pp}],
            "events": [{"node": "node02", "gpu": 4, "start": "20m", "end": "34m"} | event],
            "companions": companions,
        }
    )
    assert {each["sensitivity"] for each in found} == {tier.value for tier in Sensitivity}
    return found


@pytest.mark.parametrize(
    ("tp", "who"),
    [(4, ("straggler", "node02", "GPU4")), (2, ("straggler", None, None))],
    ids=["which half convinces first", "which is like its mate"],
)
def test_a_late_gpu_of_a_long_pipeline_is_not_told_as_a_slow_network(
    tp: int, who: tuple[str, str | None, str | None]
) -> None:
    """The fastest GPU of all waits for it, so the best bandwidth falls. Of a pair nobody can tell who it is."""
    found = in_a_pipeline(tp, 4, {"kind": "late-gpu", "percent": 20})
    assert {(each["suspect"], each.get("node"), each.get("gpu")) for each in found} == {who}


@pytest.mark.parametrize("throughput", [{}, {"throughput": None, "dcgm": False}], ids=["told", "unknown"])
@pytest.mark.parametrize(("tp", "pp"), [(8, 2), (4, 4), (2, 4)])
def test_a_slow_adapter_of_one_of_several_equal_communicators_is_told_as_the_network(
    tp: int, pp: int, throughput: Mapping[str, object]
) -> None:
    found = in_a_pipeline(tp, pp, {"kind": "nic", "loss": 0.13}, **throughput)
    assert {each["suspect"] for each in found} == {"network"}


def test_an_exporter_that_goes_is_no_loss_of_throughput_and_no_slow_link() -> None:
    """Of two nodes: half of the completed collectives are seen no more, and nor is the best bandwidth."""
    one = world_trial("wide", 3233)
    assert one.family == "exporter-gone"
    assert {each.alert for each in said_of(one, MEDIUM)} == {"NcclNodeTelemetryLost", "NcclRecordsDropped"}


@pytest.mark.parametrize("seed", [18, 32, 40, 59, 77])
def test_what_a_job_was_used_to_on_other_nodes_accuses_nobody(seed: int) -> None:
    assert not {each.alert for each in said_of(world_trial("requeues", seed), MEDIUM) if "suspect" in dict(each.labels)}


@pytest.mark.parametrize(
    ("seed", "who"),
    [(44, ("straggler", "dgx03", "GPU6")), (107, ("nvlink", "node02", None)), (109, ("network", None, None))],
)
def test_a_job_that_was_requeued_is_learned_anew_and_who_slows_it_is_named(
    seed: int, who: tuple[str, str | None, str | None]
) -> None:
    alerts = said_of(world_trial("requeues", seed), MEDIUM)
    pages = [dict(each.labels) for each in alerts if each.alert == "NcclJobDegraded"]
    assert {(each["suspect"], each.get("node"), each.get("gpu")) for each in pages} == {who}


def test_links_that_are_slow_since_the_job_came_to_their_node_are_named_until_they_are_mended() -> None:
    slow = {"kind": "nvlink", "node": "node06", "bandwidth": 0.5, "start": "23m", "end": "45m"}
    jobs = [each | {"preset": "tp-dp", "tp": 4} for each in MOVED]
    found = fired(Site(), {"lasts": "50m", "jobs": jobs, "events": [slow]}, tiers=MEDIUM)
    links = {("nvlink", "node06", None)}
    assert named(found) == {"critical": links, "warning": links}
    firing = [each.firing for each in found if each.alert == "NcclJobDegraded"]
    begins = USUAL["start"].timestamp() + 23 * 60
    assert min(start for ((start, _),) in firing) - begins < 300
    assert max(end for ((_, end),) in firing) - begins >= 22 * 60, "evidence of its cost comes later"


def test_another_program_under_the_same_id_has_lost_no_throughput() -> None:
    [job] = USUAL["jobs"]
    another = job | {"start": "21m", "preset": "tp-fsdp", "tp": 4, "tflops": 150}
    jobs = [job | {"to": "20m", "ends": "clean"}, another]
    told = USUAL | {"name": "another", "lasts": "26m", "jobs": jobs, "events": [], "expect": {}}
    begin, (loss,) = recorded(told, "job:training_throughput_loss:ratio", offsets=True)
    assert 18 < (loss.times[-1] - begin) / 60 < 21


def test_the_files_that_a_job_left_on_a_node_count_no_more_at_the_next_look_at_presence() -> None:
    before, after = MOVED
    told = USUAL | {"name": "requeued", "jobs": [before, after | {"first_node": 2}], "events": [], "expect": {}}
    begin, (left,) = recorded(told, "node:nccl_gpus:left", offsets=True)
    assert dict(left.labels)["node"].endswith("01")
    # Back after 23 minutes; six dumps without news of the old node, and four until somebody looks.
    assert (left.times[0] - begin) / 60 < 23 + 5 + 1


def test_a_second_fault_that_is_much_the_deeper_takes_the_verdict_and_a_smaller_one_does_not() -> None:
    job = {"id": "1", "preset": "tp-fsdp", "nodes": 4, "gpus_per_node": 8, "tp": 8}
    slow = {"kind": "nvlink", "node": "node02", "bandwidth": 0.75, "start": "15m"}
    late = {"kind": "late-gpu", "node": "node04", "gpu": 1, "start": "25m"}
    for percent, who in ((40, {("nvlink", "node02"), ("straggler", "node04")}), (2, {("nvlink", "node02")})):
        told = {"lasts": "40m", "jobs": [job], "events": [slow, late | {"percent": percent}]}
        found = (dict(each.labels) for each in fired(Site(), told, tiers=MEDIUM))
        assert {(each["suspect"], each["node"]) for each in found} == who


def test_a_network_that_becomes_slow_a_minute_after_a_late_gpu_was_mended_is_told_as_soon_as_any() -> None:
    late = {"kind": "late-gpu", "node": "node02", "gpu": 1, "percent": 40, "start": "20m", "end": "26m"}
    slow = {"kind": "network", "loss": 0.25, "start": "27m", "end": "40m"}
    told = USUAL | {"name": "one after the other", "lasts": "40m", "events": [late, slow], "expect": {}}
    begin, found = recorded(told, "job:nccl_verdict:depth", offsets=True)
    [network] = (each for each in found if dict(each.labels).get("suspect") == "network")
    assert 27 < (network.times[0] - begin) / 60 < 29.5


LATE = pytest.mark.parametrize("fault", [{"kind": "slow-node"}, {"kind": "late-gpu", "gpu": 1}], ids=["node", "gpu"])


@pytest.mark.parametrize(
    ("job", "severities"),
    [
        ({"preset": "fsdp", "nodes": 4, "domain": 4}, {"critical", "warning"}),
        # Where a dump is scraped from some nodes before the others, a ticket tells the links of one of them.
        ({"preset": "tp-dp", "nodes": 8, "tp": 8, "domain": 8}, {"critical"}),
    ],
    ids=["one communicator", "several"],
)
@LATE
def test_who_is_late_is_named_where_one_domain_holds_the_whole_job(
    job: Mapping[str, object], severities: set[str], fault: Mapping[str, object]
) -> None:
    told = {
        "name": "rack",
        "story": "A job in one rack, whose trays are one NVLink domain.",
        "start": "2026-07-01T00:00:00Z",
        "lasts": "35m",
        "jobs": [{"id": "1", "gpus_per_node": 4, **job}],
        "events": [{"percent": 50, "node": "node02", "start": "20m", "end": "34m", **fault}],
    }
    found = [labels for labels in alone(told) if "suspect" in labels and labels["severity"] in severities]
    assert {labels["sensitivity"] for labels in found if labels["severity"] == "critical"} == set(Sensitivity)
    gpu = "GPU1" if "gpu" in fault else None
    assert {(each["suspect"], each["node"], each.get("gpu")) for each in found} == {("straggler", "node02", gpu)}


@LATE
def test_who_is_late_is_told_although_the_job_has_just_changed_its_messages(fault: Mapping[str, object]) -> None:
    job = {"id": "1", "preset": "tp-dp", "nodes": 4, "gpus_per_node": 4, "tp": 4}
    changed = {"kind": "message-size", "groups": ["dp"], "factor": 0.5, "start": "24m"}
    late = {"node": "node02", "percent": 50, "start": "25m", "end": "33m", **fault}
    found = heard(Site(), {"lasts": "50m", "jobs": [job], "events": [changed, late]})
    assert all("critical" in severities for severities in found.values())


def test_a_late_node_is_told_although_files_hold_different_parts_of_a_step() -> None:
    """A step takes 20 s and every third one has an operation more, so it is in some of the files of any moment."""
    more = {"group": "dp", "operation": "AllReduce", "size": 2**30, "share": 0.2, "every": 3}
    shape = {"nodes": 4, "gpus_per_node": 4, "tp": 4}
    job = {"id": "1", "preset": "tp-dp", **shape, "step": "20s", "traffic": [more]}
    late = {"kind": "slow-node", "node": "node02", "percent": 40, "start": "25m", "end": "45m"}
    found = heard(Site(), {"lasts": "50m", "companions": {}, "jobs": [job], "events": [late]}, MEDIUM)
    assert "warning" in found["medium"]


def test_a_burst_that_is_over_pages_nobody_while_its_loss_still_shows() -> None:
    assert [each for each in judged(7022, "bursts").alarms if each.severity == "critical"] == []


@weak("not told right in every pack")
def test_a_slow_node_of_two_pages_in_every_pack_although_the_median_lies_between_the_nodes() -> None:
    seen = incidents(6144, "slow-node")
    assert all(each.after is not None for each in seen.values())
    assert seen["medium"].located is True


@weak("not told right in every pack")
def test_a_late_node_pages_in_every_pack_where_nothing_tells_the_throughput() -> None:
    assert all(each.after is not None and each.attributed for each in incidents(6530, "slow-node").values())


def test_a_dump_of_other_steps_does_not_interrupt_a_slow_communicator() -> None:
    assert all(each.after is not None and each.pages == 1 for each in incidents(6212, "nic").values())


def test_the_healthy_half_beside_a_slow_communicator_is_not_late() -> None:
    seen = incidents(1704, "nic")
    assert [seen[pack].attributed for pack in ("medium", "high")] == [True, True]
    assert [seen[pack].blamed for pack in ("medium", "high")] == [0, 0]


@pytest.mark.parametrize("seed", [6282, 6412, 6726])
def test_only_the_late_gpu_is_named_and_no_stage_that_it_holds_up(seed: int) -> None:
    seen = incidents(seed, "late-gpu")
    assert [seen[pack].located for pack in ("medium", "high")] == [True, True]


def test_a_late_gpu_whose_advantage_is_missed_is_no_slow_network() -> None:
    assert all(each.attributed for each in incidents(6836, "late-gpu").values())


def test_noise_of_links_in_a_wide_domain_does_not_take_the_place_of_a_slow_nic() -> None:
    seen = incidents(1502, "nic")
    assert [(seen[pack].attributed, seen[pack].pages) for pack in ("medium", "high")] == [(True, 1), (True, 1)]


@weak("the lowest tier stays silent")
def test_slow_links_of_one_node_are_not_told_as_a_slow_network() -> None:
    seen = incidents(6580, "nvlink")
    assert [seen[pack].attributed for pack in ("low", "medium")] == [True, True]


# Three percent of each step are collectives, so 1.5 % of its compute make a GPU late by a third of them.
LITTLE_COMMUNICATION = {
    "id": "1",
    "preset": "fsdp",
    "nodes": 4,
    "step": "6s",
    "position_bias": 0,
    "only": True,
    "traffic": [
        {"group": "world", "operation": "AllReduce", "size": size * 2**20, "share": share, "exposed": 0.5}
        for size, share in ((192, 0.01), (406, 0.02))
    ],
}
BLIND: Mapping[str, object] = {"throughput": None, "dcgm": False}
TFLOPS = "megatron_training_throughput_tflops"
REPORTED = {"companions": {"throughput": {"metric": TFLOPS}}}


def told_in_turn(
    percent: float, starts: Iterable[int], lasts: int, until: int, companions: Mapping[str, object]
) -> int:
    """How often medium tells anything where one GPU after another, each on another node, is late for minutes."""
    turns = [
        {"kind": "late-gpu", "node": f"node0{turn % 4 + 1}", "gpu": 3 * turn % 8, "percent": percent}
        | {"start": f"{start}m", "end": f"{start + lasts}m"}
        for turn, start in enumerate(starts)
    ]
    told = {"lasts": f"{until}m", "jobs": [LITTLE_COMMUNICATION], "events": turns, "companions": companions}
    return sum(len(each.firing) for each in fired(Site(), told, tiers=MEDIUM))


@pytest.mark.parametrize(("companions", "most"), [({}, 0), (BLIND, 2)], ids=["throughput", "nothing"])
def test_gpus_that_are_late_in_turn_for_minutes_are_nobody_where_little_is_communicated(
    companions: Mapping[str, object], most: int
) -> None:
    assert told_in_turn(1.5, range(25, 95, 10), 6, 110, companions) <= most


def test_gpus_that_are_late_in_turn_from_the_start_are_soon_nobody() -> None:
    # Two turns. Where a wrong verdict kept anything from being learned, eight were told, and three of them again.
    assert told_in_turn(6, range(0, 60, 4), 4, 60, BLIND) <= 4


@pytest.mark.parametrize("companions", [{}, BLIND], ids=["throughput", "nothing"])
def test_a_late_gpu_that_costs_throughput_is_told_where_little_is_communicated(
    companions: Mapping[str, object],
) -> None:
    fault = {"kind": "late-gpu", "node": "node02", "gpu": 3, "percent": 15, "start": "25m", "end": "40m"}
    told = {"lasts": "45m", "jobs": [LITTLE_COMMUNICATION], "events": [fault], "companions": companions}
    named = {(dict(each.labels).get("node"), dict(each.labels).get("gpu")) for each in fired(Site(), told)}
    assert named == {("node02", "GPU3")}


Named = tuple[str, str | None, str | None]


def without_a_past(percent: Callable[[int, int], float], nodes: int = 4) -> list[Firing]:
    """The alerts where each GPU, by node and number, is slower by so many percent all along; throughput is not told."""
    slower = {(node, gpu): percent(node, gpu) for node in range(1, nodes + 1) for gpu in range(8)}
    events = [
        {"kind": "late-gpu", "node": f"node0{node}", "gpu": gpu, "percent": by, "start": "0s", "end": "30m"}
        for (node, gpu), by in slower.items()
        if by
    ]
    job = LITTLE_COMMUNICATION | {"nodes": nodes}
    return fired(Site(), {"lasts": "30m", "jobs": [job], "events": events, "companions": BLIND})


def named(alerts: Iterable[Firing]) -> Mapping[str, set[Named]]:
    """Whom alerts of each severity name."""
    found: dict[str, set[Named]] = defaultdict(set)
    for labels in (dict(each.labels) for each in alerts):
        found[labels["severity"]].add((labels["suspect"], labels.get("node"), labels.get("gpu")))
    return found


def test_a_gpu_that_is_late_from_the_start_is_a_ticket_at_once_and_no_page() -> None:
    """By six percent, as by a cap of its power, where little is communicated: nothing says what that costs."""
    told = without_a_past(lambda node, gpu: 6 * ((node, gpu) == (2, 3)))
    assert named(told) == {"warning": {("straggler", "node02", "GPU3")}}
    assert min(each.firing[0][0] for each in told) - USUAL["start"].timestamp() < 300


def test_a_node_that_is_late_from_the_start_is_a_ticket_although_it_is_half_of_the_job() -> None:
    assert named(without_a_past(lambda node, gpu: 20 * (node == 2), nodes=2)) == {
        "warning": {("straggler", "node02", None)}
    }


def test_a_gpu_number_that_always_comes_early_is_no_slow_path_of_a_communicator_of_all_numbers() -> None:
    assert named(without_a_past(lambda node, gpu: 0 if gpu == 5 else 8)) == {}


def test_a_slow_node_is_told_at_once_although_another_of_its_gpus_is_the_latest_in_every_other_dump() -> None:
    begins, lasts, turn = 1800, 480, 70
    slow = {"kind": "slow-node", "node": "node02", "percent": 15, "start": f"{begins}s", "end": f"{begins + lasts}s"}
    latest = [
        {"kind": "late-gpu", "node": "node02", "percent": 15, "start": f"{start}s", "end": f"{start + turn}s"}
        | {"gpu": 3 * number % 8}
        for number, start in enumerate(range(begins, begins + lasts, turn))
    ]
    job = {"id": "1", "preset": "fsdp", "nodes": 4}
    alerts = fired(Site(), {"lasts": "45m", "jobs": [job], "events": [slow, *latest]})
    pages = [each for each in alerts if dict(each.labels)["severity"] == "critical"]
    assert named(pages) == {"critical": {("straggler", "node02", None)}}
    assert len(pages) == len(PACKS)
    assert max(each.firing[0][0] for each in pages) - USUAL["start"].timestamp() - begins < 240
    assert len({dict(each.labels)["gpu"] for each in alerts if each.alert == "NcclGpuLate"}) <= 1


def on_the_same_nodes(series: Iterable[Series]) -> Iterator[Series]:
    """What happens on the nodes 3 and 4, on the other GPUs of the nodes 1 and 2."""
    nodes = {"node03": "node01", "node04": "node02", "node03:9100": "node01:9100", "node04:9100": "node02:9100"}
    for one in series:
        moved = {key: nodes.get(value, value) for key, value in one.labels}
        if moved == dict(one.labels):
            yield one
        elif one.name.startswith(("nccl_", "DCGM_")):
            gpu = moved["gpu"].removeprefix("GPU")
            moved["gpu"] = moved["gpu"].replace(gpu, str(int(gpu) + 4))
            yield replace(one, labels=tuple(moved.items()))
        elif one.name == "node_textfile_mtime_seconds":
            yield replace(one, labels=tuple(moved.items()))


@pytest.mark.parametrize(
    ("hangs", "known"),
    [
        pytest.param(True, {"throughput": None}, id="hang"),
        pytest.param(True, {"throughput": None, "dcgm_tensor": False}, id="hang-memory"),
        # Its utilisation alone says of a node whether it works, or the memory of the GPUs whose files nobody writes.
        pytest.param(False, {"dcgm_tensor": False, "dcgm_memory": False}, id="kill-throughput"),
        pytest.param(False, {"throughput": None, "dcgm_tensor": False}, id="kill-memory"),
    ],
)
def test_a_hang_pages_and_a_killed_job_does_not_although_another_job_works_on_the_same_nodes(
    hangs: bool, known: Mapping[str, object]
) -> None:
    two = {"preset": "fsdp", "nodes": 2, "gpus_per_node": 4}
    first = {"id": "1", "first_node": 1} | ({} if hangs else {"to": "30m", "ends": "killed"})
    told: dict[str, object] = {"lasts": "45m", "jobs": [two | first, two | {"id": "2", "first_node": 3}]}
    told |= {"events": [{"kind": "hang", "job": "1", "start": "30m"}] if hangs else [], "companions": known}
    site = config.site({} if "throughput" in known else REPORTED, "test")
    alerts = {(each.alert, dict(each.labels)["slurm_job_id"]) for each in fired(site, told, change=on_the_same_nodes)}
    assert (("NcclJobStalled", "1") in alerts) == hangs
    assert {job for _, job in alerts} <= {"1"}


def test_a_job_that_loses_throughput_while_its_communication_is_as_it_was_is_a_note_and_no_ticket() -> None:
    """As by a cap of the power of all of its GPUs."""
    site = config.site(REPORTED, "test")
    begin = USUAL["start"].timestamp() + 1800

    def slower(series: Iterable[Series]) -> Iterator[Series]:
        for one in series:
            capped = one.name == TFLOPS
            yield replace(one, values=np.where(one.times < begin, 1, 0.8) * one.values) if capped else one

    told = fired(site, {"lasts": "55m", "events": []}, change=slower)
    assert {(each.alert, dict(each.labels)["severity"]) for each in told} == {("NcclThroughputLost", "info")}
    assert sorted(dict(each.labels)["sensitivity"] for each in told) == ["high", "medium"]
    assert all(600 <= each.firing[0][0] - begin < 780 for each in told)


PAUSES = {"kind": "checkpoint", "lasts": "100s", "every": "17m"}
OTHER_MESSAGES = {"kind": "message-size", "groups": ["tp"], "factor": 0.5, "start": "30m"}


LONG_FAULTS: Sequence[Mapping[str, object]] = (
    {"kind": "network", "loss": 0.15},
    {"kind": "nic", "loss": 0.2, "node": "node02", "gpu": 1},
    {"kind": "nvlink", "loss": 0.15, "node": "node02"},
    {"kind": "late-gpu", "percent": 30, "node": "node02", "gpu": 1},
    {"kind": "slow-node", "percent": 30, "node": "node02"},
)
MEANWHILE = {"evidence": (True, PAUSES), "none": (False, PAUSES), "other messages": (True, OTHER_MESSAGES)}


@pytest.mark.parametrize(
    ("fault", "evidence", "meanwhile"),
    [
        pytest.param(fault, *told, id=f"{name}-{fault['kind']}")
        for number, fault in enumerate(LONG_FAULTS)
        for place, (name, told) in enumerate(MEANWHILE.items())
        # Each of them once, and all together where there is time.
        if FULL or place == number % len(MEANWHILE)
    ],
)
def test_a_fault_of_an_hour_is_one_page_until_it_ends(
    fault: Mapping[str, object], evidence: bool, meanwhile: Mapping[str, object]
) -> None:
    """A fault must not become what the job is used to, whatever pauses it: another suspect would take its place."""
    one = simulated(
        {
            "name": "long",
            "story": "A fault that lasts longer than what came before.",
            "start": "2026-07-01T00:00:00Z",
            "lasts": "95m",
            "companions": {"dcgm": evidence, "counters": evidence},
            "jobs": [{"id": "1", "preset": "tp-dp", "nodes": 4, "gpus_per_node": 4, "tp": 2}],
            "events": [
                {**fault, "start": "25m", "end": "90m"},
                meanwhile,
            ],
        }
    )
    [told] = (each for each in one.recording.faults if each.kind != "none")
    pages = paged(one, Site())
    assert [suspect for suspect, _, _ in pages] == [told.suspect]
    [(_, start, end)] = pages
    assert start - told.start.timestamp() <= 300
    assert end >= told.end.timestamp()


def test_a_fault_of_most_of_a_day_is_one_page_until_it_ends() -> None:
    """What a job is used to is remembered for a day."""
    [job] = USUAL["jobs"]
    slow = {"kind": "late-gpu", "node": "node02", "gpu": 3, "percent": 25, "start": "1h", "end": "21h"}
    told = {"name": "day", "lasts": "22h", "dump_interval": 120, "scrape_interval": 60, "expect": {}, "events": [slow]}
    one = simulated(USUAL | told | {"jobs": [job | {"nodes": 2}]})
    [(suspect, start, end)] = paged(one, config.site({"dump_interval": 120}, "test"))
    [fault] = one.recording.faults
    assert suspect == "straggler"
    assert start - fault.start.timestamp() <= 900
    assert end >= fault.end.timestamp()


def named_twice(series: Iterable[Series]) -> Iterator[Series]:
    """As where each GPU has two communicators inside its node, and the job tells their names."""
    for one in series:
        labels = dict(one.labels)
        if labels.get("n_nodes") == "1":
            for name in ("tensor", "context"):
                yield replace(one, labels=tuple(sorted({**labels, "comm_name": name}.items())))
        else:
            yield one


@pytest.mark.parametrize(
    ("scenario", "tp", "change", "place"),
    [
        pytest.param("nic-slow", 4, list, ("network", None, "GPU1"), id="rail"),
        pytest.param("nic-slow", 2, list, ("network", None, None), id="one of two communicators of two numbers each"),
        pytest.param("nvlink-node", 4, list, ("nvlink", "node02", None), id="links of a node"),
        pytest.param(
            "nvlink-node", 4, named_twice, ("nvlink", "node02", None), id="links of a node, two communicators"
        ),
    ],
)
def test_a_path_that_is_slow_from_the_first_minute_is_named_until_it_ends(
    scenario: str, tp: int, change: Callable[[list[Series]], Iterable[Series]], place: Named
) -> None:
    """Nothing is known that it could be compared with but its like, and it must not become what the job is used to."""
    told = yaml.safe_load(scenario_path(scenario).read_text())
    [slow], [job] = told["events"], told["jobs"]
    alerts = fired(Site(), told | {"events": [slow | {"start": "0m"}], "jobs": [job | {"tp": tp}]}, change)
    begins = told["start"].timestamp()
    ends = begins + 60 * int(slow["end"].removesuffix("m"))
    blamed = [each for each in alerts if "suspect" in dict(each.labels)]
    assert named(blamed) == {"critical": {place}, "warning": {place}}
    pages = {
        ("low", "critical"),
        ("medium", "critical"),
        ("medium", "warning"),
        ("high", "critical"),
        ("high", "warning"),
    }
    assert {(labels["sensitivity"], labels["severity"]) for labels in (dict(each.labels) for each in blamed)} == pages
    for each in blamed:
        [(start, end)] = each.firing
        assert start - begins <= 480
        assert end >= ends


@pytest.mark.parametrize(
    ("layout", "suspects"),
    [({"preset": "tp-pp-dp", "pp": 4}, set()), ({"preset": "tp-dp"}, {"nvlink"})],
    ids=["four stages", "one"],
)
def test_links_that_are_slower_than_others_from_the_start_are_no_fault_where_they_are_those_of_a_stage(
    layout: Mapping[str, object], suspects: set[str]
) -> None:
    """A stage that computes for longer between collectives comes together less closely; within one all are alike."""

    def less_closely(series: Iterable[Series]) -> Iterator[Series]:
        for one in series:
            labels = dict(one.labels)
            longer = 1.6 if labels.get("n_nodes") == "1" and labels.get("node") in ("node07", "node08") else 1.0
            power = -1 if one.name == "nccl_bus_bandwidth_gbs" else 1
            yield replace(one, values=one.values * longer**power)

    job = {"id": "1", "nodes": 8, "gpus_per_node": 4, "tp": 4} | layout
    found = fired(Site(), {"lasts": "30m", "jobs": [job], "events": []}, less_closely, tiers=MEDIUM)
    assert {suspect for suspect, *_ in set().union(*named(found).values())} == suspects


@pytest.mark.parametrize(
    ("companions", "told"), [({}, {}), (BLIND, {"warning": {("network", None, "GPU3")}})], ids=["told", "unknown"]
)
def test_a_rail_a_little_slower_is_no_ticket_where_throughput_is_known_and_not_lost(
    companions: Mapping[str, object], told: Mapping[str, set[Named]]
) -> None:
    traffic = [
        {"group": "tp", "operation": "AllReduce", "size": 48 * 2**20, "share": 0.1, "exposed": 1},
        {"group": "dp", "operation": "AllReduce", "size": 300 * 2**20, "share": 0.15, "exposed": 0},
    ]
    job = {"id": "1", "preset": "tp-dp", "nodes": 4, "gpus_per_node": 8, "tp": 8, "only": True, "traffic": traffic}
    slow = {"kind": "nic", "node": "node02", "gpu": 3, "bandwidth": 0.87, "start": "25m", "end": "35m"}
    hidden = {"lasts": "40m", "jobs": [job], "events": [slow], "companions": companions}
    assert named(fired(Site(), hidden, tiers=MEDIUM)) == told


def test_a_verdict_stays_where_every_other_dump_is_scraped_and_from_all_nodes_at_once() -> None:
    """Every other evaluation has no news then, and is no reason to take anything back."""
    told = few(2, 4, [SLOW_NODE | {"percent": 40, "end": "40m"}]) | {"scrape_interval": 60}
    start, found = recorded(told, "job:nccl_verdict:depth", offsets=False)
    blamed = sorted(at for each in found if dict(each.labels).get("node") == "node02" for at in each.times)
    assert blamed[0] - start <= 1515 + 300
    assert blamed[-1] - start >= 2400
    assert all(later - earlier == 30 for earlier, later in pairwise(blamed))


def test_a_communicator_that_holds_the_whole_job_has_no_paths_and_what_it_loses_is_told_of_all() -> None:
    scenario = yaml.safe_load(scenario_path("healthy-fsdp").read_text())
    slow = {"kind": "network", "loss": 0.25, "start": "25m", "end": "40m"}
    told = scenario | {"events": [slow], "lasts": "40m", "expect": {}}
    _, found = recorded(told, "peer:nccl_(slowness|busbw_drop):ratio", offsets=False)
    across = [each for each in found if dict(each.labels)["transport"] != "nvlink"]
    assert {(each.name, "gpu" in dict(each.labels)) for each in across} == {("peer:nccl_busbw_drop:ratio", False)}
    assert max(each.values.max() for each in across) > 0.2


def few(nodes: int, gpus: int, events: Sequence[Mapping[str, object]] = ()) -> dict[str, object]:
    """A small job of one communicator."""
    job = {"id": "50111", "preset": "fsdp", "nodes": nodes, "gpus_per_node": gpus, "tflops": 399}
    return {
        "name": "few",
        "story": "A small job.",
        "start": "2026-05-01T00:00:00Z",
        "lasts": "45m",
        "jobs": [job],
        "events": events,
    }


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (1, 3), (2, 1), (3, 1)])
def test_a_late_gpu_of_two_or_three_is_paged_in_every_pack_and_a_sound_job_of_them_is_nobodys_business(
    nodes: int, gpus: int
) -> None:
    late = {"kind": "late-gpu", "node": "node01", "gpu": 0, "percent": 30, "start": "20m", "end": "40m"}
    assert alone(few(nodes, gpus)) == []
    told = [each for each in alone(few(nodes, gpus, [late])) if each["severity"] == "critical"]
    assert {each["sensitivity"] for each in told} == {tier.value for tier in Sensitivity}
    assert {(each["suspect"], each["node"]) for each in told} == {("straggler", "node01")}


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1)])
def test_a_late_gpu_of_two_is_one_page_for_an_hour_although_the_other_has_changed_as_well(
    nodes: int, gpus: int
) -> None:
    late = {"kind": "late-gpu", "node": "node01", "gpu": 0, "percent": 30, "start": "20m", "end": "80m"}
    pages = [
        each.firing
        for each in fired(Site(), few(nodes, gpus, [late]) | {"lasts": "85m", "companions": BLIND})
        if dict(each.labels)["severity"] == "critical"
    ]
    assert len(pages) == 2, "low waits for deeper losses"
    assert all(ends - begins > 55 * 60 for ((begins, ends),) in pages)


@pytest.mark.parametrize("seed", [4, 16, 527])
def test_a_page_names_the_slow_node_of_a_domain_and_not_the_one_that_waits_for_it(seed: int) -> None:
    one = world_trial("racks", seed)
    (fault,) = (each for each in one.recording.faults if each.kind != "none")
    assert one.family == "slow-node" and one.scenario.jobs[0].domain > 1, "the priors have changed: choose another seed"
    named = {
        (labels["suspect"], labels["node"])
        for each in said_of(one)
        if "suspect" in (labels := dict(each.labels)) and labels["severity"] == "critical"
    }
    assert named == {("straggler", fault.node)}


@pytest.mark.parametrize("other", ["size", "collective"])
def test_rails_that_do_unlike_things_are_not_compared_before_there_is_a_past(other: str) -> None:
    """Two GPU numbers of each node send half as much as the others, in half of the time."""

    def changed(series: list[Series]) -> Iterator[Series]:
        for one in series:
            labels = dict(one.labels)
            if (
                labels.get("n_nodes", "1") != "1"
                and labels["gpu"] in ("GPU0", "GPU1")
                and "MB" in labels["message_size"]
            ):
                low = int(labels["message_size"].partition("-")[0]) // 2
                unlike = {"message_size": f"{low}-{low + 1}MB"} if other == "size" else {"collective": "AllGather"}
                factor = 0.5 if "exec_time" in one.name else 1.0
                one = replace(one, labels=tuple(sorted({**labels, **unlike}.items())), values=factor * one.values)
            yield one

    scenario = yaml.safe_load(scenario_path("healthy-tp-dp").read_text())
    assert fired(Site(), scenario | {"events": []}, changed, MEDIUM) == []


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1595, id="nodes that talk inside themselves alone meanwhile"),
        pytest.param(1455, id="GPUs whose place in the ring counts for more meanwhile"),
        pytest.param(1285, id="rails whose last dumps are of the evaluation"),
    ],
)
def test_around_an_evaluation_nobody_is_told_by_what_the_job_is_used_to(seed: int) -> None:
    one = world_trial("wide", seed)
    begin = one.recording.start.timestamp()
    spans = [each for each in one.scenario.events if each.kind == "evaluation"]
    told = [
        dict(each.labels)
        for each in said_of(one)
        for start, _ in each.firing
        for span in spans
        if "suspect" in dict(each.labels) and span.start <= start - begin <= (span.end or span.start) + 150
    ]
    assert spans and not told


@pytest.mark.parametrize(
    ("world", "seed", "kind", "suspect", "within"),
    [
        pytest.param("wide", 263, "nic", "network", 210, id="adapter of one pipeline stage"),
        pytest.param("slow-dumps", 447, "slow-node", "straggler", 480, id="node that holds up another"),
    ],
)
def test_what_slows_a_part_of_the_job_pages_although_its_place_cannot_be_named(
    world: str, seed: int, kind: str, suspect: str, within: float
) -> None:
    one = world_trial(world, seed)
    told = [each for each in one.recording.faults if each.kind == kind]
    firing = paged(one, config.site(one.scenario.site, f"{world}-{seed}"))
    assert told and {each for each, _, _ in firing} == {suspect}
    for each in told:
        late = each.start.timestamp() + within
        assert any(start <= late <= end for _, start, end in firing), each
