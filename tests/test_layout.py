# SPDX-License-Identifier: Apache-2.0
"""Rules on two levels: edges that hold whole jobs, and one global level, say what one server says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from engines import live
from engines.fleet import fleet
from engines.timelines import VERDICT, lag, timelines
from processes import FULL, rule_engine
from targets import loaded, render

from dashgen import build, promql
from dashgen.build.layout import levels
from dashgen.config.layout import RuleForm
from dashgen.config.site import Site, site
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import Firing
from dashgen.errors import UserError
from dashgen.model import AlertRule, RecordingRule, RuleGroup, Sensitivity
from dashgen.recordings.format import Series
from dashgen.targets.layout import FORMS
from dashgen.targets.rulefile import rule_file

SITES = {
    "defaults": Site(),
    "clusters": site({"labels": {"cluster": "cluster"}, "layout": {"edge": "vmalert", "global": "mimir"}}, "test"),
    "accepted": site({"acceptance": {"AllReduce": {"network": {"large": 180}}}}, "test"),
    "reported": site({"companions": {"throughput": {"metric": "tokens_per_second"}}}, "test"),
}


def groups(found: Site, path: str) -> list[dict[str, object]]:
    return list(loaded(render("layout", found)[f"layout/{path}.yaml"])["groups"])


def reads(found: Site, path: str) -> dict[str, frozenset[str]]:
    """What each recorded series, and each alert, is made from on one level."""
    rules = [rule for group in groups(found, path) for rule in group["rules"]]  # type: ignore[attr-defined]
    return {rule.get("record") or rule["alert"]: promql.names(rule["expr"]) for rule in rules}


@pytest.mark.parametrize("name", SITES)
def test_every_series_is_recorded_on_one_level_and_what_the_other_reads_travels_up(name: str) -> None:
    found = SITES[name]
    edge, above = reads(found, "edge"), reads(found, "global")
    (keep,) = loaded(render("layout", found)["layout/travels.yaml"])
    travels = set(keep["regex"].split("|"))
    whole = {rule.record for group in build.recording(found) for rule in group.rules if isinstance(rule, RecordingRule)}
    alerts = {rule.alert for group in build.alerts(found, found.sensitivity) for rule in group.rules}  # type: ignore[union-attr]

    assert edge.keys() | above.keys() == whole | alerts and not edge.keys() & above.keys()
    assert alerts <= above.keys() and "job:nccl_verdict:since" in above
    assert travels <= edge.keys() and VERDICT in travels
    # Of GPUs, those alone that are later than they are used to: none where nobody is.
    assert {name for name in travels if not name.startswith(("job:", "node:"))} == {"gpu:nccl_lateness_excess:ratio"}
    for read in edge.values():
        assert not read & above.keys()
    for read in above.values():
        assert read <= travels | above.keys()


def test_every_rule_pack_that_is_one_document_can_be_a_level() -> None:
    assert set(get_args(RuleForm)) == set(FORMS)


def test_an_alert_on_what_stays_at_the_edges_is_refused() -> None:
    alert = AlertRule(
        alert="Mine", expr="nccl_bus_bandwidth_gbs < 1", for_="", keep_firing_for="", labels={}, annotations={}
    )
    with pytest.raises(UserError, match="layout: Mine reads nccl_bus_bandwidth_gbs"):
        levels(build.recording(Site()), [RuleGroup(name="mine", interval="30s", rules=(alert,))], ())
    looks_up = replace(alert, expr=VERDICT, annotations={"summary": '{{ range query "up{a=\\"b\\"}" }}{{ end }}'})
    with pytest.raises(UserError, match="reads up"):
        levels(build.recording(Site()), [RuleGroup(name="mine", interval="30s", rules=(looks_up,))], ())


def of_shard(samples: Iterable[Series], shard: int, shards: int) -> Iterator[Series]:
    """What an agent sends to one of several edges: each job to one of them, and to all what knows no job."""
    for one in samples:
        job = dict(one.labels).get("slurm_job_id")
        if job is None or int(job) % shards == shard:
            yield one


def pages(found: Iterable[Firing], every: float) -> dict[tuple[object, ...], list[int]]:
    """When each alert began to fire, in evaluations."""
    return {(one.alert, one.labels): [round(start / every) for start, _ in one.firing] for one in found if one.firing}


def test_two_edges_and_a_global_level_say_what_one_server_says() -> None:
    found, every = Site(), 30.0
    samples, start, end = fleet(["network-25-short", "nvlink-node"])
    jobs = {dict(one.labels).get("slurm_job_id") for one in samples} - {None}
    assert {int(job) % 2 for job in jobs if job} == {0, 1}
    moments = engine.Moments(start, end, 15.0, every, False)
    program, pack = rule_engine(), build.bundle(found, [Sensitivity.MEDIUM])
    whole = engine.replay(
        program, {"all": rule_file([*pack.recording, *pack.alerts[Sensitivity.MEDIUM]])}, samples, moments, VERDICT
    )

    files = render("layout", found)
    (keep,) = loaded(files["layout/travels.yaml"])
    travelled = [
        one
        for shard in range(2)
        for one in engine.replay(
            program, {"edge": files["layout/edge.yaml"]}, of_shard(samples, shard, 2), moments, keep["regex"]
        ).series
    ]
    above = engine.replay(
        program, {"global": files["layout/global.yaml"]}, travelled, replace(moments, scrape_interval=every), VERDICT
    )

    verdicts = [timelines(one, start, every) for one in (whole.series, travelled)]
    assert len(verdicts[0]) == 2 and not lag(*verdicts, 1, (end - start) / every)
    one, two = pages(whole.alerts, every), pages(above.alerts, every)
    assert one and one.keys() == two.keys()
    assert all(len(one[each]) == len(two[each]) for each in one)
    assert max(abs(a - b) for each in one for a, b in zip(one[each], two[each], strict=True)) <= 1


def test_jobs_of_equal_numbers_stay_apart_by_the_label_of_their_edge() -> None:
    found, every = site({"labels": {"cluster": "cluster"}}, "test"), 30.0
    samples, start, end = fleet(["network-25-short", "nvlink-node"])
    moments, files = engine.Moments(start, end, 15.0, every, False), render("layout", found)
    (keep,) = loaded(files["layout/travels.yaml"])
    travelled = []
    for shard, cluster in enumerate(("a", "b")):
        own = [labelled(one, slurm_job_id="7") for one in of_shard(samples, shard, 2)]
        edge = engine.replay(rule_engine(), {"edge": files["layout/edge.yaml"]}, own, moments, keep["regex"])
        travelled += [labelled(one, slurm_job_id="", cluster=cluster) for one in edge.series]
    above = engine.replay(
        rule_engine(), {"global": files["layout/global.yaml"]}, travelled, replace(moments, scrape_interval=every)
    )

    fired = [dict(one.labels) for one in above.alerts if one.alert == "NcclJobDegraded" and one.firing]
    assert {(each["cluster"], each["slurm_job_id"], each["suspect"]) for each in fired} == {
        ("a", "7", "nvlink"),
        ("b", "7", "network"),
    }


def labelled(one: Series, slurm_job_id: str = "", **more: str) -> Series:
    """A series with further labels, and another job where it knows one."""
    labels = dict(one.labels) | more
    if slurm_job_id and "slurm_job_id" in labels:
        labels["slurm_job_id"] = slurm_job_id
    return replace(one, labels=tuple(sorted(labels.items())))


def sharded(shard: int, shards: int) -> str:
    """How an agent sends each job to one of several edges, and to all what knows no job: as the page about layouts."""
    page = Path(build.__file__).parents[1] / "docs" / "layout.md"
    lines = re.search(r"# agent.yaml\n(.*?)```", page.read_text(), re.DOTALL)
    assert lines
    return lines[1].replace("modulus: 8", f"modulus: {shards}").replace("regex: 3;", f"regex: {shard};")


@pytest.mark.heavy
@pytest.mark.skipif(not FULL, reason="DASHGEN_FULL=1 plays two recordings live for seven minutes")
def test_two_victoria_metrics_below_a_third_say_what_one_says(tmp_path: Path) -> None:
    # Where results come late, the loss of four minutes is over before the verdict about it has stood for three dumps.
    samples, start, end = fleet(["network-25", "nvlink-node"])
    names = ("one", "left", "right", "above")
    one, left, right, above = (tmp_path / name for name in names)
    own = site({"dump_interval": live.DUMP, "layout": {"edge": "vmalert", "global": "vmalert"}}, "test")
    files, whole = render("layout", own), "".join(render("vmalert", own)["vmalert/nccl-recording.yaml"])
    with ExitStack() as stack:
        stores = {}
        for folder in (one, left, right, above):
            folder.mkdir()
            stores[folder] = stack.enter_context(live.victoria(folder))
        stack.enter_context(live.vmalert(one, whole, stores[one]))
        for folder in (left, right):
            sent = {stores[folder]: "[]", stores[above]: files["layout/travels.yaml"]}
            results = stack.enter_context(live.vmagent(folder, sent))
            stack.enter_context(live.vmalert(folder, files["layout/edge.yaml"], stores[folder], results))
        stack.enter_context(live.vmalert(above, files["layout/global.yaml"], stores[above]))
        shards = {stores[folder]: sharded(number, 2) for number, folder in enumerate((left, right))}
        agent = stack.enter_context(live.vmagent(tmp_path, {stores[one]: "[]", **shards}))
        begin = (time.time() // live.DUMP + 2) * live.DUMP
        live.play(live.quickened(samples, start, begin, live.DUMP / 30.0), agent)
        said = [timelines(live.stored(stores[folder], VERDICT), begin, live.DUMP) for folder in (one, above)]
        paged = {
            labels["slurm_job_id"]
            for each in live.stored(stores[above], "ALERTS")
            if (labels := dict(each.labels))["alertname"] == "NcclJobDegraded" and labels["alertstate"] == "firing"
        }
        jobs = [
            {dict(each.labels)["slurm_job_id"] for each in live.stored(stores[folder], VERDICT)}
            for folder in (left, right)
        ]

    assert [len(each) for each in jobs] == [1, 1] and paged == jobs[0] | jobs[1]
    assert not lag(*said, 1, (end - start) / 30.0)
