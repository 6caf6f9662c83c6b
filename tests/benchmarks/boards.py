# SPDX-License-Identifier: Apache-2.0
"""How long the boards take on a large fleet, against the panels of NVIDIA's own template on the same server.

Run: python tests/benchmarks/boards.py [hours of history, default 6] [GPUs of the fleet, default 512 and 2048]

Jobs of 256 GPUs with 48 series a GPU, two and eight of them. One job is simulated and all rules are run on it; what
they record is copied to the other jobs and drawn out over the hours, and what a healthy job does not record is made
up, so that every panel has something to draw. Raw series of the chosen job reach back as far, those of the other jobs
a few minutes, which is all that instant queries read. Then every board is opened on the whole time: all variables,
annotations and panels, collapsed rows too, with the step that Grafana would choose, one query after the other. The
template asks 20 panels: bandwidth and time, within and across domains, of five operations. A board may take half of
its time, those that everybody opens first a fifth.
"""

from __future__ import annotations

import http.client
import itertools
import json
import statistics
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from cost import LASTS, last_recorded

from dashgen import build, catalogue, durations
from dashgen.config.site import Site
from dashgen.engine.prometheus import Server, make_blocks
from dashgen.grafana import variables
from dashgen.grafana.parsed import Board
from dashgen.recordings.format import Series
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.simulate import simulate

MB = 1024 * 1024
JOB_GPUS = 256
SIZES = (512, 2048)
STEP = 30  # dumps and scrapes
MOST_POINTS = 1000  # of a panel half a screen wide
BLOCK = 2 * 3600  # a block of Prometheus' own
LIMIT = 0.5  # of the template's time for a board
FIRST = 0.2  # of it for the boards that are opened first
FIRST_BOARDS = ("fleet", "job")
PASSES = 5


def one_job() -> list[Series]:
    """Some minutes of a job of 256 GPUs with 48 series a GPU, and every companion."""
    traffic = [
        {"group": group, "operation": operation, "size": size * MB + MB // 2, "share": 0.005, "exposed": 0.2}
        for group, sizes in {"tp": (2, 5, 9, 20), "dp": (8, 24, 48, 160)}.items()
        for operation in ("AllGather", "ReduceScatter")
        for size in sizes
    ]
    traffic += [
        {"group": "pp", "operation": operation, "size": 3 * MB, "share": 0.005, "exposed": 0.2}
        for operation in ("Send", "Recv")
    ]
    job = {"id": "0", "preset": "tp-pp-dp", "nodes": 32, "tp": 4, "pp": 2, "traffic": traffic}
    scenario = {
        "name": "boards",
        "story": "A large job.",
        "start": "2026-01-01T00:00:00Z",
        "lasts": f"{LASTS}s",
        "jobs": [job],
    }
    return simulate(Scenario.model_validate(scenario))[1]


def drawn_out(one: Series, times: np.ndarray) -> Series:
    """A series over other times: a counter goes on at its rate, anything else moves by half a percent."""
    if one.name.endswith("_total"):
        rate = (one.values[-1] - one.values[0]) / max(one.times[-1] - one.times[0], 1)
        values = one.values[-1] + rate * (times - times[0])
    elif one.name == "node_textfile_mtime_seconds":
        values = times - 5
    else:
        values = one.values[-1] * (1 + 0.005 * np.sin(times / 70))
    return Series(one.name, one.labels, times, values)


def of_job(one: Series, number: int) -> Series:
    """The same series of another job on other nodes."""
    if not number:
        return one
    own = {"slurm_job_id", "node", "instance", "Hostname"}
    labels = tuple((key, f"{number}-{value}" if key in own else value) for key, value in one.labels)
    return replace(one, labels=labels)


def made_up(site: Site, known: Iterable[Series], end: float) -> Iterator[Series]:
    """Something for every signal that a healthy job does not record, on the first job."""
    known = list(known)
    places = [dict(one.labels) for one in known if one.name == "gpu:nccl_lateness:ratio"][:8]
    words = {
        "algo_proto": "RING_SIMPLE",
        "collective": "AllGather",
        "comm_name": "dp",
        "counter": "discards",
        "device": "mlx5_0",
        "evidence": "collectives",
        "message_size": "96-97MB",
        "n_nodes": "32",
        "nranks": "32",
        "p2p_operation": "Send",
        "port": "1",
        "size_class": "large",
        "state": "degraded",
        "suspect": "network",
        "transport": "mixed",
    }
    targets = {
        dict(one.labels)["node"]: dict(one.labels)["instance"] for one in known if one.name == "node:nccl_gpus:count"
    }
    present = {one.name for one in known}
    for name in build.signals(site):
        if name in present:
            continue
        names = [build.fill(label, site) for label in catalogue.SIGNAL_BY_NAME[name].labels]
        wanted = list(itertools.chain.from_iterable(each.replace(" ", "").split(",") for each in names))
        for place in places if {"node", "instance"} & set(wanted) else places[:1]:
            values = {**words, **place, "instance": targets[place["node"]]}
            labels = tuple(sorted((label, values.get(label, "x")) for label in wanted))
            yield Series(name, labels, np.array([end]), np.array([0.5]))


def hurt(one: Series) -> Series:
    """The verdict about a job that is hurt, so that what shows hurt jobs has something to show."""
    if one.name != "job:nccl_verdict:depth":
        return one
    job = dict(one.labels)["slurm_job_id"]
    labels = {"slurm_job_id": job, "state": "degraded", "suspect": "network", "transport": "mixed"}
    return replace(one, labels=tuple(sorted(labels.items())), values=np.full(len(one.values), 0.2))


def store(data: Path, series: list[Series], start: float, end: float, recent: list[Series]) -> int:
    """Blocks of two hours, ``recent`` in the last five minutes only; says how many samples that is."""
    samples = 0
    edges = np.arange(start - start % BLOCK, end + BLOCK, BLOCK)
    for begin, stop in itertools.pairwise(edges):
        times = np.arange(max(begin, start), min(stop, end + 1), STEP)
        part = [drawn_out(one, times) for one in series] if len(times) else []
        late = times[times > end - 300]
        part += [drawn_out(one, late) for one in recent] if len(late) else []
        if part:
            make_blocks(data, part)
            samples += sum(len(one.times) for one in part)
    return samples


class Browser:
    """Opens boards on a time range and measures until the last byte of each answer; what it draws costs nothing."""

    def __init__(self, server: Server, start: float, end: float) -> None:
        self.start, self.end = start, end
        self.step = STEP * max(1, round((end - start) / MOST_POINTS / STEP))
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server._url).netloc, timeout=120)

    def get(self, path: str, **parameters: str) -> bytes:
        """The raw answer of Prometheus, over one connection, as Grafana keeps it open."""
        self.connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{parameters}: {text.decode()}")
        return text

    def values(self, choice: variables.Choice, match: str) -> list[str]:
        """What a variable offers."""
        found = self.get(f"label/{choice.label}/values", **{"match[]": match}, start=f"{self.start}", end=f"{self.end}")
        return [str(each) for each in json.loads(found)["data"]]

    def ask(self, expr: str, step: int, instant: bool = False) -> float:
        """Seconds of one query."""
        begin = time.perf_counter()
        if instant:
            self.get("query", query=expr, time=f"{self.end}")
        else:
            self.get("query_range", query=expr, start=f"{self.start}", end=f"{self.end}", step=f"{step}")
        return time.perf_counter() - begin

    def open(self, board: Board) -> dict[str, float]:
        """Seconds of everything that the board asks, by place."""
        values = variables.constants(board)
        taken: dict[str, float] = {}
        for choice in variables.choices(board):
            begin = time.perf_counter()
            found = self.values(choice, variables.fill(choice.match, values))
            taken[f"variable {choice.name}"] = time.perf_counter() - begin
            values[choice.name] = variables.written(choice, found, variables.pick(found, "0".__eq__))
        asked = [query for panel in board.panels for query in panel.queries]
        fewer = {
            panel.where: STEP * round((self.end - self.start) / int(panel.json["maxDataPoints"]) / STEP)
            for panel in board.panels
            if "maxDataPoints" in panel.json
        }
        asked += [query for query in board.queries if query.where.startswith("annotation")]
        for query in asked:
            step = max(
                self.step, int(durations.seconds(str(query.target.get("interval") or "0s"))), fewer.get(query.where, 0)
            )
            filled = variables.fill(query.expr, values | variables.macros(self.start, self.end, step, STEP))
            took = self.ask(filled, step, bool(query.target.get("instant")))
            taken[query.where] = taken.get(query.where, 0.0) + took
        return taken


def template(job: str) -> list[str]:
    """What the 20 panels of NVIDIA's template ask for one job (NVIDIA/nccl 2.30.7, its Grafana example)."""
    operations = [("nccl_p2p", "p2p_operation", each) for each in ("Recv", "Send")]
    operations += [("nccl", "collective", each) for each in ("ReduceScatter", "AllReduce", "AllGather")]
    asked = []
    for prefix, label, operation in operations:
        time_series = (
            f"{prefix}_exec_time_microseconds" if prefix == "nccl_p2p" else "nccl_collective_exec_time_microseconds"
        )
        for metric in (f"{prefix}_bus_bandwidth_gbs", time_series):
            for shape, by in (
                ('n_nodes="1"', "message_size, nranks"),
                ('n_nodes!="1"', "message_size, nranks, n_nodes"),
            ):
                asked.append(f'avg by ({by}) ({metric}{{slurm_job_id="{job}", {label}="{operation}", {shape}}})')
    return asked


def measured(site: Site, gpus: int, hours: float) -> bool:
    """Build a fleet, open every board, print what it takes; says whether all of it is within the limits."""
    views = {slug: Board(json.loads(json.dumps(board))) for slug, board in build.bundle(site, ()).dashboards.items()}
    raw = one_job()
    begin = float(min(one.times[0] for one in raw))
    end = float(max(one.times[-1] for one in raw)) - STEP
    jobs = gpus // JOB_GPUS
    with tempfile.TemporaryDirectory() as folder:
        recorded = last_recorded(raw, build.recording(site), begin, end, site.dump_interval)
        recorded = [*map(hurt, recorded), *made_up(site, recorded, end)]
        end += 6 * 3600 - end % BLOCK  # so that the blocks are whole
        start = end - hours * 3600
        fleet = [of_job(one, number) for number in range(jobs) for one in recorded]
        others = [of_job(one, number) for number in range(1, jobs) for one in raw]
        data = Path(folder) / "boards"
        began = time.perf_counter()
        samples = store(data, [*raw, *fleet], start, end, others)
        nccl = sum(one.name.startswith("nccl_") for one in raw)
        print(f"{gpus} GPUs, {nccl} NCCL series of one job, {len(fleet)} recorded series of all, {hours:g} h:")
        print(f"  {samples / 1e6:.1f} M samples, stored in {time.perf_counter() - began:.0f} s", flush=True)
        with Server(data, lookback=50) as server:
            browser = Browser(server, start, end)
            for board in views.values():  # the first reading comes from the disk
                browser.open(board)
            passes, vendor = [], []
            for _ in range(PASSES):  # by turns, so that a busy machine is busy for both
                passes.append({slug: browser.open(board) for slug, board in views.items()})
                vendor.append(sum(browser.ask(expr, browser.step) for expr in template("0")))
            answered = sum(bool(server.query_range(expr, start, end, browser.step)) for expr in template("0"))
    print(
        f"{statistics.median(vendor):7.3f} s  NVIDIA's template for one job, 20 panels, of which {answered} show data"
    )
    within = True
    for slug in views:
        pairs = zip(vendor, passes, strict=True)
        share = statistics.median(sum(each[slug].values()) / reference for reference, each in pairs)
        total = statistics.median(sum(each[slug].values()) for each in passes)
        limit = FIRST if slug in FIRST_BOARDS else LIMIT
        within &= share <= limit
        print(f"{total:7.3f} s  {slug}, {len(passes[0][slug])} places, {share:.2f} of the template (at most {limit:g})")
        parts = {where: statistics.median(each[slug][where] for each in passes) for where in passes[0][slug]}
        for where, took in sorted(parts.items(), key=lambda item: -item[1])[:5]:
            print(f"         {took:6.3f} s  {where}")
    return within


def main() -> None:
    """Measure the fleets, and fail where a board is over its limit."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
    sizes = [int(size) for size in sys.argv[2:]] or SIZES
    site = Site.model_validate({"companions": {"p2p": {"enabled": True}}})
    found = [measured(site, gpus, hours) for gpus in sizes]
    sys.exit(not all(found))


if __name__ == "__main__":
    main()
