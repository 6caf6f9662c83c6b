# SPDX-License-Identifier: Apache-2.0
"""How well the alert packs detect, attribute and localise faults of random jobs, and how often they cry wolf.

Run: python tests/benchmarks/detection.py [--held-out | --tuning] [--runs N | --reduced] [--jobs N] [--update] ...
     python tests/benchmarks/detection.py [--held-out | --tuning] [--runs N | --reduced] [--jobs N] --write DIR

Every trial is a simulated job of 16 to 64 GPUs, judged by Prometheus' own rule engine (``dashgen.engine.scheduled``).
Rules are tuned on even seeds; what is published comes from odd seeds, which are held out. Two packs as found
elsewhere (peers.py) run on the same trials. ``--update`` makes this run the floor below which no later run may fall.
``--write`` judges nothing: it writes the trials as recordings, for ``dashgen score --recordings DIR``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from peers import PEERS

from dashgen.recordings.importing import save
from dashgen.validation.cases import SLOWDOWNS
from dashgen.validation.criteria import CRITERIA, Measures, by_kind, measures, worse
from dashgen.validation.measures import View, shown, view
from dashgen.validation.trials import PACKS, Result, run
from dashgen.worlds.draw import Split, seeds, trial

FLOOR = Path(__file__).with_name("detection.json")
RUNS = 471  # three times the schedule of families
REDUCED = 30
ALL = (*PACKS, *PEERS)


def tried(split: Split, runs: int, jobs: int) -> list[Result]:
    """The results of the first trials of a split."""
    context = multiprocessing.get_context("spawn")
    done = []
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for result in pool.map(partial(run, peers=PEERS), seeds(split, runs)):
            done.append(result)
            if sys.stderr.isatty():
                print(f"\r{len(done)} of {runs} trials", end="", file=sys.stderr, flush=True)
    return done


def written(folder: Path, split: Split, runs: int, jobs: int) -> None:
    """Write the first trials of a split as recordings below a folder."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for _ in pool.map(partial(write, folder), seeds(split, runs)):
            pass


def write(folder: Path, seed: int) -> None:
    """Write the trial of a seed as a recording."""
    one = trial(seed)
    made_by = f"tests/benchmarks/detection.py --write, seed {seed}"
    save(folder / one.scenario.name, one.recording.model_copy(update={"made_by": made_by}), list(one.series))


def rows_by_kind(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """A table of every pack's incidents by family."""
    yield "pack", "family", "n", "recall", "median", "p90", "suspect", "place", "blamed", "pages", "alerts"
    for pack in ALL:
        for name, one in by_kind(view(results, pack)).items():
            yield (pack, name, str(len(one.incidents)), *_cells(one))


def _cells(one: View) -> Iterator[str]:
    yield shown("share", one.recall)
    yield shown("seconds", one.after(0.5))
    yield shown("seconds", one.after(0.9))
    yield shown("share", one.attribution)
    yield shown("share", one.localisation)
    yield shown("number", one.blamed if one.incidents[0].family in SLOWDOWNS else None)
    yield shown("number", one.pages)
    yield shown("number", one.episodes)


def rows_by_friend(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """A table of false alarms, critical and warning, by the family of the trial."""
    yield "trial", "runs", "healthy h", *(f"{pack} crit/warn" for pack in ALL)
    for name in sorted({each.family for each in results}):
        ours = [each for each in results if each.family == name]
        counts = []
        for pack in ALL:
            alarms = [one.severity for each in ours for one in each.alarms if one.pack == pack]
            counts.append(f"{alarms.count('critical')}/{alarms.count('warning')}")
        yield name, str(len(ours)), f"{sum(each.healthy_hours for each in ours):.1f}", *counts


def rows_of_acceptance(found: Measures) -> Iterator[tuple[str, ...]]:
    """What must hold, and whether it does; the packs from elsewhere beside it."""
    yield "what must hold", *PACKS, *PEERS
    for each in CRITERIA:
        cells = []
        for pack in ALL:
            value = found[each.name][pack]
            met = each.met(pack, value)
            verdict = "" if met is None else f" ({shown(each.unit, each.bounds[pack])}: {'pass' if met else 'FAIL'})"
            cells.append(shown(each.unit, value) + verdict)
        yield each.name, *cells


def rows_of_ratios(found: Measures) -> Iterator[tuple[str, ...]]:
    """Our medium pack against the packs from elsewhere."""
    yield "medium / other", *PEERS
    for each in CRITERIA:
        ours = found[each.name]["medium"]
        yield each.name, *(_ratio(ours, found[each.name][peer]) for peer in PEERS)


def _ratio(ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None:
        return "-"
    return f"{ours / theirs:.2f}" if theirs else ("1.00" if not ours else "theirs is 0")


def _print(rows: Iterator[tuple[str, ...]]) -> None:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for row in listed:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()


def report(results: Sequence[Result]) -> Measures:
    """Print all tables, and return the measures."""
    found = measures(results, ALL)
    for rows in (rows_by_kind(results), rows_by_friend(results), rows_of_acceptance(found), rows_of_ratios(found)):
        _print(rows)
    return found


def floor(results: Sequence[Result]) -> dict[str, Any]:
    """What later runs are compared with."""
    found = measures(results, PACKS)
    return {
        "runs": len(results),
        "healthy_hours": round(sum(each.healthy_hours for each in results), 1),
        "measures": {
            name: {pack: None if value is None else round(value, 4) for pack, value in row.items()}
            for name, row in found.items()
        },
    }


def main() -> int:
    """Run, print, compare with the floor; 1 when something is worse than it was."""
    parser = argparse.ArgumentParser(description="Judge the alert packs on random jobs.")
    split = parser.add_mutually_exclusive_group()
    split.add_argument("--held-out", action="store_const", const="held-out", dest="split", help="odd seeds (default)")
    split.add_argument("--tuning", action="store_const", const="tuning", dest="split", help="even seeds")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--runs", type=int, default=RUNS, help=f"trials (default: {RUNS})")
    size.add_argument("--reduced", action="store_const", const=REDUCED, dest="runs", help=f"{REDUCED} trials")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--report", type=Path, help="write every result to this JSON file")
    parser.add_argument("--update", action="store_true", help="make this run the floor")
    parser.add_argument("--write", type=Path, metavar="DIR", help="write the trials as recordings, and do nothing else")
    parser.set_defaults(split="held-out")
    given = parser.parse_args()
    if given.write:
        written(given.write, given.split, given.runs, given.jobs)
        return 0

    began = time.monotonic()
    results = tried(given.split, given.runs, given.jobs)
    hours = sum(each.healthy_hours for each in results)
    each = sum(one.seconds for one in results) / len(results)
    took = time.monotonic() - began
    print(f"{given.split}: {len(results)} trials, {hours:.0f} healthy job-hours, {took:.0f} s, {each:.1f} s a trial\n")
    report(results)
    if given.report:
        given.report.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n", encoding="utf-8")
    return settle(given.split, results, given.update)


def settle(split: Split, results: Sequence[Result], update: bool) -> int:
    """Compare with the floor of as many runs of this split, or become it."""
    floors = json.loads(FLOOR.read_text(encoding="utf-8")) if FLOOR.exists() else {}
    name = f"{split} {len(results)}"
    if update:
        floors[name] = floor(results)
        FLOOR.write_text(json.dumps(floors, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        print(f"floor of '{name}' written to {FLOOR.name}")
        return 0
    if name not in floors:
        print(f"no floor for '{name}'")
        return 0
    found = list(worse(floor(results)["measures"], floors[name]["measures"]))
    print("\n".join(found) or "nothing is worse than in the last good run")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
