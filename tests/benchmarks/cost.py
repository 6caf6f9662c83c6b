# SPDX-License-Identifier: Apache-2.0
"""What the rules cost on a large fleet, against reading each raw sample once.

Run: python tests/benchmarks/cost.py [--jobs N] [--report FILE.json]   (jobs of 256 GPUs, default 8)

The reference is ``count(nccl_bus_bandwidth_gbs) + count(nccl_collective_exec_time_microseconds)`` on the same server in
the same run. A rule counts by how often it runs: one whose group is evaluated every fourth dump counts a quarter. What
the rules record on this fleet is found by the rule engine (``dashgen.engine.scheduled``), and gets as much history
as any rule looks back, a day for what is remembered.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import promql_parser

from dashgen import build, durations, promql
from dashgen.config.site import Site
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import Server, make_blocks
from dashgen.engine.ruletest import is_timestamp
from dashgen.model import RecordingRule, RuleGroup, Sensitivity
from dashgen.recordings.format import Series
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.simulate import simulate
from dashgen.targets.rulefile import rule_file

MB = 1024 * 1024
GPUS = 256  # of a job
LASTS = 18 * 60  # seconds: three minutes until anything is learned, six samples until it counts, and a verdict
BLOCK = 2 * 3600  # seconds of a block of Prometheus; a file with more is read once for each
RAW = "count(nccl_bus_bandwidth_gbs) + count(nccl_collective_exec_time_microseconds)"
MOST = 3.0


@dataclass(frozen=True)
class Cost:
    """One rule: seconds of one evaluation, and evaluations a dump."""

    group: str
    name: str
    seconds: float
    share: float

    @property
    def weighted(self) -> float:
        """Seconds a dump."""
        return self.seconds * self.share


def fleet(jobs: int) -> list[Series]:
    """Jobs of 256 GPUs with 48 series a GPU and every companion."""
    extra = [
        {"group": group, "operation": operation, "size": size * MB + MB // 2, "share": 0.005, "exposed": 0.2}
        for group, sizes in {"tp": (2, 5, 9, 20), "dp": (8, 24, 48, 160, 200)}.items()
        for operation in ("AllGather", "ReduceScatter")
        for size in sizes
    ]
    scenario = Scenario.model_validate(
        {
            "name": "cost",
            "story": "A fleet of large jobs.",
            "start": "2026-01-02T00:00:00Z",
            "lasts": f"{LASTS}s",
            "jobs": [
                {
                    "id": str(number),
                    "preset": "tp-fsdp",
                    "nodes": GPUS // 8,
                    "first_node": GPUS // 8 * number + 1,
                    "tp": 4,
                    "traffic": (*extra, extra[0] | {"size": 65536}),
                }
                for number in range(jobs)
            ],
        }
    )
    return simulate(scenario)[1]


def last_recorded(
    raw: list[Series], groups: Iterable[RuleGroup], begin: float, end: float, every: float
) -> list[Series]:
    """The last sample of all that the rules record. Raises UserError where there is no engine and no Go."""
    program = engine.engine() or engine.build()
    files = {"recording.yaml": rule_file(groups)}
    moments = engine.Moments(begin, end, 15.0, every, False)
    made = engine.replay(program, files, raw, moments, ".*:.*", end - 4 * every).series
    return [replace(one, times=one.times[-1:], values=one.values[-1:]) for one in made]


def look_back(exprs: Iterable[str]) -> dict[str, float]:
    """How far any rule looks back at a series, in seconds, by the name of the series."""
    found: dict[str, float] = {}
    for expr in exprs:
        for node in promql.nodes(promql.parse(expr)):
            if isinstance(node, promql_parser.MatrixSelector):
                each = node.vector_selector
                shift = each.offset.total_seconds() if each.offset is not None else 0.0
                far = node.range.total_seconds() + shift
                found[each.name] = max(found.get(each.name, 0.0), far)
    return found


def history(one: Series, end: float, far: float, step: float) -> Series:
    """A result with its past: the same value, moving by half a percent; a moment moves with the clock."""
    times = np.arange(end - step * np.ceil(max(far, 600.0) / step), end + 1, step)
    if is_timestamp(one.name):
        values = one.values[-1] + times - end
    else:
        values = one.values[-1] * (1 + 0.005 * np.sin(np.arange(len(times)) * 2.4))
    return Series(one.name, one.labels, times, values)


def write(data: Path, series: Iterable[Series]) -> int:
    """Write samples block by block; how many there are."""
    blocks: dict[int, list[Series]] = {}
    for one in series:
        for block in np.unique(one.times // BLOCK).tolist():
            inside = one.times // BLOCK == block
            blocks.setdefault(block, []).append(replace(one, times=one.times[inside], values=one.values[inside]))
    for listed in blocks.values():
        make_blocks(data, listed)
    return sum(one.times.size for listed in blocks.values() for one in listed)


def least(server: Server, expr: str, end: float, runs: int = 5) -> float:
    """Least wall time of an instant query that returns one number: what other processes take is not ours."""
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        server.query(f"count({expr})", end)
        taken.append(time.perf_counter() - begin)
    return min(taken)


def rules(groups: Iterable[RuleGroup], every: float) -> Iterator[tuple[str, str, str, float]]:
    """Group, name, PromQL and evaluations a dump of every rule."""
    for group in groups:
        for rule in group.rules:
            name = rule.record if isinstance(rule, RecordingRule) else rule.alert
            yield group.name, name, rule.expr, every / durations.seconds(group.interval)


def measured(jobs: int, folder: Path) -> tuple[dict[str, float], list[Cost]]:
    """The figures of a fleet, and the cost of every rule."""
    site = Site()
    every = site.dump_interval
    recording = build.recording(site)
    listed = list(rules([*recording, *build.alerts(site, Sensitivity.MEDIUM)], every))
    raw = fleet(jobs)
    begin, end = (float(pick(one.times[pick_at] for one in raw)) for pick, pick_at in ((min, 0), (max, -1)))
    nccl = sum(one.name.startswith("nccl_") for one in raw)
    print(f"{GPUS * jobs} GPUs, {nccl} NCCL series", flush=True)
    made = last_recorded(raw, recording, begin, end, every)
    far = look_back(expr for _, _, expr, _ in listed)
    steps = {rule.record: durations.seconds(group.interval) for group in recording for rule in group.rules}  # type: ignore[union-attr]
    past: Mapping[str, float] = {name: far.get(name, 0.0) for name in steps}
    print(f"  {len(made)} recorded series", flush=True)
    samples = write(folder, [*raw, *(history(one, end, past[one.name], steps[one.name]) for one in made)])
    print(f"  {samples} samples", flush=True)
    with Server(folder, lookback=130) as server:
        reference = least(server, RAW, end, 9)
        costs = [Cost(group, name, least(server, expr, end), share) for group, name, expr, share in listed]
        reference = min(reference, least(server, RAW, end, 9))
    total = sum(each.weighted for each in costs)
    return {
        "gpus": GPUS * jobs,
        "nccl_series": nccl,
        "recorded_series": len(made),
        "recorded_share": len(made) / nccl,
        "raw_seconds": reference,
        "rule_seconds": total,
        "ratio": total / reference,
    }, costs


def main() -> int:
    """Build the fleet, measure every rule, print the ratio; 1 when the rules cost more than they may."""
    parser = argparse.ArgumentParser(description="Measure what the rules cost on a large fleet.")
    parser.add_argument("--jobs", type=int, default=8, help=f"jobs of {GPUS} GPUs (default: 8)")
    parser.add_argument("--report", type=Path, help="write every figure to this JSON file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures, costs = measured(given.jobs, Path(folder))
    for each in sorted(costs, key=lambda cost: -cost.weighted):
        print(f"  {each.weighted:7.3f} s a dump  {each.seconds:7.3f} s  {each.group}: {each.name}")
    raw, taken, ratio = (figures[name] for name in ("raw_seconds", "rule_seconds", "ratio"))
    print(
        f"reading each raw sample once: {raw:.3f} s; rules: {taken:.3f} s a dump; ratio {ratio:.2f} (at most {MOST:g})"
    )
    made, nccl, share = (figures[name] for name in ("recorded_series", "nccl_series", "recorded_share"))
    print(f"recorded {made:.0f} of {nccl:.0f} series, {share:.1%}")
    if given.report:
        data = {**figures, "rules": [asdict(each) for each in costs]}
        given.report.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return 1 if figures["ratio"] > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
