# SPDX-License-Identifier: Apache-2.0
"""Whether Prometheus takes what was built: the last look at rules and panels, whatever a site or its overlays wrote.

Values of dashgen.yaml are checked where they are read; this is about what they, and overlays, have become.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dashgen import durations, promql
from dashgen.build import templates
from dashgen.grafana.parsed import Board
from dashgen.guard import grammar
from dashgen.guard.text import line, quoted
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup


def problems(made: Bundle) -> Iterator[str]:
    """What Prometheus would refuse, one line each, with the rule or the panel that it is in."""
    groups = [("recording rules", made.recording), *((f"{tier} alerts", packs) for tier, packs in made.alerts.items())]
    seen: set[str] = set()
    for where, packs in groups:
        for group in packs:
            yield from _group(f"{where}: group {line(group.name, 60)}", group, seen)
    for slug, board in made.dashboards.items():
        for query in (query for panel in Board(board).panels for query in panel.queries):
            if query.expr not in seen and not promql.filled_in(query.expr):
                seen.add(query.expr)
                place = f"dashboard {line(slug, 60)}: panel {line(query.where, 60)}"
                yield from _said(f"{place}: expr", promql.parse, query.expr)


def _group(where: str, group: RuleGroup, seen: set[str]) -> Iterator[str]:
    yield from _said(f"{where}: interval", durations.checked, group.interval)
    for rule in group.rules:
        name = rule.record if isinstance(rule, RecordingRule) else rule.alert
        place = f"{where}: {line(name, 60)}"
        # Most expressions are in several packs.
        if rule.expr not in seen:
            seen.add(rule.expr)
            yield from _said(f"{place}: expr", grammar.check_expression, rule.expr)
        yield from _labels(f"{place}: label", rule.labels)
        if isinstance(rule, RecordingRule):
            yield from _said(place, grammar.check_metric, name)
        else:
            yield from _alert(place, rule)


def _alert(place: str, rule: AlertRule) -> Iterator[str]:
    if rule.for_:
        yield from _said(f"{place}: for", durations.checked, rule.for_)
    if rule.keep_firing_for:
        yield from _said(f"{place}: keep_firing_for", durations.checked, rule.keep_firing_for)
    for kind, texts in (("label", rule.labels), ("annotation", rule.annotations)):
        for key, text in texts.items():
            yield from (f"{place}: {kind} {line(key, 60)}: {problem}" for problem in _template(text))
    yield from _labels(f"{place}: annotation", rule.annotations)


def _said(place: str, check: object, text: str) -> Iterator[str]:
    assert callable(check)
    try:
        check(text)
    except ValueError as error:
        yield f"{place}: {line(str(error), 160)}"


def _labels(place: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not grammar.LABEL.fullmatch(name) or name == "__name__":
            yield f"{place} {quoted(name)}: not a label name (letters, digits and underscores)"


def _template(text: str) -> Iterator[str]:
    """What is certainly wrong with a Go template: braces and blocks that do not close."""
    depth = 0
    for word in map(templates.word, templates.ACTION.finditer(text)):
        depth += (word in templates.BLOCKS) - (word == "end")
        if depth < 0:
            break
    if depth or "{{" in templates.ACTION.sub("", text):
        yield "a template that does not close; look for {{ without }} and for if without end"
