# SPDX-License-Identifier: Apache-2.0
"""Does slow communication hurt: what the job itself achieves, by the best evidence that the site has."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.baselines import ANOTHER, usual
from dashgen.catalogue.runbooks import COMMUNICATION
from dashgen.catalogue.signals.freshness import NEW, SEEN
from dashgen.catalogue.signals.hosts import TENSOR_ACTIVE
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit, labelled

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

# A note: a schedule, or fewer nodes, may be the reason as well.
_NOTE = Tier(threshold=0.10, dumps=20, severity=Severity.INFO, keep_firing=10)

ALERTS = (
    Alert(
        name="NcclThroughputLost",
        kind="degradation",
        explained_by={"NcclJobStalled": "job", "NcclJobDegraded": "job"},
        signal="job:training_throughput_loss:ratio",
        expr="""
job:training_throughput_loss:ratio > <threshold>
unless on (<job>) job:nccl_verdict:depth{state!~"healthy|unknown"}""",
        limit="more than <threshold %> of the throughput is lost, and the verdict blames nobody",
        summary="Job <this_job> has lost throughput, and nothing in its communication tells why.",
        description="Job <this_job> has lost {{ $value | humanizePercentage }} of its throughput (evidence: {{ $labels.evidence }}), "
        "while nothing that Inspector tells is slower or later than it is used to. Look first at what all of its ranks share: clocks and power, "
        "storage and loaders; or at the job itself: another batch size, longer sequences, fewer nodes.",
        tiers=dict.fromkeys((Sensitivity.MEDIUM, Sensitivity.HIGH), _NOTE),
        sources="A tenth, as for what convinces of a suspect; twenty dumps are the ten minutes after which a job that does something else has "
        "changed for good. In 540 random jobs eight such losses last as long: two are faults that nothing else tells, and the others a restart, a requeue on fewer nodes, "
        "and jobs that do less by themselves. That is too many for a ticket.",
        dashboard="job",
        runbook=Runbook(
            meaning="The job does less work per second than it is used to, and its communication tells no cause: where all ranks are "
            "slower alike, nobody waits for anybody.",
            look_first=(
                "Job board: since when, and did messages or the number of GPUs change in the same minute?",
                "Clocks, power and temperature of the job's GPUs: a cap of a rack or a row slows all of them.",
                "Storage and loaders: does each step begin late, does a checkpoint take longer than it did?",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "Look at the network last. Ask whoever caps power or runs the file system, and whoever changed the job.",
            ),
        ),
    ),
)
