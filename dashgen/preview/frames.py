# SPDX-License-Identifier: Apache-2.0
"""Query answers as Grafana lays them out: curves with names, and tables after the panel's transformations.

Exactly the transformations that dashgen's boards use are here, as Grafana does them; any other is refused, because a
table without it would say something else than Grafana's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from dashgen.grafana.parsed import Json, mapping, objects
from dashgen.recordings.format import Series, selector


class NotDrawn(Exception):
    """A preview cannot show this; the text says what it is."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A series with the name that its legend gives it."""

    name: str
    series: Series


Cell = str | float | None
"""A word, a number, or nothing."""

Row = dict[str, Cell]


@dataclass(frozen=True)
class Table:
    """Columns in their order, and the rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def legend(one: Series, template: str) -> str:
    """The name of a curve: its legend filled in; without a legend, the series as Prometheus writes it."""
    if not template or template == "__auto":
        return selector(one.name, one.labels)
    labels = dict(one.labels) | {"__name__": one.name}
    return _LABEL.sub(lambda match: labels.get(match[1], ""), template).strip()


def settled(found: Sequence[Series]) -> list[Series]:
    """The same series without the last digits: Prometheus adds in any order, and sums then differ by a rounding error.

    Twelve digits, and twelve behind the point, are the same in every run.
    """
    return [Series(one.name, one.labels, one.times, np.array(list(map(_steady, one.values.tolist())))) for one in found]


def _steady(value: float) -> float:
    # Adding zero takes the sign from a negative one.
    return round(float(f"{value:.12g}"), 12) + 0.0 if math.isfinite(value) else value


_ORDERED = re.compile(r"\s*(sort|sort_desc|topk|bottomk)\b")


def ordered(expr: str, found: Sequence[Series]) -> list[Series]:
    """Answers of an instant query in the order of their labels, or in the one that the query asks for.

    Prometheus promises no order among equals, and the same input has to give the same page.
    """
    by_label = sorted(found, key=lambda one: (one.name, one.labels))
    asked = _ORDERED.match(expr)
    if asked is None:
        return by_label
    falling = asked[1] in ("sort_desc", "topk")
    return sorted(by_label, key=lambda one: _rank(float(one.values[-1]), falling))


def _rank(value: float, falling: bool) -> tuple[bool, float]:
    return math.isnan(value), -value if falling else value


# Tables.


def table(answers: Mapping[str, Sequence[Series]], panel: Json) -> tuple[Table, ...]:
    """The tables of a panel from the answers to its queries, by letter: one, unless nothing joins them.

    Raises NotDrawn for a transformation that is not done here.
    """
    steps = [each for each in objects(panel.get("transformations")) if not each.get("disabled")]
    # An empty answer has no labels, but still its column of values.
    tables = [_frame(ref, found, len(answers) > 1) for ref, found in answers.items()]
    for each in steps:
        kind = str(each.get("id"))
        if kind not in _TRANSFORMATIONS:
            raise NotDrawn(f"transformation {kind}")
        tables = _TRANSFORMATIONS[kind](tables, mapping(each.get("options")))
    return tuple(_sorted(each, panel) for each in tables)


def _frame(ref: str, found: Sequence[Series], several: bool) -> Table:
    """One row a series: its labels and its value."""
    value = f"Value #{ref}" if several else "Value"
    names = dict.fromkeys(name for one in found for name, _ in one.labels)
    head = ["Time", *["__name__"] * any(one.name for one in found)]
    rows = []
    for one in found:
        row: Row = {"Time": _moment(float(one.times[-1])), "__name__": one.name}
        # Grafana's data source has an empty text where a series lacks a label that another one has.
        row |= {name: dict(one.labels).get(name, "") for name in names}
        row[value] = float(one.values[-1])
        rows.append(row)
    return Table((*head, *sorted(names), value), tuple(rows))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _keep(tables: list[Table], options: Json) -> list[Table]:
    names = mapping(options.get("include")).get("names")
    if set(options) - {"include"} or not isinstance(names, list):
        raise NotDrawn("transformation filterFieldsByName with other than a list of names")
    kept = [_only(each, [name for name in each.columns if name in names]) for each in tables]
    return [each for each in kept if each.columns]


def _only(given: Table, columns: Sequence[str]) -> Table:
    rows = tuple({name: row.get(name) for name in columns} for row in given.rows)
    return Table(tuple(columns), rows)


def _merge(tables: list[Table], options: Json) -> list[Table]:
    """Rows that agree in all columns that every table has, and in whatever else both have, become one row."""
    if len(tables) < 2:
        return tables
    columns = tuple(dict.fromkeys(name for each in tables for name in each.columns))
    keys = [name for name in columns if all(name in each.columns for each in tables)]
    if not keys:
        return tables
    rows: list[Row] = []
    by_key: dict[tuple[Cell, ...], list[Row]] = {}
    for given in tables:
        for row in given.rows:
            same = by_key.setdefault(tuple(row.get(name) for name in keys), [])
            fitting = [each for each in same if _mergeable(each, row)]
            for each in fitting:
                each |= {name: cell for name, cell in row.items() if cell is not None or name not in each}
            if not fitting:
                fresh = dict(row)
                same.append(fresh)
                rows.append(fresh)
    return [Table(columns, tuple({name: row.get(name) for name in columns} for row in rows))]


def _mergeable(one: Row, other: Row) -> bool:
    return all(one[name] is None or one[name] == other[name] for name in one.keys() & other.keys())


def _matrix(tables: list[Table], options: Json) -> list[Table]:
    """A row for each word of one column, a column for each of another, in the order in which they come."""
    across, down, value = (str(options.get(name)) for name in ("columnField", "rowField", "valueField"))
    if len(tables) != 1 or not {across, down, value} <= set(tables[0].columns):
        return tables
    if options.get("emptyValue") != "null":
        raise NotDrawn("transformation groupingToMatrix that fills empty cells")
    (given,) = tables
    corner = f"{down}\\{across}"
    names = tuple(dict.fromkeys(str(row[across]) for row in given.rows))
    rows: dict[Cell, Row] = {row[down]: {corner: row[down], **dict.fromkeys(names)} for row in given.rows}
    for row in given.rows:
        rows[row[down]][str(row[across])] = row[value]
    return [Table((corner, *names), tuple(rows.values()))]


def _organize(tables: list[Table], options: Json) -> list[Table]:
    if mapping(options.get("includeByName")):
        raise NotDrawn("transformation organize with includeByName")
    gone = {name for name, flag in mapping(options.get("excludeByName")).items() if flag}
    places, renamed = mapping(options.get("indexByName")), mapping(options.get("renameByName"))
    done = []
    for each in tables:
        kept = [name for name in each.columns if name not in gone]
        kept.sort(key=lambda name: _index(places.get(name), len(places)))
        titles = {name: str(renamed.get(name) or name) for name in kept}
        rows = tuple({titles[name]: row.get(name) for name in kept} for row in each.rows)
        done.append(Table(tuple(titles.values()), rows))
    return done


def _index(place: object, otherwise: int) -> float:
    return float(place) if isinstance(place, int | float) else otherwise


_TRANSFORMATIONS: Mapping[str, Callable[[list[Table], Json], list[Table]]] = {
    "filterFieldsByName": _keep,
    "merge": _merge,
    "groupingToMatrix": _matrix,
    "organize": _organize,
}


def _sorted(given: Table, panel: Json) -> Table:
    """In the panel's own order; cells without a value come last, whatever the direction."""
    rows = list(given.rows)
    for each in reversed(objects(mapping(panel.get("options")).get("sortBy"))):
        name, falling = str(each.get("displayName")), bool(each.get("desc"))
        if name in given.columns:
            filled = [row for row in rows if row[name] is not None]
            filled.sort(key=lambda row: _order(row[name]), reverse=falling)
            rows = filled + [row for row in rows if row[name] is None]
    return Table(given.columns, tuple(rows))


def _order(cell: Cell) -> tuple[bool, float, str]:
    return (True, 0.0, cell) if isinstance(cell, str) else (False, cell if cell is not None else -math.inf, "")


# One value for a whole curve.


def last(one: Series) -> float:
    """The last value that is a number; NaN where there is none."""
    return next((value for value in reversed(one.values.tolist()) if not math.isnan(value)), math.nan)


def _of(reduce: Callable[[list[float]], float]) -> Callable[[Series], float]:
    def reduced(one: Series) -> float:
        numbers = [value for value in one.values.tolist() if not math.isnan(value)]
        return reduce(numbers) if numbers else math.nan

    return reduced


CALCULATIONS: Mapping[str, tuple[str, Callable[[Series], float]]] = {
    "lastNotNull": ("last", last),
    "last": ("last", lambda one: float(one.values[-1])),
    "min": ("min", _of(min)),
    "max": ("max", _of(max)),
    "mean": ("mean", _of(lambda numbers: math.fsum(numbers) / len(numbers))),
    "sum": ("sum", _of(math.fsum)),
}
"""Grafana's name of a reduction, the word in a legend, and what it does."""


def reduction(panel: Json) -> Callable[[Series], float]:
    """How a panel of single values makes one of a curve. Raises NotDrawn where it is not known here."""
    options = mapping(mapping(panel.get("options")).get("reduceOptions"))
    calcs = options.get("calcs")
    name = str(calcs[0]) if isinstance(calcs, list) and calcs else "lastNotNull"
    if name not in CALCULATIONS or options.get("values"):
        raise NotDrawn(f"reduction {name}" if name not in CALCULATIONS else "every value of a curve")
    return CALCULATIONS[name][1]
