# SPDX-License-Identifier: Apache-2.0
"""How packs did on recordings, world by world: recordings in, tables, sentences and JSON out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from dashgen.config import site as config
from dashgen.guard.text import counted, visible
from dashgen.recordings.sites import folders, made_at
from dashgen.validation.measures import View, shown, view
from dashgen.validation.recorded import Judged


@dataclass(frozen=True)
class Figure:
    """One column: what it is called in the table and in JSON, its unit, and how it is measured."""

    title: str
    name: str
    unit: str
    measure: Callable[[View], float | None]


FIGURES = (
    Figure("recall", "recall", "share", lambda pack: pack.recall),
    Figure("core", "recall_core", "share", lambda pack: pack.core.recall),
    Figure("median", "detect_seconds_median", "seconds", lambda pack: pack.after(0.5)),
    Figure("p90", "detect_seconds_p90", "seconds", lambda pack: pack.after(0.9)),
    Figure("suspect", "suspect_right", "share", lambda pack: pack.right("suspect")),
    Figure("transport", "transport_right", "share", lambda pack: pack.right("transport")),
    Figure("node", "node_right", "share", lambda pack: pack.right("node")),
    Figure("GPU", "gpu_right", "share", lambda pack: pack.right("gpu")),
    Figure("coverage", "coverage", "share", lambda pack: pack.coverage),
    Figure("pages", "pages_per_incident", "number", lambda pack: pack.pages),
    Figure("false/100 h", "false_alarms_per_100_hours", "number", lambda pack: pack.alarm_rate("critical", "warning")),
    Figure("critical", "critical_false_alarms_per_100_hours", "number", lambda pack: pack.alarm_rate("critical")),
)


@dataclass(frozen=True)
class Scorecard:
    """The judged recordings, and the packs that were judged on them by what."""

    packs: tuple[str, ...]
    engine: str
    offsets: bool
    recordings: tuple[Judged, ...]

    @property
    def worlds(self) -> dict[str, list[Judged]]:
        """The recordings by their worlds, in the order in which these were named."""
        found: dict[str, list[Judged]] = {}
        for each in self.recordings:
            found.setdefault(each.world, []).append(each)
        return found

    @property
    def errors(self) -> list[str]:
        """Every rule that failed, a line each."""
        return [f"{each.world}/{each.name}: {error}" for each in self.recordings for error in each.errors]

    def to_json(self) -> str:
        """Everything for machines; the same results give the same bytes except for measured times."""
        data = {
            "engine": self.engine,
            "offsets": self.offsets,
            "worlds": {name: self._figures(of) for name, of in self.worlds.items()},
            "total": self._figures(self.recordings),
            "recordings": [_facts(each) for each in self.recordings],
            "incidents": [_placed(each, one) for each in self.recordings for one in each.incidents],
            "alarms": [_placed(each, one) for each in self.recordings for one in each.alarms],
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    def _figures(self, recordings: Sequence[Judged]) -> dict[str, Any]:
        packs = {}
        for pack in self.packs:
            seen = view(recordings, pack)
            values = {each.name: each.measure(seen) for each in FIGURES}
            packs[pack] = {name: None if value is None else round(value, 4) for name, value in values.items()}
        return {"recordings": len(recordings), **_counts(recordings, self.packs), "packs": packs}


def _counts(recordings: Sequence[Judged], packs: Sequence[str]) -> dict[str, Any]:
    ghosts = [each.ghosts for each in recordings if each.ghosts is not None]
    return {
        "faults": len(view(recordings, packs[0]).incidents),
        "healthy_hours": round(sum(each.healthy_hours for each in recordings), 2),
        "ghosts": sum(ghosts) if ghosts else None,
        "errors": sum(len(each.errors) for each in recordings),
        "rule_seconds": round(sum(each.seconds for each in recordings), 2),
    }


def _facts(each: Judged) -> dict[str, Any]:
    return {
        "world": each.world,
        "name": each.name,
        "healthy_hours": round(each.healthy_hours, 3),
        "rule_seconds": round(each.seconds, 2),
        "ghosts": each.ghosts,
        "errors": list(each.errors),
    }


def _placed(each: Judged, one: Any) -> dict[str, Any]:
    return {"world": each.world, "recording": each.name, **asdict(one)}


def gather(paths: Sequence[Path], base: config.Site) -> list[tuple[str, Path, config.Site]]:
    """The recordings that paths name, each with its world and its site, each once.

    A recording is a world of its own; of two folders with one name, the second goes by its path. Raises UserError for
    a path without recordings.
    """
    worlds: dict[str, Path] = {}
    found: dict[Path, tuple[str, Path, config.Site]] = {}
    for path in paths:
        below = folders(path)
        whole = path.resolve()
        world = whole.name if worlds.get(whole.name, whole) == whole else str(path)
        worlds[world] = whole
        for folder in below:
            found.setdefault(folder.resolve(), (world, folder, made_at(folder, base)))
    return list(found.values())


def tables(card: Scorecard) -> Iterator[Table]:
    """A table for each world, and one for all of them where there are several."""
    for name, recordings in card.worlds.items():
        yield _table(card, name, recordings)
    if len(card.worlds) > 1:
        yield _table(card, "total", card.recordings)


def _table(card: Scorecard, name: str, recordings: Sequence[Judged]) -> Table:
    figures: Mapping[str, Any] = _counts(recordings, card.packs)
    ghosts = "unknown" if figures["ghosts"] is None else figures["ghosts"]
    drawn = Table(
        title=f"{visible(name)}: {counted(len(recordings), 'recording')}, {counted(figures['faults'], 'fault')}, "
        f"{figures['healthy_hours']:.1f} healthy job-hours, ghosts: {ghosts}, "
        f"{figures['rule_seconds'] / len(recordings):.1f} s of rules a recording",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    drawn.add_column("pack")
    for each in FIGURES:
        drawn.add_column(each.title, justify="right")
    for pack in card.packs:
        seen = view(recordings, pack)
        drawn.add_row(visible(pack), *(shown(each.unit, each.measure(seen)) for each in FIGURES))
    return drawn
