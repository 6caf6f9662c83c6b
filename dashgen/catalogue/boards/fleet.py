# SPDX-License-Identifier: Apache-2.0
"""Which jobs are hurt now?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dashgen.catalogue.boards.parts import FLEET, LINE_TO_JOB, TO_JOB, answers, count, link, number, says, steps
from dashgen.catalogue.boards.verdicts import (
    STATES,
    TOLD,
    TOLD_STATES,
    WHAT,
    WORDS,
    at_best,
    depths,
    firing,
    lasts,
    nobody_hurt,
    or_nobody,
    sentence,
    since,
    state,
    verdict,
)
from dashgen.catalogue.names import VERDICT
from dashgen.catalogue.signals.transport import WHOLE
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

_HERE = "<in_cluster>"
_FIRING = firing(_HERE)
_JOBS = verdict(_HERE)
_HURT = f'{VERDICT}{{state=~"degraded|stalled", {_HERE}}}'
_TOLD_ONES = f'{VERDICT}{{state=~"{TOLD_STATES}", {_HERE}}}'
_LOSS = f"max by (<job>) (job:training_throughput_loss:ratio{{{_HERE}}})"
_MEAN_LOSS = f"max by (<job>) (avg_over_time(job:training_throughput_loss:ratio{{{_HERE}}}[<10 dumps>]))"
# A job that pauses for a checkpoint does no work either: what is lost is told beside a verdict.
_TOLD = f'and on (<job>) {VERDICT}{{state=~"degraded|recovering", {_HERE}}}'
# The last verdict against each job within half an hour of the shown time.
_LAST = f"topk by (<job>) (1, max_over_time(timestamp({_HURT})[<60 dumps>:<1 dumps>]))"
_WHOLE = f"{WHOLE}, {_HERE}"
# A row of the table of alerts leads to what can be done about it; the runbook stands in the notification.
_ABOUT = {
    "Silence it": "/alerting/silence/new?<silencer>matcher=alertname%3D${__data.fields.alertname}"
    "&matcher=<job_label>%3D${__data.fields.<job_label>}",
    **TO_JOB,
    # Not of the node: a row without one would choose a node without a name there.
    "Fabric and GPUs of the job": link("fabric", job="${__data.fields.<job_label>}"),
}


def _in(word: str) -> str:
    """How many jobs are in a state."""
    return f"count({verdict(_HERE, state=word)})"


_SENTENCES = says(
    "Verdict now",
    "Is any job hurt, since when, by what, and at what price? One sentence for each of three jobs at most, those that "
    "are silent first; the table below has all. Healthy: no job is hurt. Bad: a sentence that names a job; or no data, then nobody watches.",
    f"topk(3, {sentence(_HERE, TOLD, named=True)})",
    # Only where nobody is hurt.
    f"{nobody_hurt(_HERE)}\nunless on () {_TOLD_ONES}",
    of=_JOBS,
    no_value="No data: no job reports, so nobody can say how the fleet is",
)

_TIMELINE = answers(
    VERDICT,
    title="State and cause by job",
    question="When was which job hurt, and by what?",
    # Only jobs that were hurt within the shown time: a thousand healthy lines show nothing.
    query=or_nobody(
        f"max by (<job>) (\n{state(_HERE)}\n)\n"
        f"and on (<job>) count_over_time({_TOLD_ONES}[$__range] @ end())\n"
        f"or\nlabel_replace({at_best(_HERE)} unless on () count_over_time({_TOLD_ONES}[$__range] @ end()), "
        '"<job_label>", "no job was hurt", "", "")',
        _HERE,
        "<job_label>",
        "no job reports",
    ),
    legend="{{<job_label>}}",
    type="state-timeline",
    unit=Unit.NONE,
    read="A degraded job shows its suspect.",
    healthy="one line that says so: only jobs that were hurt or went away in the shown time have one of their own",
    bad="a long bar is a job that is slow, bars of one colour that start together are a shared cause",
    states=STATES,
    width=8,
    height=8,
    links=LINE_TO_JOB,
)

_BANDWIDTH = answers(
    "job:nccl_suspect:depth",
    title="Bandwidth by transport, all paths together",
    question="What share of its usual bandwidth does each transport reach across the fleet?",
    query=f"1 - quantile by (transport) (0.5, @{{{_WHOLE}}})",
    legend="{{transport}} median job",
    lowest_first=True,
    height=7,
    also=(
        Query(
            expr=f"1 - max by (transport) (job:nccl_suspect:depth{{{_WHOLE}}})",
            legend="{{transport}} worst job",
        ),
    ),
    read="Of a job counts what all of its paths have lost.",
    healthy="the median job near 100 %, the worst a few percent below",
    bad="the median of mixed or network falls: the fabric; only the worst falls: one job",
    width=8,
)


def _throughput(sensitivity: Sensitivity) -> Panel:
    return answers(
        "job:training_throughput_loss:ratio",
        title="Throughput loss by job",
        query="topk(20, max by (<job>) (@{<in_cluster>}))",
        legend="{{<job_label>}}",
        read="The twenty worst jobs of each moment.",
        bad="a line that stays above the threshold is a job that pays for it",
        steps=steps("NcclJobDegraded", sensitivity),
        companion="",
        width=8,
        height=7,
        links=LINE_TO_JOB,
    )


_ALERTS = Panel(
    title="Alerts",
    description="Which alerts of this pack fire, for which job and why? Healthy: none. Bad: rows of severity "
    "critical are pages.",
    type="table",
    unit=Unit.COUNT,
    queries=(Query(expr=_FIRING, instant=True),),
    columns={
        "alertname": "Alert",
        "severity": "Severity",
        "<job_label>": "Job",
        "suspect": "Suspect",
        "<node_label>": "Node",
        "<gpu_label>": "GPU",
        "device": "Device",
        "counter": "Counter",
    },
    # Critical comes before warning, as in the dictionary.
    order="Severity",
    links=_ABOUT,
    words=WORDS,
    no_value="no alert fires",
    width=8,
    height=7,
)

_TILE: Mapping[str, Any] = MappingProxyType({"width": 3, "height": 3})
_TILES = (
    number(
        "Jobs reporting",
        f"count({_JOBS})",
        "How many jobs does Inspector report? Healthy: the number of running jobs with Inspector. Bad: fewer than "
        "the scheduler runs, or no data at all: then nobody watches.",
        # Nobody who reports is a warning: without them every other panel is silent.
        steps=((None, "warn"), (1, "info")),
        no_value="none",
        **_TILE,
    ),
    count(
        "Degraded",
        _in("degraded"),
        "How many jobs are slowed down by their communication? Healthy: 0. Bad: 1 is a job to look at, many at once "
        "point to the fabric.",
        of=_JOBS,
        **_TILE,
    ),
    count(
        "Stalled",
        _in("stalled"),
        "How many jobs have stopped communicating although they seem to live? Healthy: 0. Bad: 1 or more; PyTorch "
        "kills a hung job after eight to ten minutes.",
        of=_JOBS,
        **_TILE,
    ),
    count(
        "Recovering",
        _in("recovering"),
        "How many jobs were degraded until a moment ago? Healthy: 0. Bad: a job that is counted here again and again "
        "has a fault that comes and goes.",
        of=_JOBS,
        role="warn",
        **_TILE,
    ),
    count(
        "Gone",
        _in("gone"),
        "How many jobs have ended and left their files behind? Healthy: 0. Bad: clean up in the scheduler's epilog.",
        of=_JOBS,
        role="warn",
        **_TILE,
    ),
    count(
        "Unknown",
        _in("unknown"),
        "About how many jobs can nothing be said? Healthy: 0, or jobs that began within the last ten minutes. Bad: "
        "older jobs; their telemetry is frozen, or they have no messages from 1 MB on.",
        of=_JOBS,
        role="warn",
        **_TILE,
    ),
    count(
        "GPUs of hurt jobs",
        f"sum({FLEET}{{{_HERE}}} and on (<job>) {_HURT})",
        "How many GPUs belong to jobs that are degraded or stalled? Healthy: 0. Bad: the number is what the incident "
        "costs.",
        of=_JOBS,
        **_TILE,
    ),
    count(
        "Alerts firing",
        f"count({_FIRING})",
        "How many alerts of this pack that want a human fire now? Healthy: 0. Bad: see the table of alerts below.",
        of=_JOBS,
        **_TILE,
    ),
)


def _now(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Verdict",
        panels=(
            _SENTENCES,
            *_TILES,
            _hurt(sensitivity),
            _TIMELINE,
            _BANDWIDTH,
            _throughput(sensitivity),
            _ALERTS,
        ),
    )


def _hurt(sensitivity: Sensitivity) -> Panel:
    recent = f"({_HURT} or {_LAST})"
    return Panel(
        title="Hurt jobs, worst first",
        description="Which jobs are degraded or stalled, or were within the last <60 dumps>, who is the suspect, and what does it "
        "cost? The depth is how much slower the suspect makes communication, or how late it is; the peak is the deepest in the shown "
        "time; GPU time lost is the mean loss of the last <10 dumps>, as if it had been so since then, for all GPUs of the job. A job that is hurt no more has its present state, its last "
        "suspect and no depth. Healthy: no row. Bad: any row; one with a throughput loss pays for it. Click the job to open it.",
        type="table",
        unit=Unit.RATIO,
        queries=(
            Query(
                expr=f"{_HURT}\n"
                "or on (<job>)\n"
                f"0 * topk by (<job>) (1, timestamp({_JOBS}))\n"
                f"+ on (<job>) group_left (suspect, transport, <node>, <gpu>) 0 * {_LAST}",
                instant=True,
            ),
            Query(expr=f"{since(_HERE)} and on (<job>) {_HURT}", instant=True),
            Query(expr=f"{lasts(_HERE)} and on (<job>) {_HURT}", instant=True),
            Query(expr=f"{_LOSS}\nand on (<job>) {recent}\n{_TOLD}", instant=True),
            Query(
                # A job that stands still loses everything.
                expr=f"({lasts(_HERE)}) / 3600\n"
                f"* on (<job>) ({verdict(_HERE, state='stalled')} ^ 0 or on (<job>) {_MEAN_LOSS} > 0)\n"
                f"* on (<job>) {FLEET}{{{_HERE}}}",
                instant=True,
            ),
            Query(expr=f"max by (<job>) (max_over_time({_HURT}[$__range]))\nand on (<job>) {recent}", instant=True),
            Query(expr=f"{FLEET}{{{_HERE}}}\nand on (<job>) {recent}", instant=True),
        ),
        columns={
            "<job_label>": "Job",
            **WHAT,
            "Value #B": "Since",
            "Value #C": "For",
            "Value #A": "Depth",
            "Value #D": "Throughput lost",
            "Value #E": "GPU time lost",
            "Value #F": "Peak",
            "Value #G": "GPUs",
        },
        column_units={
            "Value #A": Unit.RATIO,
            "Value #B": Unit.TIMESTAMP,
            "Value #C": Unit.SECONDS,
            "Value #E": Unit.HOURS,
            "Value #F": Unit.RATIO,
            "Value #G": Unit.COUNT,
        },
        order="-Depth",
        steps=steps("NcclJobDegraded", sensitivity),
        links=TO_JOB,
        words=WORDS,
        no_value="no job is hurt",
        width=16,
        height=8,
    )


_ALL_JOBS = answers(
    VERDICT,
    title="All jobs",
    question="What does every job that reports look like?",
    query=depths("<in_cluster>"),
    type="table",
    instant=True,
    also=(
        Query(expr=f"{FLEET}{{<in_cluster>}}", instant=True),
        Query(expr="count by (<job>) (node:nccl_gpus:count{<in_cluster>})", instant=True),
        Query(expr=f"{_LOSS}\n{_TOLD}", instant=True),
        Query(expr="job:nccl_dump_age:seconds{<in_cluster>}", instant=True),
    ),
    healthy="every running job has a row, and its state is healthy",
    bad="a job that is missing does not run Inspector",
    columns={
        "<job_label>": "Job",
        **WHAT,
        "Value #A": "Depth",
        "Value #B": "GPUs",
        "Value #C": "Nodes",
        "Value #D": "Throughput lost",
        "Value #E": "Last dump",
    },
    column_units={
        "Value #B": Unit.COUNT,
        "Value #C": Unit.COUNT,
        "Value #E": Unit.SECONDS,
    },
    order="-Depth",
    links=TO_JOB,
    words=WORDS,
    width=24,
    height=10,
)

_TREND = Row(
    title="Trend by job",
    collapsed=True,
    panels=(
        answers(
            "job:nccl_suspect:depth",
            title="Bandwidth lost by job and transport",
            question="How much of its usual bandwidth has each job lost on all paths of a transport?",
            query=f"topk(20, @{{{_WHOLE}}})",
            legend="{{transport}} {{<job_label>}}",
            read="The twenty worst of each moment.",
            healthy="around zero",
            bad="a step up that stays is a degradation, ripples around zero are noise",
            width=12,
            links=LINE_TO_JOB,
        ),
        answers(
            "job:nccl_dump_age:seconds",
            title="Time since the last dump by job",
            query="topk(20, @{<in_cluster>} < 3600)",
            legend="{{<job_label>}}",
            read="The twenty quietest of each moment.",
            bad="a line that climbs past the pauses of its job is a job that hangs or was killed",
            minimum=0.0,
            width=12,
            links=LINE_TO_JOB,
        ),
    ),
)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of the fleet."""
    return Dashboard(
        slug="fleet",
        place=10,
        title="Fleet",
        question="Which jobs are hurt now?",
        variables=(),
        rows=(
            _now(sensitivity),
            Row(
                title="All jobs",
                collapsed=True,
                panels=(_ALL_JOBS,),
            ),
            _TREND,
        ),
    )
