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
        sources="Four dumps: a step of a large job may take longer than a dump.",
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
        sources="As job:nccl_busbw_drop:ratio.",
        group=GROUP,
    ),
    Signal(
        name="job:training_throughput_loss:ratio",
        question="How much of its throughput does the job lose now?",
        healthy="around zero",
        # A rate of counters has seen a pause, such as a checkpoint, for as long as its window is.
        expr="""
1 - job:training_throughput:current / (last_over_time(job:training_throughput:baseline[6h]) > 0)
unless on (<job>) job:nccl_unsettled:bool
unless on (<job>, evidence)
label_replace(
  max_over_time(job:nccl_dump_age:seconds[<4 dumps>]) > 1.5 * <dump>,
  "evidence", "collectives", "", ""
)""",
        unit=Unit.RATIO,
        labels=("<job>", "evidence"),
        sources="Six hours: a baseline outlives any fault that a job survives.",
        group=GROUP,
    ),
    Signal(
        name="job:training_throughput:healthy",
        question="Which throughput samples may teach a baseline?",
        healthy="follows the throughput, with gaps while the job loses 5 % or more",
        # Around a pause there is no loss to be told: the last one decides.
        expr="""
job:training_throughput:current
unless last_over_time(job:training_throughput_loss:ratio[<20 dumps>]) > 0.05
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.COUNT,
        labels=("<job>", "evidence"),
        sources="5 %: the smallest published dip costs 6 %.",
        group=GROUP,
    ),
)
