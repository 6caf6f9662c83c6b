# SPDX-License-Identifier: Apache-2.0
"""Does slow communication hurt: what the job itself achieves, by the best evidence that the site has."""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"

SIGNALS = (
    Signal(
        name="job:training_throughput:current",
        question="What does the job achieve, and who says so?",
        healthy="steady; the label evidence names the source",
        # The job's own figure, else completed collectives, else tensor-core activity of its nodes.
        expr="<branches>",
        branches=(
            (
                "throughput",
                """
label_replace(
  max by (<job>) (<throughput>),
  "evidence", "reported", "", ""
)""",
            ),
            (
                "counters",
                """
label_replace(
  sum by (<job>) (rate(<collectives>{<selector>}[<4 dumps>])) > 0,
  "evidence", "collectives", "", ""
)""",
            ),
            (
                "dcgm",
                """
label_replace(
  job:dcgm_tensor_active:avg,
  "evidence", "tensor", "", ""
)""",
            ),
        ),
        unit=Unit.COUNT,
        labels=("<job>", "evidence"),
        group=GROUP,
    ),
    Signal(
        name="job:training_throughput:baseline",
        question="What throughput is the job used to?",
        healthy="a slow line at the height of the throughput",
        expr="""
quantile_over_time(0.5, job:training_throughput:healthy[1h] offset <6 dumps>)
and
count_over_time(job:training_throughput:healthy[1h] offset <6 dumps>) >= 10""",
        unit=Unit.COUNT,
        labels=("<job>", "evidence"),
        group=GROUP,
    ),
    Signal(
        name="job:training_throughput_loss:ratio",
        question="How much of its throughput does the job lose now?",
        healthy="around zero",
        expr="""
1 - job:training_throughput:current / (last_over_time(job:training_throughput:baseline[6h]) > 0)
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "evidence"),
        group=GROUP,
    ),
    Signal(
        name="job:training_throughput:healthy",
        question="Which throughput samples may teach a baseline?",
        healthy="follows the throughput, with gaps while the job loses 5 % or more",
        expr="job:training_throughput:current unless job:training_throughput_loss:ratio > 0.05",
        unit=Unit.COUNT,
        labels=("<job>", "evidence"),
        group=GROUP,
    ),
)
