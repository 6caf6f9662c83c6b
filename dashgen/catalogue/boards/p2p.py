# SPDX-License-Identifier: Apache-2.0
"""Does the pipeline wait, and for whom?"""

from __future__ import annotations

from dashgen.catalogue import SIGNAL_BY_NAME
from dashgen.catalogue.boards.parts import JOB, NODE, TRANSPORT, answers, described, link, throughput
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit

# Where nothing is known of Send and Recv, there is no board.
_COMPANION = SIGNAL_BY_NAME["job:nccl_p2p_busbw:max"].companion
_CHOSEN = '{transport=~"$transport", <of_job>}'
_LEGEND = "{{transport}} {{p2p_operation}} {{size_class}}"
_STAGE = '<p2p_exec>{p2p_operation="%s", <clean>, <node_label>=~"$node", <of_job>, <selector>}'


_BANDWIDTH = answers(
    "job:nccl_p2p_busbw:max",
    title="Bandwidth of Send and Recv",
    query=f"@{_CHOSEN}",
    legend=_LEGEND,
    bad="both directions down on one transport is the path",
    minimum=0.0,
    width=12,
    height=9,
)

_TIME = answers(
    "job:nccl_p2p_exec:median",
    title="Time of Send and Recv",
    query=f"@{_CHOSEN}",
    legend=_LEGEND,
    bad="a long Recv waits for the stage before it, a long Send for the stage behind it",
    minimum=0.0,
    width=12,
    height=9,
)

_STAGES = Panel(
    title="Pipeline stages, now",
    description=described(
        "Which stage of the pipeline waits for which?",
        "One row a node, in the order of their names, which is most often the order of the stages; times "
        "are the median of the node's ranks.",
        "times differ by the bubble of the schedule only",
        "a long Recv waits for a late stage before it, a long Send for a late stage behind it: the late "
        "stage lies between a long Send and a long Recv and has the shortest of both",
    ),
    type="table",
    unit=Unit.MICROSECONDS,
    queries=tuple(
        Query(
            expr=f"quantile by (<job>, <node>) (0.5, {_STAGE % operation})",
            instant=True,
        )
        for operation in ("Recv", "Send")
    ),
    columns={"<node_label>": "Node", "Value #A": "Time of Recv", "Value #B": "Time of Send"},
    order="Node",
    companion=_COMPANION,
    links={"Fabric and GPUs of the node": link("fabric", job="${job}", node="${__data.fields.<node_label>}")},
    width=12,
    height=10,
)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of Send and Recv. No rank verdict is given: a Recv waits for its sender, not for itself."""
    del sensitivity
    return Dashboard(
        slug="p2p",
        place=40,
        title="Point to point",
        question="Does the pipeline wait, and for whom?",
        variables=(JOB, TRANSPORT, NODE),
        rows=(
            Row(
                title="Send and Recv",
                panels=(
                    _BANDWIDTH,
                    _TIME,
                    _STAGES,
                    throughput(
                        "a step down at the moment when Recv or Send takes longer",
                        width=12,
                        height=10,
                        companion=_COMPANION,
                    ),
                ),
            ),
        ),
    )
