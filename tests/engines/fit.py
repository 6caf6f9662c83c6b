# SPDX-License-Identifier: Apache-2.0
"""Measured fleets -> dashgen/cost/measured.json, the coefficients of ``dashgen cost``.

Run: PYTHONPATH=.:tests:tests/benchmarks python tests/engines/fit.py COST.json BILL.json...
     (a report of tests/benchmarks/cost.py, and one of tests/engines/bill.py for each size)

What the rules take together comes from the bills; the part of each rule in it from the other report. What a rule
records is counted on small fleets besides, of small and of large jobs: they tell what goes with GPUs,
and what with jobs. tests/readme.py brings the tables of dashgen/docs/cost.md up to date.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import cost
import numpy as np

import dashgen.cost
from dashgen import build
from dashgen.config.site import Site

SHAPES = ((64, 1), (64, 4), (256, 1), (256, 2))  # GPUs of a job, jobs


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The straight line that misses each point by the least part of it; neither number of it is negative."""
    x, y = np.array(points, float).T
    rows = np.stack([1 / y, x / y], axis=1)
    first, slope = np.linalg.lstsq(rows, np.ones(len(y)), rcond=None)[0]
    if first < 0:
        first, slope = 0.0, (x / y).sum() / ((x / y) ** 2).sum()
    elif slope < 0:
        first, slope = (1 / y).sum() / (1 / y**2).sum(), 0.0
    return float(first), float(slope)


def curve(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The power of a fleet's size whose worst miss is the least part of a point: its scale and its exponent."""
    x, y = np.log(np.array(points, float)).T
    # The best line through the middle of a band that holds all points is parallel to one through two of them.
    slopes = [(y[b] - y[a]) / (x[b] - x[a]) for a, b in combinations(range(len(x)), 2)]
    exponent = min(slopes, key=lambda slope: np.ptp(y - slope * x))
    rest = y - exponent * x
    return float(np.exp((rest.max() + rest.min()) / 2)), float(exponent)


def recorded() -> dict[str, tuple[float, float]]:
    """Series a GPU and a job of every rule."""
    site = Site()
    rules = [rule.record for group in build.recording(site) for rule in group.rules]  # type: ignore[union-attr]
    counts: dict[str, list[int]] = {name: [] for name in rules}
    for gpus, jobs in SHAPES:
        cost.GPUS = gpus
        fleet = cost.fleet(jobs)
        begin, end = min(one.times[0] for one in fleet), max(one.times[-1] for one in fleet)
        made = Counter(
            one.name for one in cost.last_recorded(fleet, build.recording(site), begin, end, site.dump_interval)
        )
        for name in rules:
            counts[name].append(made[name])
    sizes = np.array([(gpus * jobs, jobs) for gpus, jobs in SHAPES], float)
    found = {}
    for name, counted in counts.items():
        gpu, job = np.linalg.lstsq(sizes, np.array(counted, float), rcond=None)[0]
        found[name] = (max(0.0, round(float(gpu), 5)), max(0.0, round(float(job), 3)))
    return found


def main() -> None:
    costs, *bills = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    bills.sort(key=lambda bill: bill["gpus"])
    sizes = [
        {
            "gpus": bill["gpus"],
            "jobs": bill["jobs"],
            "nccl_series": bill["raw"]["nccl"],
            "companion_series": bill["raw"]["companions"],
            "recorded_series": sum(bill["recorded"].values()),
            "rule_seconds": round(bill["rule_seconds"], 3),
            "read_seconds": round(bill["read_seconds"], 3),
            "memory": round(bill["memory"]),
            "memory_with_rules": round(bill["memory_with_rules"]),
        }
        for bill in bills
    ]
    largest = sizes[-1]
    heaps = [(bill["series"], bill["memory"]) for bill in bills]
    weights = {rule["name"]: rule["seconds"] * rule["share"] for rule in costs["rules"]}
    data = {
        "disk": round(float(np.mean([bill["disk"] for bill in bills if "disk" in bill])), 3),
        "nccl": largest["nccl_series"] / largest["gpus"],
        "companions": round(largest["companion_series"] / largest["gpus"], 3),
        "memory": _rounded(line(heaps)),
        "working": _rounded(curve([(each["gpus"], each["memory_with_rules"]) for each in sizes])),
        "read": _rounded(curve([(each["gpus"], each["read_seconds"]) for each in sizes])),
        "rules": _rounded(curve([(each["gpus"], each["rule_seconds"]) for each in sizes])),
        "shares": {name: float(f"{weight / sum(weights.values()):.3g}") for name, weight in weights.items()},
        "recorded": recorded(),
        "sizes": sizes,
    }
    path = Path(dashgen.cost.__file__).with_name("measured.json")
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(path)


def _rounded(found: tuple[float, float]) -> list[float]:
    return [float(f"{each:.4g}") for each in found]


if __name__ == "__main__":
    main()
