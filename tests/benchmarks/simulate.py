# SPDX-License-Identifier: Apache-2.0
"""How long it takes to simulate two hours of 512 GPUs with 48 series each, and how much memory.

Run: python tests/benchmarks/simulate.py [nodes]
"""

from __future__ import annotations

import resource
import sys
import time

from dashgen.simulator.scenario import Scenario
from dashgen.simulator.simulate import simulate

MB = 1024 * 1024


def fleet(nodes: int) -> Scenario:
    """A job that uses 24 buckets on every GPU, and a network constraint in its second hour."""
    extra = [
        {"group": group, "operation": operation, "size": size * MB + MB // 2, "share": 0.005, "exposed": 0.2}
        for group, sizes in {"tp": (2, 5, 9, 20), "dp": (8, 24, 48, 160, 200)}.items()
        for operation in ("AllGather", "ReduceScatter")
        for size in sizes
    ]
    return Scenario.model_validate(
        {
            "name": "benchmark",
            "story": "A large job.",
            "start": "2026-01-01T00:00:00Z",
            "lasts": "2h",
            "companions": {"dcgm": False, "infiniband": False},
            "jobs": [
                {
                    "id": "1",
                    "preset": "tp-fsdp",
                    "nodes": nodes,
                    "tp": 4,
                    "traffic": (*extra, extra[0] | {"size": 65536}),
                }
            ],
            "events": [{"kind": "network", "loss": 0.1, "start": "1h", "end": "1h30m"}],
        }
    )


def main() -> None:
    """Simulate, and print what it cost."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    begin = time.perf_counter()
    _, series = simulate(fleet(nodes))
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ours = [one for one in series if one.name.startswith("nccl_")]
    samples = sum(len(one.times) for one in series)
    print(
        f"{nodes * 8} GPUs, 2 h, {len(ours) / nodes / 8:.0f} series per GPU: "
        f"{seconds:.1f} s, {peak:.2f} GB peak, {len(series)} series, {samples / 1e6:.1f} M samples"
    )


if __name__ == "__main__":
    main()
