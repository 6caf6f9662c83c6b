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
from dashgen.model import Alert, Sensitivity


def runbook(alert: Alert, site: Site) -> str:
    """The runbook of an alert as the site has it, in the site's names."""
    signal = catalogue.SIGNAL_BY_NAME[alert.signal]
    expr = symbolic(alert, site)
    parts = [
        f"# {alert.name}",
        prose(alert.runbook.meaning, site),
        f"**The question:** {signal.question} Healthy: {signal.healthy}.",
        _section("Look first", (prose(step, site) for step in alert.runbook.look_first), numbered=True),
        _section("Tell the causes apart", (prose(cause, site) for cause in alert.runbook.tell_apart)),
        _section("Act", (prose(step, site) for step in alert.runbook.act)),
    ]
    tools = alert.runbook.tools or (TOOLS if alert.kind in ("degradation", "outlier", "stall") else ())
    parts.append(
        _section(
            "The field's own tools, in the order in which they pay",
            (prose(tool, site) for tool in tools),
            numbered=True,
        )
    )
    parts += [
        "## When it fires",
        tiers(alert, site.dump_interval),
        f"Why these values: {alert.sources}",
        f"```promql\n{expr}\n```",
        "## Silence it",
        f"{_matchers(alert, site)} --duration=2h --comment=… "
        "--alertmanager.url=URL`; for good and for all jobs: "
        f"`alerts: {{{alert.name}: {{enabled: false}}}}` in dashgen.yaml, then `dashgen build`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _matchers(alert: Alert, site: Site) -> str:
    """The job, or whatever else the alert is about, as amtool wants it, to be filled in."""
    signal = catalogue.SIGNAL_BY_NAME[alert.signal]
    names = site.labels.of_job if signal.of_a_job else [name for name in signal.labels if "<" not in name]
    return " ".join(
        (
            f"For this {'job' if signal.of_a_job else 'one'}: `amtool silence add",
            f"alertname={alert.name}",
            *(f"{name}={name.upper()}" for name in names),
        )
    )


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
