# SPDX-License-Identifier: Apache-2.0
"""What every board is made of: panels that take title, unit and description from a signal, and shared variables."""

from __future__ import annotations

from typing import Any

from dashgen import catalogue
from dashgen.model import Panel, PanelType, Query, Sensitivity, Severity, Unit, Variable

# The series that every job of the fleet has for as long as it reports.
JOBS = "node:nccl_gpus:count"

JOB = Variable(name="job", label="<job_label>", series=JOBS, multi=False, title="Job")
TRANSPORT = Variable(name="transport", label="transport", series="job:nccl_transport:info", title="Transport")
COLLECTIVE = Variable(name="collective", label="collective", series="job:nccl_busbw:max", title="Collective")
NODE = Variable(name="node", label="<node_label>", series=JOBS, title="Node")

# Shown as state timelines: value -> (text, colour role).
WINDOW_STATES = {0: ("healthy", "ok"), 1: ("degraded", "bad")}

TO_JOB = {"Open the job": "/d/<uid>job?${__url_time_range}&var-job=${__data.fields.<job_label>}"}


def cluster_variable(label: str) -> tuple[Variable, ...]:
    """The variable of a site that keeps several clusters in one Prometheus."""
    return (Variable(name="cluster", label=label, series=JOBS, title="Cluster"),)


def answers(
    name: str,
    *,
    title: str,
    query: str = "",
    legend: str = "",
    bad: str,
    type: PanelType = "timeseries",
    instant: bool = False,
    **more: Any,
) -> Panel:
    """A panel that answers a signal's question: unit, description and companion come from the signal.

    ``query`` is PromQL over the signal's series, written ``@``; by default the series of the chosen job.
    """
    signal = catalogue.SIGNAL_BY_NAME[name]
    expr = (query or "@{<of_job>}").replace("@", name)
    return Panel(
        title=title,
        description=f"{signal.question} Healthy: {signal.healthy}. Bad: {bad}.",
        type=type,
        unit=more.pop("unit", signal.unit),
        queries=(Query(expr=expr, legend=legend, instant=instant), *more.pop("also", ())),
        companion=more.pop("companion", signal.companion),
        **more,
    )


def threshold(alert: str, sensitivity: Sensitivity) -> float:
    """The value at which an alert of the tier fires, or of the next tier that has the alert."""
    tiers = catalogue.ALERT_BY_NAME[alert].tiers
    order = list(Sensitivity)
    later = order[order.index(sensitivity) :]
    return next(tiers[level].threshold for level in later if level in tiers)


def steps(alert: str, sensitivity: Sensitivity) -> tuple[tuple[float | None, str], ...]:
    """Panel thresholds where the alert of the tier fires."""
    found = catalogue.ALERT_BY_NAME[alert]
    severities = {tier.severity for tier in found.tiers.values()}
    role = "bad" if Severity.CRITICAL in severities else "warn"
    value = threshold(alert, sensitivity)
    return ((None, "ok"), (value, role)) if found.rises else ((None, role), (value, "ok"))


def count(title: str, expr: str, description: str, bad_from: float = 1) -> Panel:
    """A number at the top of a board; it turns bad from a value on."""
    return Panel(
        title=title,
        description=description,
        type="stat",
        unit=Unit.COUNT,
        queries=(Query(expr=f"{expr} or vector(0)", instant=True),),
        width=4,
        height=4,
        decimals=0,
        steps=((None, "ok"), (bad_from, "bad")),
    )
