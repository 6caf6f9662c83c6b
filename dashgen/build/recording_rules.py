# SPDX-License-Identifier: Apache-2.0
"""Signals -> recording rules."""

from __future__ import annotations

from dashgen import catalogue, durations
from dashgen.build.placeholders import evaluated_every, fill
from dashgen.catalogue.groups import SLOW
from dashgen.config.site import Site
from dashgen.model import RecordingRule, RuleGroup, Signal


def signal_expr(signal: Signal, site: Site) -> str:
    """The PromQL of a signal at this site; empty when the site has none of its sources."""
    enabled = site.sources()
    if signal.companion and signal.companion not in enabled:
        return ""
    if not signal.branches:
        return fill(signal.expr, site)
    parts = [expr.strip() for companion, expr in signal.branches if not companion or companion in enabled]
    if not parts:
        return ""
    before = signal.expr.partition("<branches>")[0]
    indent = before[before.rfind("\n") + 1 :]
    joined = f"\n{signal.join}\n".join(parts).replace("\n", f"\n{indent}")
    return fill(signal.expr.replace("<branches>", joined), site)


def signals(site: Site) -> dict[str, str]:
    """Every signal that the site can have, with its PromQL, in the order of evaluation."""
    found = {signal.name: signal_expr(signal, site) for signal in catalogue.SIGNALS}
    return {name: expr for name, expr in found.items() if expr}


def recording(site: Site) -> tuple[RuleGroup, ...]:
    """The recording rules, evaluated once a dump and once a minute at least, or more slowly."""
    groups: dict[str, list[RecordingRule]] = {}
    for name, expr in signals(site).items():
        rule = RecordingRule(record=name, expr=expr)
        groups.setdefault(catalogue.SIGNAL_BY_NAME[name].group, []).append(rule)
    every = evaluated_every(site)
    slowly = min(4 * every, 120.0)
    return tuple(
        RuleGroup(name=name, interval=durations.text(slowly if name in SLOW else every), rules=tuple(rules))
        for name, rules in groups.items()
    )
