# SPDX-License-Identifier: Apache-2.0
"""Dashboards that anybody has written, as far as they can be looked at in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dashgen import promql
from dashgen.errors import UserError
from dashgen.grafana.parsed import mapping
from dashgen.guard.files import parse_json, read_bytes
from dashgen.guard.text import line

MOST_OBJECTS = 100_000
"""Objects and lists; dashgen's own largest dashboard has some twelve hundred."""

MOST_PANELS = 2_000
MOST_VARIABLES = 200
MOST_WORK = 50_000_000
"""Sum of the cubes of what queries nest, with which the time to look at them grows: 30 of the deepest there may be."""


_LOOKS = frozenset({"panels", "rows", "schemaVersion", "templating"})
"""Keys of which every dashboard has one."""


def dashboards(paths: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The dashboards in files and folders. Raises UserError for a file that is no dashboard, or too much of one."""
    remedy = "export it from Grafana as JSON"
    for path in paths:
        whole = path.is_dir()
        found = 0
        for file in sorted(path.rglob("*.json")) if whole else [path]:
            try:
                data = parse_json(read_bytes(file, remedy="name a dashboard that Grafana exported"))
            except ValueError as error:
                raise UserError(f"{file}: not readable as JSON: {line(str(error), 160)}; {remedy}") from error
            data = _unwrapped(data)
            # Folders hold manifests and other targets' files as well.
            if whole and not (isinstance(data, dict) and _LOOKS.intersection(data)):
                continue
            if not isinstance(data, dict):
                raise UserError(f"{file}: not a dashboard; {remedy}")
            if problem := _too_much(data):
                raise UserError(f"{file}: {problem}; split the dashboard")
            found += 1
            yield file, data
        if not found:
            raise UserError(f"{path}: no dashboard in this folder; name dashboard files")


def _unwrapped(data: Any) -> Any:
    """A dashboard out of what Grafana's HTTP API (``dashboard``) or one of its resources (``spec``) wraps it in.

    The name of a resource is the uid of its dashboard.
    """
    inner = data.get("dashboard", data.get("spec")) if isinstance(data, dict) else None
    if not isinstance(inner, dict) or not _LOOKS.intersection(inner):
        return data
    name = mapping(data.get("metadata")).get("name")
    return inner if name is None else {"uid": name, **inner}


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
