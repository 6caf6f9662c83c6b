# SPDX-License-Identifier: Apache-2.0
"""A Grafana dashboard taken apart, whoever wrote it and however old it is.

Nothing here trusts the JSON: what is missing or of the wrong type is taken as empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dashgen import promql

Json = Mapping[str, Any]

SILENT_TYPES = frozenset({"row", "text", "dashlist", "alertlist", "annolist", "news", "welcome", "gettingstarted"})
"""Panels that ask nothing."""

_REFERENCE = re.compile(r"\$\{?([A-Za-z_]\w*)|\[\[([A-Za-z_]\w*)(?::\w+)?\]\]")
_LABEL_VALUES = re.compile(r"label_values\(\s*(.+?)\s*,\s*\w+\s*\)", re.DOTALL)


@dataclass(frozen=True)
class Query:
    """A PromQL expression somewhere in the dashboard."""

    where: str
    expr: str
    target: Json

    @cached_property
    def tree(self) -> promql.Tree | None:
        """None where the expression is no PromQL; the rule target-promql says so."""
        try:
            return promql.parse(self.expr)
        except ValueError:
            return None

    @cached_property
    def selectors(self) -> tuple[promql.Selector, ...]:
        """What it reads; nothing where it is no PromQL."""
        return () if self.tree is None else promql.selectors(self.tree)


@dataclass(frozen=True)
class PanelView:
    """A panel with the title of the row it stands under."""

    json: Json
    row: str

    @property
    def title(self) -> str:
        """The title, or nothing."""
        return str(self.json.get("title") or "")

    @property
    def type(self) -> str:
        """The plugin that draws it."""
        return str(self.json.get("type") or "")

    @property
    def where(self) -> str:
        """How a reader finds the panel."""
        name = self.title or f"panel {self.json.get('id', 'without title')}"
        return f"{self.row} / {name}" if self.row else name

    @property
    def defaults(self) -> Json:
        """How all of its fields are shown."""
        return mapping(mapping(self.json.get("fieldConfig")).get("defaults"))

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The PromQL of the panel."""
        own = mapping(self.json.get("datasource")).get("type")
        asked = [each for each in objects(self.json.get("targets")) if each.get("expr")]
        kinds = [mapping(each.get("datasource")).get("type") or own or "prometheus" for each in asked]
        pairs = zip(asked, kinds, strict=True)
        return tuple(Query(self.where, str(each["expr"]), each) for each, kind in pairs if kind == "prometheus")


@dataclass(frozen=True)
class Board:
    """A dashboard taken apart, and the series known to exist; a mapping of them says which labels each has."""

    json: Json
    known: Collection[str] | None = None

    @property
    def labels(self) -> promql.Known:
        """The labels of the known series, as far as they are known."""
        return self.known if isinstance(self.known, Mapping) else {}

    @cached_property
    def panels(self) -> tuple[PanelView, ...]:
        """Every panel but the row headings, in collapsed rows and in the rows of very old dashboards too."""
        found: list[PanelView] = []
        row = ""
        for panel in objects(self.json.get("panels")):
            if panel.get("type") == "row":
                row = str(panel.get("title") or "")
                found += [PanelView(child, row) for child in objects(panel.get("panels"))]
            else:
                found.append(PanelView(panel, row))
        for old in objects(self.json.get("rows")):
            found += [PanelView(child, str(old.get("title") or "")) for child in objects(old.get("panels"))]
        return tuple(found)

    @property
    def asking(self) -> tuple[PanelView, ...]:
        """The panels that show data."""
        return tuple(panel for panel in self.panels if panel.type not in SILENT_TYPES)

    @cached_property
    def variables(self) -> tuple[Json, ...]:
        """What can be chosen."""
        return objects(mapping(self.json.get("templating")).get("list"))

    @cached_property
    def annotations(self) -> tuple[Json, ...]:
        """Events drawn over the graphs."""
        return objects(mapping(self.json.get("annotations")).get("list"))

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The PromQL of panels, variables and annotations."""
        found = [query for panel in self.panels for query in panel.queries]
        for variable in self.variables:
            if match := _LABEL_VALUES.search(variable_query(variable)):
                found.append(Query(variable_place(variable), match[1], {}))
        for annotation in self.annotations:
            expr = mapping(annotation.get("target")).get("expr") or annotation.get("expr")
            if expr:
                found.append(Query(f"annotation {annotation.get('name')}", str(expr), {}))
        return tuple(found)


def mapping(value: object) -> Json:
    """The value, if it is a JSON object."""
    return value if isinstance(value, Mapping) else {}


def objects(value: object) -> tuple[Json, ...]:
    """The JSON objects in a list, if it is one."""
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()


def source_name(source: object) -> str:
    """The name or uid of a data source, in the old form as in the new."""
    return source if isinstance(source, str) else str(mapping(source).get("uid") or "")


def variable_query(variable: Json) -> str:
    """What a variable asks, in the old form as in the new."""
    query = variable.get("query")
    return str(query.get("query") or "") if isinstance(query, Mapping) else str(query or "")


def variable_place(variable: Json) -> str:
    """How a reader finds a variable."""
    return f"variable {variable.get('name')}"


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def references(value: object) -> set[str]:
    """The variables that any text in a value refers to, Grafana's own left out."""
    names = {first or second for text in _strings(value) for first, second in _REFERENCE.findall(text)}
    return {name for name in names if not name.startswith("__") and name != "timeFilter"}
