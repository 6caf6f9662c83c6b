# SPDX-License-Identifier: Apache-2.0
"""Alerts -> the alert packs, with what leads from an alert to its board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dashgen import catalogue, durations, promql
from dashgen.build.board_views import dashboards
from dashgen.build.placeholders import evaluated_every, fill, number, prose
from dashgen.build.recording_rules import signal_expr
from dashgen.catalogue.names import VERDICT
from dashgen.config.alerts import AlertOverride
from dashgen.config.site import Site
from dashgen.model import Alert, AlertRule, Dashboard, RuleGroup, Sensitivity, Tier

Thresholds = Callable[[Tier], Mapping[str, str]]
"""What stands for the thresholds of a tier in an expression, by placeholder name."""

_LOOKED_UP_EVERY = 5.0
"""Seconds between two looks at the verdict: they cost next to nothing, and a page loses little time between groups."""


# From half an hour before a verdict began: in the morning a board's own last hours show nothing of the night.
_BEFORE = (
    '{{ range query "1000 * job:nccl_verdict:since - 1800000" }}{{ if <same_job> }}'
    '&from={{ printf "%.0f" .Value }}&to=now{{ end }}{{ end }}'
)


def numbers(tier: Tier) -> dict[str, str]:
    """The thresholds as PromQL writes them."""
    return {"threshold": number(tier.threshold), **{name: number(value) for name, value in tier.extra.items()}}


def alert_links(site: Site) -> dict[str, dict[str, str]]:
    """Annotations that lead from an alert to its board, and to the panel there that draws its signal."""
    if not site.grafana.url:
        return {}
    from dashgen.grafana.dashboard import panel_ids

    views = {view.slug: view for view in dashboards(site)}
    found = {}
    since = fill(_BEFORE, site)
    for alert in (alert for alert in catalogue.ALERTS if alert.dashboard in views):
        view = views[alert.dashboard]
        url = f"{site.grafana.url.rstrip('/')}/d/{site.grafana.uid_prefix}{view.slug}"
        of_job = catalogue.SIGNAL_BY_NAME[alert.signal].of_a_job
        chosen = {each.name: each.label for each in view.variables if of_job and each.label in site.labels.of_job}
        asked = [f"var-{name}={{{{ $labels.{label} | urlquery }}}}" for name, label in chosen.items()]
        when = since if alert.signal == VERDICT else ""
        found[alert.name] = {"dashboard_url": "?".join((url, *filter(None, ["&".join(asked)]))) + when}
        if title := _drawn(alert.signal, view, site):
            found[alert.name]["panel_url"] = f"{url}?{'&'.join((*asked, f'viewPanel={panel_ids(view)[title]}'))}{when}"
    return found


def _drawn(signal: str, view: Dashboard, site: Site) -> str:
    """The first panel that draws a signal, or else most of what it is made of; none where the board has neither.

    A bare number says nothing about one job or node: it comes last.
    """
    parts = promql.names(signal_expr(catalogue.SIGNAL_BY_NAME[signal], site) or signal)
    panels = sorted(view.panels, key=lambda panel: panel.type == "stat" and not panel.sentence)
    reads = {
        panel.title: frozenset[str]().union(*(promql.names(each.expr) for each in panel.queries)) for panel in panels
    }
    for wanted in ({signal}, parts):
        title = max(reads, key=lambda title: len(wanted & reads[title]))
        if wanted & reads[title]:
            return title
    return ""


def alert_rule(
    alert: Alert,
    sensitivity: Sensitivity,
    site: Site,
    links: Mapping[str, str] = MappingProxyType({}),
    thresholds: Thresholds = numbers,
) -> AlertRule | None:
    """One alert of one pack, or None where it is not part of it; ``links`` are further annotations."""
    asked = site.alert(alert).tiers.get(sensitivity)
    if asked is None or (alert.companion and alert.companion not in site.sources()):
        return None
    if not signal_expr(catalogue.SIGNAL_BY_NAME[alert.signal], site):
        return None
    known = [text for signal, text in alert.beside.items() if signal_expr(catalogue.SIGNAL_BY_NAME[signal], site)]
    annotations = {
        "summary": prose(alert.summary, site),
        "description": prose("".join((alert.description, *known)).replace("\\\n", ""), site),
        "runbook_url": site.runbook_url.replace("{alert}", alert.name),
        **links,
    }
    return AlertRule(
        alert=alert.name,
        expr=fill(alert.expr, site, thresholds(asked)),
        for_=durations.text(asked.dumps * site.dump_interval) if asked.dumps else "",
        keep_firing_for=durations.text(asked.keep_firing * site.dump_interval) if asked.keep_firing else "",
        labels={
            "signal": alert.kind,
            "severity": asked.severity.value,
            "sensitivity": sensitivity.value,
            **alert.labels,
            **site.alert_labels,
            **site.alerts.get(alert.name, AlertOverride()).labels,
        },
        annotations=annotations,
    )


def alerts(site: Site, sensitivity: Sensitivity, thresholds: Thresholds = numbers) -> tuple[RuleGroup, ...]:
    """The alert pack of one tier, one group a kind of signal."""
    groups: dict[str, list[AlertRule]] = {}
    links = alert_links(site)
    for alert in catalogue.ALERTS:
        rule = alert_rule(alert, sensitivity, site, links.get(alert.name, {}), thresholds)
        if rule is not None:
            groups.setdefault(f"nccl-alerts-{alert.kind}", []).append(rule)
    seldom = evaluated_every(site) / 2
    often = min(_LOOKED_UP_EVERY, seldom)
    found = []
    for name, rules in groups.items():
        looked_up = any(catalogue.ALERT_BY_NAME[rule.alert].signal == VERDICT for rule in rules)
        found.append(RuleGroup(name=name, interval=durations.text(often if looked_up else seldom), rules=tuple(rules)))
    return tuple(found)


def symbolic(alert: Alert, site: Site) -> str:
    """An alert's PromQL with its thresholds by name, for a text that speaks of all tiers."""
    names = {"threshold", *(name for asked in alert.tiers.values() for name in asked.extra)}
    return fill(alert.expr, site, {name: name.upper() for name in names})
