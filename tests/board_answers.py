# SPDX-License-Identifier: Apache-2.0
"""What Prometheus answers to the panels of a board on made up series."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from processes import tool

from dashgen.engine.prometheus import Server, make_blocks
from dashgen.grafana import variables
from dashgen.grafana.parsed import Board, PanelView
from dashgen.preview.frames import Table, table
from dashgen.recordings.format import Series

NOW = 1_773_930_000.0
_NOTHING: Mapping[str, str] = MappingProxyType({})


def moment(name: str, value: float, ago: float = 0.0, lasts: float = 300.0, **labels: str) -> Series:
    """A series that was there for a while, until so many seconds ago."""
    times = np.arange(NOW - ago - lasts, NOW - ago + 1, 30.0)
    return Series(name, tuple(sorted(labels.items())), times, np.full(len(times), value))


def ask(
    board: Mapping[str, Any],
    title: str,
    data: list[Series],
    folder: Path,
    job: str = "7",
    chosen: Mapping[str, str] = _NOTHING,
) -> list[list[Series]]:
    """What the queries of a panel return over the last three hours; ``chosen`` are values of variables."""
    tool("promtool")
    tool("prometheus")
    make_blocks(folder, data)
    view = Board(board)
    values = variables.constants(view) | variables.macros(NOW - 10_800, NOW, 30, 30)
    values |= {
        "job": job,
        "jobs": job,
        "jobid": job,
        "transport": ".*",
        "collective": ".*",
        "node": ".*",
        "gpu": ".*",
        **chosen,
    }
    with Server(folder) as server:
        filled = [
            (variables.fill(query.expr, values), query.target["instant"]) for query in panel(board, title).queries
        ]
        return [
            server.query(expr, NOW) if instant else server.query_range(expr, NOW - 10_800, NOW, 30)
            for expr, instant in filled
        ]


def panel(board: Mapping[str, Any], title: str) -> PanelView:
    return next(each for each in Board(board).panels if each.title == title)


def shown(board: Mapping[str, Any], title: str, answers: list[list[Series]]) -> Table:
    """The table that a reader sees, which the preview and Grafana make alike of the same answers."""
    view = panel(board, title)
    letters = [str(query.target["refId"]) for query in view.queries]
    (found,) = table(dict(zip(letters, answers, strict=True)), view.json)
    return found
