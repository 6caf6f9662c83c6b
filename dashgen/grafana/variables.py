# SPDX-License-Identifier: Apache-2.0
"""The variables of a Grafana dashboard, filled in as Grafana fills them in."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dashgen.grafana.parsed import Board, mapping, variable_query
from dashgen.guard.grammar import escaped


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


_LABEL_VALUES = re.compile(r"\s*label_values\(\s*(?:(?P<match>.+?)\s*,)?\s*(?P<label>[a-zA-Z_]\w*)\s*\)\s*", re.DOTALL)


def choices(board: Board) -> list[Choice]:
    """The variables that Grafana fills by ``label_values``, in their order: a later one may use an earlier one."""
    found = ((variable, _LABEL_VALUES.fullmatch(variable_query(variable))) for variable in board.variables)
    return [
        Choice(
            name=str(variable.get("name")),
            label=match["label"],
            match=match["match"] or "",
            multi=bool(variable.get("multi")),
            everything=str(variable.get("allValue") or "") if variable.get("includeAll") else "",
        )
        for variable, match in found
        if match
    ]


def constants(board: Board) -> dict[str, str]:
    """The values that all other variables have when the dashboard is opened."""
    filled = {choice.name for choice in choices(board)}
    return {
        name: str(mapping(variable.get("current")).get("value") or variable_query(variable).split(",")[0])
        for variable in board.variables
        if (name := str(variable.get("name"))) not in filled
    }


_SPECIAL = re.compile(r"[\\^$*+?.()|\[\]{}'\"]")


def pick(values: Sequence[str], preferred: Callable[[str], bool] = lambda value: False) -> str:
    """The value that is chosen where only one can be: the first of those ``preferred``, or of all."""
    return next(filter(preferred, values), values[0] if values else "")


def written(choice: Choice, values: Sequence[str], one: str) -> str:
    """What Grafana writes into the PromQL string of a query: All where several can be chosen, else ``one`` value."""
    if choice.everything:
        return choice.everything
    if choice.multi:
        # Twice escaped: once for the regular expression, once for the PromQL string around it.
        found = [escaped(_SPECIAL.sub(r"\\\g<0>", value)) for value in values]
        return found[0] if len(found) == 1 else f"({'|'.join(found)})"
    return escaped(one)


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
    """Replace ``$name``, ``${name:format}`` and ``[[name]]``; an unknown name stays, like PromQL's ``$1``."""
    return _VARIABLE.sub(lambda match: values.get(match[1] or match[2] or match[3], match[0]), text)


def legend_labels(legend: str) -> tuple[str, ...]:
    """The labels that a legend shows: ``{{node}} {{gpu}}`` shows node and gpu."""
    return tuple(dict.fromkeys(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)))
