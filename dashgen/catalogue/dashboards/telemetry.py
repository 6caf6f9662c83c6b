# SPDX-License-Identifier: Apache-2.0
"""Can the other boards be believed?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import answers, count, steps
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of telemetry health."""
    return Dashboard(
        slug="telemetry",
        title="Telemetry health",
        question="Can the other boards be believed?",
        variables=(),
        rows=(
            Row(
                title="Now",
                panels=(
                    Panel(
                        title="GPUs reporting",
                        description="How many GPUs report? Healthy: all GPUs of running jobs. Bad: fewer than the jobs have.",
                        type="stat",
                        unit=Unit.COUNT,
                        queries=(Query(expr="sum(node:nccl_gpus:count{<in_cluster>}) or vector(0)", instant=True),),
                        width=4,
                        height=4,
                        decimals=0,
                        steps=((None, "info"),),
                    ),
                    Panel(
                        title="Series exposed",
                        description="How many NCCL series are there? Healthy: a few dozen for each GPU. Bad: hundreds for each "
                        "GPU, from message sizes that keep changing.",
                        type="stat",
                        unit=Unit.COUNT,
                        queries=(Query(expr="sum(job:nccl_series:count{<in_cluster>}) or vector(0)", instant=True),),
                        width=4,
                        height=4,
                        decimals=0,
                        steps=((None, "info"),),
                    ),
                    count(
                        "Nodes gone dark",
                        "count(node:nccl_telemetry_lost:bool{<in_cluster>})",
                        "How many nodes of running jobs no longer report? Healthy: 0. Bad: we are blind there.",
                    ),
                    count(
                        "GPUs hidden",
                        "sum(node:nccl_gpus_hidden:count{<in_cluster>})",
                        "How many GPUs write a file but share their name with another? Healthy: 0. Bad: they are missing "
                        "from every verdict.",
                    ),
                    count(
                        "Garbage series",
                        "sum(job:nccl_garbage:count{<in_cluster>})",
                        "How many series carry sizes that NCCL could not compute? Healthy: 0; harmless, every rule ignores them. "
                        "Bad: many of them cost memory.",
                        bad_from=1000,
                    ),
                    count(
                        "Jobs left behind",
                        'count(job:nccl_quiet:seconds{evidence="gone", <in_cluster>} > 600)',
                        "How many killed jobs still have files? Healthy: 0. Bad: clean up in the scheduler's epilog.",
                    ),
                ),
            ),
            Row(
                title="Freshness",
                panels=(
                    answers(
                        "job:nccl_dump_age:seconds",
                        title="Age of the newest dump by job",
                        query="@{<in_cluster>}",
                        legend="{{<job_label>}}",
                        bad="a straight climb: nothing new is written",
                        minimum=0.0,
                    ),
                    answers(
                        "node:nccl_textfile_error:ratio",
                        title="Scrapes with an unreadable file by node",
                        query="@{<in_cluster>}",
                        legend="{{<node_label>}}",
                        bad="more than half of the scrapes: a file is broken, not merely being rewritten",
                        steps=steps("NcclTextfileUnreadable", sensitivity),
                        minimum=0.0,
                    ),
                    answers(
                        "node:nccl_duplicates:rate",
                        title="Gathering errors by node",
                        query="@{<in_cluster>}",
                        legend="{{<node_label>}}",
                        bad="anything above zero: series with equal labels are dropped",
                        minimum=0.0,
                    ),
                    answers(
                        "node:nccl_gpus:count",
                        title="GPUs by node and job",
                        query="@{<in_cluster>}",
                        legend="{{<node_label>}} {{<job_label>}}",
                        bad="a line that breaks off while the job runs on",
                        minimum=0.0,
                    ),
                ),
            ),
            Row(
                title="Volume",
                collapsed=True,
                panels=(
                    answers(
                        "job:nccl_series:count",
                        title="Series by job",
                        query="@{<in_cluster>}",
                        legend="{{<job_label>}}",
                        bad="growth without more GPUs",
                        minimum=0.0,
                    ),
                    answers(
                        "job:nccl_dropped:ratio",
                        title="Operations lost between dumps by job",
                        query="@{<in_cluster>}",
                        legend="{{<job_label>}}",
                        bad="above 10 % the numbers describe the end of each interval only",
                        steps=steps("NcclRecordsDropped", sensitivity),
                        minimum=0.0,
                    ),
                    answers(
                        "job:nccl_collectives:rate",
                        title="Collectives by job",
                        query="@{<in_cluster>}",
                        legend="{{<job_label>}}",
                        bad="zero while the job runs",
                        minimum=0.0,
                    ),
                ),
            ),
        ),
    )
