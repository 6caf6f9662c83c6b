# SPDX-License-Identifier: Apache-2.0
"""One Markdown page per alert, for somebody who has just been woken up."""

from __future__ import annotations

from collections.abc import Iterable

from dashgen import catalogue
from dashgen.build import spoken
from dashgen.build.alert_rules import symbolic
from dashgen.build.placeholders import fill
from dashgen.catalogue.runbooks import TOOLS
from dashgen.config.site import Site
from dashgen.model import Alert, Sensitivity


def runbook(alert: Alert, site: Site) -> str:
    """The runbook of an alert as the site has it, in the site's names."""
    signal = catalogue.SIGNAL_BY_NAME[alert.signal]
    expr = symbolic(alert, site)
    parts = [
        f"# {alert.name}",
        alert.runbook.meaning,
        f"**The question:** {signal.question} Healthy: {signal.healthy}.",
        _section("Look first", (fill(step, site) for step in alert.runbook.look_first), numbered=True),
        _section("Tell the causes apart", alert.runbook.tell_apart),
        _section("Act", alert.runbook.act),
    ]
    tools = alert.runbook.tools or (TOOLS if alert.kind in ("degradation", "outlier", "stall") else ())
    parts.append(_section("The field's own tools, in the order in which they pay", tools, numbered=True))
    parts += [
        "## When it fires",
        tiers(alert, site.dump_interval),
        f"Why these values: {alert.sources}",
        f"```promql\n{expr}\n```",
        "## Silence it",
        f"For this job: `amtool silence add alertname={alert.name} {_matchers(site)} --duration=2h --comment=… "
        "--alertmanager.url=URL`; for good and for all jobs: "
        f"`alerts: {{{alert.name}: {{enabled: false}}}}` in dashgen.yaml, then `dashgen build`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _matchers(site: Site) -> str:
    """The job as amtool wants it, to be filled in."""
    return " ".join(f"{name}={name.upper()}" for name in site.labels.of_job)


def _section(title: str, lines: Iterable[str], *, numbered: bool = False) -> str:
    marked = [f"{number}. {line}" if numbered else f"- {line}" for number, line in enumerate(lines, 1)]
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
