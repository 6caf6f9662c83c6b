# SPDX-License-Identifier: Apache-2.0
"""A job is recorded from a real Prometheus as it was, and under pseudonyms nothing of the site is left in it."""

from __future__ import annotations

import gzip
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from processes import serving, tool

from dashgen import build, config
from dashgen.errors import UserError
from dashgen.model import Sensitivity
from dashgen.prometheus import evaluate
from dashgen.recordings.format import SAMPLES, STORY, Labels, Series, read_samples, read_story, to_openmetrics
from dashgen.recordings.live import on_grid, record, rhythm
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
            series("nccl_bus_bandwidth_gbs", phase, **job, **shape, **collective),
            series("nccl_p2p_exec_time_microseconds", phase, **job, **shape, p2p_operation="Send"),
            series("nccl_collectives_total", phase, **job),
            series("nccl_bus_bandwidth_gbs", phase, **job | {"slurm_job_id": "9"}, **shape, **collective),
            series("node_textfile_mtime_seconds", phase, file=path, **scrape),
            series("node_infiniband_port_data_received_bytes_total", phase, device="mlx5_0", port="1", **scrape),
            series("promhttp_metric_handler_errors_total", phase, cause="gathering", **scrape),
            series("up", phase, **scrape),
            series(
                "DCGM_FI_DEV_SM_CLOCK",
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


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


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


def plain(found: list[Series]) -> dict[tuple[str, Labels], tuple[list[float], list[float]]]:
    return {(one.name, one.labels): (one.times.tolist(), one.values.tolist()) for one in found}


def test_a_job_and_its_companions_are_recorded_as_they_were(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with prometheus(fleet(), tmp_path, "--query.max-samples=150") as url:  # forces chunks to be halved
        recording, *_ = record(
            url,
            "1670760",
            START,
            START + SPAN,
            out=tmp_path / "recording",
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
    assert steps[-1] == (5, 5)


def test_pseudonyms_are_consistent_and_nothing_of_the_site_is_left(tmp_path: Path) -> None:
    out = tmp_path / "recording"
    with prometheus(fleet(), tmp_path) as url:
        record(url, "1670760", START, START + SPAN, out=out, pseudonyms=True, extra=["train_tflops"])
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
        record(url, "41388", story.start, story.end, out=tmp_path / "recording", pseudonyms=pseudonyms)
    assert fired(read_samples(tmp_path / "recording")) == fired(found) != set()


def test_the_same_name_gets_the_same_pseudonym_in_every_label() -> None:
    alias = Pseudonyms("slurm_job_id")
    node = alias.label("node", "gpu01")
    assert alias.label("instance", "gpu01:9100") == f"{node}:9100"
    assert alias.label("Hostname", "gpu01.acme.example") == f"{node}.domain-001"
    assert alias.label("node", "gpu02") != node
    assert alias.label("instance", "[fe80::1]:9100").endswith(":9100") and "fe80" not in alias.label("host", "fe80::1")
    assert alias.label("slurm_job_id", "unknown") == "unknown"
    assert alias.label("pod_owner", "alice") == "pod_owner-001"
    assert alias.label("file", "/a/smart.prom") != alias.label("file", "/b/smart.prom")


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
        record(url, "1670760", START, START + SPAN, out=tmp_path / "recording")
    moved = {one.times[0] - START.timestamp() for one in read_samples(tmp_path / "recording") if "nccl" in one.name}
    assert moved == {15.0}


class _Answers(BaseHTTPRequestHandler):
    status, body = 200, b""

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    handler = type("Handler", (_Answers,), {"status": status, "body": body})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


EMPTY = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b"<html>login</html>", "not the answer of a Prometheus"),
        (200, b"[]", "not the answer of a Prometheus"),
        (200, EMPTY, "no nccl_\\* series with slurm_job_id='7'"),
        (404, b"not here", "HTTP 404: Not Found; is this a Prometheus"),
        (422, b'{"status":"error","error":"bad\\n selector"}', "HTTP 422: bad selector"),
        (422, b'{"error":"query processing would load too many samples into memory"}', "too many samples"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_in_one_line(
    status: int, body: bytes, message: str, tmp_path: Path
) -> None:
    with answering(status, body) as url, pytest.raises(UserError, match=message) as error:
        record(url, "7", START, START + timedelta(seconds=60), out=tmp_path / "out")
    assert url in str(error.value) and "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_bad_arguments_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "prometheus:9090", "http://127.0.0.1:1"):
        with pytest.raises(UserError, match=r"not an http|not reachable"):
            record(url, "7", START, START + SPAN, out=tmp_path / "out")
    with pytest.raises(UserError, match="as a header") as error:
        record("http://me:secret@prometheus", "7", START, START + SPAN, out=tmp_path / "out")
    assert "secret" not in str(error.value)
    with pytest.raises(UserError, match="is not after"):
        record("http://127.0.0.1:1", "7", START, START, out=tmp_path / "out")
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="holds mine"):
        record("http://127.0.0.1:1", "7", START, START + SPAN, out=tmp_path)
