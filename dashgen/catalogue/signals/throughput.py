# SPDX-License-Identifier: Apache-2.0
"""Does slow communication hurt: what the job itself achieves, by the best evidence that the site has."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.baselines import ANOTHER, usual
from dashgen.catalogue.signals.freshness import NEW, SEEN
from dashgen.catalogue.signals.hosts import TENSOR_ACTIVE
from dashgen.model import Signal, Unit, labelled

CURRENT = Signal(
    name="job:training_throughput:current",
    question="What does the job achieve, and who says so?",
    healthy="steady; the label evidence names the source",
    # The job's own figure, else completed collectives, else tensor-core activity of its nodes. Collectives are those of a GPU,
    # so that a node of which nothing is heard is no loss, and divided by the time between the files that tell them: at
    # moments of scrapes a rate strays by a whole dump in four.
    expr=f"""
(
  <branches>
)
{SEEN}""",
    branches=(
        ("throughput", labelled("max by (<job>) (<throughput>)", "evidence", "reported")),
        (
            "counters",
            labelled(
                """avg by (<job>) (
  sum by (<job>, <target>, <gpu>) (<collectives>{<selector>} - <collectives>{<selector>} offset <4 dumps>)
  / on (<target>) group_left ()
  (
    quantile by (<target>) (
      0.5,
      <mtime>{file=~"<textfile_regex>"} - <mtime>{file=~"<textfile_regex>"} offset <4 dumps>
    )
    > 0
  )
  or on (<job>)
  sum by (<job>, <target>, <gpu>) (rate(<collectives>{<selector>}[<4 dumps>]))
) > 0""",
                "evidence",
                "collectives",
            ),
        ),
        ("dcgm", labelled(TENSOR_ACTIVE, "evidence", "tensor")),
    ),
    unit=Unit.COUNT,
    labels=("<job>", "evidence"),
    sources="Four dumps: a step of a large job may take longer than a dump.",
    group=groups.VERDICT,
)

REACHED = "max_over_time(job:training_throughput:current[<2 dumps in a row>] offset <believed_after>)"
"""The throughput that was judged a moment ago."""

SIGNALS = (
    Signal(
        name="job:training_throughput_loss:ratio",
        question="How much of its throughput does the job lose now?",
        healthy="around zero",
        # Rounded, because 1 - 1.0000000000000002 would be written as -2.22e-14 %. Where one source ends and another takes its
        # place, two dumps hold both.
        expr=f"""
round(
  bottomk by (<job>) (1,
    1
    - max_over_time(job:training_throughput:current[<2 dumps in a row>]) / ignoring (of) ({usual("throughput")} > 0)
    unless on (<job>) {ANOTHER}
    {NEW}
  ),
  0.0001
)""",
        unit=Unit.RATIO,
        labels=("<job>", "evidence"),
        sources="Two dumps: a checkpoint is a loss in one line of the training log.",
        group=groups.VERDICT,
    ),
)
