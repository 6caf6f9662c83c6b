# SPDX-License-Identifier: Apache-2.0
"""One build on two levels: edges, each of which holds whole jobs, and one global level above them.

A rule that reads part of a job (raw series, or a recorded series of a level below ``job``) belongs to the edge, and so
does what such a rule needs. What is left reads whole jobs, and belongs to the global level, with the alerts. So every
series is recorded in one place; what the edges record and the global level reads travels, and nothing travels back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dashgen import promql
from dashgen.errors import UserError
from dashgen.model import AlertRule, Dashboard, RuleGroup

JOB = "job:"
"""How the names of series begin that say something of whole jobs."""

_LOOKUP = re.compile(r'\bquery "((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class Levels:
    """The recording rules of the edges, those of the global level, and the names of the series that travel."""

    edge: tuple[RuleGroup, ...]
    above: tuple[RuleGroup, ...]
    travels: tuple[str, ...]


def levels(recording: Iterable[RuleGroup], alerts: Iterable[RuleGroup], boards: Iterable[Dashboard]) -> Levels:
    """Recording rules cut in two, for a global level that evaluates the alerts and draws the boards.

    Raises UserError for an alert that reads what no rule records: only the edges have it.
    """
    recording = tuple(recording)
    reads: dict[str, frozenset[str]] = {}
    for rule in (rule for group in recording for rule in group.recorded):
        reads[rule.record] = reads.get(rule.record, frozenset()) | promql.names(rule.expr)
    edge = _edge(reads)
    above = frozenset().union(*(reads[name] for name in reads.keys() - edge))
    for alert in (rule for group in alerts for rule in group.alerts):
        wanted = _read_by(alert)
        for name in sorted(wanted - reads.keys()):
            raise UserError(f"layout: {alert.alert} reads {name}, which stays at the edges; record it by a rule first")
        above |= wanted
    above |= frozenset(name for board in boards for name in _shown_by(board))
    return Levels(
        edge=tuple(_only(recording, edge)),
        above=tuple(_only(recording, reads.keys() - edge)),
        travels=tuple(name for name in sorted(above) if name in edge),
    )


def _edge(reads: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The names that rules record at the edges."""
    waiting = [name for name, read in reads.items() if any(not each.startswith(JOB) for each in read)]
    found = set(waiting)
    while waiting:
        needed = reads[waiting.pop()] & reads.keys() - found
        found |= needed
        waiting += needed
    return frozenset(found)


def _only(groups: Iterable[RuleGroup], names: Iterable[str]) -> Iterator[RuleGroup]:
    kept = frozenset(names)
    for group in groups:
        rules = tuple(rule for rule in group.recorded if rule.record in kept)
        if rules:
            yield replace(group, rules=rules)


def _read_by(rule: AlertRule) -> frozenset[str]:
    """What an alert reads, and what its texts look up."""
    looked_up = (found.replace('\\"', '"') for text in rule.annotations.values() for found in _LOOKUP.findall(text))
    return frozenset().union(*(promql.names(expr) for expr in (rule.expr, *looked_up)))


def _shown_by(board: Dashboard) -> Iterator[str]:
    yield from (variable.series for variable in board.variables)
    exprs = [annotation.expr for annotation in board.annotations]
    exprs += [query.expr for panel in board.panels for query in panel.queries]
    yield from (name for expr in exprs for name in promql.names(expr))
