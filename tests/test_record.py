# SPDX-License-Identifier: Apache-2.0
"""A job is recorded from a real Prometheus as it was, and under pseudonyms nothing of the site is left in it."""

from __future__ import annotations

import gzip
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import dashgen
from processes import PATIENCE, serving, tool
from servers import Asked, Reply, answering, success

from dashgen import build
from dashgen.catalogue.metrics import METRICS, upstream
from dashgen.config import site as config
from dashgen.engine.prometheus import evaluate
from dashgen.errors import UserError
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client
from dashgen.live.recorder.fetch import Fetcher
from dashgen.live.recorder.grid import on_grid, rhythm
from dashgen.live.recorder.record import record
from dashgen.model import Sensitivity
from dashgen.recordings.format import (
    SAMPLES,
    STORY,
    Labels,
    Recording,
    Series,
    read_samples,
    read_story,
    to_openmetrics,
)
from dashgen.recordings.pseudonyms import Pseudonyms
from dashgen.targets.rulefile import rule_file

MEDIUM = Sensitivity.MEDIUM

START = datetime(2026, 3, 19, 14, 40, tzinfo=UTC)
SPAN = timedelta(minutes=25)
UUIDS = ("5f1c0a3e-9a77-4b0e-8c55-0d2f3f8f6a10", "8d0b9a44-1111-4c2d-9d5e-77aa00bb11cc")
SECRETS = ("secret", "acme", "1670760", *UUIDS, "10.1.2.3")


def series(name: str, phase: float = 0.0, step: int = 15, **labels: str) -> Series:
    times = START.timestamp() + phase + np.arange(0, SPAN.total_seconds() - phase + 0.001, step)
    values = 100 + np.arange(len(times)) * (1.0 if name.endswith("_total") else 0.25)
    return Series(name, tuple(sorted(labels.items())), times, values)


def fleet(phase: float = 0.0) -> list[Series]:
    """Two nodes of a job in one Prometheus, beside other jobs and other nodes."""
    found = [
        series("up", instance="db.acme.example:9100", job="node"),
        series("unrelated_total", instance="x", job="y"),
    ]
    for at, uuid in enumerate(UUIDS):
        host = f"secret-gpu{at}"
        scrape = {"instance": f"{host}.acme.example:9100", "job": "node"}
        job = {
            "slurm_job_id": "1670760",
            "node": host,
            "gpu": "GPU0",
            "version": "v5.1",
            "comm_name": "secret DP",
        } | scrape
        shape = {"n_nodes": "2", "nranks": "16", "message_size": "134-135MB"}
        collective = {"collective": "AllReduce", "algo_proto": "RING_SIMPLE"}
        path = f"/home/secret/textfile/nccl_inspector_metrics_{uuid}.prom"
        found += [
            series(upstream("busbw"), phase, **job, **shape, **collective),
            series(upstream("p2p_exec"), phase, **job, **shape, p2p_operation="Send"),
            series(upstream("collectives"), phase, **job),
            series(upstream("busbw"), phase, **job | {"slurm_job_id": "9"}, **shape, **collective),
            series(upstream("mtime"), phase, file=path, **scrape),
            series(upstream("ib_received"), phase, device="mlx5_0", port="1", **scrape),
            series(upstream("gathering_errors"), phase, cause="gathering", **scrape),
            series("up", phase, **scrape),
            series(
                upstream("sm_clock"),
                step=30,
                gpu="3",
                UUID=f"GPU-{uuid}",
                Hostname=host,
                instance=f"10.1.2.3:94{at}0",
            ),
            series("train_tflops", slurm_job_id="1670760", user="secret", rank="0"),
        ]
    return list({(one.name, one.labels): one for one in found}.values())


def of_the_job(one: Series) -> bool:
    labels = dict(one.labels)
    elsewhere = one.name == "unrelated_total" or labels.get("instance", "").startswith("db")
    return not elsewhere and labels.get("slurm_job_id") != "9"


pytestmark = pytest.mark.usefixtures("no_proxy")


@contextmanager
def prometheus(found: list[Series], folder: Path, *flags: str) -> Iterator[str]:
    text, data = folder / "series.om", folder / "data"
    text.write_text("".join(to_openmetrics(found)))
    promtool, server = tool("promtool"), tool("prometheus")
    subprocess.run([promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet", text, data], check=True)
    (folder / "prometheus.yml").write_text("global: {}\n")
    storage = [f"--storage.tsdb.path={data}", "--storage.tsdb.retention.time=100y"]
    command = [
        server,
        f"--config.file={folder / 'prometheus.yml'}",
        *storage,
        "--web.listen-address=127.0.0.1:PORT",
        *flags,
    ]
    with serving(*command, ready="/-/ready", log=folder / "prometheus.log") as url:
        yield url


def recorded(url: str, out: Path, *jobs: str, **more: Any) -> Recording:
    options = {"site": config.Site(), **more}
    recording, *_ = record(Prometheus(Client(url)), jobs or ["1670760"], START, START + SPAN, out=out, **options)
    return recording


def plain(found: list[Series]) -> dict[tuple[str, Labels], tuple[list[float], list[float]]]:
    return {(one.name, one.labels): (one.times.tolist(), one.values.tolist()) for one in found}


def test_a_job_and_its_companions_are_recorded_as_they_were(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with prometheus(fleet(), tmp_path, "--query.max-samples=150") as url:  # forces chunks to be halved
        recording, *_ = record(
            Prometheus(Client(url)),
            ["1670760"],
            START,
            START + SPAN,
            out=tmp_path / "recording",
            site=config.Site(),
            extra=["train_tflops"],
            progress=lambda done, total: steps.append((done, total)),
        )
    expected = plain([one for one in fleet() if of_the_job(one)])
    for (name, _), (times, values) in expected.items():
        if name.startswith("DCGM"):  # scraped every 30 s: held for the second scrape of the recording
            times[:] = sorted([*times, *(time + 15 for time in times)])
            values[:] = sorted([*values, *values])
    assert plain(read_samples(tmp_path / "recording")) == expected
    assert read_story(tmp_path / "recording") == recording
    assert (recording.source, recording.scrape_interval, recording.start) == ("recorded", 15, START)
    assert steps[-1] == (25, 25)
    assert not list(tmp_path.glob(".*"))


def test_pseudonyms_are_consistent_and_nothing_of_the_site_is_left(tmp_path: Path) -> None:
    out = tmp_path / "recording"
    with prometheus(fleet(), tmp_path) as url:
        recorded(url, out, pseudonyms=True, extra=["train_tflops"])
    everything = (out / STORY).read_text() + gzip.decompress((out / SAMPLES).read_bytes()).decode()
    assert not [secret for secret in SECRETS if secret in everything]
    found = [dict(one.labels) for one in read_samples(out)]
    assert len(found) == sum(map(of_the_job, fleet()))
    nodes = {labels["node"] for labels in found if "node" in labels}
    assert nodes == {"node-001", "node-002"}
    for labels in found:
        if "node" in labels:
            assert labels["instance"] == f"{labels['node']}.domain-001:9100"
            assert (labels["slurm_job_id"], labels["comm_name"]) == ("job-001", "comm-001")
    files = {labels["file"].partition("metrics_")[2]: labels["instance"] for labels in found if "file" in labels}
    gpus = {labels["UUID"]: labels["Hostname"] for labels in found if "UUID" in labels}
    assert {f"GPU-{file.removesuffix('.prom')}": at.partition(".")[0] for file, at in files.items()} == gpus
    assert set(gpus.values()) == nodes


@pytest.mark.parametrize("pseudonyms", [False, True])
def test_a_recorded_job_fires_the_same_alerts_as_the_original(tmp_path: Path, pseudonyms: bool) -> None:
    original = Path(__file__).parent / "recordings" / "timeline-b"
    story, found = read_story(original), read_samples(original)
    site = config.Site()
    files = {"recording.yaml": rule_file(build.recording(site)), "alerts.yaml": rule_file(build.alerts(site, MEDIUM))}

    def fired(of: list[Series]) -> set[tuple[str, tuple[tuple[float, float], ...]]]:
        start, end = story.start.timestamp(), story.end.timestamp()
        judged = evaluate(files, of, start, end, 30, story.scrape_interval, "ALERTS")
        return {(one.alert, one.firing) for one in judged.alerts if one.firing}

    with prometheus(found, tmp_path) as url:
        server, out = Prometheus(Client(url)), tmp_path / "recording"
        record(server, ["41388"], story.start, story.end, out=out, site=site, pseudonyms=pseudonyms)
    assert fired(read_samples(tmp_path / "recording")) == fired(found) != set()


def test_the_same_name_gets_the_same_pseudonym_in_every_label() -> None:
    alias = Pseudonyms(config.Site())
    node = alias.label("node", "gpu01")
    assert alias.label("instance", "gpu01:9100") == f"{node}:9100"
    assert alias.label("Hostname", "gpu01.acme.example") == f"{node}.domain-001"
    assert alias.label("node", "gpu02") != node
    assert alias.label("instance", "[fe80::1]:9100").endswith(":9100") and "fe80" not in alias.label("host", "fe80::1")
    assert alias.label("slurm_job_id", "unknown") == "unknown"
    assert alias.label("pod_owner", "alice") == "pod_owner-001"
    assert alias.label("file", "/a/smart.prom") != alias.label("file", "/b/smart.prom")


def test_labels_of_a_sites_own_keep_their_joins_under_pseudonyms() -> None:
    labels = {"job": "job", "node": "kubernetes_node", "gpu": "slot", "instance": "pod_address"}
    companions = {
        "dcgm": {"host_label": "kubelet", "uuid_label": "serial"},
        "slurm": {"enabled": True, "job_id_label": "id", "state_label": "phase"},
        "throughput": {"metric": "tflops", "job_label": "run_id"},
    }
    alias = Pseudonyms(config.Site.model_validate({"labels": labels, "companions": companions}))
    ours = {"job": "secret-run", "kubernetes_node": "secret-1", "slot": "GPU0", "pod_address": "secret-1:9100"}
    theirs = {"run_id": "secret-run", "id": "secret-run", "kubelet": "secret-1", "phase": "RUNNING"}
    assert dict(alias.labels(tuple((ours | theirs).items()))) == {
        **dict.fromkeys(("job", "run_id", "id"), "job-001"),
        **dict.fromkeys(("kubernetes_node", "kubelet"), "node-001"),
        "pod_address": "node-001:9100",
        "slot": "GPU0",
        "phase": "RUNNING",
    }
    assert alias.label("slot", "secret-board") == "position-001"
    assert alias.label("serial", f"GPU-{UUIDS[0]}") == alias.label("UUID", f"GPU-{UUIDS[0]}") != f"GPU-{UUIDS[0]}"


def test_jitter_and_missed_scrapes_neither_lose_samples_nor_make_gaps() -> None:
    random = np.random.default_rng(7)
    scrapes = START.timestamp() + 6.2 + 15 * np.arange(400) + random.uniform(-2, 2, 400)
    there = np.ones(400, dtype=bool)
    there[[50, 51, 200]] = False
    times, values = on_grid(scrapes[there], np.arange(400.0)[there], rhythm(scrapes), 15)
    expected = START.timestamp() + 15 * (np.arange(400) + 1)
    assert times.tolist() == expected[there].tolist()
    assert values.tolist() == np.arange(400.0)[there].tolist()


def test_scrapes_at_another_phase_than_the_recordings_are_moved_together(tmp_path: Path) -> None:
    with prometheus(fleet(phase=4.321), tmp_path) as url:
        recorded(url, tmp_path / "recording")
    moved = {one.times[0] - START.timestamp() for one in read_samples(tmp_path / "recording") if "nccl" in one.name}
    assert moved == {15.0}


def every_metric(job: str) -> list[Series]:
    """One series of every metric of the catalogue, all of one job's machine."""
    where = {"instance": f"host-{job}:9100", "node": f"host-{job}", "Hostname": f"host-{job}"}
    found = []
    for metric in METRICS:
        of_job = {"slurm_job_id": job} if "slurm_job_id" in metric.labels else {}
        of_job |= {"job_id": job} if metric.companion == "slurm" else {}
        found.append(series(metric.name, **where, **of_job))
    return [*found, series("up", **where), series("train_tflops", slurm_job_id=job)]


def test_whatever_the_rules_can_read_is_recorded_of_every_job_that_is_named(tmp_path: Path) -> None:
    site = config.Site.model_validate(
        {"companions": {"throughput": {"metric": "train_tflops"}, "switch_ports": {"enabled": True}}}
    )
    one, two, other = every_metric("1"), every_metric("2"), every_metric("3")
    with prometheus([*one, *two, *other], tmp_path) as url:
        story = recorded(url, tmp_path / "recording", "1", "2", site=site)
    found = plain(read_samples(tmp_path / "recording"))
    switches = [each for each in other if each.name.startswith("infiniband_switch")]
    assert found == plain([*one, *two, *switches])
    assert story.made_by.startswith("dashgen record --job 1 --job 2 --prometheus http")
    assert story.site["companions"] == {"throughput": {"metric": "train_tflops"}, "switch_ports": {"enabled": True}}


def test_jobs_of_equal_names_in_two_clusters_keep_their_machines_apart(tmp_path: Path) -> None:
    site = config.Site.model_validate({"labels": {"cluster": "cluster"}, "selector": 'cluster="a"'})
    a, b = ([replace(one, labels=(("cluster", name), *one.labels)) for one in every_metric("1")] for name in "ab")
    with prometheus([*a, *b], tmp_path) as url:
        recorded(url, tmp_path / "recording", "1", site=site)
    clusters = {
        dict(one.labels)["cluster"] for one in read_samples(tmp_path / "recording") if one.name != upstream("job_info")
    }
    assert clusters == {"a"}


def test_a_recording_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    first: list[int] = []
    again: list[str] = []

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with prometheus(fleet(), tmp_path) as url:
        with pytest.raises(KeyboardInterrupt):
            recorded(url, tmp_path / "out", progress=interrupt)
        (kept,) = tmp_path.glob(".out.pieces")
        pieces = sorted(kept.glob("*.piece"))
        first.append(len(pieces))
        pieces[0].write_bytes(b"damaged")

        class Counting(Prometheus):
            def raw(self, matchers: str, start: float, end: float) -> Any:
                again.append(matchers)
                return super().raw(matchers, start, end)

        record(Counting(Client(url)), ["1670760"], START, START + SPAN, out=tmp_path / "out", site=config.Site())
        recorded(url, tmp_path / "whole")
    assert not kept.exists()
    assert sum("nccl_bus" in one for one in again) == 5 - first[0] + 1
    assert plain(read_samples(tmp_path / "out")) == plain(read_samples(tmp_path / "whole"))


def test_victoriametrics_is_recorded_as_well(tmp_path: Path) -> None:
    program = tool("victoria-metrics")
    flags = [f"-storageDataPath={tmp_path / 'data'}", "-retentionPeriod=100y", "-httpListenAddr=127.0.0.1:PORT"]
    lines = [line.rsplit(" ", 1) for line in to_openmetrics(fleet()) if not line.startswith("#")]
    text = "".join(f"{head} {round(float(moment) * 1000)}\n" for head, moment in lines)
    with serving(program, *flags, ready="/health", log=tmp_path / "log") as url:
        client = Client(url)
        client.request("POST", "/api/v1/import/prometheus", text.encode())
        client.get("/internal/force_flush")
        recorded(url, tmp_path / "recording")
    job = [one for one in fleet() if of_the_job(one) and one.name not in ("train_tflops", upstream("sm_clock"))]
    found = plain([one for one in read_samples(tmp_path / "recording") if not one.name.startswith("DCGM")])
    assert found == plain(job)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b"<html>login</html>"), "answers with a web page"),
        (success({"resultType": "matrix", "result": []}), "no series of Inspector with slurm_job_id='7'"),
        (Reply(b'{"status":"error","error":"bad\\n selector"}', 422), "HTTP 422: bad selector"),
        (Reply(b'{"status":"error","error":"would load too many samples into memory"}', 422), "too many samples"),
    ],
)
def test_a_server_that_cannot_be_used_leaves_nothing_behind(reply: Reply, message: str, tmp_path: Path) -> None:
    with answering(lambda _: reply) as (url, _), pytest.raises(UserError, match=message) as error:
        recorded(url, tmp_path / "out", "7")
    assert url in str(error.value)
    assert not list(tmp_path.glob("out"))
    if "no series" in message:
        assert not list(tmp_path.iterdir())


def test_more_than_fits_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashgen.live.recorder.fetch.MOST_SAMPLES", 500)
    with prometheus(fleet(), tmp_path) as url, pytest.raises(UserError, match="record fewer jobs at a time"):
        recorded(url, tmp_path / "out")


def test_bad_arguments_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    def nobody(asked: Asked) -> Reply:
        raise AssertionError(asked)

    options = ["--job", "7", "-o", "out"]
    for given, message in (
        (["--start", "2026-01-01", "--end", "2026-01-01"], "is not after"),
        (["--start", "2016-01-01"], "are too long for one recording"),
        ([], "--start, --since: give one of them"),
        (["--since", "2h", "--start", "2026-01-01"], "--start, --since: give one of them"),
        (["--since", "2 hours"], "'2 hours' is not a duration"),
        (["--since", "999999d"], "longer than Prometheus can wait"),
        (["--since", "2h", "-o", "."], "holds mine"),
        (["--since", "2h", "--extra", "up", "--extra", "nope{"], "--extra 'nope{': neither a metric nor a selector;"),
        (["--since", "2h", "--extra", ""], "--extra '': neither a metric nor a selector;"),
        (["--since", "2h", "--extra", "sum(up)"], "--extra 'sum(up)': neither a metric nor a selector;"),
        (["--since", "2h", "--extra", "up offset 5m"], "neither a metric nor a selector;"),
    ):
        (tmp_path / "mine").write_text("mine")
        with answering(nobody) as (url, asked):
            done = dashgen("record", "--prometheus", url, *options, *given, cwd=tmp_path)
        assert (done.returncode, asked) == (2, []) and message in done.stderr, done.stderr


def test_whoever_is_interrupted_waits_for_no_answer_that_is_still_to_come() -> None:
    begun, ended, answered = threading.Event(), threading.Event(), []

    def reply(asked: Asked) -> Reply:
        if b"slow" not in asked.body:
            begun.wait(PATIENCE)
            return Reply(status=422)
        begun.set()
        ended.wait(PATIENCE)
        answered.append(asked)
        return success({"resultType": "matrix", "result": []})

    with answering(reply) as (url, _):
        fetch = Fetcher(Prometheus(Client(url)), START.timestamp(), START.timestamp() + 60, None, None)
        try:
            with pytest.raises(UserError):
                fetch(['{__name__="slow"}', '{__name__="refused"}'])
            assert not answered
        finally:
            ended.set()


def test_the_command_records_the_last_hours(tmp_path: Path) -> None:
    with prometheus(fleet(), tmp_path) as url:
        end = (START + SPAN).isoformat(timespec="seconds").removesuffix("+00:00")
        given = ["--job", "1670760", "--since", "25m", "--end", end, "-o", "recording", "--prometheus", url]
        done = dashgen("record", *given, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert read_story(tmp_path / "recording").start == START


@pytest.mark.parametrize(
    ("name", "label"), [("", "a"), ("a b 1\nc", "a"), ("a", "0a"), ("a", "a-b"), ("a", "__name__")]
)
def test_a_series_that_could_not_be_read_again_is_not_written(name: str, label: str) -> None:
    one = Series(name, ((label, "x"),), np.array([1.0]), np.array([1.0]))
    with pytest.raises(UserError, match="a name that Prometheus 2 does not know, or a label twice") as caught:
        "".join(to_openmetrics([one]))
    assert "\n" not in str(caught.value)
