# SPDX-License-Identifier: Apache-2.0
"""Which GPU or node does everybody wait for?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import GPU, JOB, NODE, answers, link, steps
from dashgen.model import Dashboard, Query, Row, Sensitivity, Unit

_NODES = '{<node_label>=~"$node", <of_job>}'
_GPUS = '{<node_label>=~"$node", <gpu_label>=~"$gpu", <of_job>}'
_TO_FABRIC = {"Fabric and GPUs of the node": link("fabric", job="${job}", node="${__data.fields.<node_label>}")}


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of late GPUs and nodes."""
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
                        "gpu:nccl_late:ratio",
                        title="Worst GPUs",
                        query=f"min_over_time(@{_GPUS}[$__range])",
                        type="table",
                        instant=True,
                        also=(
                            Query(expr=f"count_over_time(gpu:nccl_late:ratio{_GPUS}[$__range])", instant=True),
                            Query(expr=f"gpu:nccl_late:ratio{_GPUS}", instant=True),
                        ),
                        read="Time in collectives as a share of what the GPU is used to, in the shown time: the late one "
                        "waits for nobody, so the lowest on top is the latest.",
                        bad="a row far below 100 % in many dumps: its peers wait for this GPU. Click it for its node",
                        width=9,
                        height=9,
                        columns={
                            "<node_label>": "Node",
                            "<gpu_label>": "GPU",
                            "Value #A": "At worst",
                            "Value #B": "Dumps late",
                            "Value #C": "Now",
                        },
                        column_units={"Value #B": Unit.COUNT},
                        order="At worst",
                        steps=steps("NcclGpuLate", sensitivity),
                        links=_TO_FABRIC,
                        no_value="no GPU was late",
                    ),
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Arrival by GPU",
                        query=f"@{_GPUS}",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        type="heatmap",
                        read="One row a GPU, time to the right; dark is little time in collectives, that is a late arrival.",
                        bad="a row that turns dark is a late GPU, rows of one node together a late node; a row that was "
                        "always a little darker is its place in the ring",
                        width=15,
                        height=9,
                        minimum=0.5,
                        maximum=1.2,
                    ),
                    answers(
                        "gpu:nccl_late:ratio",
                        title="Late GPUs over time",
                        query=f"@{_GPUS}",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        also=(
                            Query(
                                expr=f"gpu:nccl_latest:avg{_GPUS}",
                                legend="waited for: {{<node_label>}} {{<gpu_label>}}",
                            ),
                        ),
                        read="A GPU that the others wait for has a second line, the mean of three dumps.",
                        bad="one line that stays low: that GPU; many at once for a moment: dumps of different moments",
                        steps=steps("NcclGpuLate", sensitivity),
                        healthy="no line",
                        width=9,
                        no_value="no GPU was late",
                    ),
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Arrival by node",
                        question="How long does each node spend in collectives, relative to the median of its peers?",
                        query=f"avg by (<node>) (@{_NODES})",
                        legend="{{<node_label>}}",
                        read="The mean of the node's GPUs.",
                        bad="one node that falls arrives late with all its GPUs; one that rises is early and innocent",
                        width=9,
                    ),
                    answers(
                        "job:nccl_skew:ratio",
                        title="Skew of arrival",
                        legend="skew",
                        also=(Query(expr="job:nccl_skew_growth:ratio{<of_job>}", legend="growth"),),
                        bad="growth above 1.3: somebody arrives later than before",
                        width=6,
                    ),
                ),
            ),
            Row(
                title="Node comparison",
                collapsed=True,
                panels=(
                    answers(
                        "node:nccl_late:ratio",
                        title="Late nodes",
                        query=f"min_over_time(@{_NODES}[$__range])",
                        type="table",
                        instant=True,
                        also=(Query(expr=f"count_over_time(node:nccl_late:ratio{_NODES}[$__range])", instant=True),),
                        bad="a row: the whole node arrived late in the shown time",
                        columns={"<node_label>": "Node", "Value #A": "At worst", "Value #B": "Dumps late"},
                        column_units={"Value #B": Unit.COUNT},
                        order="At worst",
                        links=_TO_FABRIC,
                        no_value="no node was late",
                        width=8,
                    ),
                    answers(
                        "node:nccl_nvlink:relative",
                        title="Bandwidth inside each node, relative to the others",
                        query=f"@{_NODES}",
                        legend="{{<node_label>}}",
                        also=(Query(expr=f"node:nccl_nvlink_slow:ratio{_NODES}", legend="lost: {{<node_label>}}"),),
                        read="A node that has lost bandwidth against its own past has a second line, of how much.",
                        bad="one node that falls has a slow link inside its domain",
                        width=16,
                    ),
                ),
            ),
            Row(
                title="Each GPU",
                collapsed=True,
                panels=(
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Arrival of the ten latest GPUs",
                        query=f"bottomk(10, @{_GPUS})",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        read="The ten lowest of each moment; choose nodes and GPUs above to see others.",
                        bad="one line that falls: that GPU arrives last",
                        width=24,
                    ),
                ),
            ),
        ),
    )
