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

from dashgen.cli.main import app
from dashgen.config.site import Site
from dashgen.explain import keys, pages, shipping, usage
from dashgen.model import Sensitivity
from dashgen.validation.measures import CRITERIA, shown

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
    """What the random trials that are run on every change must at least reach, tier by tier."""
    runs = json.loads((ROOT / "tests" / "benchmarks" / "detection.json").read_text(encoding="utf-8"))
    run = next(found for name, found in runs.items() if name.startswith("tuning"))
    rows = (
        [each.name, *(shown(each.unit, run["measures"][each.name].get(level)) for level in Sensitivity)]
        for each in CRITERIA
    )
    said = f"{run['runs']} trials with {run['healthy_hours']:.0f} healthy job-hours:"
    return f"{said}\n\n{pages.table(['what is asked', *Sensitivity], rows)}"


# How well it works, as tests/benchmarks/judged.py found it: the youngest world, then those looked at before.

_FIGURES = {
    "recall": ("share", "recall"),
    "core": ("share", "recall_core"),
    "median": ("seconds", "detect_seconds_median"),
    "p90": ("seconds", "detect_seconds_p90"),
    "suspect": ("share", "suspect_right"),
    "node": ("share", "node_right"),
    "GPU": ("share", "gpu_right"),
    "covered": ("share", "coverage"),
    "pages per incident": ("number", "pages_per_incident"),
    "false alarms in 100 h": ("number", "false_alarms_per_100_hours"),
    "of them pages": ("number", "critical_false_alarms_per_100_hours"),
}
_OF_README = {
    "faults found": "recall",
    "those that matter": "core",
    "median time": "median",
    "right suspect": "suspect",
    "right node": "node",
    "false alarms in 100 h": "false alarms in 100 h",
    "false pages": "of them pages",
}


def judged() -> dict[str, Any]:
    """What ``dashgen score`` found in each wide world, by its seeds."""
    found: dict[str, Any] = json.loads((ROOT / "tests" / "benchmarks" / "judged.json").read_text(encoding="utf-8"))
    return found


def _what(world: dict[str, Any]) -> str:
    size = f"{world['recordings']} recordings, {world['faults']} faults, {world['healthy_hours']:.0f} healthy job-hours"
    return f"{size}:\n\n"


def _cells(pack: dict[str, float | None], names: Iterable[str]) -> list[str]:
    return [shown(unit, pack[key]) for unit, key in (_FIGURES[name] for name in names)]


def score() -> str:
    """The youngest world in short."""
    world = next(iter(judged()["worlds"].values()))
    rows = ([name, *_cells(pack, _OF_README.values())] for name, pack in world["packs"].items())
    return _what(world) + pages.table(["pack", *_OF_README], rows)


def youngest() -> str:
    """The youngest world."""
    seeds, world = next(iter(judged()["worlds"].items()))
    rows = ([name, *_cells(pack, _FIGURES)] for name, pack in world["packs"].items())
    return f"Seeds {seeds}, " + _what(world) + pages.table(["pack", *_FIGURES], rows)


def older() -> str:
    """The worlds that were looked at, and all together."""
    worlds = dict(list(judged()["worlds"].items())[1:]) | {"all, also the youngest": judged()["total"]}
    rows = (
        [seeds, str(world["faults"]), f"{world['healthy_hours']:.0f}", name, *_cells(pack, _FIGURES)]
        for seeds, world in worlds.items()
        for name, pack in world["packs"].items()
    )
    return pages.table(["seeds", "faults", "healthy h", "pack", *_FIGURES], rows)


BLOCKS = {
    "score": score,
    "youngest": youngest,
    "older": older,
    "headlines": lambda: pages.headlines(SITE),
    "alerts": lambda: pages.alerts(SITE),
    "signals": lambda: pages.signals(SITE),
    "metrics": lambda: pages.metrics(SITE),
    "floor": floor,
    "keys": keys.keys,
    "kubernetes": lambda: keys.section("targets.kubernetes"),
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
