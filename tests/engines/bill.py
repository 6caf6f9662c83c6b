# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs a real Prometheus: series, seconds, memory with and without the rules, disk.

Run: PYTHONPATH=.:tests:tests/benchmarks python tests/engines/bill.py --jobs N --report FILE.json   (jobs of 256 GPUs)

The fleet of ``tests/benchmarks/cost.py`` is written into the head of Debian's Prometheus, as many samples as fill a
chunk; the samples reach into the future, and the rules then run on them in real time, on top of a past of their own
results. No figure hangs on how busy the machine is: seconds are those of the processor, and memory is what Go lets the
heap grow to before it collects (GOGC=100: twice what lives), which is what a server's memory rises to.
Disk is what the samples of the simulation take in the chunks of blocks; the index of a block of days weighs nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import cost
import numpy as np
import processes
from engines import remote

from dashgen import build
from dashgen.config.site import Site
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series
from dashgen.targets.rulefile import rule_file

SAMPLES = 120  # of a full chunk of Prometheus
SCRAPE = 15.0  # seconds
ROUNDS = 8  # dumps during which the rules are watched: the slowest groups run every fourth
READS = 5
SAID = {
    "series": "prometheus_tsdb_head_series",
    "heap": "go_memstats_next_gc_bytes",
    "processor": "process_cpu_seconds_total",
    "rounds": "prometheus_rule_group_iterations_total",
    "missed": "prometheus_rule_group_iterations_missed_total",
    "failed": "prometheus_rule_evaluation_failures_total",
}


def moved(one: Series, end: float) -> Series:
    """A full chunk of samples that ends at a moment: those of the simulation, over and over."""
    times = end - SCRAPE * np.arange(SAMPLES)[::-1]
    return Series(one.name, one.labels, times, np.resize(one.values, SAMPLES))


def said(url: str, collect: bool = False) -> dict[str, float]:
    """What a Prometheus says of itself, sums over labels; ``rounds`` are of the group that has the verdict."""
    if collect:
        processes.DIRECT.open(f"{url}/debug/pprof/heap?gc=1", timeout=300).read()
    page = processes.DIRECT.open(f"{url}/metrics", timeout=300).read().decode()
    found = dict.fromkeys(SAID, 0.0)
    for key, name in SAID.items():
        for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.M):
            if key != "rounds" or "nccl-verdict" in labels:
                found[key] += float(value)
    return found


def read(url: str) -> float:
    """Seconds of the processor that one read of each raw sample takes."""
    before = said(url)
    for _ in range(READS):
        processes.DIRECT.open(f"{url}/api/v1/query?query={quote(cost.RAW)}", timeout=300).read()
    return (said(url)["processor"] - before["processor"]) / READS


def watch(url: str) -> tuple[float, dict[str, float]]:
    """Seconds of the processor that the rules take a dump, and the most of each figure meanwhile."""
    while (begin := said(url))["rounds"] < 1:
        time.sleep(1)
    most = begin
    while (now := said(url))["rounds"] < begin["rounds"] + ROUNDS:
        most = {key: max(value, now[key]) for key, value in most.items()}
        time.sleep(2)
    return (now["processor"] - begin["processor"]) / (now["rounds"] - begin["rounds"]), most


def serve(folder: Path, fleet: list[Series], made: list[Series]) -> dict[str, float]:
    """Write all, measure, let the rules run, measure again."""
    site = Site()
    config = folder / "prometheus.yml"
    config.write_text("global: {evaluation_interval: 30s}\n")
    (folder / "rules.yaml").write_text(rule_file([*build.recording(site), *build.alerts(site, Sensitivity.MEDIUM)]))
    flags = (f"--config.file={config}", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:PORT")
    more = ("--web.enable-lifecycle", "--web.enable-remote-write-receiver", "--log.level=error")
    with processes.serving("prometheus", *flags, *more, ready="/-/ready", log=folder / "log") as url:
        now = time.time()
        remote.write(url, (moved(one, now + 28 * 60) for one in fleet if one.values.size))  # from two minutes ago on
        without = said(url, collect=True)
        taken = read(url)
        remote.write(url, (cost.history(one, now, 15 * 60, SCRAPE) for one in made))
        config.write_text("global: {evaluation_interval: 30s}\nrule_files: [rules.yaml]\n")
        processes.DIRECT.open(f"{url}/-/reload", b"", timeout=300).read()
        rules, most = watch(url)
    return {
        "read_seconds": taken,
        "rule_seconds": rules,
        "memory": without["heap"],
        "series": without["series"],
        "memory_with_rules": most["heap"],
        "series_with_rules": most["series"],
        "missed": most["missed"],
        "failed": most["failed"],
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
    fleet = cost.fleet(given.jobs)
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
