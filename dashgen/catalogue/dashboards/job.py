# SPDX-License-Identifier: Apache-2.0
"""When exactly was this job slow, and whose fault was it?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import (
    COLLECTIVE,
    JOB,
    QUIET,
    TRANSPORT,
    WINDOW_STATES,
    answers,
    described,
    link,
    number,
    steps,
    throughput,
)
from dashgen.catalogue.transport import CLASSES
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

_WHERE = {
    "nvlink": "within one <fabric> domain",
    "network": "across domains, one rank per node (network)",
    "mixed": "across domains, several ranks per node (mixed)",
}
_CHOSEN = 'transport=~"$transport", collective=~"$collective", <of_job>'
_QUIET = 'job:nccl_quiet:seconds{evidence!="gone", <of_job>}'


def _by_class(name: str, what: str, transport: str, bad: str, expected: str = "") -> Panel:
    """Title and query come from the same transport, so that one cannot say what the other does not show.

    The usual line is the median of the healthy moments of the last six hours, read once for the whole graph.
    """
    series = f'{name}{{transport="{transport}", {_CHOSEN}}}'
    degraded = f'job:nccl_degraded:bool{{transport="{transport}", <of_job>}} == 1'
    usual = Query(
        expr=f"quantile_over_time(0.5,\n  ({series} unless on (<job>) {degraded})[6h:<4 dumps>] @ end()\n)",
        legend="usual {{collective}} {{size_class}}",
    )
    accepted = Query(
        expr=f'{expected}{{transport="{transport}", {_CHOSEN}}}',
        legend="expected {{collective}} {{size_class}}",
        companion="acceptance",
    )
    return answers(
        name,
        title=f"{what} {_WHERE[transport]}",
        query=series,
        legend="{{collective}} {{size_class}}",
        read="Dashed is what this job is used to, and what acceptance promised where that is known.",
        bad=bad,
        also=(usual, *([accepted] if expected else [])),
        width=8,
        minimum=0.0,
        no_value="the job has no such communicators",
    )


def _verdict(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Verdict",
        panels=(
            answers(
                "job:nccl_cause:depth",
                title="Suspect and depth now",
                query="@{<of_job>} or job:nccl_window:depth{<of_job>}",
                type="table",
                instant=True,
                also=(Query(expr="job:nccl_impact:ratio{<of_job>}", instant=True),),
                read="The row with a cost is the verdict, others are transports that are slow with it.",
                bad="a row. Straggler: open the rank outliers; network or nvlink: open the fabric",
                width=8,
                height=5,
                columns={
                    "suspect": "Suspect",
                    "transport": "Transport",
                    "Value #A": "Bandwidth lost",
                    "Value #B": "Cost",
                    "evidence": "Cost seen in",
                },
                links={
                    "Who is late": link("outliers", job="${job}"),
                    "Fabric and GPUs of its nodes": link("fabric", job="${job}"),
                    "Send and Recv": link("p2p", job="${job}"),
                },
                no_value="nothing is slow",
            ),
            answers(
                "job:nccl_degraded:bool",
                title="Degradation windows by transport",
                query='@{transport=~"$transport", <of_job>}',
                legend="{{transport}}",
                type="state-timeline",
                also=(Query(expr=f"2 * (max by (<job>) ({_QUIET} {QUIET}) > bool 0)", legend="whole job"),),
                states=WINDOW_STATES,
                bad="mixed or network alone is the network, nvlink alone is a link inside a node, all of them a late rank "
                "or a shared cause; quiet is a job that stands still",
                width=16,
                height=5,
            ),
            throughput("a step below the usual line at the time of a window; evidence says what is measured"),
            answers(
                "job:nccl_busbw_drop:ratio",
                title="Bandwidth lost by transport and collective",
                query=f"@{{{_CHOSEN}}}",
                legend="{{transport}} {{collective}}",
                read="The dashed line is where the alert starts.",
                bad="one collective that steps up names the traffic, all of them together the path",
                steps=steps("NcclTransportDegraded", sensitivity),
            ),
        ),
    )


_LIFE = Row(
    title="Arrival and life",
    collapsed=True,
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
            bad="a straight climb past three minutes: the job hangs, was killed or checkpoints; evidence says what its GPUs do",
            minimum=0.0,
            width=8,
        ),
        answers(
            "job:nccl_tail_growth:ratio",
            title="Growth of the slowest communicator's time",
            legend="{{transport}}",
            bad="growth while nobody is late: one of several equal communicators is slow",
            width=8,
        ),
    ),
)

_SIZES = Row(
    title="Sizes and algorithms",
    collapsed=True,
    panels=(
        answers(
            "job:nccl_busbw:max",
            title="Bandwidth by size class, now",
            query=f"max by (transport, size_class) (@{{{_CHOSEN}}})",
            legend="{{transport}} {{size_class}}",
            instant=True,
            type="bargauge",
            read="Small is below 1 MB, large from 64 MB on; large messages come closest to the link's speed.",
            healthy="large above medium above small",
            bad="large near medium: the path is slow, or messages are too small for it",
            width=8,
            minimum=0.0,
        ),
        Panel(
            title="Algorithm and protocol mix",
            description=described(
                "Which algorithms and protocols does NCCL choose?",
                "Each line counts the kinds of collectives that use one.",
                "constant",
                "a change at the moment the job became slow, most often a forced NCCL_ALGO or NCCL_PROTO",
            ),
            type="timeseries",
            unit=Unit.COUNT,
            queries=(
                Query(
                    expr='count by (collective, algo_proto) (peer:nccl_busbw:best{collective=~"$collective", <of_job>})',
                    legend="{{collective}} {{algo_proto}}",
                ),
                Query(
                    expr='job:nccl_algorithm_changed:count{collective=~"$collective", <of_job>}',
                    legend="just changed: {{collective}} to {{algo_proto}}",
                ),
            ),
            minimum=0.0,
            width=16,
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
            "peer:nccl_exec:median",
            title="Median time by message size",
            query='@{collective=~"$collective", <of_job>}',
            legend="{{collective}} {{message_size}} {{algo_proto}} {{nranks}}/{{n_nodes}}",
            bad="all sizes rise together while the bandwidth of the fastest member holds: somebody is late",
            minimum=0.0,
        ),
    ),
)

_SHAPE = Row(
    title="Shape and placement",
    collapsed=True,
    panels=(
        number(
            "GPUs",
            "sum(job:nccl_gpus:count{<of_job>})",
            described("How many GPUs report?", "", "all GPUs of the job", "fewer: some are hidden or dark"),
        ),
        number(
            "Nodes",
            "count(count by (<node>) (node:nccl_gpus:count{<of_job>}))",
            described("On how many hosts does the job run?", "", "as many as it asked for", "fewer: some are dark"),
        ),
        number(
            "<fabric> domains",
            "max(job:nccl_domains:max{<of_job>})",
            described(
                "Over how many <fabric> domains does the job's widest communicator stretch?",
                "Nodes divided by domains is how many hosts share one; compare it with the segment that the job asked for.",
                "nodes divided by the segment size",
                "as many domains as nodes where the hardware joins several hosts",
            ),
        ),
        Panel(
            title="Slurm",
            description=described(
                "What does Slurm say about the job?",
                "Several rows are several states within the last minutes.",
                "the user, partition and state that you expect",
                "a partition whose nodes do not share a switch or a <fabric> domain, or a state that is not running",
            ),
            type="table",
            unit=Unit.COUNT,
            queries=(Query(expr='<job_info>{<slurm_id>="$job"}', instant=True),),
            columns={"user_name": "User", "slurm_partition": "Partition", "<slurm_state>": "State"},
            companion="slurm",
            width=12,
            height=4,
            no_value="Slurm does not know the job",
        ),
        answers(
            "job:nccl_domains:max",
            title="GPUs by communicator shape",
            legend="{{nranks}} ranks",
            read="Lines are the number of <fabric> domains of each size of communicator.",
            bad="a line that rises: the job has lost its multi-node <fabric>, or was placed differently after a restart",
            minimum=0.0,
            width=8,
        ),
        answers(
            "job:nccl_transport:info",
            title="Communicators and their transport",
            query='@{transport=~"$transport", <of_job>}',
            type="table",
            instant=True,
            read="Ranks divided by domains is how many ranks share one domain.",
            bad="communicators that should stay within a domain, such as those of tensor parallelism, are mixed or network",
            columns={"nranks": "Ranks", "n_nodes": "<fabric> domains", "transport": "Transport"},
            width=8,
        ),
        answers(
            "node:nccl_gpus:count",
            title="Hosts",
            query="sum by (<node>) (@{<of_job>})",
            type="table",
            instant=True,
            also=(
                Query(expr="node:nccl_nvlink:relative{<of_job>}", instant=True),
                Query(expr="avg by (<job>, <node>) (gpu:nccl_exec:relative{<of_job>})", instant=True),
            ),
            bad="a host with fewer GPUs than the others hides some; one far below the others in a column is the odd one out",
            columns={
                "<node_label>": "Node",
                "Value #A": "GPUs",
                "Value #B": "Bandwidth inside, relative",
                "Value #C": "Time in collectives, relative",
            },
            column_units={"Value #B": Unit.RATIO, "Value #C": Unit.RATIO},
            order="Node",
            links={"Fabric of the host": link("fabric", job="${job}", node="${__data.fields.<node_label>}")},
            width=8,
        ),
    ),
)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of one job."""
    return Dashboard(
        slug="job",
        title="Job",
        question="When exactly was this job slow, and whose fault was it?",
        variables=(JOB, TRANSPORT, COLLECTIVE),
        rows=(
            _verdict(sensitivity),
            Row(
                title="Bus bandwidth of the fastest member",
                panels=tuple(
                    _by_class(
                        "job:nccl_busbw:max",
                        "Bandwidth",
                        each,
                        "a step down that the other transports do not share",
                        expected="job:nccl_busbw:expected",
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
            _LIFE,
            _SIZES,
            _SHAPE,
        ),
    )
