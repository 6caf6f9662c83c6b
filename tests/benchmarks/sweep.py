# SPDX-License-Identifier: Apache-2.0
"""Why the numbers in the detection rules are what they are: each of them moved down and up, judged on tuning seeds.

Run: python tests/benchmarks/sweep.py [--runs N] [--jobs N] [--only SIGNAL] [--first SEED] [--families A,B] [--list]

Every line is the whole medium and high pack with one number changed; the first line changes nothing. A number is well
chosen where both neighbours are worse in something and better in nothing that matters. Held-out seeds are never used.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, islice

from dashgen import config
from dashgen.trials.draw import family, trial
from dashgen.trials.judge import SLOWDOWNS, Result, execute, judge, rule_files
from dashgen.trials.score import CRITERIA, measures, shown

FIRST = 4000  # beyond the seeds that detection.py --tuning takes
FAMILIES = (*sorted(SLOWDOWNS), "bursts", "checkpoints", "evaluation", "healthy", "imbalance", "missed-scrapes")
RUNS = 60


@dataclass(frozen=True)
class Knob:
    """A number in a recorded series' rule: ``text`` as the rule has it, and what to put in its place."""

    signal: str
    text: str
    instead: tuple[str, ...]


KNOBS = (
    Knob("job:nccl_degraded:bool", "> bool 0.08", ("> bool 0.06", "> bool 0.11")),
    Knob("job:nccl_degraded:bool", "> bool 3 *", ("> bool 2 *", "> bool 5 *")),
    Knob("job:nccl_degraded:bool", "< 0.04", ("< 0.02", "< 0.06")),
    Knob("job:nccl_busbw_drop:ratio", "offset 3m", ("offset 1m", "offset 6m")),
    Knob("gpu:nccl_exec:relative", "(0.25,", ("(0,", "(0.5,")),
    Knob("gpu:nccl_late_baseline:relative", "/ 0.94", ("/ 0.90", "/ 0.97")),
    Knob("gpu:nccl_late_baseline:relative", "0.97 * quantile", ("0.94 * quantile", "1 * quantile")),
    Knob("gpu:nccl_late_baseline:relative", "< 0.78", ("< 0.72", "< 0.83")),
    Knob("gpu:nccl_late:avg", ">= 3", (">= 2",)),
    Knob("job:nccl_late_spread:ratio", "1.06 *", ("1.02 *", "1.12 *")),
    Knob("node:nccl_wait:growth", "> 1.06", ("> 1.02", "> 1.12")),
    Knob("gpu:nccl_latest:avg", "1.15 *", ("1.05 *", "1.3 *")),
    Knob("gpu:nccl_latest:avg", "1.06 *", ("1.02 *", "1.12 *")),
    Knob("gpu:nccl_latest:avg", "< 0.8 *", ("< 0.6 *", "< 0.95 *")),
    Knob("job:nccl_unexplained:depth", "(1.08 -", ("(1.04 -", "(1.14 -")),
    Knob("job:nccl_window:depth", "job:nccl_late:min < 0.88", ("job:nccl_late:min < 0.82", "job:nccl_late:min < 0.92")),
    Knob(
        "job:nccl_candidate:depth", "job:nccl_late:min < 0.85", ("job:nccl_late:min < 0.80", "job:nccl_late:min < 0.90")
    ),
    Knob(
        "job:nccl_candidate:depth", "job:nccl_late:min < 0.93", ("job:nccl_late:min < 0.90", "job:nccl_late:min < 0.95")
    ),
    Knob(
        "job:nccl_candidate:depth",
        "skew_growth:ratio[1m29s]) > 1.12",
        ("skew_growth:ratio[1m29s]) > 1.06", "skew_growth:ratio[1m29s]) > 1.2"),
    ),
    Knob("job:nccl_tail_slow:depth", "> 1.12", ("> 1.06", "> 1.2")),
    Knob("job:nccl_candidate:depth", "> 1 - 1 / 1.2", ("> 1 - 1 / 1.12", "> 1 - 1 / 1.35")),
    Knob("job:nccl_candidate:depth", "> 0.15", ("> 0.10", "> 0.25")),
    Knob("job:nccl_impact:ratio", "[59s]) > 0.05", ("[59s]) > 0.03", "[59s]) > 0.08")),
    Knob("job:nccl_impact:ratio", "> 0.2", ("> 0.15", "> 0.3")),
    Knob(
        "job:nccl_impact:ratio", "3 * job:nccl_cause:depth", ("1.5 * job:nccl_cause:depth", "9 * job:nccl_cause:depth")
    ),
)

SHOWN = {
    each.name: short
    for each, short in zip(
        CRITERIA,
        (
            ">=13%",
            "6-13%",
            "late",
            "",
            "right GPU",
            "",
            "",
            "",
            "",
            "",
            "median",
            "suspect",
            "crit/100h",
            "pages",
            "warn/100h",
            "blamed",
        ),
        strict=True,
    )
    if short
}


def changed(files: dict[str, str], knob: Knob, instead: str) -> dict[str, str]:
    """The rule files with one number changed in one rule. Raises ValueError where the rule does not have it."""
    head, *rules = re.split(r"(?m)^(?=  - record: )", files["recording.yaml"])
    found = [number for number, rule in enumerate(rules) if rule.startswith(f"  - record: {knob.signal}\n")]
    if len(found) != 1 or knob.text not in rules[found[0]]:
        raise ValueError(f"{knob.signal} does not have {knob.text!r}")
    rules[found[0]] = rules[found[0]].replace(knob.text, instead)
    return {**files, "recording.yaml": head + "".join(rules)}


def variants(knobs: Sequence[Knob]) -> Iterator[tuple[Knob, str] | None]:
    """No change, then every change."""
    yield None
    for knob in knobs:
        for instead in knob.instead:
            yield knob, instead


def run(seed: int, changes: Sequence[tuple[Knob, str] | None]) -> list[Result]:
    """One trial judged under every change."""
    one = trial(seed)
    files = rule_files(config.site(one.scenario.site, one.scenario.name))
    return [judge(one, execute(one, changed(files, *each) if each else files)) for each in changes]


def main() -> None:
    """Run, and print a line for every change."""
    parser = argparse.ArgumentParser(description="Move every number of the detection rules down and up.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"trials (default: {RUNS})")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--first", type=int, default=FIRST, help=f"first seed, even (default: {FIRST})")
    parser.add_argument("--only", help="numbers of this series alone")
    parser.add_argument("--families", default=",".join(FAMILIES), help="families of trials, with commas between")
    parser.add_argument("--list", action="store_true", help="say what would be moved, and whether the rules have it")
    given = parser.parse_args()

    changes = list(variants([knob for knob in KNOBS if given.only in (None, knob.signal)]))
    if given.list:
        files = rule_files(config.Site())
        for knob, instead in filter(None, changes):
            changed(files, knob, instead)
            print(f"{knob.signal}: {knob.text} -> {instead}")
        return
    wanted = given.families.split(",")
    seeds = islice((seed for seed in count(given.first + given.first % 2, 2) if family(seed) in wanted), given.runs)
    with ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(partial(run, changes=changes), seeds))

    print("; ".join(f"{short}: {name}" for name, short in SHOWN.items()))
    for change, of_change in zip(changes, zip(*results, strict=True), strict=True):
        found = measures(of_change, ("medium", "high"))
        units = {each.name: each.unit for each in CRITERIA}
        label = f"{change[0].signal}: {change[0].text.strip()} -> {change[1].strip()}" if change else "as it is"
        cells = [
            " ".join(f"{short} {shown(units[name], found[name][pack])}" for name, short in SHOWN.items())
            for pack in ("medium", "high")
        ]
        print(f"{label}\n    medium  {cells[0]}\n    high    {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
