# SPDX-License-Identifier: Apache-2.0
"""Data in which marks stand for what ``_config`` of a mixin decides, and the jsonnet source that it becomes.

A mark is a text that occurs nowhere else; the build puts it into rules and dashboards like any label or prefix.

Texts are put together with ``+``: formatting with ``%`` is a hundred times slower in the C++ jsonnet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Data that jsonnet decides on.


@dataclass(frozen=True)
class Code:
    """A piece of jsonnet in place of a value."""

    text: str


@dataclass(frozen=True)
class When:
    """A member of an object or a list that is there only if the jsonnet condition holds."""

    condition: str
    value: Any


@dataclass(frozen=True)
class Either:
    """One value at a site with a cluster label, another one without."""

    clustered: Any
    single: Any


@dataclass(frozen=True)
class Pieces:
    """A text of pieces; those that depend on the cluster label are Either."""

    parts: tuple[str | Either, ...]


CLUSTERED = "c.clusterLabel != ''"
SINGLE = "c.clusterLabel == ''"
WITH_URL = "c.grafanaURL != ''"


# The marks. They are made of word characters, because the build looks for label names by that.


def mark(name: str) -> str:
    """The text that stands for a key of ``_config``."""
    return f"zz0{name}0zz"


def threshold_mark(name: str) -> str:
    """The text that stands for a threshold of the tier that is chosen."""
    return f"zz1{name}1zz"


# A matcher, because the build parses the PromQL it makes.
SELECTOR = f'{mark("selector")}="x"'

_MARKS = re.compile(
    "|".join(
        [
            # An empty selector goes with its braces or with its comma, as dashgen.build.fill leaves it out.
            rf"(?<=[\w>])(?P<braced>\{{{SELECTOR}\}})",
            rf"(?P<led>,\s*{SELECTOR})(?!,\S)",
            rf"(?P<bare>{SELECTOR}(?:,\s*)?)",
            rf"{mark('runbook')}(?P<runbook>\w+?){mark('end')}",
            r"zz0(?P<word>[a-zA-Z]+)0zz",
            r"zz1(?P<threshold>[a-z_]+)1zz",
        ]
    )
)


# From data to jsonnet.


def text(value: str) -> str:
    """A text as a jsonnet literal."""
    return json.dumps(value, ensure_ascii=False)


def _reference(match: re.Match[str]) -> str:
    """The jsonnet for one mark."""
    if hidden := match["braced"] or match["led"] or match["bare"]:
        before, after = hidden.split(SELECTOR)
        return f"w.selector({text(before)}, {text(after)})"
    if match["runbook"]:
        return f"w.runbook({text(match['runbook'])})"
    if match["threshold"]:
        return f"w.number(t.{match['threshold']})"
    return f"w.{match['word']}"


def _string(value: str) -> str:
    """A text as jsonnet: literals and references to ``_config``, put together."""
    parts, end = [], 0
    for match in _MARKS.finditer(value):
        if literal := value[end : match.start()]:
            parts.append(text(literal))
        parts.append(_reference(match))
        end = match.end()
    if end < len(value) or not parts:
        parts.append(text(value[end:]))
    return " + ".join(parts)


def source(value: object, depth: int = 1) -> str:
    """Data with marks as jsonnet."""
    outer = "  " * depth
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Pieces):
        return " + ".join(f"({source(part)})" if isinstance(part, Either) else _string(part) for part in value.parts)
    if isinstance(value, Either):
        clustered, single = source(value.clustered, depth), source(value.single, depth)
        return f"if {CLUSTERED} then {clustered} else {single}"
    if isinstance(value, Mapping):
        members = [f"{outer}  {_member(key, item, depth)},\n" for key, item in value.items()]
        return f"{{\n{''.join(members)}{outer}}}" if members else "{}"
    if isinstance(value, list | tuple):
        return _list(value, depth)
    return json.dumps(value, ensure_ascii=False)


def _member(key: str, value: object, depth: int) -> str:
    name = _string(key)
    if isinstance(value, When):
        return f"[if {value.condition} then {name}]: {source(value.value, depth + 1)}"
    return f"{name if name == text(key) else f'[{name}]'}: {source(value, depth + 1)}"


def _list(values: Sequence[object], depth: int) -> str:
    outer = "  " * depth
    parts: list[str] = []
    plain: list[str] = []

    def close() -> None:
        if plain:
            parts.append(f"[\n{''.join(plain)}{outer}]")
            plain.clear()

    for value in values:
        if isinstance(value, When):
            close()
            parts.append(f"(if {value.condition} then [{source(value.value, depth + 1)}] else [])")
        else:
            plain.append(f"{outer}  {source(value, depth + 1)},\n")
    close()
    return " + ".join(parts) or "[]"
