# SPDX-License-Identifier: Apache-2.0
"""The folded rows of the job board: evidence and life, sizes and algorithms, shape and placement."""

from __future__ import annotations

from dashgen.catalogue.boards.parts import FEW, FEWEST, answers, described, link, number, suspects, worst
from dashgen.model import Panel, Query, Row, Unit

# The series of the chosen transports and collectives.
CHOSEN = 'transport=~"$transport", collective=~"$collective", <of_job>'

_QUIET = {
    "working": "but tensor cores work",
    "spinning": "kernels spin without tensor work",
    "dead": "one process is dead, the others live",
    "idle": "GPUs are idle, processes live",
    "gone": "processes are gone",
    "none": "nothing says what the GPUs do",
}

_EVIDENCE = Row(
    title="Evidence and life",
    collapsed=True,
    panels=(
        answers(
            "job:nccl_suspect:score",
            title="Evidence against each suspect",
            query=suspects(worst("<of_job>")),
            legend="{{who}}",
            read="The eight strongest of the shown time. From 1 on a suspect can become the verdict; below a quarter it is dropped.",
            bad="a line above 1: the first that is blamed is the verdict",
            steps=((None, "ok"), (1, "bad")),
            points=FEW,
            width=8,
        ),
        answers(
            "job:nccl_suspect:depth",
            title="Depth of each suspect",
            query=suspects(worst("<of_job>")),
            legend="{{who}}",
            read="The eight deepest of the shown time.",
            bad="a line that steps up and stays; the verdict's depth is that of its suspect",
            points=FEW,
            width=8,
        ),
        answers(
            "job:nccl_quiet:seconds",
            title="Time since the last dump",
            question="How long has the job been quiet, and what do its processes do?",
            query="job:nccl_dump_age:seconds{<of_job>}",
            legend="last dump",
            also=(Query(expr="job:nccl_quiet:seconds{<of_job>}", legend="quiet, {{evidence}}"),),
            line_names={f"quiet, {word}": f"quiet, {meaning}" for word, meaning in _QUIET.items()},
            bad="a straight climb past the usual pauses: the job hangs or was killed; evidence says what its GPUs do",
            minimum=0.0,
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
            query=f"max by (transport, size_class) (@{{{CHOSEN}}})",
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
                    expr="count by (collective, algo_proto) (\n"
                    '  group by (<job>, <peer>) (peer:nccl_busbw:best{collective=~"$collective", <of_job>})\n)',
                    legend="{{collective}} {{algo_proto}}",
                ),
                Query(
                    expr='job:nccl_algorithm_changed:count{collective=~"$collective", <of_job>}',
                    legend="just changed: {{collective}} to {{algo_proto}}",
                ),
            ),
            minimum=0.0,
            points=FEWEST,
            width=16,
        ),
        answers(
            "peer:nccl_busbw:best",
            title="Best bandwidth by message size",
            query="max by (collective, message_size, algo_proto, nranks, n_nodes) (\n"
            '  @{collective=~"$collective", <of_job>}\n)',
            legend="{{collective}} {{message_size}} {{algo_proto}} {{nranks}}/{{n_nodes}}",
            read="The fastest path of each.",
            points=FEWEST,
            bad="one size that falls alone is a change of the work, all sizes together the path",
            minimum=0.0,
            width=24,
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
            queries=(Query(expr='<job_info>{<slurm_id>="$job", <in_cluster>}', instant=True),),
            columns={"user_name": "User", "slurm_partition": "Partition", "<slurm_state>": "State"},
            companion="slurm",
            width=12,
            height=4,
            no_value="Slurm does not know the job",
        ),
        answers(
            "job:nccl_domains:max",
            title="<fabric> domains by size of communicator",
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
                Query(
                    expr='max by (<job>, <node>) (peer:nccl_busbw_drop:ratio{transport="nvlink", <node_label>!="", <of_job>})',
                    instant=True,
                ),
                Query(expr="max by (<job>, <node>) (gpu:nccl_lateness_excess:ratio{<of_job>})", instant=True),
            ),
            bad="a host with fewer GPUs than the others hides some; one far above the others in a column is the odd one out",
            columns={
                "<node_label>": "Node",
                "Value #A": "GPUs",
                "Value #B": "Bandwidth lost inside",
                "Value #C": "Lateness above usual",
            },
            column_units={"Value #B": Unit.RATIO, "Value #C": Unit.RATIO},
            order="Node",
            links={"Fabric of the host": link("fabric", job="${job}", node="${__data.fields.<node_label>}")},
            width=8,
        ),
    ),
)

DETAILS = (_EVIDENCE, _SIZES, _SHAPE)
