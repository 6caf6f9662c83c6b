# SPDX-License-Identifier: Apache-2.0
"""Can the other boards be believed?"""

from __future__ import annotations

from dashgen.catalogue.boards.parts import (
    FLEET,
    LINE_TO_JOB,
    OF_JOBS,
    SEVERAL_JOBS,
    TO_JOB,
    answers,
    count,
    described,
    number,
    of_nodes,
    steps,
    threshold,
)
from dashgen.catalogue.names import VERDICT
from dashgen.catalogue.signals.freshness import FIRST
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

_JOBS = f"{{{OF_JOBS}}}"
_LOST = "node:nccl_telemetry_lost:ratio"
_HERE = of_nodes(OF_JOBS)


_BY_NODE = answers(
    "node:nccl_gpus:count",
    title="GPUs reporting by node",
    # The series as they are: a sum by node of a whole fleet takes five times as long.
    query=f"@{_JOBS}",
    legend="{{<node_label>}} {{<job_label>}}",
    type="heatmap",
    read="One row a node and job, time to the right.",
    bad="a gap is a node that went dark, a darker row one that hides GPUs",
    minimum=0.0,
    width=12,
    height=9,
)

_AGE = answers(
    "job:nccl_dump_age:seconds",
    title="Age of the newest dump by job",
    query=f"topk(20, @{_JOBS})",
    legend="{{<job_label>}}",
    read="The twenty oldest of each moment.",
    bad="a straight climb: nothing new is written",
    minimum=0.0,
    width=12,
    height=9,
    links=LINE_TO_JOB,
)


def _series(sensitivity: Sensitivity) -> Panel:
    return answers(
        "job:nccl_series:count",
        title="Series by job, now",
        question="How many series does each job expose, and is that within its budget?",
        query=f"@{_JOBS} / on (<job>) {FLEET}{_JOBS} / <cardinality_budget>",
        unit=Unit.RATIO,
        type="table",
        instant=True,
        also=(
            Query(expr=f"job:nccl_series:count{_JOBS}", instant=True),
            Query(expr=f"job:nccl_gpus:count{_JOBS}", instant=True),
        ),
        read="A GPU is granted <cardinality_budget> series.",
        bad="above 100 %: message sizes or communicator names that keep changing",
        columns={
            "<job_label>": "Job",
            "Value #A": "Of budget",
            "Value #B": "Series",
            "Value #C": "GPUs",
        },
        column_units={"Value #B": Unit.COUNT, "Value #C": Unit.COUNT},
        order="-Of budget",
        steps=steps("NcclCardinalityHigh", sensitivity),
        links=TO_JOB,
        width=12,
    )


_OLDEST = Panel(
    title="Oldest files",
    description=described(
        "Which GPUs' files have not been rewritten for longest?",
        "Each GPU writes a file of its own; the twenty oldest.",
        "ages below two dump intervals",
        "a file that grows old on its own: that GPU's process hangs or is gone, or it is a killed job's",
    ),
    type="table",
    unit=Unit.SECONDS,
    queries=(
        Query(
            expr=f'topk(20, (time() - <mtime>{{file=~"<textfile_regex>"}})\n{_HERE})',
            instant=True,
        ),
    ),
    columns={"<node_label>": "Node", "file": "File", "Value": "Age"},
    order="-Age",
    companion="textfile",
    width=12,
)


def _now(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Now",
        panels=(
            number(
                "GPUs reporting",
                f"sum(node:nccl_gpus:count{_JOBS})",
                "How many GPUs report? Healthy: all GPUs of running jobs. Bad: fewer than the jobs have.",
            ),
            number(
                "Series exposed",
                f"sum(job:nccl_series:count{_JOBS})",
                "How many NCCL series are there? Healthy: a few dozen for each GPU. Bad: hundreds for each GPU, from message "
                "sizes that keep changing.",
            ),
            count(
                "Nodes gone dark",
                f'count({_LOST}{{fault="dark", {OF_JOBS}}})',
                "How many nodes of running jobs no longer report? Healthy: 0. Bad: we are blind there.",
                of=f"{FLEET}{_JOBS}",
            ),
            count(
                "Nodes that hide GPUs",
                f'count({_LOST}{{fault="hidden", {OF_JOBS}}})',
                "On how many nodes do GPUs write a file but share their name with another? Healthy: 0. Bad: they are missing "
                "from every verdict.",
                of=f"{FLEET}{_JOBS}",
                companion="textfile",
            ),
            count(
                "Nodes with broken files",
                f'count({_LOST}{{fault="unreadable", {OF_JOBS}}} > {threshold("NcclTextfileUnreadable", sensitivity):g})',
                "On how many nodes do most scrapes meet a file that cannot be read? Healthy: 0. Bad: their GPUs are missing "
                "from every verdict.",
                of=f"{FLEET}{_JOBS}",
                companion="textfile",
            ),
            count(
                "Jobs left behind",
                f'count({VERDICT}{{state="gone", {OF_JOBS}}})',
                "How many killed jobs still have files? Healthy: 0. Bad: clean up in the scheduler's epilog.",
                of=f"{FLEET}{_JOBS}",
            ),
            _BY_NODE,
            _AGE,
            _series(sensitivity),
            _OLDEST,
        ),
    )


def _files(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Files and scrapes",
        collapsed=True,
        panels=(
            answers(
                _LOST,
                title="Telemetry lost by node",
                query=f"topk(20, @{_JOBS})",
                legend="{{<node_label>}} {{fault}}",
                read="Unreadable and duplicate are shares of the scrapes, hidden of the GPUs, overwritten of the operations; "
                "dark is everything. The twenty largest of each moment.",
                bad="a line that stays up; unreadable above the threshold: a file is broken, not merely being rewritten",
                no_value="nothing is lost that anybody reports",
                steps=steps("NcclTextfileUnreadable", sensitivity),
                minimum=0.0,
                width=16,
            ),
            Panel(
                title="Nodes by Inspector format",
                description=described(
                    "Which versions of the plugin, interface and format, write the metrics?",
                    "Bars count nodes; GPU0 speaks for its node.",
                    "one version a job",
                    "several: libraries differ between containers, and so may tuning and what is measured",
                ),
                type="bargauge",
                unit=Unit.COUNT,
                queries=(
                    Query(
                        expr=f"count by (version) (group by (version, <node>) (<exec>{{{FIRST}, {OF_JOBS}, <selector>}}))",
                        legend="{{version}}",
                        instant=True,
                    ),
                ),
                minimum=0.0,
                width=8,
            ),
        ),
    )


def _volume() -> Row:
    return Row(
        title="Volume",
        collapsed=True,
        panels=(
            answers(
                "job:nccl_series:count",
                title="Series by job",
                query=f"topk(20, @{_JOBS})",
                legend="{{<job_label>}}",
                read="The twenty largest of each moment.",
                bad="growth without more GPUs",
                minimum=0.0,
                links=LINE_TO_JOB,
                width=24,
            ),
        ),
    )


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of telemetry health."""
    return Dashboard(
        slug="telemetry",
        place=60,
        title="Telemetry health",
        question="Can the other boards be believed?",
        variables=(SEVERAL_JOBS,),
        rows=(
            _now(sensitivity),
            _files(sensitivity),
            _volume(),
        ),
    )
