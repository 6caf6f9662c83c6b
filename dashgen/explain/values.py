# SPDX-License-Identifier: Apache-2.0
"""Why an alert fired, or a signal has its value: what the rules behind it said of one job at one moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from dashgen import build, catalogue
from dashgen.catalogue.metrics import METRICS
from dashgen.catalogue.names import VERDICT
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.explain import tree as lineage
from dashgen.explain.words import check
from dashgen.grafana.units import written
from dashgen.guard.grammar import escaped
from dashgen.guard.text import line, listed, visible
from dashgen.model import Unit
from dashgen.recordings.format import Labels, Recording, Series, selector

Ask = Callable[[str, float], list[Series]]
"""The value of an expression at a moment, in seconds since the epoch: one sample a series."""

MOST_ROWS = 3
"""Rows of a series that are shown; the largest come first, and of moments the earliest."""

MOST_ASKED = 1000
"""Series that are asked for at once; where there are more, only those that are shown, or none."""

_MOMENTS = 1e9
"""Seconds from which on a duration is none, but a moment since the epoch: nothing lasts for thirty years."""


@dataclass(frozen=True)
class Subject:
    """The signal, alert or metric that is asked about, the id of the job, and the moment in seconds since the epoch."""

    name: str
    job: str
    moment: float


def why(subject: Subject, site: Site, ask: Ask) -> str:
    """The values along the tree of a name, the largest few rows of the job for every series.

    Raises UserError for an unknown name, for a job or rules that are not there at that moment, and what ``ask`` raises.
    """
    check(subject.name, site)
    _check_job(subject, site, ask)
    known, steps = lineage.vocabulary(site), lineage.tree(subject.name, site)
    _check_rules(steps, subject, site, ask)
    lines = [f"{subject.name}, job {visible(subject.job)}, {_utc(subject.moment)}", ""]
    for step in steps:
        lines.append(lineage.line(step, known, units=False))
        if step.told:
            indent = "  " * step.depth + "    "
            lines += [indent + text for text in _values(step.name, subject, site, ask, known)]
    return "\n".join(lines)


def moment(story: Recording, job: str) -> float:
    """When to look at a recording where nobody says: at the end of the job's first fault, or of the recording."""
    ends = [fault.end for fault in sorted(story.faults, key=lambda fault: fault.start) if fault.job == job]
    return min([*ends[:1], story.end]).timestamp()


def _check_job(subject: Subject, site: Site, ask: Ask) -> None:
    label = site.labels.job
    try:
        subject.job.encode()
    except UnicodeEncodeError as error:
        raise UserError("--job: not UTF-8 text; give the id as the label has it") from error
    found = ask(_jobs(f'{label}="{escaped(subject.job)}"', site), subject.moment)
    if subject.job and subject.job in _named(found, label):
        return
    others = _jobs(f'{label}!=""', site)
    many = _count(others, subject.moment, ask)
    if many > MOST_ASKED:
        there = f"{many} others are there; look for it in Prometheus"
    elif jobs := _named(ask(others, subject.moment), label):
        there = f"there are {listed(jobs, subject.job)}"
    else:
        there = "there is none; look at another time with --at"
    raise UserError(f"--job {line(subject.job, 60)}: no such {label} at {_utc(subject.moment)}; {there}")


def _check_rules(steps: Iterable[lineage.Step], subject: Subject, site: Site, ask: Ask) -> None:
    """Rules that know nothing of a job have results of others, or of nodes; those that are not loaded have none."""
    signals = build.signals(site).keys()
    if not any(step.name in signals for step in steps):
        return
    # All series that rules record are much to count, and mostly the job has a verdict.
    wanted = (of_job(VERDICT, subject.job, site), f'{{__name__=~"{"|".join(signals)}"}}')
    if not any(_count(expr, subject.moment, ask) for expr in wanted):
        raise UserError(
            f"{subject.name}: the recording rules have no results at {_utc(subject.moment)}, of any job; load "
            "rules/recording.yaml there, or evaluate them on what `dashgen record` keeps, with --recording"
        )


def _count(expr: str, moment: float, ask: Ask) -> int:
    """How many series an expression has, which is little to answer however many there are."""
    found = ask(f"count({expr})", moment)
    return int(found[0].values[-1]) if found and math.isfinite(found[0].values[-1]) else 0


def _named(found: Iterable[Series], label: str) -> list[str]:
    """The jobs of some series; a strange server may leave out the label."""
    return sorted({dict(one.labels).get(label, "") for one in found} - {""})


def _jobs(matcher: str, site: Site) -> str:
    """PromQL of the jobs that there are: those with a verdict, and those that have none yet."""
    return f"group by ({site.labels.job}) (job:nccl_verdict:depth{{{matcher}}} or {site.metric('busbw')}{{{matcher}}})"


def of_job(name: str, job: str, site: Site) -> str:
    """PromQL of what a series says of a job, or of the nodes that it runs on; empty where it knows of neither."""
    by_throughput = site.companions.throughput.job_label or site.labels.job
    labels = {"of": site.labels.job, "of_throughput": by_throughput, "of_slurm": site.companions.slurm.job_id_label}
    more = {key: f'{label}="{escaped(job)}"' for key, label in labels.items()} | {"name": name}
    return build.fill(_template(name, site), site, more)


_BY_NODE = '<name> and on (<in><dcgm_host>) label_replace(<busbw>{<of>}, "<dcgm_host>", "$1", "<node_label>", "(.+)")'
_BY_COMPANION = {
    "dcgm": _BY_NODE,
    "clock_events": _BY_NODE,
    "slurm": "<name>{<of_slurm>}",
    "switch_ports": "",
}


def _template(name: str, site: Site) -> str:
    if name in catalogue.ALERT_BY_NAME:
        return 'ALERTS{alertname="<name>", <of>}'
    if name in catalogue.SIGNAL_BY_NAME:
        return "<name>{<of>}" if catalogue.SIGNAL_BY_NAME[name].of_a_job else ""
    metric = next((each for each in METRICS if site.metric(each.key) == name), None)
    if metric is None:
        return "<name>{<of_throughput>}"
    if "slurm_job_id" in metric.labels:
        return "<name>{<of>}"
    # What a host exposes knows no job: the job is where Inspector writes beside it.
    return _BY_COMPANION.get(metric.companion, "<name> and on (<target>) <busbw>{<of>}")


def _values(name: str, subject: Subject, site: Site, ask: Ask, known: Mapping[str, lineage.Known]) -> Iterator[str]:
    """The rows of a series, the largest or the earliest first, a line each."""
    asked = of_job(name, subject.job, site)
    if not asked:
        yield "= (knows of no job)"
        return
    many = _count(asked, subject.moment, ask)
    moments = known[name].unit == Unit.TIMESTAMP
    # The server chooses where an answer with all of them would be long; of equals it takes any.
    first = f"bottomk({MOST_ROWS}, {asked})" if moments else f"({asked}) and topk({MOST_ROWS}, abs({asked}))"
    rows = ask(first if many > MOST_ASKED else asked, subject.moment) if many else []
    found = sorted(rows, key=partial(_rank, moments=moments))
    alert = name in catalogue.ALERT_BY_NAME
    for one in found[:MOST_ROWS]:
        labels = {key: value for key, value in one.labels if key not in (site.labels.job, "alertname")}
        said = labels.pop("alertstate", "") if alert else _number(float(one.values[-1]), known[name].unit)
        yield visible(" ".join(filter(None, ["=", said, selector("", labels)])))
    if not found:
        yield "= does not fire" if alert else "= nothing"
    elif many > MOST_ROWS:
        yield f"= and {many - MOST_ROWS} more"


def _rank(one: Series, moments: bool) -> tuple[bool, float, Labels]:
    value = float(one.values[-1])
    return math.isnan(value), value if moments else -abs(value), one.labels


def _number(value: float, unit: str) -> str:
    if unit == Unit.TIMESTAMP or (unit == Unit.SECONDS and value >= _MOMENTS):
        return written(1000 * value, Unit.TIMESTAMP)
    return written(value, unit)


def _utc(moment: float) -> str:
    return f"{written(1000 * moment, Unit.TIMESTAMP)} UTC"
