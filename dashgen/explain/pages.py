# SPDX-License-Identifier: Apache-2.0
"""The catalogue as Markdown: what the pages of dashgen/docs say of alerts, signals and upstream metrics.

Links lead from dashgen/docs into the committed packs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dashgen import build, catalogue
from dashgen.build import spoken
from dashgen.build.runbook import tiers
from dashgen.catalogue.metrics import METRICS
from dashgen.config.companions import Companions
from dashgen.config.site import Site
from dashgen.explain.units import first_sentence, said
from dashgen.model import Alert, Metric, Sensitivity, Signal

HEADLINES = ("NcclJobDegraded", "NcclJobStalled", "NcclTransportDegraded", "NcclGpuLate", "NcclNvlinkDegraded")
"""The alerts of the front page: the two that page, and the tickets that say whose fault it is."""

KINDS = {
    "degradation": "A job is slow",
    "outlier": "One GPU or node holds the others up",
    "stall": "A job stands still",
    "telemetry": "What is measured cannot be trusted",
    "fabric": "Ports and links",
}
"""What the kinds of alerts are about, in the order of the page."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a bar in a cell does not end it."""
    titles = list(head)
    lines = [titles, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    written = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([written[0], "|" + "---|" * len(titles), *written[1:]])


def headlines(site: Site) -> str:
    """A few alerts: what each means, and what it asks for in every tier."""
    found = (catalogue.ALERT_BY_NAME[name] for name in HEADLINES)
    return table(
        ["alert", "tells", *Sensitivity],
        (
            [
                f"[`{alert.name}`](rules/runbooks/{alert.name}.md)",
                first_sentence(alert.runbook.meaning),
                *(spoken.asked(alert.tiers.get(level), site.dump_interval) for level in Sensitivity),
            ]
            for alert in found
        ),
    )


def alerts(site: Site) -> str:
    """Every alert: what it means, what it fires at in every tier and why, what to read and what it is made of."""
    parts = []
    for kind, title in KINDS.items():
        parts.append(f"## {title}")
        parts += [_alert(alert, site) for alert in catalogue.ALERTS if alert.kind == kind]
    return "\n\n".join(parts)


def _alert(alert: Alert, site: Site) -> str:
    shipped = not alert.companion or alert.companion in site.sources()
    page = f"[Runbook](../../rules/runbooks/{alert.name}.md)." if shipped else f"Off by default: {_needs(alert)}."
    speakers = (f"[`{name}`](#{anchor(name)}) (same {scope})" for name, scope in alert.explained_by.items())
    silent = f"Nobody is told of it while one of these fires: {', '.join(speakers)}." if alert.explained_by else ""
    parts = [
        f"### {alert.name}",
        alert.runbook.meaning,
        tiers(alert, site.dump_interval),
        f"Why these values: {alert.sources}",
        f"It reads {_signal_link(alert.signal)}. Its board is *{alert.dashboard}*. {page}",
        silent,
    ]
    return "\n\n".join(part for part in parts if part)


def _needs(each: Alert | Signal) -> str:
    """The key of dashgen.yaml without which an alert or a signal is not there."""
    known = each.companion in Companions.model_fields
    return f"it needs `companions.{each.companion}`" if known else f"it needs `{each.companion}`"


def _signal_link(name: str) -> str:
    return f"[`{name}`](signals.md#{anchor(name)})"


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def signals(site: Site) -> str:
    """Every signal: its question, what a good value looks like, its unit, labels and PromQL, and who reads it."""
    groups: dict[str, list[str]] = {}
    for signal in catalogue.SIGNALS:
        groups.setdefault(signal.group, []).append(_signal(signal, site))
    return "\n\n".join(part for name, found in groups.items() for part in (f"## Group {name}", *found))


def _signal(signal: Signal, site: Site) -> str:
    used = [
        f"[`{each.name}`](alerts.md#{anchor(each.name)})" for each in catalogue.ALERTS if each.signal == signal.name
    ]
    labels = ", ".join(f"`{label}`" for label in build.fill(", ".join(signal.labels), site).split(", "))
    facts = [f"Healthy: {signal.healthy}.", f"Unit: {said(signal.unit)}. Labels: {labels}."]
    facts += [f"Alerts: {', '.join(used)}."] * bool(used)
    facts += [f"Numbers: {signal.sources}"] * bool(signal.sources)
    expr = build.signal_expr(signal, site)
    rule = f"```promql\n{expr}\n```" if expr else f"Off by default: {_needs(signal)}."
    return "\n\n".join([f"### {signal.name}", signal.question, "\n".join(f"- {fact}" for fact in facts), rule])


def metrics(site: Site) -> str:
    """Every upstream metric by the source that exposes it."""
    by_source: dict[str, list[Metric]] = {}
    for metric in METRICS:
        by_source.setdefault(metric.companion, []).append(metric)
    return "\n\n".join(part for name, found in by_source.items() for part in _source(name, found, site))


def _source(name: str, found: list[Metric], site: Site) -> Iterator[str]:
    yield f"## {name or 'Inspector'}"
    if name:
        section: object = getattr(site.companions, name)
        about = " ".join((type(section).__doc__ or "").split())
        state = "on" if name in site.sources() else "off"
        yield f"`companions.{name}` ({state} by default): {about}"
    for metric in found:
        yield f"### {metric.name}"
        yield metric.meaning
        facts = [
            f"A {metric.kind}, unit: {said(metric.unit)}. Its key in `metrics:` is `{metric.key}`.",
            f"Labels: {', '.join(f'`{label}`' for label in metric.labels) or 'none of its own'}.",
            f"Source: {metric.source}.",
            *([f"Variants: {metric.variants}"] if metric.variants else []),
        ]
        yield "\n".join(f"- {fact}" for fact in facts)
