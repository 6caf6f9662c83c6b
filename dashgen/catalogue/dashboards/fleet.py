# SPDX-License-Identifier: Apache-2.0
"""Which jobs are hurt now?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import (
    LINE_TO_JOB,
    QUIET,
    TO_JOB,
    WINDOW_STATES,
    answers,
    count,
    number,
    steps,
    threshold,
)
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

_QUIET = 'job:nccl_quiet:seconds{evidence!="gone", <in_cluster>}'
_STALLED = f"(last_over_time({_QUIET}[<2 dumps>] @ end()) {QUIET})"
_FIRING = 'ALERTS{alertname=~"Nccl.+", alertstate="firing", severity!="info", <in_cluster>}'


def _lately(series: str) -> str:
    """The label set that was there most often within the last half hour of the shown time, one a job."""
    return f"topk by (<job>) (1, count_over_time({series}{{<in_cluster>}}[<60 dumps>] @ end()))"


def _now(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Now",
        panels=(
            number(
                "Jobs reporting",
                "count(job:nccl_quiet:seconds{<in_cluster>} < 3600)",
                "How many jobs have reported communication within the last hour? Healthy: the number of running jobs with "
                "Inspector. Bad: fewer than the scheduler runs.",
            ),
            count(
                "Jobs degraded",
                "count(max by (<job>) (job:nccl_degraded:bool{<in_cluster>}) == 1)",
                "How many jobs are inside a degradation window? Healthy: 0. Bad: 1 is a job to look at, many at once point "
                "to the fabric.",
            ),
            count(
                "Jobs quiet",
                f"count({_QUIET} {QUIET})",
                "How many jobs have not communicated for eight dump intervals although they seem to live? Healthy: 0. Bad: "
                "1 or more for longer than a checkpoint takes.",
            ),
            count(
                "Late GPUs",
                f"count(gpu:nccl_late:ratio{{<in_cluster>}} < {threshold('NcclGpuLate', sensitivity)})",
                "How many GPUs make their peers wait? Healthy: 0. Bad: the same few GPUs for minutes.",
            ),
            count(
                "GPUs of hurt jobs",
                "sum(job:nccl_gpus:count{<in_cluster>} and on (<job>) job:nccl_degraded:bool == 1)",
                "How many GPUs belong to jobs that are inside a degradation window? Healthy: 0. Bad: the number is what the "
                "incident costs.",
            ),
            count(
                "Alerts firing",
                f"count({_FIRING})",
                "How many alerts of this pack that want a human fire now? Healthy: 0. Bad: see the table of alerts below.",
            ),
            Panel(
                title="Hurt jobs, worst first",
                description="Which jobs are slow or quiet, or were within the last half hour, by how much and why? A curve is "
                "the shown time, the number its last value. Healthy: no row. Bad: any row; a curve that goes on to the right "
                "edge is a job that is hurt now. Click the job to open it.",
                type="table",
                unit=Unit.RATIO,
                trend=True,
                queries=(
                    Query(expr=f"job:nccl_cause:depth{{<in_cluster>}} and {_lately('job:nccl_cause:depth')}"),
                    Query(expr=f"job:nccl_impact:ratio{{<in_cluster>}} and {_lately('job:nccl_impact:ratio')}"),
                    Query(expr=f"{_QUIET} and {_STALLED}"),
                    Query(
                        expr="job:nccl_gpus:count{<in_cluster>}\n"
                        f"and on (<job>) ({_lately('job:nccl_cause:depth')} or on (<job>) {_STALLED})"
                    ),
                ),
                columns={
                    "<job_label>": "Job",
                    "suspect": "Suspect",
                    "transport": "Transport",
                    "Value #A": "Bandwidth lost",
                    "Value #B": "Cost",
                    "Value #C": "Quiet for",
                    "Value #D": "GPUs",
                },
                column_units={"Value #C": Unit.SECONDS, "Value #D": Unit.COUNT},
                order="-Bandwidth lost",
                links=TO_JOB,
                no_value="no job is hurt",
                width=14,
                height=8,
            ),
            answers(
                "job:nccl_degraded:bool",
                title="Jobs degraded or quiet",
                question="When was which job inside a degradation window, or quiet?",
                # Only jobs that were hurt within the shown time: a thousand healthy lines show nothing.
                query=f"(2 * (max by (<job>) ({_QUIET} {QUIET}) > bool 0) or max by (<job>) (@{{<in_cluster>}}))\n"
                "and on (<job>) (\n"
                "  max_over_time(@{<in_cluster>}[$__range] @ end()) > 0\n"
                f"  or on (<job>) count_over_time(({_QUIET} {QUIET})[$__range:<2 dumps>] @ end())\n"
                ")",
                legend="{{<job_label>}}",
                type="state-timeline",
                healthy="no line: only jobs that were hurt in the shown time have one",
                bad="a long bar is a job that is slow, bars that start together are the fabric",
                states=WINDOW_STATES,
                width=10,
                height=8,
                links=LINE_TO_JOB,
                no_value="no job was hurt",
            ),
            answers(
                "job:nccl_degraded:depth",
                title="Bandwidth by transport, of the usual",
                question="What share of its usual bandwidth does each transport reach across the fleet?",
                query="1 - quantile by (transport) (0.5, @{<in_cluster>})",
                legend="{{transport}} median job",
                also=(
                    Query(
                        expr="1 - max by (transport) (job:nccl_degraded:depth{<in_cluster>})",
                        legend="{{transport}} worst job",
                    ),
                ),
                healthy="the median job near 100 %, the worst a few percent below",
                bad="the median of mixed or network falls: the fabric; only the worst falls: one job",
                width=8,
            ),
            answers(
                "job:training_throughput_loss:ratio",
                title="Throughput loss by job",
                query="topk(20, max by (<job>) (@{<in_cluster>}))",
                legend="{{<job_label>}}",
                read="The twenty worst jobs of each moment.",
                bad="a line that stays above the threshold is a job that pays for it",
                steps=steps("NcclJobDegraded", sensitivity),
                companion="",
                width=8,
                links=LINE_TO_JOB,
            ),
            Panel(
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
                },
                links=TO_JOB,
                no_value="no alert fires",
                width=8,
            ),
        ),
    )


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of the fleet."""
    return Dashboard(
        slug="fleet",
        title="Fleet",
        question="Which jobs are hurt now?",
        variables=(),
        rows=(
            _now(sensitivity),
            Row(
                title="All jobs",
                collapsed=True,
                panels=(
                    answers(
                        "job:nccl_gpus:count",
                        title="All jobs",
                        question="What does every job that reports look like?",
                        query="@{<in_cluster>}",
                        type="table",
                        instant=True,
                        also=(
                            Query(expr="count by (<job>) (node:nccl_gpus:count{<in_cluster>})", instant=True),
                            Query(expr="max by (<job>) (job:nccl_degraded:depth{<in_cluster>})", instant=True),
                            Query(
                                expr="max by (<job>) (job:training_throughput_loss:ratio{<in_cluster>})", instant=True
                            ),
                            Query(expr="max by (<job>) (job:nccl_quiet:seconds{<in_cluster>})", instant=True),
                        ),
                        healthy="every running job has a row",
                        bad="a job that is missing does not run Inspector",
                        columns={
                            "<job_label>": "Job",
                            "Value #A": "GPUs",
                            "Value #B": "Nodes",
                            "Value #C": "Bandwidth lost",
                            "Value #D": "Throughput lost",
                            "Value #E": "Quiet for",
                        },
                        column_units={"Value #C": Unit.RATIO, "Value #D": Unit.RATIO, "Value #E": Unit.SECONDS},
                        order="-Bandwidth lost",
                        links=TO_JOB,
                        width=24,
                        height=10,
                    ),
                ),
            ),
            Row(
                title="Trend by job",
                collapsed=True,
                panels=(
                    answers(
                        "job:nccl_degraded:depth",
                        title="Bandwidth lost by job and transport",
                        query="topk(20, @{<in_cluster>})",
                        legend="{{transport}} {{<job_label>}}",
                        read="The twenty worst of each moment.",
                        bad="a step up that stays is a degradation, ripples around zero are noise",
                        steps=steps("NcclTransportDegraded", sensitivity),
                        links=LINE_TO_JOB,
                    ),
                    answers(
                        "job:nccl_busbw:max",
                        title="Bandwidth by job and transport",
                        query='max by (<job>, transport) (@{size_class!="small", <in_cluster>})',
                        legend="{{transport}} {{<job_label>}}",
                        read="The best collective from 1 MB on.",
                        bad="a step down shared by several jobs is the fabric",
                        minimum=0.0,
                        links=LINE_TO_JOB,
                    ),
                    answers(
                        "job:nccl_quiet:seconds",
                        title="Time since the last dump by job",
                        query='topk(20, @{evidence!="gone", <in_cluster>} < 3600)',
                        legend="{{<job_label>}} {{evidence}}",
                        read="The twenty quietest of each moment.",
                        bad="a line that climbs past three minutes is a job that hangs",
                        minimum=0.0,
                        links=LINE_TO_JOB,
                    ),
                    answers(
                        "job:nccl_skew_growth:ratio",
                        title="Growth of skew by job",
                        query="topk(20, @{<in_cluster>})",
                        legend="{{<job_label>}}",
                        read="The twenty worst of each moment.",
                        bad="above 1.3 somebody in that job arrives later than before",
                        links=LINE_TO_JOB,
                    ),
                ),
            ),
        ),
    )
