# SPDX-License-Identifier: Apache-2.0
"""Which jobs are hurt now?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import TO_JOB, WINDOW_STATES, answers, count, steps
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of the fleet."""
    return Dashboard(
        slug="fleet",
        title="Fleet",
        question="Which jobs are hurt now?",
        variables=(),
        rows=(
            Row(
                title="Now",
                panels=(
                    Panel(
                        title="Jobs reporting",
                        description="How many jobs have reported communication within the last hour? Healthy: the number of "
                        "running jobs with Inspector. Bad: fewer than the scheduler runs.",
                        type="stat",
                        unit=Unit.COUNT,
                        queries=(
                            Query(expr="count(job:nccl_quiet:seconds{<in_cluster>} < 3600) or vector(0)", instant=True),
                        ),
                        width=4,
                        height=4,
                        decimals=0,
                        steps=((None, "info"),),
                    ),
                    count(
                        "Jobs degraded",
                        "count(max by (<job>) (job:nccl_degraded:bool{<in_cluster>}) == 1)",
                        "How many jobs are inside a degradation window? Healthy: 0. Bad: 1 is a job to look at, many at "
                        "once point to the fabric.",
                    ),
                    count(
                        "Jobs quiet",
                        'count(job:nccl_quiet:seconds{evidence!="gone", <in_cluster>} > 8 * <dump> < 3600)',
                        "How many jobs have not communicated for eight dump intervals although they seem to live? "
                        "Healthy: 0. Bad: 1 or more for longer than a checkpoint takes.",
                    ),
                    count(
                        "Late GPUs",
                        f"count(gpu:nccl_late:ratio{{<in_cluster>}} < {steps('NcclGpuLate', sensitivity)[1][0]})",
                        "How many GPUs make their peers wait? Healthy: 0. Bad: the same few GPUs for minutes.",
                    ),
                    Panel(
                        title="GPUs of hurt jobs",
                        description="How many GPUs belong to jobs that are inside a degradation window? Healthy: 0. Bad: the "
                        "number is what the incident costs.",
                        type="stat",
                        unit=Unit.COUNT,
                        queries=(
                            Query(
                                expr="sum(node:nccl_gpus:count{<in_cluster>} and on (<job>) job:nccl_degraded:bool == 1) or vector(0)",
                                instant=True,
                            ),
                        ),
                        width=4,
                        height=4,
                        decimals=0,
                        steps=((None, "ok"), (1, "warn")),
                    ),
                    count(
                        "Alerts firing",
                        'count(ALERTS{alertname=~"Nccl.+", alertstate="firing"})',
                        "How many alerts of this pack fire now? Healthy: 0. Bad: see the table of alerts below.",
                    ),
                    answers(
                        "job:nccl_cause:depth",
                        title="Slow jobs, worst first",
                        query="sort_desc(@{<in_cluster>})",
                        type="table",
                        instant=True,
                        bad="any row: the job, the transport that is slow, by how much, and the one suspect",
                        width=12,
                        height=9,
                        columns={
                            "<job_label>": "Job",
                            "transport": "Transport",
                            "suspect": "Suspect",
                            "Value": "Depth",
                        },
                        column_units={"Value": Unit.RATIO},
                        links=TO_JOB,
                        no_value="no job is slow",
                    ),
                    answers(
                        "job:nccl_degraded:bool",
                        title="Degradation windows",
                        query="max by (<job>) (@{<in_cluster>})",
                        legend="{{<job_label>}}",
                        type="state-timeline",
                        bad="a long bar is a job that is slow, bars that start together are the fabric",
                        states=WINDOW_STATES,
                        width=12,
                        height=9,
                        links={"Open the job": "/d/<uid>job?${__url_time_range}&var-job=${__field.labels.<job_label>}"},
                    ),
                ),
            ),
            Row(
                title="Trend",
                panels=(
                    answers(
                        "job:training_throughput_loss:ratio",
                        title="Throughput loss by job",
                        query="max by (<job>) (@{<in_cluster>})",
                        legend="{{<job_label>}}",
                        bad="a line that stays above the threshold is a job that pays for it",
                        steps=steps("NcclJobDegraded", sensitivity),
                        minimum=0.0,
                        companion="",
                    ),
                    answers(
                        "job:nccl_degraded:depth",
                        title="Bandwidth drop by job and transport",
                        query="@{<in_cluster>}",
                        legend="{{<job_label>}} {{transport}}",
                        bad="a step up that stays is a degradation, ripples around zero are noise",
                        steps=steps("NcclTransportDegraded", sensitivity),
                    ),
                    answers(
                        "job:nccl_quiet:seconds",
                        title="Time since the last dump by job",
                        query='@{evidence!="gone", <in_cluster>} < 3600',
                        legend="{{<job_label>}} {{evidence}}",
                        bad="a line that climbs past three minutes is a job that hangs",
                        minimum=0.0,
                    ),
                    Panel(
                        title="Alerts",
                        description="Which alerts of this pack fire, for which job and why? Healthy: none. Bad: rows of severity "
                        "critical are pages.",
                        type="table",
                        unit=Unit.COUNT,
                        queries=(Query(expr='ALERTS{alertname=~"Nccl.+", alertstate="firing"}', instant=True),),
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
                    ),
                ),
            ),
        ),
    )
