# SPDX-License-Identifier: Apache-2.0
"""What one evaluation of everything costs on a large fleet, against reading each raw sample once.

Run: python tests/benchmarks/cost.py [jobs of 256 GPUs, default 8]

The reference is ``count(nccl_bus_bandwidth_gbs) + count(nccl_collective_exec_time_microseconds)`` on the same server in
the same run. Recorded series get an hour of history before anything is measured.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dashgen import build
from dashgen.config import Site
from dashgen.model import AlertRule, Sensitivity
from dashgen.prometheus import Server, make_blocks
from dashgen.recordings.format import Series
from dashgen.recordings.scenario import Scenario
from dashgen.recordings.simulate import simulate

MB = 1024 * 1024
HISTORY = 70 * 60  # seconds; the longest window of steady operation is an hour and its offset
RAW = "count(nccl_bus_bandwidth_gbs) + count(nccl_collective_exec_time_microseconds)"


def fleet(jobs: int) -> list[Series]:
    """Jobs of 256 GPUs with 48 series a GPU, twelve minutes of them, and every companion."""
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
            "start": "2026-01-01T00:00:00Z",
            "lasts": "12m",
            "jobs": [
                {
                    "id": str(number),
                    "preset": "tp-fsdp",
                    "nodes": 32,
                    "first_node": 32 * number + 1,
                    "tp": 4,
                    "traffic": (*extra, extra[0] | {"size": 65536}),
                }
                for number in range(jobs)
            ],
        }
    )
    return simulate(scenario)[1]


def history(results: Iterable[Series], end: float) -> list[Series]:
    """Recorded results with an hour behind them: the same value, moving by half a percent."""
    times = np.arange(end - HISTORY, end + 1, 30.0)
    ripple = 1 + 0.005 * np.sin(np.arange(len(times)) * 2.4)
    return [
        Series(one.name, one.labels, times, ripple * one.values[-1]) for one in results if math.isfinite(one.values[-1])
    ]


def settled(raw: list[Series], rules: dict[str, str], end: float, folder: Path) -> list[Series]:
    """All that the rules record once each of them has seen the others' results."""
    recorded: list[Series] = []
    known = -1
    for turn in range(10):
        if len(recorded) == known:
            break
        known = len(recorded)
        data = folder / f"turn{turn}"
        make_blocks(data, [*raw, *recorded])
        with Server(data, lookback=50) as server:
            recorded = []
            for name, expr in rules.items():
                recorded += history(
                    (Series(name, one.labels, one.times, one.values) for one in server.query(expr, end)), end
                )
        print(f"  turn {turn}: {len(recorded)} recorded series", flush=True)
    return recorded


def seconds(server: Server, expr: str, end: float, runs: int = 5) -> float:
    """Least wall time of an instant query that returns one number: what other processes take is not ours."""
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        server.query(f"count({expr})", end)
        taken.append(time.perf_counter() - begin)
    return min(taken)


def main() -> None:
    """Build the fleet, measure every rule, print the ratio."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    site = Site()
    rules = build.signals(site)
    alerts = {
        rule.alert: rule.expr
        for group in build.alerts(site, Sensitivity.MEDIUM)
        for rule in group.rules
        if isinstance(rule, AlertRule)
    }
    raw = fleet(jobs)
    end = float(max(one.times[-1] for one in raw)) - 30
    nccl = sum(one.name.startswith("nccl_") for one in raw)
    print(f"{256 * jobs} GPUs, {nccl} NCCL series", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        recorded = settled(raw, rules, end, Path(folder))
        data = Path(folder) / "final"
        make_blocks(data, [*raw, *recorded])
        with Server(data, lookback=50) as server:
            reference = seconds(server, RAW, end, 9)
            costs = {name: seconds(server, expr, end) for name, expr in {**rules, **alerts}.items()}
            reference = min(reference, seconds(server, RAW, end, 9))
    for name, cost in sorted(costs.items(), key=lambda item: -item[1])[:15]:
        print(f"  {cost:7.3f} s  {name}")
    total = sum(costs.values())
    print(f"reading each raw sample once: {reference:.3f} s; one evaluation of everything: {total:.3f} s")
    print(f"ratio {total / reference:.2f} (at most 4)")
    print(f"recorded {len(recorded)} of {nccl} series, {len(recorded) / nccl:.1%} (at most 5 %)")
    sys.exit(total / reference > 4 or len(recorded) / nccl > 0.05)


if __name__ == "__main__":
    main()
