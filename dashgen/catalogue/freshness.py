# SPDX-License-Identifier: Apache-2.0
"""Who is there, and how old is what we see: the ground that every verdict stands on.

An idle or hung job's file is not rewritten, so its values stay as they were. Presence is never health.
"""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-verdict"

SIGNALS = (
    Signal(
        name="job:nccl_progress:timestamp",
        question="When did any GPU of the job last report new communication?",
        healthy="absent in a dump without news, at most one in a row",
        # A value that changed is news; healthy values of six digits hardly ever repeat. With Inspector's counters on,
        # files are rewritten although nothing happens, and values disappear: both are no news.
        expr="""
0 * max by (<job>) (
  changes(<exec>{<clean>, <selector>}[<news>]) > 0
  or
  changes(<p2p_exec>{<clean>, <selector>}[<news>]) > 0
) + time()""",
        unit=Unit.TIMESTAMP,
        labels=("<job>",),
        sources="A dump may come a scrape late, hence changes over two, and scrapes may be a minute apart, hence over 90 s.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_gpus:count",
        question="How many GPUs of each node report for the job?",
        healthy="the number of GPUs that the job has on the node",
        # The counters stay when an idle GPU's bandwidth lines disappear, so a hung job stays visible through them.
        expr="""
count by (<job>, <node>, <instance>) (
  <branches>
)
<seen>""",
        branches=(
            ("", "group by (<job>, <node>, <instance>, <gpu>) (<exec>{<clean>, <selector>})"),
            ("", "group by (<job>, <node>, <instance>, <gpu>) (<p2p_exec>{<clean>, <selector>})"),
            ("counters", "group by (<job>, <node>, <instance>, <gpu>) (<collectives>{<selector>})"),
        ),
        join="or",
        unit=Unit.COUNT,
        labels=("<job>", "<node>", "<instance>"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_gpus:count",
        question="How many GPUs report for the job?",
        healthy="the number of GPUs of the job",
        expr="sum by (<job>) (node:nccl_gpus:count)",
        unit=Unit.COUNT,
        labels=("<job>",),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_dump_age:seconds",
        question="How long ago did any GPU of the job last report new communication?",
        healthy="below two dump intervals",
        # After Prometheus itself was away, three dumps must be seen before silence means anything.
        expr="""
time() - last_over_time(job:nccl_progress:timestamp[1d])
and on (<job>) max by (<job>) (count_over_time(node:nccl_gpus:count[<3 dumps - 1s>])) >= 3""",
        unit=Unit.SECONDS,
        labels=("<job>",),
        sources="A day: longer than any fault that a job survives; three dumps, as every verdict.",
        group=GROUP,
    ),
)
