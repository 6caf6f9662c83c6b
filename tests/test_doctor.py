# SPDX-License-Identifier: Apache-2.0
"""Doctor finds each condition on a Prometheus prepared for it, its lines cure it, and a healthy site is left alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command import dashgen
from processes import serving, tool, wait_until
from servers import Asked, Reply, answering
from targets import render

import dashgen as dashgen_package
from dashgen import build
from dashgen.catalogue.metrics import METRICS, upstream
from dashgen.config import site as config
from dashgen.engine.prometheus import make_blocks
from dashgen.live.client.access import VARIABLES
from dashgen.live.client.answers import Alertmanagers
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client
from dashgen.live.doctor.probe import Probe
from dashgen.live.doctor.rules import VERDICT
from dashgen.live.doctor.table import CONDITIONS, RAW, Told, cure, examine
from dashgen.model import Metric
from dashgen.recordings.format import Series, to_openmetrics
from dashgen.targets.rulefile import rule_file

SITE = config.Site()
NODES, GPUS = ("host-a", "host-b"), 4
OFF = ("slurm", "switch_ports", "clock_events")


pytestmark = pytest.mark.usefixtures("no_proxy")


# A sound site, made from the catalogue.


def sound(moment: float) -> list[Series]:
    """Two nodes of four GPUs, with every source that the packs expect by default."""
    times = moment + 15.0 * np.arange(-80, 1)
    found = []
    for metric in METRICS:
        if metric.companion not in OFF and not metric.key.startswith("p2p_"):
            found += [Series(metric.name, labels, times, _values(metric, times)) for labels in _labels(metric)]
    return found


def _labels(metric: Metric) -> Iterator[tuple[tuple[str, str], ...]]:
    for node in NODES:
        of_node = {"instance": f"{node}:9100", "job": "node"}
        for gpu in range(GPUS):
            uuid = f"5f1c0a3e-9a77-4b0e-8c55-0d2f3f8f6a{gpu}{NODES.index(node)}"
            own = {"slurm_job_id": "7", "node": node, "gpu": f"GPU{gpu}", "version": "v5.1"}
            shape = {"comm_name": "unknown", "n_nodes": "2", "nranks": "8", "message_size": "134-135MB"}
            more: dict[str, str] = {"gpu": f"GPU{gpu}"}
            if "slurm_job_id" in metric.labels:
                more = own | (
                    {"collective": "AllReduce", "algo_proto": "RING_SIMPLE", **shape} if not metric.companion else {}
                )
            elif metric.key == "mtime":
                more = {"file": f"/var/lib/node_exporter/nccl_inspector_metrics_{uuid}.prom"}
            elif metric.companion == "dcgm":
                more = {"gpu": str(gpu), "UUID": f"GPU-{uuid}", "Hostname": node}
            elif gpu:
                continue
            elif metric.key == "gathering_errors":
                more = {"cause": "gathering"}
            yield tuple(sorted({**of_node, **more}.items()))


def _values(metric: Metric, times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if metric.key == "mtime":
        return np.floor(times / 30) * 30 - 3
    return np.zeros(times.size) if metric.kind == "counter" else 100 + np.sin(times / 30)


# What is done to it.

Change = Callable[[list[Series]], list[Series]]


def renamed(**names: str) -> Change:
    return lambda series: [replace(one, name=names.get(one.name, one.name)) for one in series]


def relabelled(change: Callable[[dict[str, str]], dict[str, str]], only: str = "") -> Change:
    def changed(series: list[Series]) -> list[Series]:
        made = [
            replace(one, labels=tuple(sorted(change(dict(one.labels)).items()))) if re.match(only, one.name) else one
            for one in series
        ]
        return list({(one.name, one.labels): one for one in made}.values())

    return changed


def label(old: str, new: str, only: str = "nccl_|DCGM") -> Change:
    return relabelled(lambda labels: {new if name == old else name: value for name, value in labels.items()}, only)


def valued(name: str, made: Callable[[Series], np.ndarray[Any, Any]]) -> Change:
    return lambda series: [replace(one, values=made(one)) if one.name == name else one for one in series]


def without(pattern: str) -> Change:
    return lambda series: [one for one in series if not re.match(pattern, one.name)]


def added(name: str, **labels: str) -> Change:
    def more(series: list[Series]) -> list[Series]:
        times = series[0].times
        return [*series, Series(name, tuple(sorted(labels.items())), times, np.ones(times.size))]

    return more


def both(*changes: Change) -> Change:
    def changed(series: list[Series]) -> list[Series]:
        for change in changes:
            series = change(series)
        return series

    return changed


def thinned(every: int) -> Change:
    return lambda series: [replace(one, times=one.times[::every], values=one.values[::every]) for one in series]


def in_two_clusters(series: list[Series]) -> list[Series]:
    return [
        replace(one, labels=tuple(sorted({**dict(one.labels), "cluster": name}.items())))
        for one in series
        for name in "ab"
    ]


def many_sizes(series: list[Series]) -> list[Series]:
    sizes = [f"{size}-{size + 1}MB" for size in range(210)]
    more = [
        replace(one, labels=tuple(sorted({**dict(one.labels), "message_size": size}.items())))
        for one in series
        if one.name == upstream("busbw")
        for size in sizes
        if size != dict(one.labels)["message_size"]
    ]
    return [*series, *more]


def pack(site: config.Site = SITE) -> dict[str, str]:
    bundle = build.bundle(site, [site.sensitivity])
    return {"recording.yml": rule_file(bundle.recording), "alerts.yml": rule_file(bundle.alerts[site.sensitivity])}


def one_rule(record: str, expr: str) -> dict[str, str]:
    group = {"name": "own", "interval": "1s", "rules": [{"record": record, "expr": expr}]}
    return {"recording.yml": yaml.safe_dump({"groups": [group]}), "alerts.yml": pack()["alerts.yml"]}


def upside_down() -> dict[str, str]:
    files = pack()
    data = yaml.safe_load(files["recording.yml"])
    for group in data["groups"]:
        group["rules"].reverse()
    return {**files, "recording.yml": yaml.safe_dump(data)}


def seldom() -> dict[str, str]:
    files = pack()
    return {**files, "recording.yml": files["recording.yml"].replace("interval: 30s", "interval: 1m")}


def harmless() -> dict[str, str]:
    files = pack()
    data = yaml.safe_load(files["alerts.yml"])
    (stalled,) = (rule for group in data["groups"] for rule in group["rules"] if rule["alert"] == "NcclJobStalled")
    stalled["labels"]["severity"] = "info"
    return {**files, "alerts.yml": yaml.safe_dump(data)}


@dataclass(frozen=True)
class Case:
    """What is done to a sound site, and what that is called."""

    condition: str
    said: str
    change: Change = lambda series: series
    site: Mapping[str, Any] = field(default_factory=dict)
    rules: Callable[[], dict[str, str]] = pack
    waits: Callable[[Probe], bool] = lambda probe: True
    beside: tuple[str, ...] | None = None
    """All other conditions of raw series that are told, where a wrong cure would be told beside the right one."""


def _drop(*names: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda labels: {name: value for name, value in labels.items() if name not in names}


def _set(**more: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda labels: labels | more


def _some_rule(probe: Probe, wanted: Callable[[Any], bool]) -> bool:
    probe.__dict__.pop("rules", None)
    return any(wanted(one) for group in probe.rules.groups for one in [group, *group.rules]) if probe.rules else False


OLD = ("comm_id", "hostname", "rank", "gpu_device_id", "coll_sn", "timestamp")
SLURM = ("missing-source",)  # soperator brings an exporter of Slurm's jobs
CLUSTER = {"labels": {"cluster": "cluster"}}
SOPERATOR = {"source": "soperator", "companions": {"slurm": {"enabled": False}}}
soperator = both(label("node", "hostname", "nccl_"), label("gpu", "rank", "nccl_"))
otlp = renamed(**{upstream("busbw"): f"{upstream('busbw')}_GB_per_second"})
amd = added("amd_gpu_gfx_activity", instance="host-a:5000")
old_format = both(
    relabelled(lambda labels: labels | dict.fromkeys(OLD, labels["node"] + labels["gpu"]), "nccl_bus|nccl_coll.*exec"),
    relabelled(_drop("version", "node", "gpu", "comm_name", "algo_proto"), "nccl_"),
)

CASES = (
    Case("no-inspector", "no series of Inspector at that time", without("nccl_")),
    Case(
        "names",
        f"other names: my_bus_bandwidth for {upstream('busbw')}",
        renamed(**{upstream("busbw"): "my_bus_bandwidth"}),
        beside=(),
    ),
    Case("names", f'no {upstream("busbw")} with env="prod"', site={"selector": 'env="prod"'}, beside=()),
    Case("names", f"without {upstream('exec')}", without(upstream("exec"))),
    Case("names", f"exec_time_us for {upstream('exec')}", renamed(**{upstream("exec"): "exec_time_us"}), beside=()),
    Case("single-operations", "8 series are of one operation each: NCCL 2.29 wrote", old_format, beside=()),
    Case(
        "single-operations",
        "8 series are of one operation each",
        lambda series: [*series, *old_format([one for one in series if one.name.startswith("nccl_")])],
        beside=(),
    ),
    Case("source", f"of nccl-otlp: {upstream('busbw')}_GB_per_second with", otlp, beside=()),
    Case(
        "source",
        "of nccl-otlp",
        both(otlp, relabelled(_drop("slurm_job_id"), "nccl_"), added("target_info", slurm_job_id="7")),
        beside=("otlp",),
    ),
    Case("source", "of soperator: nccl_bus_bandwidth_gbs with the labels hostname and rank", soperator, beside=SLURM),
    Case(
        "source",
        "of soperator",
        soperator,
        site={"source": "nccl-otlp", "labels": {"instance": "instance"}},
        beside=SLURM,
    ),
    Case("source", "of nccl: nccl_bus_bandwidth_gbs with the labels node and gpu", site=SOPERATOR, beside=()),
    Case("source", "of rccl: GPUs of AMD (amd_gpu_gfx_activity)", both(without("DCGM"), amd), beside=()),
    Case(
        "source",
        "of rccl: the files bring the label cluster of their own",
        both(without("DCGM"), relabelled(_set(cluster="alola"), "nccl_")),
        beside=(),
    ),
    Case(
        "source",
        "of rccl: the files bring the label exported_cluster",
        both(without("DCGM"), relabelled(_set(cluster="a")), relabelled(_set(exported_cluster="alola"), "nccl_")),
        beside=(),
    ),
    Case(
        "labels",
        "which is exported_node now: set honor_labels",
        relabelled(lambda one: one | {"exported_node": one["node"], "node": "pool"}, "nccl_"),
    ),
    Case(
        "duplicate-targets",
        "GPUs of 2 nodes (host-a, host-b) are scraped twice",
        lambda series: [
            *series,
            *relabelled(_set(job="again"))([one for one in series if one.name.startswith("nccl_")]),
        ],
    ),
    Case("labels", "slurm_job_id; job_name looks like it", label("slurm_job_id", "job_name")),
    Case("labels", "node; host looks like it", label("node", "host")),
    Case(
        "labels", "gpu; device looks like it", relabelled(lambda one: one | {"device": one["gpu"], "gpu": ""}, "nccl_")
    ),
    Case("labels", "instance; target looks like it", label("instance", "target", "nccl_|node_|promhttp_|up")),
    Case(
        "otlp",
        "on target_info only",
        both(relabelled(_drop("slurm_job_id"), "nccl_"), added("target_info", slurm_job_id="7")),
    ),
    Case(
        "job-unknown",
        "jobs without an id on 2 nodes (host-a, host-b)",
        relabelled(_set(slurm_job_id="unknown"), "nccl_"),
    ),
    Case(
        "gpu-collision",
        "2 targets (host-a:9100, host-b:9100) with dropped series",
        both(
            relabelled(_set(gpu="GPU0"), "nccl_"),
            valued(upstream("gathering_errors"), lambda one: np.arange(one.times.size)),
        ),
    ),
    Case("file-age", "a frozen file looks like a healthy one", without("node_textfile_mtime")),
    Case(
        "file-age",
        "looks like Inspector's",
        relabelled(lambda one: one | {"file": one["file"].replace("inspector_metrics", "prom")}, "node_textfile_mtime"),
    ),
    Case(
        "dump-interval",
        "files are written every 60 s",
        valued(upstream("mtime"), lambda one: one.times // 60 * 60),
    ),
    Case(
        "scrape-interval",
        "scraped every 60 s, dumps come every 30 s",
        both(thinned(4), valued(upstream("mtime"), lambda one: one.times - 3)),
        site={"dump_interval": "30s"},
    ),
    Case(
        "garbage-buckets",
        "8 garbage buckets",
        lambda series: [
            *series,
            *relabelled(_set(message_size="0B"))([one for one in series if one.name == upstream("busbw")]),
        ],
    ),
    Case("p2p", "no Send or Recv", site={"companions": {"p2p": {"enabled": True}}}),
    Case(
        "clock-skew",
        "with files of the future, up to",
        valued(upstream("mtime"), lambda one: one.values + 120),
    ),
    Case("cardinality", "up to 211 series a GPU in 1 job (7); the budget is 200", many_sizes),
    Case("equal-clusters", "several values of cluster (a, b)", in_two_clusters),
    Case(
        "cluster-label",
        "no label cluster on the series of node_exporter's textfile collector, node_exporter's own",
        relabelled(_set(cluster="a"), "nccl_"),
        site=CLUSTER,
        beside=(),
    ),
    Case(
        "cluster-label",
        "no label cluster on the series of dcgm-exporter",
        relabelled(_set(cluster="a"), "(?!DCGM)"),
        site=CLUSTER,
        beside=(),
    ),
    Case(
        "cluster-label",
        "no label cluster on the series of Inspector, node_exporter's textfile",
        site=CLUSTER,
        beside=(),
    ),
    Case("missing-source", "no series of dcgm-exporter; empty panels: ", without("DCGM")),
    Case("missing-source", "no series of Inspector's opt-in counters", without("nccl_.*_total")),
    Case(
        "missing-source",
        "no series of a Slurm exporter with one series per job",
        site={"companions": {"slurm": {"enabled": True}}},
    ),
    Case("unused-source", "series of a Slurm exporter", added(upstream("job_info"), job_id="7")),
    Case(
        "throughput",
        "megatron_training_throughput_tflops is there",
        added("megatron_training_throughput_tflops", slurm_job_id="7"),
    ),
    Case("throughput", "no my_tflops", site={"companions": {"throughput": {"metric": "my_tflops"}}}),
    Case("dcgm-labels", "have hostname, not Hostname", label("Hostname", "hostname")),
    Case("dcgm-labels", "have uuid, not UUID", label("UUID", "uuid")),
    Case("rules-not-loaded", "the recording rules are not loaded", rules=dict),
    Case(
        "rules-not-loaded", "no alert of the pack is loaded", rules=lambda: {"recording.yml": pack()["recording.yml"]}
    ),
    Case("rules-outdated", "others (", rules=lambda: pack(config.Site(dump_interval=10.0))),
    Case("rules-outdated", "are missing (", rules=lambda: one_rule(VERDICT, "vector(0)")),
    Case("rules-outdated", "is evaluated every 60 s, and its rules are made for 30 s", rules=seldom),
    Case("rules-outdated", "alerts 1 are others (NcclJobStalled)", rules=harmless),
    Case(
        "rules-twice",
        "are recorded more than once, by ",
        rules=lambda: {**pack(), "again.yml": pack()["recording.yml"]},
    ),
    Case(
        "rules-twice",
        "the alerts of several tiers are loaded (low, medium)",
        rules=lambda: {**pack(), "low.yml": pack(config.site({"sensitivity": "low"}, "low"))["alerts.yml"]},
    ),
    Case("rules-order", "another order than in the pack", rules=upside_down),
    Case(
        "rules-failing",
        "found duplicate series",
        rules=lambda: one_rule(VERDICT, f"{upstream('busbw')} * on (slurm_job_id) {upstream('busbw')}"),
        waits=lambda probe: _some_rule(probe, lambda one: getattr(one, "health", "") == "err"),
    ),
    Case(
        "rules-slow",
        "evaluations are missed",
        rules=lambda: one_rule(VERDICT, "sum_over_time(vector(1)[2h:1ms])"),
        waits=lambda probe: _some_rule(probe, lambda one: one.evaluationTime > 0.6),
    ),
    Case("no-alertmanager", "no Alertmanager is connected"),
    Case(
        "alertmanager-deaf",
        "alerts do not arrive at http://pager:9093",
        lambda series: [
            *series,
            Series(
                "prometheus_notifications_errors_total",
                (("alertmanager", "http://pager:9093"),),
                series[0].times,
                np.arange(series[0].times.size, dtype=float),
            ),
        ],
    ),
)


@contextmanager
def server(folder: Path, series: list[Series], rules: Mapping[str, str], *, whole: bool = True) -> Iterator[str]:
    """A Prometheus with blocks, rules and, when it is ``whole``, an Alertmanager that it may tell."""
    tool("promtool")
    folder.mkdir(exist_ok=True)
    make_blocks(folder / "data", series)
    for name, text in rules.items():
        (folder / name).write_text(text)
    found: dict[str, Any] = {"rule_files": [str(folder / name) for name in rules]}
    if whole:
        found["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": ["127.0.0.1:9"]}]}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(found))
    flags = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    flags += ["--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:PORT"]
    with serving(tool("prometheus"), *flags, ready="/-/ready", log=folder / "log") as url:
        # Alertmanagers are discovered some seconds after the start.
        told, asked = "/api/v1/alertmanagers", Prometheus(Client(url))
        wait_until(lambda: not whole or bool(asked.ask(Alertmanagers, told).activeAlertmanagers))
        yield url


def named(found: list[Told]) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for each in found:
        said.setdefault(each.condition.name, []).append(each.diagnosis.message)
    return said


def with_lines(site: Mapping[str, Any], lines: str) -> config.Site:
    merged = json.loads(json.dumps(site))

    def merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
        for key, value in more.items():
            if isinstance(value, dict):
                merge(into.setdefault(key, {}), value)
            else:
                into[key] = value

    merge(merged, yaml.safe_load(lines))
    return config.site(merged, "lines")


def test_of_a_sound_site_doctor_says_nothing(tmp_path: Path) -> None:
    moment = time.time()
    with server(tmp_path, sound(moment), pack()) as url:
        assert named(examine(Probe(Prometheus(Client(url)), SITE, moment))) == {}
        done = dashgen("doctor", "--prometheus", url, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"nothing is wrong in any of {len(CONDITIONS)} conditions" in done.stdout


def test_what_an_overlay_makes_of_the_rules_is_what_should_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.jsonnet").write_text(
        "local d = import 'dashgen.libsonnet';\n"
        "d.addRule('own', { record: 'job:own:count', expr: 'count by (slurm_job_id) (job:nccl_verdict:depth)' })\n"
        "+ d.addAlert('own', { alert: 'OwnJobs', expr: 'job:own:count > 99' })\n"
        "+ d.removeAlert('NcclRecordsDropped') + d.threshold('NcclStaleFiles', 'medium', 50)\n"
    )
    (tmp_path / "dashgen.yaml").write_text("overlays: [own.jsonnet]\n")
    site, moment = config.load(tmp_path / "dashgen.yaml"), time.time()
    with server(tmp_path / "server", sound(moment), pack(site)) as url:
        assert named(examine(Probe(Prometheus(Client(url)), site, moment))) == {}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.condition}-{at}" for at, case in enumerate(CASES)])
def test_a_condition_is_found_and_its_lines_cure_it(case: Case, tmp_path: Path) -> None:
    moment = time.time()
    site = config.site(dict(case.site), "case")
    with server(tmp_path, case.change(sound(moment)), case.rules(), whole=False) as url:
        probe = Probe(Prometheus(Client(url)), site, moment)
        wait_until(lambda: case.waits(probe))
        found = examine(probe)
        said = named(found)
        assert any(case.said in each for each in said.get(case.condition, [])), said
        if case.beside is not None:
            assert {each.name for each in RAW} & said.keys() - {case.condition} == set(case.beside), said
        own = [each for each in found if each.condition.name == case.condition]
        if lines := cure(own):
            cured = examine(Probe(Prometheus(Client(url)), with_lines(case.site, lines), moment))
            assert case.said not in " ".join(named(cured).get(case.condition, [])), lines
            # The rules of before are not those of the cured site; beside that nothing is wrong that was not before.
            assert set(named(cured)) <= {*said, "rules-outdated", "rules-order"}, lines


def test_the_cure_of_missing_series_sets_all_that_switches_inspector_on() -> None:
    guide = (Path(dashgen_package.__file__).parent / "docs" / "installing.md").read_text(encoding="utf-8")
    exported = re.findall(r"^export (\w+=\S+)$", guide, re.MULTILINE)
    (cured,) = (each.cure for each in CONDITIONS if each.name == "no-inspector")
    assert [one for one in exported if one not in cured] == [exported[-1]], "the folder is the site's choice"


def test_every_condition_but_the_boards_has_a_case() -> None:
    assert {case.condition for case in CASES} == {each.name for each in CONDITIONS} - {"boards"}


def test_a_server_of_one_level_needs_the_rules_of_its_level_alone(tmp_path: Path) -> None:
    moment, site = time.time(), config.site({"layout": {"edge": "prometheus", "global": "prometheus"}}, "layout")
    made = render("layout", site)
    edge, above = ({"rules.yml": made[f"layout/{level}.yaml"]} for level in ("edge", "global"))
    sent = added(VERDICT, slurm_job_id="7", state="healthy")(sound(moment))[-1:]

    def said(url: str, site: config.Site, at: float = moment) -> dict[str, list[str]]:
        return named(examine(Probe(Prometheus(Client(url)), site, at)))

    with server(tmp_path / "edge", sound(moment), edge) as url:
        assert said(url, site) == {}
        assert set(said(url, SITE)) == {"rules-not-loaded", "rules-outdated"}
    with server(tmp_path / "global", sent, above) as url:
        assert said(url, site) == {}
        # Hours before, no edge had sent anything.
        assert said(url, site, moment - 7200) == {
            "rules-not-loaded": ["no edge sends the verdict: boards and alerts stay empty"]
        }


def test_missing_and_changed_boards_are_found_in_grafana(tmp_path: Path) -> None:
    bundle = build.bundle(SITE, [SITE.sensitivity])
    there = {str(board["uid"]): {**board, "id": 5, "version": 3} for board in bundle.dashboards.values()}

    def grafana(asked: Asked) -> Reply:
        board = there.get(asked.path.rpartition("/")[2])
        return Reply(json.dumps({"dashboard": board, "meta": {}}).encode()) if board else Reply(b"{}", 404)

    moment = time.time()
    with server(tmp_path, sound(moment), pack()) as url, answering(grafana) as (boards, _):

        def look() -> dict[str, list[str]]:
            return named(examine(Probe(Prometheus(Client(url)), SITE, moment, Client(boards, what="a Grafana"))))

        assert look() == {}
        del there["dashgen-nccl-fleet"]
        there["dashgen-nccl-job"] = {**there["dashgen-nccl-job"], "title": "Mine"}
        assert look() == {
            "boards": [
                "Grafana has no dashboard dashgen-nccl-fleet",
                "Grafana's dashgen-nccl-job differs in title",
            ]
        }


def test_the_command_tells_the_lines_and_reports_for_programs(tmp_path: Path) -> None:
    moment = time.time()
    changed = both(without("DCGM"), added(upstream("job_info"), job_id="7"))(sound(moment))
    with server(tmp_path / "server", changed, pack()) as url:
        done = dashgen("doctor", "--prometheus", url, cwd=tmp_path)
        told = json.loads(dashgen("doctor", "--prometheus", url, "--format", "json", cwd=tmp_path).stdout)
        github = dashgen("doctor", "--prometheus", url, "--format", "github", cwd=tmp_path).stdout
    assert done.returncode == 1
    lines = done.stdout.partition("result:\n\n")[2]
    assert yaml.safe_load(lines) == {"companions": {"dcgm": {"enabled": False}, "slurm": {"enabled": True}}}
    assert [each["rule"] for each in told] == ["missing-source", "unused-source"]
    assert github.startswith("::warning title=missing-source::")


def test_victoriametrics_is_examined_as_well(tmp_path: Path) -> None:
    flags = [f"-storageDataPath={tmp_path / 'data'}", "-retentionPeriod=100y", "-httpListenAddr=127.0.0.1:PORT"]
    moment = time.time()
    lines = [line.rsplit(" ", 1) for line in to_openmetrics(sound(moment)) if not line.startswith("#")]
    text = "".join(f"{head} {round(float(at) * 1000)}\n" for head, at in lines)
    with serving(tool("victoria-metrics"), *flags, ready="/health", log=tmp_path / "log") as url:
        client = Client(url)
        client.request("POST", "/api/v1/import/prometheus", text.encode())
        client.get("/internal/force_flush")
        found = named(examine(Probe(Prometheus(client), SITE, moment)))
    assert set(found) == {"rules-not-loaded"}


def test_the_documentation_tells_every_condition_and_every_variable() -> None:
    text = (Path(dashgen_package.__file__).parent / "docs" / "live.md").read_text(encoding="utf-8")
    for condition in CONDITIONS:
        assert f"| `{condition.name}` | {condition.about} |" in text
    for name in VARIABLES:
        assert f"`DASHGEN_PROMETHEUS_{name}`" in text
