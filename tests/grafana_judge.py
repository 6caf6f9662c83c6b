# SPDX-License-Identifier: Apache-2.0
"""Boards opened on a recording, and read with Grafana's own code (tests/grafana, a project of Node)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from processes import lacking, tool

from dashgen.engine.panels import Viewer
from dashgen.engine.prometheus import Server
from dashgen.grafana.parsed import Board
from dashgen.grafana.variables import macros
from dashgen.recordings.format import Recording, Series

Json = dict[str, Any]

PROJECT = Path(__file__).parent / "grafana"
VERSIONS = ("11", "12", "13")
MOST_POINTS = 360


@dataclass(frozen=True)
class View:
    """A board at a moment: what Prometheus answers to each query of each panel, and what the variables stand for."""

    slug: str
    viewer: Viewer
    asked: Json


def look(board: Mapping[str, Any], slug: str, server: Server, story: Recording, interval: int, end: float) -> View:
    """Ask everything that a board asks when it is opened at a moment of a recording."""
    parts = Board(board)
    viewer = Viewer(server, story, interval, parts, end, MOST_POINTS)
    panels = [{"panel": panel.json, "answers": _answers(panel, viewer)} for panel in parts.asking]
    shown = viewer.values | macros(viewer.start, viewer.end, viewer.step, story.scrape_interval)
    return View(slug, viewer, {"panels": panels, "variables": shown, "step": viewer.step})


def _answers(panel: Any, viewer: Viewer) -> dict[str, list[Json]]:
    return {
        str(query.target["refId"]): [
            _wire(one, bool(query.target["instant"]))
            for one in (viewer.ask_now(query.expr) if query.target["instant"] else viewer.ask(query.expr))
        ]
        for query in panel.queries
    }


def _wire(one: Series, instant: bool) -> Json:
    """A series as Prometheus' API writes it."""
    points = [[at, repr(value)] for at, value in zip(one.times.tolist(), one.values.tolist(), strict=True)]
    metric = dict(one.labels) | ({"__name__": one.name} if one.name else {})
    return {"metric": metric, **({"value": points[-1]} if instant else {"values": points})}


@cache
def node() -> str:
    """The path of a Node that can run the project: Grafana 11 calls ``require`` for a module of the newer kind."""
    program = tool("node")
    asked = [program, "--print", "process.features.require_module"]
    if subprocess.run(asked, capture_output=True, check=True).stdout.strip() != b"true":
        lacking(f"{program} is too old: needs 20.19, or 22.12")
    if not (PROJECT / "node_modules").is_dir():
        lacking("run `npm ci` in tests/grafana")
    return program


def judged(views: Sequence[View], versions: Iterable[str] = VERSIONS) -> dict[str, list[dict[str, Json]]]:
    """What a reader sees of each view in each version of Grafana: panels by their title."""
    done = subprocess.run(
        [node(), str(PROJECT / "judge.cjs"), *versions],
        input=json.dumps([view.asked for view in views]).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    return {
        version: [{panel["title"]: panel for panel in panels} for panels in readings]
        for version, readings in found.items()
    }
