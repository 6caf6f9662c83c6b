# SPDX-License-Identifier: Apache-2.0
"""Which GPU or node does everybody wait for?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import JOB, NODE, answers, steps
from dashgen.model import Dashboard, Row, Sensitivity, Unit

_CHOSEN = '{<node_label>=~"$node", <of_job>}'


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of late GPUs and nodes."""
    return Dashboard(
        slug="outliers",
        title="Rank outliers",
        question="Which GPU or node does everybody wait for?",
        variables=(JOB, NODE),
        rows=(
            Row(
                title="Who is late",
                panels=(
                    answers(
                        "gpu:nccl_late:ratio",
                        title="Late GPUs, worst first",
                        query="sort(@{<of_job>})",
                        type="table",
                        instant=True,
                        bad="a row far below 1 that stays: its peers wait for this GPU",
                        width=8,
                        columns={"<node_label>": "Node", "<gpu_label>": "GPU", "Value": "Of its usual time"},
                        column_units={"Value": Unit.RATIO},
                        no_value="no GPU is late",
                    ),
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Time in collectives relative to peers, by GPU",
                        query=f"@{_CHOSEN}",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        bad="one line that falls: that GPU arrives last; a line that rises is an early arriver and innocent",
                        steps=steps("NcclGpuLate", sensitivity),
                        width=16,
                        minimum=0.0,
                    ),
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Arrival heat map",
                        query=f"@{_CHOSEN}",
                        legend="{{<node_label>}} {{<gpu_label>}}",
                        type="heatmap",
                        bad="a dark row is a late GPU, dark rows of one node together a late node",
                        width=24,
                        height=10,
                    ),
                ),
            ),
            Row(
                title="Nodes",
                panels=(
                    answers(
                        "node:nccl_nvlink:relative",
                        title="Bandwidth inside each node, relative to the others",
                        query=f"@{_CHOSEN}",
                        legend="{{<node_label>}}",
                        bad="one node that falls has a slow link inside its domain",
                        minimum=0.0,
                    ),
                    answers(
                        "gpu:nccl_exec:relative",
                        title="Time in collectives relative to peers, by node",
                        query=f"avg by (<node>) (@{_CHOSEN})",
                        legend="{{<node_label>}}",
                        bad="one node that falls arrives late with all its GPUs",
                        minimum=0.0,
                    ),
                    answers(
                        "job:nccl_skew_growth:ratio",
                        title="Growth of skew",
                        query="@{<of_job>}",
                        legend="growth",
                        bad="above 1.3 somebody arrives later than before",
                        minimum=0.0,
                    ),
                    answers(
                        "node:nccl_late:ratio",
                        title="Late nodes",
                        query="@{<of_job>}",
                        type="table",
                        instant=True,
                        bad="a row: the whole node arrives late",
                        columns={"<node_label>": "Node", "Value": "Of its usual time"},
                        column_units={"Value": Unit.RATIO},
                        no_value="no node is late",
                    ),
                ),
            ),
        ),
    )
