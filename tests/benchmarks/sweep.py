# SPDX-License-Identifier: Apache-2.0
"""Whether the numbers in the detection rules stand on plateaus: each is moved down and up by a quarter.

Run: python tests/benchmarks/sweep.py DIR... [--sensitivity TIER] [--only TEXT] [--workers N]
     python tests/benchmarks/sweep.py --list

DIRs hold recordings with truth, a world each (tests/benchmarks/worlds.py writes some). The judge is that of ``dashgen
score``. A number is on a plateau where no move changes a headline figure of any world by more than SLACK; where one
does, the figures before and after are shown. Numbers after the same words move together.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dashgen import build, catalogue, durations
from dashgen.catalogue import baselines
from dashgen.catalogue.signals import degradation, lateness, stalls, throughput, transport, verdict
from dashgen.config import site as config
from dashgen.engine import scheduled as engine
from dashgen.model import Alert, RuleGroup, Sensitivity, Signal, Tier
from dashgen.validation.measures import shown, view
from dashgen.validation.packs import Packs
from dashgen.validation.recorded import Engine, Judged, judge_all
from dashgen.validation.score_report import FIGURES, gather

FACTORS = (0.75, 1.25)

SLACK: Mapping[str, float] = {
    "recall": 0.02,
    "recall_core": 0.02,
    "detect_seconds_median": 30.0,
    "suspect_right": 0.02,
    "false_alarms_per_100_hours": 1.0,
}
"""The headline figures, and the change of each that is none: one case of fifty, one dump, one alarm in four days."""

MODULES = (baselines, transport, lateness, throughput, stalls, verdict, degradation)
"""Where the detection rules are written; those of baselines are in the signals that the others learn."""

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"'
    r"|<(?P<dumps>\d+) dumps(?: - 1s)?>"
    r"|\[(?P<span>\d+)(?P<unit>[smhd])\]"
    r"|<(?P<word>pause)>"
    r"|(?<![\w:.$])(?P<number>\d+(?:\.\d+)?)(?![\w:.])"
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SERIES = re.compile(r"\b(?:job|peer|gpu|node):\w+(?=:\w)")
# Nobody chose powers, halves, how many topk takes, and what defines the median and a standard deviation.
_FORM = re.compile(r"(?:\^|/|topk by \([^)]*\) \(|quantile(?:_over_time| by \([^)]*\))? ?\()$")


@dataclass(frozen=True, order=True)
class Knob:
    """One number: where it stands, in words that hold for all its places, and what it is."""

    where: str
    value: str

    def __str__(self) -> str:
        return f"{self.where} {self.value}".strip()


def _tokens(template: str) -> Iterator[tuple[Knob, re.Match[str]]]:
    """The numbers of a rule that somebody chose."""
    for match in _TOKEN.finditer(template):
        value = match["dumps"] or match["span"] or match["word"] or match["number"]
        before = " ".join(_SERIES.sub("", template[: match.start()]).split())
        form = match["number"] and _FORM.search(before[-80:])
        if not value or form or (not match["span"] and value in ("0", "1")):
            continue
        # A window means the same wherever its series is read, and a word wherever it stands.
        where = before.rsplit(" ", 1)[-1].rsplit("(", 1)[-1] if match["span"] else before[-32:]
        yield Knob("" if match["word"] else f"…{where}", match[0]), match


def _moved(match: re.Match[str], factor: float) -> str:
    """A number as it stands in a rule, moved."""
    if match["number"]:
        return f"{float(match['number']) * factor:g}"
    if match["word"]:
        return f"{factor:g} * {match[0]}"
    if match["span"]:
        return f"[{durations.text(int(match['span']) * _SECONDS[match['unit']] * factor)}]"
    return match[0].replace(match["dumps"], str(_count(int(match["dumps"]), factor)), 1)


def _rewritten(template: str, knob: Knob, factor: float) -> str:
    parts, done = [], 0
    for found, match in _tokens(template):
        if found == knob:
            parts += [template[done : match.start()], _moved(match, factor)]
            done = match.end()
    return "".join([*parts, template[done:]])


def signals() -> tuple[Signal, ...]:
    """The recorded series of the detection rules."""
    listed = [value for module in MODULES for value in vars(module).values()]
    flat = [each for value in listed for each in (value if isinstance(value, tuple) else (value,))]
    known = {id(each) for each in flat if isinstance(each, Signal)}
    return tuple(each for each in catalogue.SIGNALS if id(each) in known)


def alerts() -> tuple[Alert, ...]:
    """The alerts of the detection rules."""
    return (*degradation.ALERTS, *stalls.ALERTS)


def knobs(tier: Sensitivity) -> list[Knob]:
    """Every number of the detection rules, those in alerts by their names."""
    found: dict[Knob, None] = {}
    for signal in signals():
        for template in (signal.expr, *(branch for _, branch in signal.branches)):
            found.update(dict.fromkeys(knob for knob, _ in _tokens(template)))
    for alert in alerts():
        if asked := alert.tiers.get(tier):
            found.update(dict.fromkeys(Knob(f"alerts: {name}", f"{each:g}") for name, each in asked.extra.items()))
            own = asked.threshold not in (1.0, *asked.extra.values())
            numbers = {
                "threshold": asked.threshold if own else 0.0,
                "dumps": asked.dumps,
                "keep_firing": asked.keep_firing,
            }
            found.update(
                dict.fromkeys(Knob(f"{alert.name}: {name}", f"{each:g}") for name, each in numbers.items() if each)
            )
    return list(found)


def _alert(alert: Alert, knob: Knob, factor: float) -> Alert:
    """An alert with one number moved in every tier, so that their order stays."""
    owner, _, name = knob.where.partition(": ")
    if owner not in (alert.name, "alerts"):
        return alert
    return replace(alert, tiers={level: _tier(tier, name, factor) for level, tier in alert.tiers.items()})


def _tier(tier: Tier, name: str, factor: float) -> Tier:
    """A tier with one number moved; a threshold that alerts share moves with its other places."""
    if name in tier.extra:
        same = tier.threshold == tier.extra[name]
        threshold = tier.threshold * factor if same else tier.threshold
        return replace(tier, threshold=threshold, extra={**tier.extra, name: tier.extra[name] * factor})
    if name == "threshold":
        return replace(tier, threshold=tier.threshold * factor)
    return replace(tier, **{name: _count(getattr(tier, name), factor)}) if hasattr(tier, name) else tier


def _count(old: int, factor: float) -> int:
    """A count of dumps, moved by at least one; none stays none."""
    step = max(1, round(old * abs(factor - 1)))
    return max(old + (step if factor > 1 else -step), 0) if old else 0


@contextmanager
def changed(knob: Knob | None, factor: float) -> Iterator[None]:
    """The catalogue with one number moved."""
    before = catalogue.SIGNALS, catalogue.SIGNAL_BY_NAME, catalogue.ALERTS, catalogue.ALERT_BY_NAME
    if knob is not None:
        own = {signal.name for signal in signals()}
        made = tuple(_signal(each, knob, factor) if each.name in own else each for each in catalogue.SIGNALS)
        told = tuple(_alert(each, knob, factor) for each in catalogue.ALERTS)
        _set(made, {each.name: each for each in made}, told, {each.name: each for each in told})
    try:
        yield
    finally:
        _set(*before)


def _signal(signal: Signal, knob: Knob, factor: float) -> Signal:
    branches = tuple((source, _rewritten(branch, knob, factor)) for source, branch in signal.branches)
    return replace(signal, expr=_rewritten(signal.expr, knob, factor), branches=branches)


def _set(
    made: tuple[Signal, ...], by_name: dict[str, Signal], told: tuple[Alert, ...], by_alert: dict[str, Alert]
) -> None:
    catalogue.SIGNALS, catalogue.SIGNAL_BY_NAME = made, by_name
    catalogue.ALERTS, catalogue.ALERT_BY_NAME = told, by_alert


@dataclass(frozen=True)
class Moved(Packs):
    """dashgen's own packs with one number moved."""

    knob: Knob | None = None
    factor: float = 1.0

    def at(self, site: config.Site) -> Mapping[str, str]:
        """The rule files for a site."""
        with changed(self.knob, self.factor):
            return super().at(site)


Figures = dict[str, dict[str, float | None]]


def figures(judged: Sequence[Judged], pack: str) -> Figures:
    """The headline figures, by world."""
    worlds: dict[str, list[Judged]] = {}
    for each in judged:
        worlds.setdefault(each.world, []).append(each)
    return {
        world: {one.name: one.measure(view(listed, pack)) for one in FIGURES if one.name in SLACK}
        for world, listed in worlds.items()
    }


def differences(before: Figures, after: Figures) -> Iterator[str]:
    """Every world in which a figure moves by more than it may, a line each."""
    for world, old in before.items():
        new = after[world]
        if any(_far(name, old[name], new[name]) for name in SLACK):
            cells = [
                f"{one.title} {shown(one.unit, old[one.name])} -> {shown(one.unit, new[one.name])}"
                for one in FIGURES
                if one.name in SLACK
            ]
            yield f"    {world}: " + ", ".join(cells)


def _far(name: str, old: float | None, new: float | None) -> bool:
    return old != new if old is None or new is None else abs(new - old) > SLACK[name]


def listed(wanted: Sequence[Knob]) -> None:
    """Print every number with what it becomes, and see that the rules have it."""

    def groups() -> list[tuple[RuleGroup, ...]]:
        return [build.recording(site), *(build.alerts(site, tier) for tier in Sensitivity)]

    companions = {name: {"enabled": True} for name in config.Companions.model_fields if name != "throughput"}
    site = config.site({"companions": {**companions, "throughput": {"preset": "megatron-otel"}}}, "sweep")
    usual = groups()
    for knob in wanted:
        for factor in FACTORS:
            with changed(knob, factor):
                if groups() == usual:
                    raise ValueError(f"{knob}: no rule changes with it")
        print(knob)


def main() -> None:
    """Move, judge, and print a line for every number."""
    parser = argparse.ArgumentParser(description="Move every number of the detection rules down and up by a quarter.")
    parser.add_argument("recordings", type=Path, nargs="*", help="folders of recordings with truth, a world each")
    parser.add_argument("--sensitivity", type=Sensitivity, choices=list(Sensitivity), default=Sensitivity.MEDIUM)
    parser.add_argument("--only", default="", help="numbers with this text in where they stand")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--list", action="store_true", help="say what would be moved, and whether the rules have it")
    given = parser.parse_args()
    tier = given.sensitivity
    wanted = [knob for knob in knobs(tier) if given.only in str(knob)]
    if given.list:
        listed(wanted)
        return
    if not given.recordings:
        parser.error("name folders of recordings, or --list")

    recordings = gather(given.recordings, config.Site())
    using = Engine(engine.engine() or engine.build(), offsets=True)

    def judged(knob: Knob | None = None, factor: float = 1.0) -> Figures:
        packs = Moved((tier.value,), knob=knob, factor=factor)
        return figures(judge_all(recordings, packs, using, workers=given.workers), tier.value)

    before = judged()
    for world, found in before.items():
        cells = [f"{one.title} {shown(one.unit, found[one.name])}" for one in FIGURES if one.name in SLACK]
        print(f"{world}: " + ", ".join(cells), flush=True)
    for knob in wanted:
        for factor in FACTORS:
            lines = list(differences(before, judged(knob, factor)))
            print(f"{knob} * {factor:g}: {'EDGE' if lines else 'plateau'}", *lines, sep="\n", flush=True)


if __name__ == "__main__":
    main()
