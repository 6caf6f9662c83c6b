# SPDX-License-Identifier: Apache-2.0
"""The catalogue in words: one signal or one alert and what it is made of, or a commented configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dashgen import catalogue
from dashgen.build import fill, signal_expr
from dashgen.build.runbook import runbook
from dashgen.catalogue.metrics import METRICS
from dashgen.config.companions import Companions
from dashgen.config.site import Site
from dashgen.config.targets import complete
from dashgen.errors import UserError
from dashgen.explain import tree as lineage
from dashgen.explain.units import said
from dashgen.model import Alert, Metric, Signal


def explain(name: str, site: Site) -> str:
    """What is known about a signal, an alert or an upstream metric. Raises UserError for an unknown name."""
    if name in catalogue.SIGNAL_BY_NAME:
        return _signal(catalogue.SIGNAL_BY_NAME[name], site)
    if name in catalogue.ALERT_BY_NAME:
        return _alert(site.alert(catalogue.ALERT_BY_NAME[name]), site)
    check(name, site)
    return _metric(_metrics(site)[name], name)


def check(name: str, site: Site) -> None:
    """Raise UserError, with near names, for the name of neither a signal nor an alert nor an upstream metric."""
    known = [*catalogue.SIGNAL_BY_NAME, *catalogue.ALERT_BY_NAME, *_metrics(site)]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        remedy = f"did you mean {', '.join(near)}?" if near else "rules/ lists all signals and alerts"
        raise UserError(f"{name}: no such signal, alert or metric; {remedy}")


def _metrics(site: Site) -> dict[str, Metric]:
    return {site.metric(metric.key): metric for metric in METRICS}


def _signal(signal: Signal, site: Site) -> str:
    needs = f"companions.{signal.companion}" if signal.companion in Companions.model_fields else signal.companion
    expr = signal_expr(signal, site) or f"(not recorded: {needs or 'every source of it'} is off in dashgen.yaml)"
    used = [alert.name for alert in catalogue.ALERTS if alert.signal == signal.name]
    return "\n".join(
        [
            f"{signal.name}  [{said(signal.unit)}]",
            f"  {signal.question}",
            f"  Healthy: {signal.healthy}.",
            f"  Labels: {fill(', '.join(signal.labels), site)}. Group: {signal.group}.",
            f"  Alerts: {', '.join(used) or 'none'}.",
            *([f"  Numbers: {signal.sources}"] if signal.sources else []),
            "",
            expr,
            *_below(signal.name, site),
        ]
    )


def _alert(alert: Alert, site: Site) -> str:
    page = runbook(alert, site)
    return "\n".join([page.rstrip(), *_below(alert.name, site, "## Made of", "    ")])


def _below(name: str, site: Site, title: str = "Made of:", indent: str = "  ") -> list[str]:
    """The tree of what a name is made of, its root left out."""
    steps = lineage.tree(name, site)[1:]
    known = lineage.vocabulary(site)
    return ["", title, "", *(indent + lineage.line(step, known)[2:] for step in steps)] if steps else []


def _metric(metric: Metric, name: str) -> str:
    lines = [
        f"{name}  [{said(metric.unit)}; {metric.kind}]",
        f"  {metric.meaning}",
        f"  Labels: {', '.join(metric.labels) or 'none'}.",
        f"  Source: {metric.source}.",
    ]
    return "\n".join(lines + ([f"  Variants: {metric.variants}"] if metric.variants else []))


def example() -> str:
    """A dashgen.yaml that changes nothing: every key, its default and what it is for."""
    head = "# dashgen.yaml: how this site names things. Every key may be left out; the values below are the defaults."
    return "\n".join([head, *_section(Site(targets=complete()()), "")]) + "\n"


def _section(section: BaseModel, indent: str) -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield ""
            if type(value).__doc__:
                yield f"{indent}# {' '.join((type(value).__doc__ or '').split())}"
            yield f"{indent}{name}:"
            yield from _section(value, indent + "  ")
        else:
            yield from _comment(field, indent)
            yield f"{indent}{name}: {scalar(value)}"


def _comment(field: FieldInfo, indent: str) -> Iterator[str]:
    if field.description:
        yield f"{indent}# {field.description}"


def scalar(value: object) -> str:
    """A default as YAML flow text."""
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, str):
        value = str(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1 << 20, allow_unicode=True)
    return text.removesuffix("...\n").strip()
