# SPDX-License-Identifier: Apache-2.0
"""What a signal or an alert is made of: the tree of rules behind it, down to what others expose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dashgen import build, catalogue, promql
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.explain.units import first_sentence, said
from dashgen.model import Sensitivity

Reads = Mapping[str, tuple[str, ...]]
"""The names that each rule reads, as written; the rules in the order of their evaluation."""


@dataclass(frozen=True)
class Step:
    """One line of a tree: a series, ``depth`` rules away from the root.

    Each series is ``told`` once and is a mere reference elsewhere. ``earlier`` marks feedback: the rule above is behind
    this series as well, and reads what an earlier evaluation recorded of it. There a branch ends.
    """

    name: str
    depth: int
    told: bool
    earlier: bool = False


@dataclass(frozen=True)
class Known:
    """What a series tells, in a sentence, and its unit as a Grafana id."""

    unit: str
    words: str


def tree(name: str, site: Site) -> tuple[Step, ...]:
    """The rules behind a signal or an alert at this site; the root alone where the site does not have it."""
    rules = {rule.record: _reads(rule.expr) for group in build.recording(site) for rule in group.recorded}
    if name in catalogue.ALERT_BY_NAME:
        alert = catalogue.ALERT_BY_NAME[name]
        # Tiers differ in numbers only.
        packed = filter(None, (build.alert_rule(alert, tier, site) for tier in Sensitivity))
        rules |= {rule.alert: _reads(rule.expr) for rule in packed}
    return steps(name, rules)


def steps(root: str, rules: Reads) -> tuple[Step, ...]:
    """The tree below a name, depth first, in the order in which rules are written."""
    found = list(_walk(root, rules, 0, {}))
    told = {step.name for step in found if step.told}
    for at, step in enumerate(found):
        if step.earlier and step.name not in told:
            told.add(step.name)
            found[at] = replace(step, told=True)
    return tuple(found)


def _walk(name: str, rules: Reads, depth: int, seen: dict[str, None]) -> Iterator[Step]:
    yield Step(name, depth, told=name not in seen)
    if name in seen:
        return
    seen[name] = None
    order = {rule: at for at, rule in enumerate(rules)}
    for read in rules.get(name, ()):
        if read in order and order[read] >= order[name] and _behind(name, read, rules):
            yield Step(read, depth + 1, told=False, earlier=True)
        else:
            yield from _walk(read, rules, depth + 1, seen)


def _behind(name: str, other: str, rules: Reads) -> bool:
    """Whether a rule is among those that make another series."""
    reached, ahead = {other}, [other]
    while ahead:
        new = [read for read in rules.get(ahead.pop(), ()) if read not in reached]
        reached.update(new)
        ahead += new
    return name in reached


def _reads(expr: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in promql.selectors(promql.parse(expr)) if each.name))


def vocabulary(site: Site) -> dict[str, Known]:
    """What is known of every alert, every signal and every series that the site's sources expose, by name."""
    throughput = site.companions.throughput
    found = {name: Known(throughput.unit, "What the job says of its own throughput.") for name in build.exposed(site)}
    for metric in METRICS:
        found[site.metric(metric.key)] = Known(metric.unit, first_sentence(metric.meaning))
    found |= {signal.name: Known(signal.unit, signal.question) for signal in catalogue.SIGNALS}
    return found | {each.name: Known("", first_sentence(each.runbook.meaning)) for each in catalogue.ALERTS}


def line(step: Step, known: Mapping[str, Known], *, units: bool = True) -> str:
    """A step in words, indented by its depth."""
    about = known.get(step.name, Known("", "not known to dashgen"))
    parts = ["  " * step.depth + step.name]
    if step.told:
        parts += [f"[{said(about.unit)}]"] * (units and bool(about.unit))
    if step.earlier:
        parts.append("(what an earlier evaluation recorded)")
    elif not step.told:
        parts.append("(as above)")
    return "  ".join([*parts, about.words] if step.told else parts)
