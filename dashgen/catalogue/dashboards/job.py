# SPDX-License-Identifier: Apache-2.0
"""When exactly was this job slow, and whose fault was it?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import COLLECTIVE, JOB, TRANSPORT, WINDOW_STATES, answers, steps
from dashgen.catalogue.transport import CLASSES
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

_WHERE = {
    "nvlink": "within one <fabric> domain",
    "network": "across domains, one rank per node (network)",
    "mixed": "across domains, several ranks per node (mixed)",
}


def _by_class(name: str, what: str, transport: str, bad: str) -> Panel:
    """Title and query come from the same transport, so that one cannot say what the other does not show."""
    return answers(
        name,
        title=f"{what} {_WHERE[transport]}",
        query=f'@{{transport="{transport}", collective=~"$collective", <of_job>}}',
        legend="{{collective}} {{size_class}}",
        bad=bad,
        width=8,
        minimum=0.0,
    )


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of one job."""
    return Dashboard(
        slug="job",
        title="Job",
        question="When exactly was this job slow, and whose fault was it?",
        variables=(JOB, TRANSPORT, COLLECTIVE),
        rows=(
            Row(
                title="Verdict",
                panels=(
                    answers(
                        "job:nccl_cause:depth",
                        title="Suspect and depth now",
                        type="table",
                        instant=True,
                        bad="a row: the transport, the suspect and how much bandwidth is missing",
                        width=8,
                        height=6,
                        columns={"transport": "Transport", "suspect": "Suspect", "Value": "Depth"},
                        column_units={"Value": Unit.RATIO},
                        no_value="nothing is slow",
                    ),
                    answers(
                        "job:nccl_degraded:bool",
                        title="Degradation windows by transport",
                        query='@{transport=~"$transport", <of_job>}',
                        legend="{{transport}}",
                        type="state-timeline",
                        states=WINDOW_STATES,
                        bad="mixed or network alone is the network, nvlink alone is a link inside a node, all of them a "
                        "late rank or a shared cause",
                        width=16,
                        height=6,
                    ),
                    answers(
                        "job:training_throughput:current",
                        title="Throughput",
                        legend="{{evidence}}",
                        also=(
                            Query(
                                expr="last_over_time(job:training_throughput:baseline{<of_job>}[6h])",
                                legend="usual {{evidence}}",
                            ),
                        ),
                        bad="a step below the usual line at the time of a window; evidence says what is measured",
                        companion="",
                    ),
                    answers(
                        "job:nccl_busbw_drop:ratio",
                        title="Bandwidth drop by collective",
                        query='@{transport=~"$transport", collective=~"$collective", <of_job>}',
                        legend="{{transport}} {{collective}}",
                        bad="one collective that steps up names the traffic, all of them together the path",
                        steps=steps("NcclTransportDegraded", sensitivity),
                    ),
                ),
            ),
            Row(
                title="Bus bandwidth of the fastest member",
                panels=tuple(
                    _by_class(
                        "job:nccl_busbw:max", "Bandwidth", each, "a step down that the other transports do not share"
                    )
                    for each in CLASSES
                ),
            ),
            Row(
                title="Execution time of the median GPU",
                panels=tuple(
                    _by_class(
                        "job:nccl_exec:median", "Time", each, "a rise while the bandwidth holds: somebody is late"
                    )
                    for each in CLASSES
                ),
            ),
            Row(
                title="Arrival and life",
                panels=(
                    answers(
                        "job:nccl_skew:ratio",
                        title="Skew of arrival",
                        legend="skew",
                        bad="growth while bandwidth holds is a late rank, see the outlier board",
                        width=8,
                    ),
                    answers(
                        "job:nccl_quiet:seconds",
                        title="Time since the last dump",
                        legend="{{evidence}}",
                        bad="a straight climb past three minutes: the job hangs, was killed or checkpoints; evidence says "
                        "what its GPUs do",
                        minimum=0.0,
                        width=8,
                    ),
                    answers(
                        "node:nccl_gpus:count",
                        title="GPUs by node",
                        legend="{{<node_label>}}",
                        bad="a node with fewer GPUs than the others hides some, one that disappears is dark",
                        width=8,
                        minimum=0.0,
                    ),
                ),
            ),
            Row(
                title="Shape",
                collapsed=True,
                panels=(
                    answers(
                        "peer:nccl_exec:median",
                        title="Kinds of collectives by communicator shape",
                        query="count by (n_nodes, nranks) (@{<of_job>})",
                        legend="{{nranks}} ranks over {{n_nodes}} domains",
                        bad="a shape whose number of domains rises has lost its multi-node <fabric>",
                        unit=Unit.COUNT,
                        minimum=0.0,
                    ),
                    Panel(
                        title="Algorithm and protocol mix",
                        description="Which algorithms and protocols does NCCL choose? Healthy: constant. Bad: a change at the "
                        "moment the job became slow, most often a forced NCCL_ALGO or NCCL_PROTO.",
                        type="timeseries",
                        unit=Unit.COUNT,
                        queries=(
                            Query(
                                expr="count by (collective, algo_proto) (peer:nccl_busbw:best{<of_job>})",
                                legend="{{collective}} {{algo_proto}}",
                            ),
                        ),
                        minimum=0.0,
                    ),
                    answers(
                        "peer:nccl_busbw:best",
                        title="Best bandwidth by message size",
                        query='@{collective=~"$collective", <of_job>}',
                        legend="{{collective}} {{message_size}} {{algo_proto}} {{nranks}}/{{n_nodes}}",
                        bad="one size that falls alone is a change of the work, all sizes together the path",
                        minimum=0.0,
                    ),
                    answers(
                        "peer:nccl_busbw:healthy",
                        title="Usual bandwidth by message size",
                        query='quantile_over_time(0.5, @{collective=~"$collective", <of_job>}[1h])',
                        legend="{{collective}} {{message_size}} {{algo_proto}} {{nranks}}/{{n_nodes}}",
                        bad="a usual value that sinks over hours is a slow drift",
                        minimum=0.0,
                    ),
                ),
            ),
        ),
    )
