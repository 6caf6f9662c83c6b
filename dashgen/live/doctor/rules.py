# SPDX-License-Identifier: Apache-2.0
"""Conditions of the rules: loaded, those of the pack, in its order, in time, without errors, and heard by anybody."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from dashgen import promql
from dashgen.catalogue import ALERT_BY_NAME
from dashgen.catalogue.names import VERDICT
from dashgen.config.site import Site
from dashgen.durations import seconds
from dashgen.live.client.answers import Group, Rule
from dashgen.live.doctor.levels import alerts, level, recording
from dashgen.live.doctor.probe import Diagnosis, Probe, named, shipped
from dashgen.model import RuleGroup, Sensitivity

BUSY = 0.5
"""Share of its interval that a group may take: beyond it one slow evaluation makes the next one late."""

_MATCHER = re.compile(r'\w+\s*(?:=~|!~|!=|=)\s*"(?:\\.|[^"\\])*"')
_MATCHERS = re.compile(rf"\{{(?:{_MATCHER.pattern}|[,\s])*\}}")

LATE = 3.0  # intervals without an evaluation


def _names(probe: Probe) -> set[str]:
    """What the pack records, as overlays have it."""
    return {rule.record for group in shipped(probe.site).recording for rule in group.recorded}


def _ours(probe: Probe) -> list[Group]:
    """The server's groups in which there are rules of the pack."""
    pack = _names(probe)
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
    loaded = {
        rule.name: _meant(rule.query) for group in _ours(probe) for rule in group.rules if rule.type != "alerting"
    }
    # What targets of engines that store results late have is the same pack.
    where, sites = level(probe), [probe.site.showing_results(late=late) for late in (False, True)]
    if loaded:
        made = [recording(site, where) for site in sites]
        groups = min(made, key=lambda each: len(_changed(_pack(each), loaded)))
        yield from _told("recording.yaml", "recording rules", _pack(groups), loaded)
        every = {rule.record: seconds(group.interval) for group in groups for rule in group.recorded}
        for group in _ours(probe):
            wanted = {every[rule.name] for rule in group.rules if rule.name in every}
            if group.interval and len(wanted) == 1 and {group.interval} != wanted:
                said = f"is evaluated every {group.interval:g} s, and its rules are made for {min(wanted):g} s"
                yield Diagnosis(group.name, said)
    for tier, there in _alerts(probe).items():
        alerts_of = [_said(site.model_copy(update={"sensitivity": tier})) for site in sites]
        alerts_loaded = {name: _alert(rule.query, rule.duration, rule.labels) for name, rule in there.items()}
        best = min(alerts_of, key=lambda each: len(_changed(each, alerts_loaded)))
        yield from _told(f"alerts/{tier.value}.yaml", "alerts", best, alerts_loaded)


def _told(where: str, what: str, pack: Mapping[str, str], loaded: Mapping[str, str]) -> Iterator[Diagnosis]:
    missing, changed = set(pack) - set(loaded), _changed(pack, loaded)
    if missing or changed:
        parts = [f"{len(missing)} are missing ({named(missing)})"] if missing else []
        parts += [f"{len(changed)} are others ({named(changed)})"] if changed else []
        yield Diagnosis(where, f"of {len(pack)} {what} {', '.join(parts)}")


def _alerts(probe: Probe) -> dict[Sensitivity, dict[str, Rule]]:
    """The alerts of the pack that a server has, by their tiers."""
    found: dict[Sensitivity, dict[str, Rule]] = {}
    for group in probe.rules.groups if probe.rules else ():
        for rule in group.rules:
            tier = rule.labels.get("sensitivity", "")
            if rule.type == "alerting" and rule.name in ALERT_BY_NAME and tier in list(Sensitivity):
                found.setdefault(Sensitivity(tier), {})[rule.name] = rule
    return found


def _said(site: Site) -> dict[str, str]:
    """The catalogue's alerts of the site's tier, each in a text that says what makes it."""
    return {
        rule.alert: _alert(rule.expr, seconds(rule.for_) if rule.for_ else 0.0, rule.labels)
        for group in shipped(site).alerts[site.sensitivity]
        for rule in group.alerts
        if rule.alert in ALERT_BY_NAME
    }


def _alert(expr: str, duration: float, labels: Mapping[str, str]) -> str:
    return f"{_meant(expr)} for {duration:g} s, {labels.get('severity')}"


def twice(probe: Probe) -> Iterator[Diagnosis]:
    """Rules are loaded twice, or alerts of several tiers: everything is told twice."""
    double = _double(probe)
    if double:
        files = {group.file or group.name for group in _ours(probe) if double & {rule.name for rule in group.rules}}
        yield Diagnosis("recording.yaml", f"{named(double)} are recorded more than once, by {named(files)}")
    tiers = {tier.value for tier in _alerts(probe)}
    if len(tiers) > 1:
        yield Diagnosis("alerts", f"the alerts of several tiers are loaded ({named(tiers)})")


def _double(probe: Probe) -> set[str]:
    """Rules of the pack that several groups record."""
    every = [name for group in _ours(probe) for name in {rule.name for rule in group.rules if rule.type != "alerting"}]
    return {name for name, number in Counter(every).items() if number > 1} & _names(probe)


def _pack(groups: Iterable[RuleGroup]) -> dict[str, str]:
    """What recording rules mean, by name."""
    return {rule.record: _meant(rule.expr) for group in groups for rule in group.recorded}


def _changed(pack: Mapping[str, str], loaded: Mapping[str, str]) -> set[str]:
    return {name for name in set(pack) & set(loaded) if pack[name] != loaded[name]}


def _meant(expr: str) -> str:
    """An expression without its layout and the order of its matchers, which a server sorts."""
    try:
        return _MATCHERS.sub(lambda braces: ",".join(sorted(_MATCHER.findall(braces[0]))), str(promql.parse(expr)))
    except ValueError:
        return " ".join(expr.split())


def out_of_order(probe: Probe) -> Iterator[Diagnosis]:
    """Rules are evaluated in another order than the pack's, or spread over groups, so that they read what is old."""
    pack = shipped(probe.site).recording
    order = {
        rule.record: (number, place) for number, group in enumerate(pack) for place, rule in enumerate(group.recorded)
    }
    wrong: set[str] = set()
    double = _double(probe)
    groups: dict[int, set[tuple[str, str]]] = {}
    for group in _ours(probe):
        places = [order[rule.name] for rule in group.rules if rule.name in order]
        names = [rule.name for rule in group.rules if rule.name in order]
        wrong |= {name for name, before, after in zip(names[1:], places, places[1:], strict=False) if after < before}
        for name, (number, _) in zip(names, places, strict=True):
            if name not in double:
                groups.setdefault(number, set()).add((group.file, group.name))
    if wrong:
        yield Diagnosis("recording.yaml", f"rules come in another order than in the pack, at {named(wrong)}")
    split = {pack[number].name for number, where in groups.items() if len(where) > 1}
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


def not_taken(probe: Probe) -> Iterator[Diagnosis]:
    """An Alertmanager is configured and does not take alerts."""
    rows = probe.labels("group by (alertmanager) (rate(prometheus_notifications_errors_total[10m]) > 0)")
    if deaf := {one.get("alertmanager", "") for one in rows}:
        yield Diagnosis("alerting", f"alerts do not arrive at {named(deaf)}")
