# SPDX-License-Identifier: Apache-2.0
"""One Markdown page per alert, for somebody who has just been woken up."""

from __future__ import annotations

from collections.abc import Iterable

from dashgen import catalogue
from dashgen.build import spoken
from dashgen.build.alert_rules import symbolic
from dashgen.build.placeholders import prose
from dashgen.catalogue.runbooks import TOOLS
from dashgen.config.site import Site
from dashgen.model import Alert, Sensitivity, Signal


def runbook(alert: Alert, site: Site) -> str:
    """The runbook of an alert as the site has it, in the site's names."""
    signal = catalogue.SIGNAL_BY_NAME[alert.signal]
    expr = symbolic(alert, site)
    parts = [
        f"# {alert.name}",
        prose(alert.runbook.meaning, site),
        f"**The question:** {signal.question} Healthy: {signal.healthy}.",
        _section("Look first", alert.runbook.look_first, site, numbered=True),
        _section("Tell the causes apart", alert.runbook.tell_apart, site),
        _section("Act", alert.runbook.act, site),
    ]
    tools = alert.runbook.tools or (TOOLS if alert.kind in ("degradation", "outlier", "stall") else ())
    parts.append(_section("The field's own tools, in the order in which they pay", tools, site, numbered=True))
    parts += [
        "## When it fires",
        tiers(alert, site.dump_interval),
        f"Why these values: {alert.sources}",
        f"```promql\n{expr}\n```",
        "## Silence it",
        f"For this {'job' if signal.of_a_job else 'one'}: `amtool silence add alertname={alert.name} "
        f"{_matchers(signal, site)} --duration=2h --comment=… "
        "--alertmanager.url=URL`; for good and for all jobs: "
        f"`alerts: {{{alert.name}: {{enabled: false}}}}` in dashgen.yaml, then `dashgen build`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _matchers(signal: Signal, site: Site) -> str:
    """The job, or whatever else the alert is about, as amtool wants it, to be filled in."""
    names = site.labels.of_job if signal.of_a_job else [name for name in signal.labels if "<" not in name]
    return " ".join(f"{name}={name.upper()}" for name in names)


def _section(title: str, lines: Iterable[str], site: Site, *, numbered: bool = False) -> str:
    told = (prose(line, site) for line in lines)
    marked = [f"{number}. {line}" if numbered else f"- {line}" for number, line in enumerate(told, 1)]
    return "\n".join([f"## {title}", "", *marked]) if marked else ""


def tiers(alert: Alert, dump_interval: float) -> str:
    """A table of what each sensitivity asks."""
    rows = ["| sensitivity | fires when | for | then |", "|---|---|---|---|"]
    for level in Sensitivity:
        tier = alert.tiers.get(level)
        if tier is None:
            rows.append(f"| {level} | not in this tier | | |")
            continue
        lasts = spoken.span(tier.dumps, dump_interval)
        then = f"{spoken.ASKS[tier.severity]} (`{tier.severity}`)"
        rows.append(f"| {level} | {spoken.limit(alert, tier, dump_interval)} | {lasts} | {then} |")
    return "\n".join(rows)
