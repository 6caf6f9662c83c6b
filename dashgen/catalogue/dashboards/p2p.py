# SPDX-License-Identifier: Apache-2.0
"""Does the pipeline wait, and for whom?"""

from __future__ import annotations

from dashgen.catalogue.dashboards.parts import JOB, TRANSPORT, answers
from dashgen.model import Dashboard, Row, Sensitivity

_CHOSEN = '{transport=~"$transport", <of_job>}'
_LEGEND = "{{p2p_operation}} {{transport}} {{size_class}}"


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of Send and Recv. No rank verdict is given: a Recv waits for its sender, not for itself."""
    del sensitivity
    return Dashboard(
        slug="p2p",
        title="Point to point",
        question="Does the pipeline wait, and for whom?",
        variables=(JOB, TRANSPORT),
        rows=(
            Row(
                title="Send and Recv",
                panels=(
                    answers(
                        "job:nccl_p2p_busbw:max",
                        title="Bandwidth of Send and Recv",
                        query=f"@{_CHOSEN}",
                        legend=_LEGEND,
                        bad="both directions down on one transport is the path",
                        minimum=0.0,
                    ),
                    answers(
                        "job:nccl_p2p_exec:median",
                        title="Time of Send and Recv",
                        query=f"@{_CHOSEN}",
                        legend=_LEGEND,
                        bad="a long Recv waits for the stage before it, a long Send for the stage behind it",
                        minimum=0.0,
                    ),
                    answers(
                        "job:nccl_p2p_drop:ratio",
                        title="Bandwidth drop of Send and Recv",
                        query=f"@{_CHOSEN}",
                        legend="{{transport}}",
                        bad="a step up that stays while nothing about the work has changed",
                        width=24,
                    ),
                ),
            ),
        ),
    )
