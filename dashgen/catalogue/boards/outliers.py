# SPDX-License-Identifier: Apache-2.0
"""Which GPU or node does everybody wait for?"""

from __future__ import annotations

from dashgen.catalogue.boards.parts import FEW, GPU, JOB, NODE, PATH, answers, link, named, worst
from dashgen.catalogue.boards.verdicts import VERDICT, WHAT, WORDS, lasts, since
from dashgen.model import Dashboard, Query, Row, Sensitivity, Unit

_OF_NODES = '<node_label>=~"$node", <of_job>'
_OF_GPUS = '<node_label>=~"$node", <gpu_label>=~"$gpu", <of_job>'
_NODES, _GPUS = f"{{{_OF_NODES}}}", f"{{{_OF_GPUS}}}"
_RAILS = '{transport!="nvlink", <gpu_label>=~"$gpu", <of_job>}'
_TO_FABRIC = {"Fabric and GPUs of the node": link("fabric", job="${job}", node="${__data.fields.<node_label>}")}
# What makes a GPU a suspect, as the verdict has it, at any time that is shown; its mates wait for it at collectives
# across nodes, and are late themselves by half as much.
_AT_WORST = f"max_over_time(gpu:nccl_lateness_excess:ratio{_GPUS}[$__range])"
_WAS_LATE = (
    f"({_AT_WORST} > clamp_min(4 * gpu:nccl_lateness:spread{_GPUS}, 0.1))\n"
    f"> on (<job>) group_left () 0.7 * max by (<job>) ({_AT_WORST})"
)
# Beyond this everybody is equally late: the rule records no more.
_LATEST = 0.8


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of late GPUs and nodes, and of slow paths."""
    del sensitivity  # the verdict has its own thresholds
    return Dashboard(
        slug="outliers",
        title="Rank outliers",
        question="Which GPU or node does everybody wait for?",
        variables=(JOB, NODE, GPU),
        rows=(
            Row(
                title="Who is late",
                panels=(
                    answers(
                        VERDICT,
                        title="Verdict now",
                        query="@{<of_job>}",
                        type="table",
                        instant=True,
                        also=(
                            Query(expr=since("<of_job>"), instant=True),
                            Query(expr=lasts("<of_job>"), instant=True),
                        ),
                        healthy="state healthy, no suspect",
                        bad="a suspect; a straggler is the GPU or node that the panels below show as latest",
                        width=24,
                        height=4,
                        columns={
                            "<job_label>": "Job",
                            **WHAT,
                            "Value #B": "Since",
                            "Value #C": "For",
                            "Value #A": "Depth",
                        },
                        column_units={"Value #B": Unit.TIMESTAMP, "Value #C": Unit.SECONDS},
                        links=_TO_FABRIC,
                        words=WORDS,
                        no_value="the job does not report",
                    ),
                    answers(
                        "gpu:nccl_lateness_excess:ratio",
                        title="Late GPUs",
                        # Everybody is a little late now and then: only who is as late as a suspect has a row.
                        query=f"topk(50,\n  {_WAS_LATE}\n)",
                        type="table",
                        instant=True,
                        also=(
                            Query(expr=f"gpu:nccl_lateness_excess:ratio{_GPUS} and (\n  {_WAS_LATE}\n)", instant=True),
                        ),
                        read="Lateness above what the GPU is used to; the latest on top. Only GPUs "
                        "that were later by a tenth and by four times their noise, and nearly as late as the latest.",
                        healthy="no row",
                        bad="one row: its peers wait for this GPU; all GPUs of a node: they wait for the node. Click it for its node",
                        width=9,
                        height=9,
                        columns={
                            "<node_label>": "Node",
                            "<gpu_label>": "GPU",
                            "Value #A": "At worst",
                            "Value #B": "Now",
                        },
                        order="-At worst",
                        links=_TO_FABRIC,
                        no_value="no GPU was late",
                    ),
                    answers(
                        "gpu:nccl_lateness:ratio",
                        title="Lateness by GPU",
                        # Rows come in the order of their labels: one that is made of both puts the node first.
                        query=f'label_join(@{_GPUS}, "at", " ", "<node_label>", "<gpu_label>")',
                        legend="{{at}}",
                        type="heatmap",
                        read="One row a GPU, time to the right; bright is late.",
                        bad="a row that turns bright is a late GPU, rows of one node together a late node; a row that was "
                        "always a little brighter is its place in the ring",
                        width=15,
                        height=9,
                        minimum=0.0,
                        maximum=_LATEST,
                        points=FEW,
                    ),
                    answers(
                        "gpu:nccl_lateness_excess:ratio",
                        title="Lateness above the usual by GPU",
                        query=worst(_OF_GPUS),
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        also=(
                            Query(
                                expr="quantile by (<job>) (0.5, gpu:nccl_lateness:spread{<of_job>})",
                                legend="usual noise of a GPU",
                            ),
                        ),
                        read="The eight latest of the shown time.",
                        bad="one line that steps up and stays: that GPU; many that take turns: uneven work, nobody's fault",
                        # Who is early is of no interest, and neither is what is still being learned.
                        minimum=-0.1,
                        points=FEW,
                        width=12,
                        no_value="no GPU can be judged",
                    ),
                    answers(
                        "gpu:nccl_lateness:ratio",
                        title="Lateness by node",
                        question="How late is each node, compared with its peers?",
                        query=f"avg by (<node>) (@{_NODES})",
                        legend="{{<node_label>}}",
                        read="The mean of the node's GPUs.",
                        bad="one node that rises arrives late with all its GPUs; one that falls is early and innocent",
                        points=FEW,
                        width=12,
                    ),
                ),
            ),
            Row(
                title="Slow paths",
                collapsed=True,
                panels=(
                    answers(
                        "peer:nccl_busbw_drop:ratio",
                        title="Bandwidth lost inside each node",
                        question="How far is each node's <fabric> below the bandwidth that it is used to?",
                        query=f'@{{transport="nvlink", {_OF_NODES}}}',
                        legend="{{<node_label>}}",
                        type="heatmap",
                        read="One row a node, time to the right; bright is slow.",
                        bad="one bright row: a slow link inside that node; all at once: the work has changed",
                        minimum=0.0,
                        maximum=1.0,
                        no_value="the job has no communicators within one domain",
                    ),
                    answers(
                        "peer:nccl_busbw_drop:ratio",
                        title="Bandwidth lost by rail",
                        question="How far is each rail below the bandwidth that it is used to?",
                        query=f"@{_RAILS}",
                        legend="{{transport}} {{<gpu_label>}}",
                        type="heatmap",
                        read="One row a transport and GPU number, time to the right; bright is slow.",
                        bad="one bright row: the adapters or the switch of that rail; all at once: the network",
                        minimum=0.0,
                        maximum=1.0,
                        no_value="the job has no communicators across domains",
                    ),
                    answers(
                        "peer:nccl_slowness:spread",
                        title="Noise of each path",
                        query=named(worst("<of_job>", "transport"), *PATH),
                        legend="{{who}}",
                        read="The eight noisiest of each transport in the shown time.",
                        bad="much more than its neighbours: a path that flaps, or traffic that changes",
                        width=24,
                        minimum=0.0,
                    ),
                ),
            ),
            Row(
                title="Each GPU",
                collapsed=True,
                panels=(
                    answers(
                        "gpu:nccl_lateness:ratio",
                        title="Lateness of the ten latest GPUs",
                        query=f"topk(10, @{_GPUS})",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        read="The ten latest of each moment; choose nodes and GPUs above to see others.",
                        bad="one line that rises: that GPU arrives last",
                    ),
                    answers(
                        "gpu:nccl_lateness:spread",
                        title="Noise of the ten most restless GPUs",
                        query=f"topk(10, @{_GPUS})",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        read="The ten highest of each moment.",
                        bad="one GPU alone: it is late now and then; all together: ranks are late in turn, as in uneven work",
                        minimum=0.0,
                    ),
                ),
            ),
        ),
    )
