# SPDX-License-Identifier: Apache-2.0
"""A bill as a person reads it, and as a program does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from dashgen.cost.advice import Advice
from dashgen.cost.forecast import Bill, Fleet

if TYPE_CHECKING:
    from rich.table import Table

_WORDS = {
    "raw_series": ("raw series", ""),
    "recorded_series": ("recorded series", ""),
    "samples_per_second": ("samples a second", ""),
    "rule_seconds": ("rules, core seconds a dump", "s"),
    "reads": ("rules, reads of all raw series a dump", "x"),
    "memory_bytes": ("memory", "B"),
    "disk_bytes": ("disk", "B"),
}


def table(forecast: Bill, measured: Bill | None) -> Table:
    """The forecast, beside what a site says where one was asked."""
    from rich.table import Table

    shown = Table()
    for heading in ("", "forecast", *(("measured", "forecast / measured") if measured else ())):
        shown.add_column(heading, justify="left" if not heading else "right")
    for field in fields(Bill):
        words, unit = _WORDS[field.name]
        expected, found = getattr(forecast, field.name), getattr(measured, field.name) if measured else None
        row = [words, amount(expected, unit)]
        if measured:
            row += [amount(found, unit), f"{expected / found:.2f}" if expected and found else "-"]
        shown.add_row(*row)
    return shown


def amount(value: float | None, unit: str) -> str:
    """A figure in three digits that a person can read."""
    if value is None:
        return "-"
    if unit == "B":
        for name in ("B", "kB", "MB", "GB"):
            if value < 1000:
                return f"{value:.3g} {name}"
            value /= 1000
        return f"{value:.3g} TB"
    if unit in ("s", "x"):
        return f"{value:.2f} s" if unit == "s" else f"{value:.1f}"
    return f"{value:,.0f}"


def advised(listed: Iterable[Advice]) -> str:
    """Ways to pay less, each with its lines."""
    parts = []
    for each in listed:
        saved = "" if each.series is None else f" ({each.series:,.0f} series)"
        lines = "\n".join(f"  {line}" for line in each.lines.split("\n"))
        parts.append(f"{each.about}{saved}; {each.loss}:\n\n{lines}")
    return "\n\n".join(parts)


def as_json(fleet: Fleet, forecast: Bill, measured: Bill | None, listed: Iterable[Advice]) -> str:
    """Everything, for programs; what nobody has said is null."""
    said = {
        "fleet": asdict(fleet),
        "forecast": asdict(forecast),
        "measured": asdict(measured) if measured else None,
        "advice": [asdict(each) for each in listed],
    }
    return json.dumps(said, indent=2, sort_keys=True) + "\n"
