# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs a real Prometheus: series, seconds, memory with and without the rules, disk.

Run: PYTHONPATH=.:tests:tests/benchmarks python tests/engines/bill.py --jobs N --report FILE.json   (jobs of 256 GPUs)

Two of Debian's Prometheus scrape the fleet of ``tests/benchmarks/cost.py`` side by side, and one runs the rules.
Both begin with as many samples as fill a chunk, the second with a past of its rules' results besides, and are started
anew with them, because samples that came by thousands in one write leave memory behind. What the rules cost is the
difference, and no figure hangs on how busy the machine is: seconds are those of the processor, and memory is the most
that Go lets the heap grow to before it collects (GOGC=100: twice what lives).
Disk is what the samples of the simulation take in the chunks of blocks; the index of a block of days weighs nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import cost
import numpy as np
import processes
from engines import remote

from dashgen import build
from dashgen.config.site import Site
from dashgen.engine.services import Service
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series, number, selector
from dashgen.targets.rulefile import rule_file

SAMPLES = 120  # of a full chunk of Prometheus
SCRAPE = 15.0  # seconds
DUMP = Site().dump_interval
PAGE = 4000  # series of a target: eight nodes and their companions
PAGES = 4  # dumps, over and over
SETTLED = 6  # evaluations, after which the rules no longer see that the servers were away
ROUNDS = 8  # evaluations that are watched: the slowest groups run every fourth
READS = 10
SAID = {
    "series": "prometheus_tsdb_head_series",
    "heap": "go_memstats_next_gc_bytes",
    "resident": "process_resident_memory_bytes",
    "processor": "process_cpu_seconds_total",
    "rounds": "prometheus_rule_group_iterations_total",
    "missed": "prometheus_rule_group_iterations_missed_total",
    "failed": "prometheus_rule_evaluation_failures_total",
}


# The fleet, as its exporters show it.


def moved(one: Series, end: float) -> Series:
    """A full chunk of samples that ends at a moment: those of the simulation, over and over."""
    times = end - SCRAPE * np.arange(SAMPLES)[::-1]
    return Series(one.name, one.labels, times, np.resize(one.values, SAMPLES))


def pages(fleet: Sequence[Series]) -> list[list[bytes]]:
    """What each target shows, dump after dump."""
    targets = [fleet[first : first + PAGE] for first in range(0, len(fleet), PAGE)]
    return [_dumps(some) for some in targets]


def _dumps(some: Sequence[Series]) -> list[bytes]:
    names = [selector(one.name, one.labels) for one in some]
    values = [np.resize(one.values[:: int(DUMP / SCRAPE)], PAGES).tolist() for one in some]
    return [
        "".join(f"{name} {number(row[dump])}\n" for name, row in zip(names, values, strict=True)).encode()
        for dump in range(PAGES)
    ]


@contextmanager
def shown(listed: Sequence[Sequence[bytes]]) -> Iterator[str]:
    """Serve the pages; the address of the server. Target N is /N."""

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            dumps = listed[int(self.path[1:])]
            body = dumps[int(time.time() / DUMP) % len(dumps)]
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


# The servers.


def said(url: str) -> dict[str, float]:
    """What a Prometheus says of itself, sums over labels; ``rounds`` are of the group that has the verdict."""
    page = processes.DIRECT.open(f"{url}/metrics", timeout=300).read().decode()
    found = dict.fromkeys(SAID, 0.0)
    for key, name in SAID.items():
        for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.M):
            if key != "rounds" or "nccl-verdict" in labels:
                found[key] += float(value)
    return found


def configured(folder: Path, targets: int, exporter: str, rules: str) -> None:
    """Let a server scrape every target from its next start on; with ``rules``, evaluate them."""
    shows = [
        {"targets": [exporter], "labels": {"__metrics_path__": f"/{number}", "instance": str(number)}}
        for number in range(targets)
    ]
    scraped = {"job_name": "fleet", "honor_labels": True, "static_configs": shows}
    every = {"scrape_interval": f"{SCRAPE:g}s", "evaluation_interval": f"{DUMP:g}s"}
    (folder / "rules.yaml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        json.dumps({"global": every, "rule_files": ["rules.yaml"], "scrape_configs": [scraped]})
    )


@contextmanager
def prometheus(folder: Path) -> Iterator[tuple[Service, str]]:
    """A Prometheus with nothing to do yet."""
    config = folder / "prometheus.yml"
    config.write_text("{}")
    flags = (f"--config.file={config}", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:PORT")
    more = ("--web.enable-remote-write-receiver", "--log.level=error")
    with processes.server("prometheus", *flags, *more, ready="/-/ready", log=folder / "log") as found:
        yield found


def watch(urls: Sequence[str]) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """What each server took while the last one evaluated its rules, and the most of each figure."""
    while said(urls[-1])["rounds"] < SETTLED:
        time.sleep(1)
    most = begin = [said(url) for url in urls]
    while (now := [said(url) for url in urls])[-1]["rounds"] < begin[-1]["rounds"] + ROUNDS:
        most = [{key: max(value, new[key]) for key, value in old.items()} for old, new in zip(most, now, strict=True)]
        time.sleep(1)
    taken = [{key: new[key] - value for key, value in old.items()} for old, new in zip(begin, now, strict=True)]
    return taken, most


def read(url: str, idle: float) -> float:
    """Seconds of the processor that one read of each raw sample takes; ``idle`` of every second are taken anyway."""
    before, begin = said(url), time.monotonic()
    for _ in range(READS):
        processes.DIRECT.open(f"{url}/api/v1/query?query={quote(cost.RAW)}", timeout=300).read()
    lasted = time.monotonic() - begin
    return (said(url)["processor"] - before["processor"] - idle * lasted) / READS


def serve(folder: Path, fleet: list[Series], made: list[Series]) -> dict[str, float]:
    """Two servers with the same fleet, one with the rules: what they say of themselves."""
    site = Site()
    rules = rule_file([*build.recording(site), *build.alerts(site, Sensitivity.MEDIUM)])
    listed = pages(fleet)
    with shown(listed) as exporter, ExitStack() as stack:
        now = time.time()
        urls = []
        for name, text, past in (("without", "{}", []), ("with", rules, made)):
            (folder / name).mkdir()
            service, url = stack.enter_context(prometheus(folder / name))
            remote.write(url, (moved(one, now) for one in fleet))
            remote.write(url, (cost.history(one, now, 15 * 60, SCRAPE) for one in past))
            service.stop()
            configured(folder / name, len(listed), exporter, text)
            urls.append((service, url))
        for service, _ in urls:
            service.start()
        (plain, ruled), most = watch([url for _, url in urls])
        rounds = ruled["rounds"]
        reading = read(urls[0][1], plain["processor"] / rounds / DUMP)
    return {
        "read_seconds": reading,
        "rule_seconds": (ruled["processor"] - plain["processor"]) / rounds,
        "memory": most[0]["heap"],
        "series": most[0]["series"],
        "memory_with_rules": most[1]["heap"],
        "series_with_rules": most[1]["series"],
        "resident": most[0]["resident"],
        "resident_with_rules": most[1]["resident"],
        "missed": most[1]["missed"],
        "failed": most[1]["failed"],
    }


def disk(folder: Path, fleet: list[Series]) -> float:
    """Bytes that a sample takes in the chunks of a block."""
    samples = cost.write(folder, fleet)
    return sum(path.stat().st_size for path in folder.rglob("chunks/*")) / samples


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a fleet costs a real Prometheus.")
    parser.add_argument("--jobs", type=int, default=2, help=f"jobs of {cost.GPUS} GPUs (default: 2)")
    parser.add_argument("--report", type=Path, required=True, help="JSON file to write")
    given = parser.parse_args()
    site = Site()
    fleet = [one for one in cost.fleet(given.jobs) if one.values.size]
    begin, end = min(one.times[0] for one in fleet), max(one.times[-1] for one in fleet)
    made = cost.last_recorded(fleet, build.recording(site), begin, end, site.dump_interval)
    figures: dict[str, object] = {"gpus": given.jobs * cost.GPUS, "jobs": given.jobs}
    figures["raw"] = Counter("nccl" if one.name.startswith("nccl_") else "companions" for one in fleet)
    figures["recorded"] = Counter(one.name for one in made)
    with tempfile.TemporaryDirectory() as folder:
        figures |= serve(Path(folder), fleet, made)
    with tempfile.TemporaryDirectory() as folder:
        figures["disk"] = disk(Path(folder), [one for one in fleet if one.name.startswith("nccl_")])
    given.report.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
