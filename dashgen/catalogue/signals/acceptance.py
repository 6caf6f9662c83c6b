# SPDX-License-Identifier: Apache-2.0
"""Does the job reach what its hardware reached at acceptance?

The values come from nccl-tests by ``dashgen baseline`` and stand in dashgen.yaml; without them there is nothing here.
Training waits for late ranks and shares its GPUs with compute, so only the best member of the best communicator is
compared, and only from 1 MB on.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.runbooks import COMMUNICATION
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit

SIGNALS = (
    Signal(
        name="job:nccl_busbw:expected",
        question="What bus bandwidth did sound hardware reach in nccl-tests?",
        healthy="constant: the values of acceptance in dashgen.yaml, for what the job uses",
        expr="""
0 * job:nccl_busbw:max
+ on (transport, collective, size_class) group_left ()
(
  <acceptance>
)""",
        unit=Unit.GBPS,
        labels=("<job>", "transport", "collective", "size_class"),
        group=groups.BANDWIDTH,
        companion="acceptance",
    ),
    Signal(
        name="job:nccl_acceptance:ratio",
        question="How much of its accepted bandwidth does each collective reach when nobody waits?",
        healthy="above 0.8; training rarely reaches the whole, as it computes at the same time",
        expr="""
job:nccl_busbw:max{size_class!="small"} / job:nccl_busbw:expected
unless on (<job>) job:nccl_dump_age:seconds > 3 * <dump>""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "collective", "size_class"),
        group=groups.BANDWIDTH,
        companion="acceptance",
    ),
)

ALERTS = (
    Alert(
        name="NcclBelowAcceptance",
        kind="degradation",
        signal="job:nccl_acceptance:ratio",
        # The best within the window: one dump that was fast shows that the hardware can.
        expr="max_over_time(job:nccl_acceptance:ratio[<10 dumps>]) < <threshold>",
        labels={"suspect": "unknown"},
        companion="acceptance",
        limit="less than <threshold %> of the accepted bandwidth",
        summary="Job <this_job>: {{ $labels.collective }} over {{ $labels.transport }} is below acceptance.",
        description="{{ $labels.size_class }} {{ $labels.collective }} over {{ $labels.transport }} of job "
        "<this_job> reaches {{ $value | humanizePercentage }} of what nccl-tests reached here, and nothing in the job "
        "has been faster for ten dump intervals. Look first at the job board: has it ever been faster, or slow from its start?",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.8, dumps=10, severity=Severity.WARNING, keep_firing=4),
            Sensitivity.HIGH: Tier(threshold=0.8, dumps=4, severity=Severity.WARNING, keep_firing=4),
        },
        rises=False,
        sources="Acceptance practice (Alaya): more than 20 % below the reference is defective. The best busbw of ten dumps is "
        "judged, because training traffic contains waiting, which nccl-tests does not.",
        dashboard="job",
        runbook=Runbook(
            meaning="Not even the fastest member of the fastest communicator comes near what the same hardware did in nccl-tests. "
            "A job that was slow from its very start shows only here: its own baseline knows nothing better.",
            look_first=(
                "Job board, Bus bandwidth of the best path: the line of the expected bandwidth, and since when the job is below it.",
                "Do other jobs on other nodes reach it? Then these nodes; if none does, the accepted value is out of date.",
            ),
            tell_apart=(
                *COMMUNICATION,
                "Overlap: collectives that run beside compute share SMs and memory with it. A job that overlaps everything may "
                "stay below for good: lower its expectation in dashgen.yaml.",
            ),
            act=(
                "Run nccl-tests on the job's nodes when it has ended, in halves, until the slow node is found; drain it.",
                "After a change of the hardware: `dashgen baseline --update dashgen.yaml FILE…` with new results.",
            ),
        ),
    ),
)
