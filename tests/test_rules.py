# SPDX-License-Identifier: Apache-2.0
"""What holds for all rules together: how many there are, which one reads itself, and that clusters stay apart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import promql_parser
import pytest
import yaml
from processes import PATIENCE, rule_engine, tool

from dashgen import build, catalogue, promql
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import check_rules
from dashgen.errors import UserError
from dashgen.model import AlertRule, RecordingRule, RuleGroup, Sensitivity
from dashgen.recordings.format import Series, read_samples, read_story
from dashgen.targets.rulefile import rule_file
from dashgen.validation.packs import rule_files

EVERY_COMPANION = {name: {"enabled": True} for name in config.Companions.model_fields if name != "throughput"}
SITES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": {
        "companions": {**EVERY_COMPANION, "throughput": {"preset": "megatron-otel"}},
        "acceptance": {"AllReduce": {"mixed": {"large": 100.0}}},
    },
}
MOST_RULES = 20
MOST_SIGNALS = 45
LONGEST_CHAIN = 6


def packs(site: config.Site) -> dict[str, tuple[RuleGroup, ...]]:
    """All groups of a site, by the name of their file."""
    alerts = {f"alerts-{tier}.yaml": build.alerts(site, tier) for tier in Sensitivity}
    return {"recording.yaml": build.recording(site), **alerts}


def rules(site: config.Site) -> Iterator[tuple[str, str]]:
    """Every rule by its name, with its PromQL."""
    for name, groups in packs(site).items():
        for rule in (rule for group in groups for rule in group.rules):
            yield (rule.record if isinstance(rule, RecordingRule) else f"{name}: {rule.alert}"), rule.expr


def test_everything_in_an_expression_is_found_as_the_parser_walks_it() -> None:
    sides = [
        "quantile(0.5, -up) or topk(scalar(x), max_over_time((y)[5m:1m]))",
        'count_values("a", up) - rate(z[5m] offset 1m)',
    ]
    for expr in [*(expr for _, expr in rules(config.Site())), *sides, "-label_replace(up, 'a', 'b', 'c', 'd') > 2"]:
        tree, walked = promql.parse(expr), []
        promql_parser.walk(tree, pre_visit=walked.append)
        assert [*map(str, promql.nodes(tree))] == [*map(str, walked)]


@pytest.mark.parametrize("name", SITES)
def test_no_group_has_more_rules_than_one_look_takes_in(name: str) -> None:
    for path, groups in packs(config.site(SITES[name], "test")).items():
        for group in groups:
            assert len(group.rules) <= MOST_RULES, f"{path}: {group.name}"


def test_a_site_records_no_more_signals_than_somebody_can_know() -> None:
    assert len(build.signals(config.Site())) <= MOST_SIGNALS


@pytest.mark.parametrize("name", SITES)
def test_at_most_one_rule_reads_itself(name: str) -> None:
    signals = build.signals(config.site(SITES[name], "test"))
    assert len([signal for signal, expr in signals.items() if signal in promql.names(expr)]) <= 1


@pytest.mark.parametrize("name", SITES)
def test_no_chain_of_rules_that_read_each_other_in_one_evaluation_is_longer_than_somebody_can_follow(name: str) -> None:
    for group in build.recording(config.site(SITES[name], "test")):
        chains: dict[str, tuple[str, ...]] = {}
        for rule in group.rules:
            before = [chains[read] for read in promql.names(rule.expr) & chains.keys()]
            chains[rule.record] = (*max(before, key=len, default=()), rule.record)
            assert len(chains[rule.record]) <= LONGEST_CHAIN, chains[rule.record]


# Several clusters in one Prometheus.

LABELS = config.Labels(cluster="zone")
NAMED = {LABELS.job, LABELS.node, LABELS.gpu, LABELS.instance, "Hostname", "UUID"}
"""Labels whose values several clusters may share."""


def matched(tree: promql.Tree) -> Iterator[frozenset[str]]:
    """The labels by which an expression joins and groups, a set for every place where it does."""
    for node in promql.nodes(tree):
        matching = getattr(getattr(node, "modifier", None), "matching", None)
        if matching is not None and matching.type == promql_parser.LabelModifierType.Include:
            yield frozenset(matching.labels)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            if node.modifier.type == promql_parser.AggModifierType.By:
                yield frozenset(node.modifier.labels)
            else:
                assert node.modifier.labels == ["nodes"], "what is left out is no name of anything"


@pytest.mark.parametrize("name", SITES)
def test_what_clusters_may_share_is_never_joined_or_grouped_without_the_cluster(name: str) -> None:
    site = config.site({**SITES[name], "labels": {"cluster": LABELS.cluster}}, "test")
    seen = 0
    for rule, expr in rules(site):
        for labels in matched(promql.parse(expr)):
            if labels & NAMED:
                seen += 1
                assert LABELS.cluster in labels, f"{rule}: {sorted(labels)}"
    assert seen > 50


@pytest.mark.parametrize(
    "cluster",
    [
        *("cluster", "k8s_cluster", "_", "x1", "datacenter", "Cluster", "job", "exported_cluster"),
        # Words of PromQL, and labels that mean something to it, to Prometheus or to the rules.
        *("by", "on", "bool", "offset", "group_left", "and", "or", "unless", "sum", "inf", "NaN", "start", "end", "le"),
        *("state", "suspect", "transport", "device", "port", "counter", "guid", "alertname", "__name__", "instance"),
    ],
)
def test_a_cluster_label_is_refused_or_gives_packs_that_promtool_accepts(cluster: str) -> None:
    tool("promtool")
    try:
        site = config.site({**SITES["everything"], "labels": {"cluster": cluster}}, "here")
    except UserError as error:
        assert str(error).startswith("here: labels") and cluster in str(error) and "\n" not in str(error)
        return
    assert check_rules({path: rule_file(groups) for path, groups in packs(site).items()}) == []
    for groups in packs(site).values():
        for rule in (rule for group in groups for rule in group.rules):
            if isinstance(rule, AlertRule):
                assert cluster not in rule.labels


# Labels that mean something already.

OWN = {name: f"own_{name}" for name in ("job", "node", "gpu", "instance", "cluster")}
DCGM = {"Hostname", "UUID", "gpu"}
"""dcgm-exporter's labels, which a site names itself, or shares with Inspector."""


def made(tree: promql.Tree) -> Iterator[str]:
    """The labels that an expression gives its result."""
    for node in promql.nodes(tree):
        if isinstance(node, promql_parser.Call) and node.func.name in ("label_replace", "label_join"):
            assert isinstance(node.args[1], promql_parser.StringLiteral)
            yield node.args[1].val
        elif isinstance(node, promql_parser.AggregateExpr) and str(node.op) == "count_values":
            assert isinstance(node.param, promql_parser.StringLiteral)
            yield node.param.val


def test_a_site_cannot_give_its_own_things_a_label_that_the_rules_make_or_join_by() -> None:
    site = config.site({**SITES["everything"], "labels": OWN}, "test")
    used = {label for signal in catalogue.SIGNALS for label in signal.labels if "<" not in label}
    for tree in {promql.parse(expr) for _, expr in rules(site)}:
        used |= {*made(tree)}.union(*matched(tree))
    assert {"kinds", "of", "fault", "counter", "le"} <= used
    for label in sorted(used - {*OWN.values()} - DCGM):
        with pytest.raises(UserError, match=f"^here: labels.job: '{label}' is used by the rules themselves; "):
            config.site({"labels": {"job": label}}, "here")


@pytest.mark.parametrize(
    "label",
    ["device", "port", "counter", "guid", "transport", "suspect", "state", "evidence", "slurm_job_id", "node", "gpu"],
)
@pytest.mark.parametrize("where", ["alert_labels", "alerts.NcclJobDegraded.labels", "targets.prometheus.group.labels"])
def test_a_label_that_alerts_have_already_is_refused_by_its_key(label: str, where: str) -> None:
    data: dict[str, Any] = {label: "x"}
    for key in reversed(where.split(".")):
        data = {key: data}
    with pytest.raises(UserError, match=rf"^here: .*{where}\.{label}: ") as caught:
        config.site(data, "here")
    assert "\n" not in str(caught.value)


def test_no_alert_reaches_the_receiver_of_the_site_by_accident(tmp_path: Path) -> None:
    example: Any = build.alertmanager(config.Site())
    assert {"nobody", "pager", "tickets"} == {each["name"] for each in example["receivers"]}
    example["route"]["receiver"] = "own"
    example["receivers"].append({"name": "own"})
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(example))
    amtool = (tool("amtool"), "config", "routes", "test", f"--config.file={tmp_path / 'alertmanager.yml'}")
    for alert, severity, receiver in (
        ("NcclJobDegraded", "critical", "pager"),
        ("NcclJobDegraded", "warning", "tickets"),
        ("NcclJobDegraded", "info", "nobody"),
        ("DiskFull", "critical", "own"),
    ):
        asked = [*amtool, f"--verify.receivers={receiver}", f"alertname={alert}", f"severity={severity}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# What a job achieves.

START, LASTS, TRUTH = 1_773_930_000.0, 2400.0, 16.5
GONE = START + 1500  # the exporter of the second node


def counted(phase: float, every: float) -> Iterator[Series]:
    """Two nodes of four GPUs whose files are written every 30.1 s and complete 16.5 collectives a second each."""
    all_times = START + phase + np.arange(0, LASTS, every)
    shape = {"n_nodes": "2", "nranks": "8", "comm_name": "tp", "collective": "AllReduce", "message_size": "256-257MB"}
    for number in range(8):
        node, first = f"n{number // 4}", START - 600 + 7 * (number // 4) + 0.3 * (number % 4)
        times = all_times[all_times < GONE] if number // 4 else all_times
        written = first + 30.1 * np.floor((times - first) / 30.1)
        target = {"instance": f"{node}:9100", "job": "node"}
        gpu = {**target, "slurm_job_id": "7", "node": node, "gpu": f"GPU{number % 4}", "version": "v5.1"}
        file = {**target, "file": f"/textfile/nccl_inspector_metrics_{number}.prom"}
        bucket = {**gpu, **shape, "algo_proto": "RING_SIMPLE"}
        for name, labels, values in (
            ("collectives", gpu, np.floor(TRUTH * (written - first))),
            ("mtime", file, written),
            ("busbw", bucket, 46 + 0.01 * (written % 7)),
            ("exec", bucket, 1e4 + written % 7),
        ):
            yield Series(upstream(name), tuple(sorted(labels.items())), times, values)


@pytest.mark.parametrize("every", [15.0, 20.0])
@pytest.mark.parametrize("phase", [1.0, 9.0, 14.0])
def test_the_throughput_that_counters_tell_hangs_neither_on_the_moments_of_scrapes_nor_on_how_many_gpus_are_seen(
    phase: float, every: float
) -> None:
    """A rate over four dumps holds three to five of them, and reads 14 to 20 here."""
    moments = engine.Moments(START, START + LASTS - 30, every, 30, False)
    files = {"rules": rule_file(build.recording(config.Site()))}
    (told,) = engine.replay(
        rule_engine(), files, counted(phase, every), moments, "job:training_throughput:current", START
    ).series
    assert told.values[told.times > START + 300] == pytest.approx(TRUTH, rel=0.04)


def test_where_another_source_tells_the_throughput_from_now_on_the_job_has_one_loss() -> None:
    times, job = START + 30.0 * np.arange(20), (("slurm_job_id", "7"),)
    early = times < START + 300
    samples = [Series("job:nccl_progress:timestamp", job, times, times)]
    for source, when, value in (("collectives", early, 90.0), ("tensor", ~early, 0.4)):
        said = tuple(sorted((*job, ("evidence", source))))
        learned = tuple(sorted((*said, ("of", "throughput"))))
        samples += [
            Series("job:training_throughput:current", said, times[when], np.full(when.sum(), value)),
            Series("peer:nccl_evidence:usual", learned, times, np.full(20, 100.0 if source == "collectives" else 0.5)),
        ]
    told = alone("job:training_throughput_loss:ratio", samples, times[-1])
    moments = [at for each in told for at in each.times]
    assert sorted(moments) == pytest.approx(times[1:]) and len({dict(each.labels)["evidence"] for each in told}) == 2


# Who is there.


def files_of(job: str, first_gpu: int, moves: bool, metrics: tuple[str, ...]) -> Iterator[Series]:
    """Four GPUs of a node, whose files show these metrics and are written every dump, or never again."""
    times = START + np.arange(0, 1200, 15.0)
    for number in range(first_gpu, first_gpu + 4):
        labels = {"instance": "n0:9100", "slurm_job_id": job, "node": "n0", "gpu": f"GPU{number}", "version": "v5.1"}
        if metrics != ("collectives",):
            labels |= {"n_nodes": "1", "nranks": "4", "comm_name": "tp", "collective": "AllReduce"}
            labels |= {"message_size": "256-257MB", "algo_proto": "RING_SIMPLE"}
        for name in metrics:
            values = 1e4 + (times - START) // 30 * moves
            yield Series(upstream(name), tuple(sorted(labels.items())), times, values)


def test_a_job_is_there_with_or_without_a_first_gpu_and_files_left_behind_are_no_job() -> None:
    samples = [
        *files_of("whole", 0, True, ("busbw", "exec")),
        *files_of("upper half", 4, True, ("busbw", "exec")),
        *files_of("left behind", 0, False, ("busbw", "exec")),
        *files_of("idle at its end", 0, False, ("collectives",)),
    ]
    files = {"rules": rule_file(build.recording(config.Site()))}
    moments = engine.Moments(START, START + 1200 - 30, 15, 30, False)
    told = engine.replay(rule_engine(), files, samples, moments, "node:nccl_gpus:count", START).series
    assert {dict(each.labels)["slurm_job_id"]: set(each.values) for each in told} == {"whole": {4}, "upper half": {4}}


@pytest.mark.parametrize(
    "name", ["stalled", "dead-rank", "mnnvl-lost", "algorithm-change", "exporter-gone", "slow-node"]
)
def test_whatever_happens_to_jobs_without_an_id_nobody_is_called(name: str) -> None:
    folder = Path(__file__).parent / "recordings" / name
    story = read_story(folder)
    samples = [
        replace(one, labels=tuple((key, "unknown" if key == "slurm_job_id" else value) for key, value in one.labels))
        for one in read_samples(folder)
    ]
    moments = engine.Moments.of(story, 30, offsets=True)
    for found, called in ((samples, False), (read_samples(folder), True)):
        fired = engine.replay(rule_engine(), rule_files(config.Site()), found, moments).alerts
        assert any(each.firing for each in fired) is called


# What a GPU is used to.

EXCESS = "gpu:nccl_lateness_excess:ratio"
DEPTH = "job:nccl_suspect:depth"


@pytest.mark.parametrize("habit", [0.15, -0.3, 0.02])
def test_a_habit_is_remembered_while_it_lasts_and_forgotten_when_it_has_ended(habit: float) -> None:
    times = START + np.arange(0, 6 * 3600, 30.0)
    noise = 0.004 * np.sin(np.arange(times.size) * 2.4)
    ended = START + 3 * 3600
    samples = [
        Series("peer:nccl_evidence:healthy", healthy_of(gpu), times, np.where(times < until, habit, 0.0) + noise)
        for gpu, until in {"never": START, "ended": ended, "always": times[-1] + 1}.items()
    ]
    (usual,) = (group for group in build.recording(config.Site()) if group.name == "nccl-usual")
    files = {"rules": rule_file([usual])}
    moments = engine.Moments(START, times[-1], 30, 30, False)
    told = engine.replay(rule_engine(), files, samples, moments, "peer:nccl_evidence:usual", START).series
    found = {dict(each.labels)["gpu"]: each for each in told}

    assert found["never"].values == pytest.approx(0, abs=0.005)
    assert found["always"].values == pytest.approx(habit, abs=0.005)
    assert found["ended"].values[found["ended"].times < ended] == pytest.approx(habit, abs=0.005)
    assert abs(found["ended"].values[-1]) < 0.02, "what counts for a day is the last"


def lateness_of(gpu: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((*gpu_labels(gpu), ("of", "lateness"))))


def healthy_of(gpu: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((*lateness_of(gpu), ("nodes", "1"))))


def test_what_was_learned_last_is_remembered_while_the_job_is_there() -> None:
    """Through a fault of three hours, of which nothing is learned; and not when the job has gone."""
    times = START + np.arange(0, 8 * 3600, 30.0)
    learned, there = times < START + 3600, times < START + 4 * 3600
    node = (("instance", "n0"), ("node", "n0"), ("slurm_job_id", "7"))
    samples = [
        Series("peer:nccl_evidence:healthy", healthy_of("GPU0"), times[learned], 0.1 + 0.01 * np.sin(times[learned])),
        Series("node:nccl_gpus:count", node, times[there], np.full(there.sum(), 8.0)),
    ]
    (group,) = (group for group in build.recording(config.Site()) if group.name == "nccl-usual")
    moments = engine.Moments(START, times[-1], 30, 30, False)
    told = engine.replay(
        rule_engine(), {"rules": rule_file([group])}, samples, moments, "peer:nccl_evidence:(usual|remembered)", START
    ).series
    usual, remembered = (next(one for one in told if one.name.endswith(name)) for name in ("usual", "remembered"))
    assert not set(usual.times) & set(remembered.times)
    assert remembered.values == pytest.approx(usual.values[-1])
    assert abs(remembered.times[-1] - (START + 4 * 3600)) < 600


def test_a_node_that_a_job_has_left_counts_no_more_until_it_comes_back() -> None:
    times = START + 120.0 * np.arange(40)
    away = (times > START + 600) & (times < START + 3600)
    nodes = [(("instance", name), ("node", name), ("slurm_job_id", "7")) for name in ("n0", "n1")]
    samples = [
        Series("node:nccl_gpus:count", nodes[0], times, np.full(times.size, 8.0)),
        Series("node:nccl_gpus:count", nodes[1], times[~away], np.full((~away).sum(), 8.0)),
    ]
    (told,) = alone("node:nccl_gpus:left", samples, times[-1])
    assert told.labels == nodes[1] and set(told.values) == {8.0}
    assert START + 1200 <= told.times[0] <= START + 1290
    assert START + 3600 - 120 <= told.times[-1] <= START + 3600


def gpu_labels(gpu: str) -> tuple[tuple[str, str], ...]:
    return (("gpu", gpu), ("node", "n0"), ("slurm_job_id", "7"))


def test_a_job_that_slurm_has_ended_is_forgotten_within_two_hours_although_slurm_still_knows_it() -> None:
    times = START + np.arange(0, 4 * 3600, 30.0)
    samples = [
        Series("job:nccl_dump_age:seconds", (("slurm_job_id", "7"),), times, times - START),
        Series("slurm_job_info", (("job_id", "7"), ("job_state", "COMPLETED")), times, np.ones(times.size)),
    ]
    site = config.site({"companions": {"slurm": {"enabled": True}}}, "test")
    (gone,) = alone("job:nccl_quiet:seconds", samples, times[-1], site)
    assert dict(gone.labels)["evidence"] == "gone"
    assert gone.times[0] < START + 120 and 6000 < gone.values[-1] < 7200


@pytest.mark.parametrize(("since", "evidence"), [(0, "dead"), (570, "none")])
def test_the_first_file_after_a_pause_is_not_the_last_one_of_a_dead_process(since: int, evidence: str) -> None:
    times = START + np.arange(0, 600, 30.0)
    told = times >= START + since
    job, communicator = ("slurm_job_id", "7"), (("kinds", "1"), ("n_nodes", "1"), ("nranks", "2"))
    samples = [
        Series("job:nccl_dump_age:seconds", (job,), times, times - START + 90),
        Series("node:nccl_gpus:count", (("node", "n0"), job), times, np.full(times.size, 2.0)),
        Series("nccl_collectives_total", gpu_labels("GPU0"), times, np.ones(times.size)),
        Series("gpu:nccl_exec:sum", tuple(sorted((*gpu_labels("GPU1"), *communicator))), times[told], times[told]),
    ]
    quiet = alone("job:nccl_quiet:seconds", samples, times[-1])
    assert [dict(each.labels)["evidence"] for each in quiet if each.times[-1] >= times[-1] - 30] == [evidence]


@pytest.mark.parametrize(
    ("evidence", "longest", "after"),
    [("spinning", 470.0, 480), ("idle", 470.0, 480), ("spinning", 1200.0, 480), ("idle", 1200.0, 1200)],
)
def test_a_habit_excuses_no_silence_in_which_a_watchdog_would_end_the_job_unless_it_survived_a_longer_one(
    evidence: str, longest: float, after: float
) -> None:
    times = START + np.arange(0, 3600, 30.0)
    quiet = {"slurm_job_id": "7", "evidence": evidence}
    silent = times >= START + 1800
    age = np.where(silent, times - START - 1800, 0.0)
    samples = [
        Series("job:nccl_gpus:count", (("slurm_job_id", "7"),), times, np.full(times.size, 8.0)),
        Series("job:nccl_pause:seconds", (("slurm_job_id", "7"),), times[:40], np.full(40, longest)),
        Series("job:nccl_dump_age:seconds", (("slurm_job_id", "7"),), times, age),
        Series("job:nccl_quiet:seconds", tuple(sorted(quiet.items())), times[silent], age[silent]),
    ]
    told = alone("job:nccl_verdict:depth", samples, times[-1])
    (stalled,) = (each for each in told if dict(each.labels)["state"] == "stalled")
    assert stalled.times[0] == pytest.approx(START + 1800 + after, abs=30)


@pytest.mark.parametrize(("least", "habits"), [(1.0, 1), (0.1, 0)])
def test_a_long_pause_is_a_habit_where_the_processes_kept_their_memory_throughout(least: float, habits: int) -> None:
    times = START + np.arange(0, 3600, 30.0)
    silent, job = (times >= START + 1800) & (times < START + 3000), ("slurm_job_id", "7")
    age = np.where(silent, times - START - 1800, 0.0)
    used = np.where(times == START + 2700, least, 1.0) * 6e10
    samples = [
        Series("job:nccl_gpus:count", (job,), times, np.full(times.size, 8.0)),
        Series("job:nccl_dump_age:seconds", (job,), times, age),
        Series("job:memory_used:bytes", (("of", "gpu"), job), times, used),
        Series("job:memory_used:bytes", (("of", "communicating gpu"), job), times[~silent], used[~silent]),
    ]
    told = alone("job:nccl_pause:seconds", samples, times[-1])
    assert len(told) == habits and all(each.values.max() == 1170 for each in told)


def alone(record: str, samples: Sequence[Series], end: float, site: config.Site | None = None) -> list[Series]:
    """What one rule records from these samples, those of other rules among them."""
    groups = build.recording(site or config.Site())
    (rule,) = (each for group in groups for each in group.recorded if each.record == record)
    files = {"rules": rule_file([RuleGroup(name="alone", interval="30s", rules=(rule,))])}
    moments = engine.Moments(START, end, 30, 30, False)
    return engine.replay(rule_engine(), files, samples, moments, record, START).series


@pytest.mark.parametrize(("usual", "now", "lost"), [(-0.3, -0.1, -0.1), (-0.3, 0.2, 0.2), (0.1, 0.4, 0.3)])
def test_a_path_that_was_faster_than_most_has_lost_nothing_until_it_is_slower(
    usual: float, now: float, lost: float
) -> None:
    times = START + 30.0 * np.arange(8)
    path = tuple(sorted({"slurm_job_id": "7", "transport": "nvlink", "node": "n1"}.items()))
    samples = [
        Series("peer:nccl_slowness:ratio", path, times, np.full(8, now)),
        Series("peer:nccl_evidence:usual", tuple(sorted((*path, ("of", "slowness")))), times, np.full(8, usual)),
        Series("job:nccl_progress:timestamp", (("slurm_job_id", "7"),), times, times),
    ]
    (told,) = alone("job:nccl_suspect:depth", samples, times[-1])
    assert told.values[-1] == pytest.approx(lost)


def excess_of(lateness: Sequence[float], usual: float | None = 0.0) -> dict[int, float]:
    """By how much one of four GPUs is later than it is used to, by dump."""
    times = START + 30.0 * np.arange(len(lateness))
    one, job = gpu_labels("GPU0"), (("slurm_job_id", "7"),)
    samples = [
        Series("gpu:nccl_lateness:ratio", one, times, np.array(lateness)),
        Series("job:nccl_progress:timestamp", job, times, times),
        Series("node:nccl_gpus:count", (("instance", "n0"), *one[1:]), times, np.full(len(lateness), 4.0)),
    ]
    if usual is not None:
        samples.append(Series("peer:nccl_evidence:usual", lateness_of("GPU0"), times, np.full(len(lateness), usual)))
    told = alone(EXCESS, samples, times[-1])
    return {round((at - START) / 30): value for each in told for at, value in zip(each.times, each.values, strict=True)}


def test_a_gpu_without_a_past_is_not_judged_by_that_of_its_job() -> None:
    """A node that joins a job may have any fixed position."""
    assert excess_of([0.15] * 12, usual=None) == {}
    assert excess_of([0.15] * 12)[11] == pytest.approx(0.15)
    assert excess_of([0.35] * 12, usual=None)[11] == pytest.approx(0.15)


def test_a_late_node_is_blamed_although_another_of_its_gpus_is_the_latest_in_every_dump() -> None:
    times = START + 30.0 * np.arange(8)
    gpus = [(*gpu_labels(f"GPU{number}"), ("suspect", "straggler")) for number in range(4)]
    node = gpus[0][1:]
    samples = [
        Series("job:nccl_suspect:score", node, times, np.full(8, 1.5)),
        *(Series("job:nccl_suspect:score", gpu, times[at::4], np.full(2, 1.5)) for at, gpu in enumerate(gpus)),
    ]
    (told,) = alone("job:nccl_suspect:since", samples, times[-1])
    assert told.labels == node
    assert told.times == pytest.approx(times[1:]), "from the second dump on"


def test_who_is_blamed_stays_until_three_quarters_of_the_evidence_are_gone() -> None:
    """The samples that are learned first ask for more than none did."""
    scores = [3.0, 3.0, 3.0, *[0.3] * 10, *[0.2] * 10]
    times = START + 30.0 * np.arange(len(scores))
    suspect = (*gpu_labels("GPU0"), ("suspect", "straggler"))
    (told,) = alone(
        "job:nccl_suspect:since", [Series("job:nccl_suspect:score", suspect, times, np.array(scores))], times[-1]
    )
    assert told.times == pytest.approx(times[:13])


# What a transport has lost.


def lost(now: Mapping[str, float], held_up: float = 1.2) -> float:
    """The drop of a network by what each size of message reaches, all of which are used to 100 and stray by 2 %.

    The GPU in the middle spends ``held_up`` times as long in collectives as it is used to.
    """
    times = START + 30.0 * np.arange(10)
    job = {"slurm_job_id": "7", "n_nodes": "8", "nranks": "8"}
    samples = [
        Series("job:nccl_transport:info", tuple(sorted((job | {"transport": "network"}).items())), times, np.ones(10)),
        Series("job:nccl_progress:timestamp", (("slurm_job_id", "7"),), times, times),
    ]
    for size, speed in now.items():
        kind = job | {"comm_name": "dp", "collective": "AllReduce", "message_size": size, "algo_proto": "RING_SIMPLE"}
        learned = tuple(sorted((kind | {"of": "bandwidth"}).items()))
        samples += [
            Series("peer:nccl_busbw:best", tuple(sorted(kind.items())), times, np.full(10, speed)),
            Series("peer:nccl_evidence:usual", learned, times, np.full(10, 100.0)),
            Series("peer:nccl_evidence:spread", learned, times, np.full(10, 0.02)),
        ]
    alike = job | {"kinds": "4"}
    for number in range(3):
        gpu = alike | {"node": "n0", "gpu": f"GPU{number}"}
        spent = 100.0 * (held_up + 0.5 * (number - 1))
        samples.append(Series("gpu:nccl_exec:sum", tuple(sorted(gpu.items())), times, np.full(10, spent)))
    learned = tuple(sorted((alike | {"of": "time"}).items()))
    samples.append(Series("peer:nccl_evidence:usual", learned, times, np.full(10, 100.0)))
    (told,) = alone(DEPTH, samples, times[-1])
    return float(told.values[-1])


def test_half_of_the_kinds_of_collectives_tell_what_a_transport_has_lost_and_no_single_one() -> None:
    assert lost({"1-2MB": 40.0, "25-26MB": 99.0, "52-53MB": 100.0, "8-9MB": 97.0}) == pytest.approx(0.02)
    assert lost({"1-2MB": 99.0, "25-26MB": 85.0, "52-53MB": 88.0, "8-9MB": 86.0}) == pytest.approx(0.13)


def test_a_transport_has_lost_nothing_while_the_gpu_in_the_middle_is_not_held_up() -> None:
    """All had to wait for somebody who comes in time now: nobody transfers without waiting any more."""
    assert lost({"25-26MB": 70.0, "52-53MB": 70.0}, held_up=1.02) == pytest.approx(0.3)
    assert lost({"25-26MB": 70.0, "52-53MB": 70.0}, held_up=0.98) == 0
