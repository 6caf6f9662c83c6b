# SPDX-License-Identifier: Apache-2.0
"""Conditions of the rules: loaded, those of the pack, in its order, in time, without errors, and heard by anybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from dashgen import build, promql
from dashgen.catalogue.names import VERDICT
from dashgen.live.client.answers import Group
from dashgen.live.doctor.levels import alerts, level, recording
from dashgen.live.doctor.probe import Diagnosis, Probe
from dashgen.live.doctor.telemetry import named
from dashgen.model import RuleGroup

BUSY = 0.5
"""Share of its interval that a group may take: beyond it one slow evaluation makes the next one late."""

_MATCHER = re.compile(r'\w+\s*(?:=~|!~|!=|=)\s*"(?:\\.|[^"\\])*"')
_MATCHERS = re.compile(rf"\{{(?:{_MATCHER.pattern}|[,\s])*\}}")

LATE = 3.0  # intervals without an evaluation


def _ours(probe: Probe) -> list[Group]:
    """The server's groups in which there are rules of the pack."""
    pack = _pack(build.recording(probe.site))
    groups = probe.rules.groups if probe.rules else ()
    return [group for group in groups if any(rule.name in pack for rule in group.rules)]


def not_loaded(probe: Probe) -> Iterator[Diagnosis]:
    """The recording rules are not loaded, or the alerts are not."""
    if probe.rules is None:
        # Behind Thanos or Mimir's querier rules may be somebody else's to list.
        if probe.sample and not probe.rows(VERDICT):
            yield Diagnosis(VERDICT, "nothing records the verdict, and this server lists no rules")
        return
    if not _ours(probe):
        if not probe.rows(VERDICT):
            yield Diagnosis(VERDICT, "the recording rules are not loaded: boards and alerts stay empty")
        return
    where = level(probe)
    if where == "global" and not probe.rows(VERDICT):
        yield Diagnosis("layout/travels.yaml", "no edge sends the verdict: boards and alerts stay empty")
    there = {rule.name for group in probe.rules.groups for rule in group.rules if rule.type == "alerting"}
    if where != "edge" and not alerts(probe.site) & there:
        yield Diagnosis(f"alerts/{probe.site.sensitivity.value}.yaml", "no alert of the pack is loaded: nobody is told")


def outdated(probe: Probe) -> Iterator[Diagnosis]:
    """The rules that are loaded are not those that this dashgen.yaml gives."""
    loaded = {rule.name: rule.query for group in _ours(probe) for rule in group.rules if rule.type != "alerting"}
    if not loaded:
        return
    # What targets of engines that store results late have is the same pack.
    where = level(probe)
    packs = [_pack(recording(probe.site.showing_results(late=late), where)) for late in (False, True)]
    pack, changed = min(((each, _changed(each, loaded)) for each in packs), key=lambda found: len(found[1]))
    missing = set(pack) - set(loaded)
    if missing or changed:
        parts = [f"{len(missing)} are missing ({named(missing)})"] if missing else []
        parts += [f"{len(changed)} are others ({named(changed)})"] if changed else []
        yield Diagnosis("recording.yaml", f"of {len(pack)} recording rules {', '.join(parts)}")


def _pack(groups: Iterable[RuleGroup]) -> dict[str, str]:
    return {rule.record: rule.expr for group in groups for rule in group.recorded}


def _changed(pack: Mapping[str, str], loaded: Mapping[str, str]) -> set[str]:
    return {name for name in set(pack) & set(loaded) if _meant(pack[name]) != _meant(loaded[name])}


def _meant(expr: str) -> str:
    """An expression without its layout and the order of its matchers, which a server sorts."""
    try:
        return _MATCHERS.sub(lambda braces: ",".join(sorted(_MATCHER.findall(braces[0]))), str(promql.parse(expr)))
    except ValueError:
        return " ".join(expr.split())


def out_of_order(probe: Probe) -> Iterator[Diagnosis]:
    """Rules are evaluated in another order than the pack's, or spread over groups, so that they read what is old."""
    shipped = build.recording(probe.site)
    order = {
        rule.record: (number, place)
        for number, group in enumerate(shipped)
        for place, rule in enumerate(group.recorded)
    }
    wrong: set[str] = set()
    groups: dict[int, set[tuple[str, str]]] = {}
    for group in _ours(probe):
        places = [order[rule.name] for rule in group.rules if rule.name in order]
        names = [rule.name for rule in group.rules if rule.name in order]
        wrong |= {name for name, before, after in zip(names[1:], places, places[1:], strict=False) if after < before}
        for number, _ in places:
            groups.setdefault(number, set()).add((group.file, group.name))
    if wrong:
        yield Diagnosis("recording.yaml", f"rules come in another order than in the pack, at {named(wrong)}")
    split = {shipped[number].name for number, where in groups.items() if len(where) > 1}
    if split:
        yield Diagnosis("recording.yaml", f"rules of one group are loaded in several: {named(split)}")


def failing(probe: Probe) -> Iterator[Diagnosis]:
    """A rule cannot be evaluated."""
    for group in _ours(probe):
        for rule in group.rules:
            if rule.health == "err":
                yield Diagnosis(f"{group.name}/{rule.name}", f"fails: {probe.server.client.clean(rule.lastError)}")


def slow(probe: Probe) -> Iterator[Diagnosis]:
    """A group takes so long that evaluations come late, or is not evaluated at all."""
    for group in _ours(probe):
        if group.interval and group.evaluationTime > BUSY * group.interval:
            said = f"takes {group.evaluationTime:.1f} s of its {group.interval:g} s"
            yield Diagnosis(group.name, f"{said}: evaluations are missed, and alerts come late")
        last = _moment(group.lastEvaluation)
        # Before the first evaluation the moment is that of Go's zero.
        if last is not None and last > 0 and group.interval and probe.moment - last > LATE * group.interval + 60:
            yield Diagnosis(group.name, f"was last evaluated {probe.moment - last:.0f} s ago")


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def nobody_told(probe: Probe) -> Iterator[Diagnosis]:
    """Alerts are evaluated, and no Alertmanager hears of them."""
    if probe.alertmanagers is None or probe.rules is None or probe.alertmanagers.activeAlertmanagers:
        return
    if any(
        rule.type == "alerting" and rule.name.startswith("Nccl") for group in probe.rules.groups for rule in group.rules
    ):
        yield Diagnosis("alerting", "alerts are loaded, but no Alertmanager is connected: nobody is told")
