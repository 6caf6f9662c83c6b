# SPDX-License-Identifier: Apache-2.0
"""Dashboards that anybody has written, as far as they can be looked at in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dashgen import promql
from dashgen.errors import UserError
from dashgen.guard.files import parse_json, read_bytes
from dashgen.guard.text import line

MOST_OBJECTS = 100_000
"""Objects and lists; dashgen's own largest dashboard has fewer than a thousand."""

MOST_PANELS = 2_000
MOST_VARIABLES = 200
MOST_WORK = 50_000_000
"""Sum of the cubes of what queries nest, with which the time to look at them grows: 30 of the deepest there may be."""


def dashboards(paths: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The dashboards in files and folders. Raises UserError for a file that is no dashboard, or too much of one."""
    remedy = "export it from Grafana as JSON"
    for path in paths:
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not files:
            raise UserError(f"{path}: no *.json in this folder; name dashboard files")
        for file in files:
            try:
                data = parse_json(read_bytes(file, remedy="name a dashboard that Grafana exported"))
            except ValueError as error:
                raise UserError(f"{file}: not readable as JSON: {line(str(error), 160)}; {remedy}") from error
            if not isinstance(data, dict):
                raise UserError(f"{file}: not a dashboard; {remedy}")
            if problem := _too_much(data):
                raise UserError(f"{file}: {problem}; split the dashboard")
            yield file, data


def _too_much(board: dict[str, Any]) -> str:
    """What of a dashboard there is too much of, or nothing."""
    templating = board.get("templating")
    variables = templating.get("list") if isinstance(templating, dict) else None
    if isinstance(variables, list) and len(variables) > MOST_VARIABLES:
        return f"more than {MOST_VARIABLES} variables"
    count = panels = work = 0
    left: list[Any] = [board]
    while left:
        each = left.pop()
        count += 1
        if count > MOST_OBJECTS:
            return f"more than {MOST_OBJECTS} objects and lists"
        for key, value in each.items() if isinstance(each, dict) else enumerate(each):
            if isinstance(value, dict | list):
                left.append(value)
                panels += len(value) if key == "panels" else 0
            elif key == "expr" and isinstance(value, str):
                work += promql.depth(value) ** 3
    if panels > MOST_PANELS:
        return f"more than {MOST_PANELS} panels"
    return "its queries nest too deep, all taken together" if work > MOST_WORK else ""
