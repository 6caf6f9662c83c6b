# SPDX-License-Identifier: Apache-2.0
"""Who is late: the GPU or node that everybody else waits for.

Execution time includes waiting for peers and ranks end together, so the late one has the SHORTEST time of its group.
The slowest execution time is the earliest arriver and never to blame.
"""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"

RELATIVE = (
    Signal(
        name="gpu:nccl_exec:relative",
        question="How long does each GPU spend in collectives, relative to the median of its peers?",
        healthy="near its own usual value, which a fixed position in the ring may put 20 % off 1",
        # Recorded for every GPU, so that it also tells which GPUs there are; judged are those of jobs of four and more
        # with an id of their own. Only the longest collectives of a shape count: the first synchronisation point absorbs
        # the wait, the later ones look clean. Like is compared with like, within a domain also within the node. The
        # lower quartile of the two, within and across: inside its node a late GPU is alone, while across nodes its
        # mates, who waited for it, are late with it; it must be below both to stand out.
        expr="""
quantile by (<job>, <node>, <instance>, <gpu>) (0.25,
  avg by (<job>, <node>, <instance>, <gpu>, n_nodes) (
    <exec>{n_nodes="1", <waiting>, <selector>}
    / on (<job>, <peer>, <node>) group_left ()
    (
      quantile by (<job>, <peer>, <node>) (0.5, <exec>{n_nodes="1", <waiting>, <selector>})
      and on (<job>, <peer>)
      peer:nccl_exec:median
      > on (<job>, n_nodes, nranks) group_left ()
      0.25 * max by (<job>, n_nodes, nranks) (peer:nccl_exec:median{<waiting>})
    )
  )
  or
  avg by (<job>, <node>, <instance>, <gpu>) (
    <exec>{n_nodes!="1", <waiting>, <selector>}
    / on (<job>, <peer>) group_left ()
    (
      peer:nccl_exec:median{n_nodes!="1", <waiting>}
      > on (<job>, n_nodes, nranks) group_left ()
      0.25 * max by (<job>, n_nodes, nranks) (peer:nccl_exec:median{<waiting>})
    )
  )
)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "<gpu>"),
        sources="The lower quartile of two values is three quarters of the lower: tests/benchmarks/sweep.py. Collectives of at least "
        "a quarter of the longest: TraceLens and ByteDance's traces show the wait at the first "
        "synchronisation point only.",
        group=GROUP,
    ),
)

SIGNALS = (
    Signal(
        name="gpu:nccl_late_baseline:relative",
        question="What relative time is a GPU that looks late used to?",
        healthy="absent: only GPUs that are 6 % below their usual value have one",
        # Kept as it was for as long as the GPU stays late, for one that was late for three dumps also through a pause such
        # as a checkpoint, so that a long fault does not become the new normal. A fixed position explains up to 20 %: what
        # was always further below was always late, and who was early and comes in time is not late either. To begin with,
        # the GPU must also be below what it rarely falls below by itself.
        expr="""
(
  last_over_time(gpu:nccl_late_baseline:relative[<3 dumps - 1s>])
  or
  (
    last_over_time(gpu:nccl_late_baseline:relative[<20 dumps>])
    and
    last_over_time(gpu:nccl_late:avg[<20 dumps>])
  )
  or
  (
    clamp(quantile_over_time(0.5, gpu:nccl_exec:relative[30m] offset <10 dumps>), 0.84, 1.03)
    and
    (gpu:nccl_exec:relative offset <20 dumps>)
    and
    (
      gpu:nccl_exec:relative < 0.97 * quantile_over_time(0.05, gpu:nccl_exec:relative[30m] offset <10 dumps>)
      or
      gpu:nccl_exec:relative < 0.78
    )
  )
)
> gpu:nccl_exec:relative{<known>} / 0.94
and on (<job>) job:nccl_gpus:count >= 4
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "<gpu>"),
        sources="Baselines of Nebius' detector exclude the last windows, too. Fixed positions take 20 % (healthy "
        "Megatron runs: rank 0 was first in 12 of 13 communicators), hence never below 0.84; 0.78, 0.94 and "
        "0.97: tests/benchmarks/sweep.py. Four GPUs are the fewest with a median.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_late_spread:ratio",
        question="Over how many of the job's nodes, beyond the first, are GPUs spread that look as late as the latest?",
        healthy="0 or absent",
        expr="""
(
  count by (<job>) (
    group by (<job>, <node>) (
      gpu:nccl_exec:relative / gpu:nccl_late_baseline:relative
      <= on (<job>) group_left ()
      1.06 * min by (<job>) (gpu:nccl_exec:relative / gpu:nccl_late_baseline:relative)
    )
  ) - 1
)
/
count by (<job>) (group by (<job>, <node>) (gpu:nccl_exec:relative))""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="gpu:nccl_late:ratio",
        question="Which GPU arrives late, so that its peers wait for it?",
        healthy="absent; a late GPU shows how far its time fell below its usual share (lower is later)",
        # GPUs that look late on every other node are the members of a healthy communicator beside a slow one of the
        # same shape: then the path of the slow one is to blame, and nobody is late. Where half of the GPUs are late, as
        # with one node of two, the median that they are compared with lies half-way between them and the others.
        expr="""
(
  1 / (2 * gpu:nccl_late_baseline:relative / gpu:nccl_exec:relative - 1)
  and on (<job>)
  count by (<job>) (gpu:nccl_late_baseline:relative) >= 0.35 * job:nccl_gpus:count
  or
  gpu:nccl_exec:relative / gpu:nccl_late_baseline:relative
)
unless on (<job>) job:nccl_late_spread:ratio >= 0.5""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "<gpu>"),
        sources="Half of the nodes: a late GPU or node is one, the members of a healthy sibling are on all. 0.35 is half "
        "of the GPUs, of which some do not stand out, and more than one node of three; r of the time of the others is 2 r / (1 + r) of the median.",
        group=GROUP,
    ),
    Signal(
        name="gpu:nccl_late:avg",
        question="Which GPU has been late for three dumps in a row, and how late?",
        healthy="absent; noise makes another GPU look late in every dump, and none of them stays",
        expr="""
avg_over_time(gpu:nccl_late:ratio[<3 dumps - 1s>])
and
count_over_time(gpu:nccl_late:ratio[<3 dumps - 1s>]) >= 3""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "<gpu>"),
        sources="Three in a row: Nebius and the rule of 0.67 on ByteDance's traces; tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_late:min",
        question="How late is the latest GPU of the job?",
        healthy="absent or close to 1",
        expr="min by (<job>) (gpu:nccl_late:avg)",
        unit=Unit.RATIO,
        labels=("<job>",),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_late_soon:min",
        question="How late is the GPU of the job that has been late for two dumps in a row?",
        healthy="absent",
        expr="""
min by (<job>) (
  gpu:nccl_late:ratio and count_over_time(gpu:nccl_late:ratio[<2 dumps - 1s>]) >= 2
)""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="Two dumps: dumps of different nodes are up to one apart.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_wait:relative",
        question="How long does the GPU of each node that waits most spend in collectives, relative to its peers?",
        healthy="a little above 1, and steady",
        expr="max by (<job>, <node>) (gpu:nccl_exec:relative)",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        group=GROUP,
    ),
    Signal(
        name="node:nccl_wait:growth",
        question="On which nodes of a job with a late GPU does a GPU wait longer than before?",
        healthy="absent",
        expr="""
node:nccl_wait:relative
/ quantile_over_time(0.5, node:nccl_wait:relative[6h] offset <10 dumps>)
> 1.06
and on (<job>) job:nccl_late:min""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        sources="tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_late:ratio",
        question="Which node arrives late with all of its GPUs?",
        healthy="absent; present only where at least three quarters of a node's GPUs are late, and alike",
        # One late GPU makes its mates wait inside the node, so they look late to other nodes; but never as late as it.
        expr="""
quantile by (<job>, <node>) (0.5, gpu:nccl_late:avg)
and
count by (<job>, <node>) (gpu:nccl_late:avg)
>= 0.75 * count by (<job>, <node>) (gpu:nccl_exec:relative)
and
min by (<job>, <node>) (gpu:nccl_late:avg)
>= 0.8 * quantile by (<job>, <node>) (0.5, gpu:nccl_late:avg)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        sources="Three quarters of the GPUs, so that one GPU without data does not hide a node; mates of one late "
        "GPU are held up by less than it is late.",
        group=GROUP,
    ),
    Signal(
        name="gpu:nccl_latest:avg",
        question="Which late GPU do others wait for, rather than being held up itself?",
        healthy="absent",
        # All stages of a pipeline look late across nodes when one GPU of one stage is. Its mates inside the node wait
        # for it, or at least are not as late as it is; those of the other stages are held up together. Nobody is named
        # while somebody else on the way to three dumps is later, or as late with mates who wait.
        expr="""
(
  (
    gpu:nccl_late:avg <= on (<job>) group_left () 1.15 * job:nccl_late:min
    and on (<job>, <node>) node:nccl_wait:growth
  )
  or on (<job>)
  (
    (
      gpu:nccl_late:avg <= on (<job>) group_left () 1.15 * job:nccl_late:min
      and on (<job>, <node>)
      count by (<job>, <node>) (
        gpu:nccl_late:avg <= on (<job>, <node>) group_left () 1.06 * min by (<job>, <node>) (gpu:nccl_late:avg)
      ) == 1
      unless on (<job>) node:nccl_late:ratio
    )
    or on (<job>)
    gpu:nccl_late:avg
  )
  unless on (<job>)
  (
    gpu:nccl_late:ratio <= on (<job>) group_left () 1.15 * job:nccl_late:min
    and on (<job>, <node>) node:nccl_wait:growth
  )
)
unless on (<job>) (job:nccl_late_soon:min < 0.8 * job:nccl_late:min)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "<gpu>"),
        sources="Stages of one pipeline look late alike (ByteDance's traces: innocent ones even more): tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_nvlink:relative",
        question="How fast is each node inside its domain, relative to the job's other nodes?",
        healthy="near 1",
        expr="""
avg by (<job>, <node>) (
  max by (<job>, <peer>, <node>) (<busbw>{n_nodes="1", <judged>, <selector>})
  / on (<job>, <peer>) group_left ()
  peer:nccl_busbw:best{n_nodes="1"}
)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        group=GROUP,
    ),
    Signal(
        name="node:nccl_nvlink_drop:ratio",
        question="Which node's links inside the domain are slower than they were?",
        healthy="absent or below 5 %",
        expr="""
1 - node:nccl_nvlink:relative
/ (
  quantile_over_time(0.5, node:nccl_nvlink:healthy[6h] offset <6 dumps>)
  and
  count_over_time(node:nccl_nvlink:healthy[6h] offset <6 dumps>) >= 10
)
> 0.05
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        sources="Ten samples before any verdict; six hours: a baseline outlives any fault that a job survives; 5 % is twice the "
        "noise of a transfer.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_nvlink:healthy",
        question="Which samples may teach what a node's links inside the domain are used to?",
        healthy="follows the relative speed, with gaps while any node of the job is slower than it was",
        expr="""
node:nccl_nvlink:relative
unless on (<job>) node:nccl_nvlink_drop:ratio > 0.1
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        sources="10 %: beyond the noise of a transfer, short of any drop that is judged.",
        group=GROUP,
    ),
    Signal(
        name="node:nccl_nvlink_slow:ratio",
        question="Which node's links inside the domain are slower than they were, while nobody waits there?",
        healthy="absent",
        # Where a domain spans nodes, the GPUs of one node wait for a late one of another, and look like slow links on
        # their node alone; links that are slow slow down all nodes of the communicator.
        expr="""
node:nccl_nvlink_drop:ratio
unless on (<job>)
(
  count by (<job>) (
    node:nccl_nvlink_drop:ratio > on (<job>) group_left () 0.5 * max by (<job>) (node:nccl_nvlink_drop:ratio)
  ) == 1
  and on (<job>)
  (
    job:nccl_shape:info{n_nodes="1", nranks!~"[1-8]"} and on (<job>) max by (<job>) (node:nccl_gpus:count) <= 8
    or
    job:nccl_shape:info{n_nodes="1", nranks=~"[5-8]"} and on (<job>) max by (<job>) (node:nccl_gpus:count) <= 4
  )
)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>"),
        sources="Nodes have four or eight GPUs: a domain with more spans nodes.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_skew:ratio",
        question="How unevenly do the job's GPUs arrive at its collectives?",
        healthy="steady and near 1; growth means that somebody arrives later than before",
        expr="quantile by (<job>) (0.5, gpu:nccl_exec:relative) / min by (<job>) (gpu:nccl_exec:relative)",
        unit=Unit.RATIO,
        labels=("<job>",),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_skew_growth:ratio",
        question="Has the unevenness of the job's GPUs grown?",
        healthy="around 1",
        expr="""
job:nccl_skew:ratio
/ (
  (
    quantile_over_time(0.5, job:nccl_skew:healthy[1h] offset <10 dumps>)
    and
    count_over_time(job:nccl_skew:healthy[1h] offset <10 dumps>) >= 10
  )
  or
  quantile_over_time(0.5, job:nccl_skew:healthy[6h] offset <10 dumps>)
)""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="An hour, ten dumps away: the fault that is judged must not be its own baseline; six where a long fault "
        "leaves fewer than ten samples.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_skew:healthy",
        question="Which samples may teach how uneven arrival usually is?",
        healthy="follows the skew, with gaps while it has grown",
        expr="job:nccl_skew:ratio unless on (<job>) job:nccl_skew_growth:ratio > 1.12",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="1.12: the growth that is taken for a late GPU.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_unexplained:depth",
        question="How much of a drop of the best bandwidth cannot come from a late GPU?",
        healthy="below zero",
        # A late GPU waits for nobody and shows the bandwidth of the path, but without the advantage of the GPU that was
        # best before, whose fixed position lets it finish early: as far below the median as the job's usual skew says.
        expr="""
max by (<job>) (job:nccl_degraded:depth)
- (1.08 - job:nccl_skew_growth:ratio / job:nccl_skew:ratio)""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="0.08 above what positions explain: the smallest depth that opens a window; tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_tail:ratio",
        question="How much longer than the median GPU do the slowest GPUs take across nodes?",
        healthy="steady; growth while nobody is late means that one of several equal communicators is slow",
        expr="""
sum by (<job>, transport) (
  quantile by (<job>, <peer>) (0.97, <exec>{n_nodes!="1", <judged>, <selector>})
  * on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info
)
/
sum by (<job>, transport) (
  peer:nccl_exec:median{n_nodes!="1", <judged>}
  * on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info
)""",
        unit=Unit.RATIO,
        labels=("<job>", "transport"),
        sources="0.97: one slow communicator of 16 holds 6 % of the GPUs.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_tail_growth:ratio",
        question="Has one of several equal communicators across nodes become slower than the others?",
        healthy="around 1",
        expr="""
job:nccl_tail:ratio
/ (
  (
    quantile_over_time(0.5, job:nccl_tail:healthy[1h] offset <10 dumps>)
    and
    count_over_time(job:nccl_tail:healthy[1h] offset <10 dumps>) >= 10
  )
  or
  (
    quantile_over_time(0.5, job:nccl_tail:healthy[6h] offset <10 dumps>)
    and
    count_over_time(job:nccl_tail:healthy[6h] offset <10 dumps>) >= 10
  )
)
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "transport"),
        sources="An hour or six, ten dumps away, and ten samples, as skew.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_tail:healthy",
        question="Which samples may teach how far the slowest GPUs usually are behind?",
        healthy="follows the tail, with gaps while it has grown",
        expr="""
job:nccl_tail:ratio
unless on (<job>, transport) job:nccl_tail_growth:ratio > 1.12
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "transport"),
        sources="1.12: the growth that is taken for a slow communicator.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_tail_slow:depth",
        question="How much slower is one of several equal communicators across nodes than before?",
        healthy="absent",
        expr="""
1 - 1
/ max by (<job>) (
  min_over_time(job:nccl_tail_growth:ratio[<3 dumps - 1s>]) > 1.12
  or
  max_over_time(job:nccl_tail_growth:ratio[<2 dumps - 1s>]) > 1.12
  and on (<job>) last_over_time(job:nccl_tail_slow:depth[<2 dumps - 1s>])
)""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="Three dumps to begin, as for a late GPU, and two to end, so that one dump that covers other steps does not "
        "interrupt it; 1.12: tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
)
