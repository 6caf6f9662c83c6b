# SPDX-License-Identifier: Apache-2.0
"""What a Grafana dashboard asks of Prometheus, with its variables filled in as Grafana fills them in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PanelQuery:
    """One query of a panel: the panel's title, the query's letter, PromQL with variables, Grafana's legend format."""

    panel: str
    ref: str
    expr: str
    legend: str


@dataclass(frozen=True)
class Choice:
    """A variable filled from the values of ``label`` over the series that ``match`` selects (all when empty).

    ``everything`` is what the choice All stands for; empty where that is every value, or where there is no All.
    """

    name: str
    label: str
    match: str
    multi: bool
    everything: str


def panel_queries(board: Mapping[str, object]) -> list[PanelQuery]:
    """Every Prometheus query of every panel, those in collapsed rows included, top to bottom."""
    return [
        PanelQuery(panel.get("title", ""), target.get("refId", ""), target["expr"], target.get("legendFormat") or "")
        for panel in _panels(board)
        for target in panel.get("targets") or []
        if target.get("expr")
    ]


def _panels(holder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for panel in holder.get("panels") or []:
        if panel.get("type") != "row":
            yield panel
        yield from _panels(panel)


def annotation_queries(board: Mapping[str, Any]) -> list[str]:
    """The PromQL of a dashboard's annotations."""
    found = ((each.get("target") or each).get("expr") for each in (board.get("annotations") or {}).get("list") or [])
    return [expr for expr in found if expr]


_LABEL_VALUES = re.compile(r"\s*label_values\(\s*(?:(?P<match>.+?)\s*,)?\s*(?P<label>[a-zA-Z_]\w*)\s*\)\s*", re.DOTALL)


def choices(board: Mapping[str, Any]) -> list[Choice]:
    """The variables that Grafana fills by ``label_values``, in their order: a later one may use an earlier one."""
    found = ((variable, _LABEL_VALUES.fullmatch(_query_text(variable))) for variable in _variables(board))
    return [
        Choice(
            name=variable["name"],
            label=match["label"],
            match=match["match"] or "",
            multi=bool(variable.get("multi")),
            everything=(variable.get("allValue") or "") if variable.get("includeAll") else "",
        )
        for variable, match in found
        if match
    ]


def constants(board: Mapping[str, Any]) -> dict[str, str]:
    """The values that all other variables have when the dashboard is opened."""
    filled = {choice.name for choice in choices(board)}
    return {
        variable["name"]: str((variable.get("current") or {}).get("value") or _query_text(variable).split(",")[0])
        for variable in _variables(board)
        if variable["name"] not in filled
    }


def _variables(board: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return (board.get("templating") or {}).get("list") or []


def _query_text(variable: Mapping[str, Any]) -> str:
    query = variable.get("query") or ""
    return str(query.get("query", "") if isinstance(query, Mapping) else query)


def pick(choice: Choice, values: list[str], preferred: Callable[[str], bool] = lambda value: False) -> str:
    """What Grafana writes for a variable: All where several can be chosen, else one value, ``preferred`` ones first."""
    if choice.everything:
        return choice.everything
    if choice.multi:
        escaped = (re.sub(r"[\\^$*+?.()|\[\]{}]", r"\\\\\g<0>", value) for value in values)
        return f"({'|'.join(escaped)})" if len(values) != 1 else next(escaped)
    return next(filter(preferred, values), values[0] if values else "")


def macros(start: float, end: float, step: int, scrape_interval: int) -> dict[str, str]:
    """Grafana's own variables for a time range in seconds since the epoch and a step in seconds."""
    span = round(end - start)
    return {
        "__interval": f"{step}s",
        "__interval_ms": f"{step * 1000}",
        "__rate_interval": f"{max(step + scrape_interval, 4 * scrape_interval)}s",
        "__range": f"{span}s",
        "__range_s": f"{span}",
        "__range_ms": f"{span * 1000}",
        "__from": f"{round(start * 1000)}",
        "__to": f"{round(end * 1000)}",
    }


_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\]|\$(\w+)")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$name``, ``${name:format}`` and ``[[name]]``; a name that nobody defines stays, like PromQL's ``$1``."""
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2] or match[3], match[0]), text)


def legend_labels(legend: str) -> tuple[str, ...]:
    """The labels that a legend shows: ``{{node}} {{gpu}}`` shows node and gpu."""
    return tuple(dict.fromkeys(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)))
