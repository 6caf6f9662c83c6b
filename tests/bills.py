# SPDX-License-Identifier: Apache-2.0
"""The tables of dashgen/docs/cost.md: fleets that were measured, and one that is planned."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.cost.forecast import exponent, forecast, usual
from dashgen.cost.measured import measured
from dashgen.cost.table import amount

PLAN = ((100_000, 100, "100,000 GPUs in one server"), (12_500, 13, "an eighth of them"))
"""GPUs, jobs, and what to call them."""


def sizes_table() -> str:
    """What was measured, and how far a forecast is from it."""
    heads = "GPUs | raw series | recorded | rules, core s a dump | reads | memory without, with | forecast / measured"
    rows = [f"| {heads} |", "|---|---|---|---|---|---|---|"]
    for size in measured().sizes:
        bill = forecast(usual(size.gpus, size.jobs), Site())
        raw = size.nccl_series + size.companion_series
        pairs = (
            (bill.recorded_series, size.recorded_series),
            (bill.rule_seconds, size.rule_seconds),
            (bill.memory_bytes, size.memory_with_rules),
        )
        off = ", ".join(f"{(expected or 0) / found:.2f}" for expected, found in pairs)
        memory = f"{amount(size.memory, 'B')}, {amount(size.memory_with_rules, 'B')}"
        reads = size.rule_seconds / size.read_seconds
        rows.append(
            f"| {size.gpus:,} | {raw:,} | {size.recorded_series:,} ({size.recorded_series / size.nccl_series:.1%}) "
            f"| {size.rule_seconds:.2f} | {reads:.1f} | {memory} | {off} |"
        )
    rows.append("| exponent | | " + " | ".join(f"{each:.2f}" for each in exponents()) + " | |")
    return "\n".join(rows)


def exponents() -> list[float]:
    """How recorded series, rule seconds, reads and memory grow with the fleet."""
    sizes = measured().sizes
    figures = (
        lambda size: size.recorded_series,
        lambda size: size.rule_seconds,
        lambda size: size.rule_seconds / size.read_seconds,
        lambda size: size.memory_with_rules,
    )
    return [exponent((size.gpus, figure(size)) for size in sizes) for figure in figures]


def plan_table() -> str:
    """The bill of a large fleet, in one server and in several."""
    rows = ["| fleet | raw series | recorded | samples a second | rules, core s a dump | memory | disk, 15 days |"]
    rows.append("|---|---|---|---|---|---|---|")
    for gpus, jobs, words in PLAN:
        bill = forecast(usual(gpus, jobs), Site())
        figures = (
            amount(bill.raw_series, ""),
            amount(bill.recorded_series, ""),
            amount(bill.samples_per_second, ""),
            amount(bill.rule_seconds, "s"),
            amount(bill.memory_bytes, "B"),
            amount(bill.disk_bytes, "B"),
        )
        rows.append(f"| {words} | " + " | ".join(figures) + " |")
    return "\n".join(rows)
