# SPDX-License-Identifier: Apache-2.0
"""Brings what the documentation takes from the code up to date: ``python tests/readme.py``.

Between ``<!-- name -->`` and ``<!-- /name -->`` stands what is derived; the rest of a page is written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bills
from test_architecture import LAYERS

from dashgen.cli.main import app
from dashgen.config.site import Site
from dashgen.explain import keys, pages, shipping, usage
from dashgen.model import Sensitivity
from dashgen.validation.criteria import CRITERIA
from dashgen.validation.measures import shown
from dashgen.validation.score_report import FIGURES, Figure

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "dashgen" / "docs"
SITE = Site()

# The page that says more of a command.
MORE = {
    "build": "[targets](targets.md)",
    "rules": "[targets](targets.md)",
    "validate": "[recordings](recordings.md#prove-rules)",
    "score": "[what dashgen score measures](score.md)",
    "preview": "[recordings](recordings.md#look-at-one)",
    "record": "[asking running servers](live.md#recording)",
    "incidents": "[asking running servers](live.md#incidents)",
    "demo": "[a live demo](live.md#a-live-demo)",
    "doctor": "[asking running servers](live.md#doctor)",
    "cost": "[what it costs](cost.md)",
    "import": "[recordings](recordings.md#from-inspectors-files)",
    "simulate": "[recordings](recordings.md#from-a-scenario)",
    "lint": "[what dashgen lint finds](lint.md)",
    "baseline": "[configuration](configuration.md#accepted-bandwidth)",
    "explain": "[how detection decides](detection.md)",
    "config": "[configuration](configuration.md)",
}


def floor() -> str:
    """What the random trials of the odd seeds reached, tier by tier."""
    runs = json.loads((ROOT / "tests" / "benchmarks" / "detection.json").read_text(encoding="utf-8"))
    run = next(found for name, found in runs.items() if name.startswith("held-out"))
    rows = (
        [each.name, *(shown(each.unit, run["measures"][each.name].get(level)) for level in Sensitivity)]
        for each in CRITERIA
    )
    said = f"{run['runs']} trials with {run['healthy_hours']:.0f} healthy job-hours:"
    return f"{said}\n\n{pages.table(['what is asked', *Sensitivity], rows)}"


# How well it works, as tests/benchmarks/judged.py found it: the youngest world, then those looked at before.

_OF_README = {
    "recall": "faults found",
    "recall_core": "those that matter",
    "detect_seconds_median": "median time",
    "suspect_right": "right suspect",
    "node_right": "right node",
    "false_alarms_per_100_hours": "false alarms in 100 h",
    "critical_false_alarms_per_100_hours": "false pages",
}


UNSEEN = 5
"""So many worlds stand first that no rule was chosen on: wide jobs, racks, slow dumps, few GPUs, and requeued jobs."""


def judged() -> dict[str, Any]:
    """What ``dashgen score`` found in each wide world, by its seeds."""
    found: dict[str, Any] = json.loads((ROOT / "tests" / "benchmarks" / "judged.json").read_text(encoding="utf-8"))
    return found


def _what(world: dict[str, Any]) -> str:
    size = f"{world['recordings']} recordings, {world['faults']} faults, {world['healthy_hours']:.0f} healthy job-hours"
    return f"{size}:\n\n"


def _cells(pack: dict[str, float | None], figures: Iterable[Figure] = FIGURES) -> list[str]:
    return [shown(each.unit, pack[each.name]) for each in figures]


def score() -> str:
    """The youngest world in short."""
    world = next(iter(judged()["worlds"].values()))
    told = [each for each in FIGURES if each.name in _OF_README]
    rows = ([name, *_cells(pack, told)] for name, pack in world["packs"].items())
    return _what(world) + pages.table(["pack", *(_OF_README[each.name] for each in told)], rows)


def unseen(number: int) -> str:
    """A world that no rule was chosen on."""
    seeds, world = list(judged()["worlds"].items())[number]
    rows = ([name, *_cells(pack)] for name, pack in world["packs"].items())
    kind, _, numbers = re.sub(r"-(?=\d+-)", " ", seeds).rpartition(" ")
    said = f"Seeds {f'of {kind} ' if kind else ''}{numbers}, " + _what(world)
    return said + pages.table(["pack", *(each.title for each in FIGURES)], rows)


def older() -> str:
    """The worlds that were looked at, and all together."""
    worlds = dict(list(judged()["worlds"].items())[UNSEEN:]) | {"all, also those above": judged()["total"]}
    rows = (
        [seeds, str(world["faults"]), f"{world['healthy_hours']:.0f}", name, *_cells(pack)]
        for seeds, world in worlds.items()
        for name, pack in world["packs"].items()
    )
    return pages.table(["seeds", "faults", "healthy h", "pack", *(each.title for each in FIGURES)], rows)


def layers() -> str:
    """Packages and modules that may import what stands behind them."""
    return " →\n".join(", ".join(sorted(each - {"__main__"})) for each in reversed(LAYERS))


BLOCKS = {
    "score": score,
    "youngest": lambda: unseen(0),
    "racks": lambda: unseen(1),
    "slow": lambda: unseen(2),
    "few": lambda: unseen(3),
    "requeues": lambda: unseen(4),
    "older": older,
    "headlines": lambda: pages.headlines(SITE),
    "alerts": lambda: pages.alerts(SITE),
    "signals": lambda: pages.signals(SITE),
    "metrics": lambda: pages.metrics(SITE),
    "floor": floor,
    "measured": bills.sizes_table,
    "plan": bills.plan_table,
    "keys": keys.keys,
    "kubernetes": lambda: keys.section("targets.kubernetes"),
    "layers": layers,
    "overview": shipping.overview,
    "targets": lambda: shipping.targets(SITE),
    "overrides": keys.overrides,
    "commands": lambda: usage.commands(app, MORE),
}
_BLOCK = re.compile(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", re.DOTALL)


def documents() -> list[Path]:
    """Every page that people write, or that is derived for them to read."""
    return [README, *sorted([*ROOT.glob("C*.md"), *DOCS.glob("*.md")])]


def filled(text: str) -> str:
    """A page with what stands between its markers derived anew; a marker that nobody fills stays as it is."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- {name} -->\n{BLOCKS[name]()}\n<!-- /{name} -->" if name in BLOCKS else match[0]

    return _BLOCK.sub(block, text)


if __name__ == "__main__":
    for path in documents():
        before = path.read_text(encoding="utf-8")
        if (after := filled(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(ROOT))
