# SPDX-License-Identifier: Apache-2.0
"""Is a transport slower than this job knows it, since when and how much.

Transport health is the best bus bandwidth of a peer group: the last arriver does not wait for anybody, so its time is
pure transfer. The average over ranks, which other dashboards show, mixes waiting into bandwidth.
"""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"

SIGNALS = (
    Signal(
        name="peer:nccl_busbw:best",
        question="How fast is each kind of communicator when nobody waits?",
        healthy="steady within a few percent for one message size and algorithm",
        # Within a domain every node has its own communicators: the median node stands for the job, and
        # node:nccl_nvlink:relative tells the nodes apart. Where a job has several communicators of one rank per node,
        # GPUs of equal number share one (a rail): the slowest rail counts, it holds up all others. The sign makes a
        # minimum of a maximum there, so that the bandwidth across nodes is read once.
        expr="""
quantile by (<job>, <peer>) (0.5,
  max by (<job>, <peer>, <node>) (<busbw>{n_nodes="1", <large>, <selector>})
)
or
abs(
  max by (<job>, <peer>) (
    max by (<job>, <peer>, <gpu>) (<busbw>{n_nodes!="1", <large>, <selector>})
    * on (<job>, n_nodes, nranks) group_left ()
    (
      -1 * (job:nccl_siblings:info and on (<job>, n_nodes, nranks) job:nccl_transport:info{transport="network"})
      or
      job:nccl_shape:info
    )
  )
)""",
        unit=Unit.GBPS,
        labels=("<job>", "<peer>"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_busbw_drop:ratio",
        question="How far is each collective below the bandwidth that this job is used to?",
        healthy="around zero",
        # The median over message sizes and algorithms, each against its own baseline: the median of the healthy samples
        # of the last hour, away from the window being judged (6 dumps). Fewer than ten of them in the last hour: of the
        # last six, as in a long fault; fewer still: a new message size has no baseline and no verdict. A frozen file
        # is not judged: what it says is old.
        expr="""
quantile by (<job>, transport, collective) (0.5,
  (
    1 - peer:nccl_busbw:best{<judged>}
    / (
      (
        quantile_over_time(0.5, peer:nccl_busbw:healthy{<judged>}[1h] offset <6 dumps>)
        and
        count_over_time(peer:nccl_busbw:healthy{<judged>}[1h] offset <6 dumps>) >= 10
      )
      or
      (
        quantile_over_time(0.5, peer:nccl_busbw:healthy{<judged>}[6h] offset <6 dumps>)
        and
        count_over_time(peer:nccl_busbw:healthy{<judged>}[6h] offset <6 dumps>) >= 10
      )
    )
  )
  * on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info
)
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "collective"),
        sources="A median of an hour away from the window being judged, as the AWS guide to PromQL anomalies does; "
        "ten samples, five minutes, before any verdict (warm-up); six dumps of offset: the published dips "
        "last four to eight dumps, and tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_busbw_noise:ratio",
        question="How much does the bandwidth of each transport move on its own?",
        healthy="a few percent; a noisy job needs a deeper drop before it is believed",
        # 0.6745 makes the third quartile of a normal distribution its standard deviation; the floor of 2 % keeps a
        # very quiet job from calling every ripple significant.
        expr="""
clamp_min(
  max by (<job>, transport) (
    quantile_over_time(0.75,
      (job:nccl_busbw_drop:ratio unless on (<job>, transport) job:nccl_degraded:bool == 1)[1h:<1 dumps>] offset <6 dumps>
    )
  ) / 0.6745,
  0.02
)""",
        unit=Unit.RATIO,
        labels=("<job>", "transport"),
        sources="0.6745 turns a quartile into a standard deviation; the floor of 2 % is the transfer noise of "
        "ByteDance's traces (0.6 to 4.3 %), and sd floors keep z-scores from exploding (Nebius saw z = 577 "
        "on a healthy run).",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_degraded:depth",
        question="How deep is each transport of the job in a degradation now?",
        healthy="zero or a little below",
        expr="max by (<job>, transport) (job:nccl_busbw_drop:ratio)",
        unit=Unit.RATIO,
        labels=("<job>", "transport"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_degraded:bool",
        question="Is the job inside a degradation window?",
        healthy="0",
        # Opens on two dumps in a row that are both deep and significant, closes after two that are nearly healthy.
        expr="""
(
  min_over_time(job:nccl_degraded:depth[<2 dumps - 1s>]) > bool 0.08
) * (
  job:nccl_degraded:depth > bool 3 * job:nccl_busbw_noise:ratio
)
> 0
or
(
  last_over_time(job:nccl_degraded:bool[<3 dumps - 1s>]) == 1
  unless
  max_over_time(job:nccl_degraded:depth[<2 dumps - 1s>]) < 0.04
)
or
0 * job:nccl_degraded:depth""",
        unit=Unit.BOOL,
        labels=("<job>", "transport"),
        sources="Effect and significance, as Greyhound (ATC'25), which keeps changes of 10 %; 8 %, 3 sigma, and 4 % "
        "to close: tests/benchmarks/sweep.py. Two dumps: dumps of different nodes are up to one apart.",
        group=GROUP,
    ),
    Signal(
        name="peer:nccl_busbw:healthy",
        question="Which samples may teach a baseline?",
        healthy="follows the best bandwidth, with gaps while degraded or frozen",
        # A pause closes a window, which takes two dumps to open again: until then depth decides.
        expr="""
peer:nccl_busbw:best
unless on (<job>, n_nodes, nranks)
(
  job:nccl_transport:info
  and on (<job>, transport)
  (job:nccl_degraded:bool == 1 or job:nccl_degraded:depth > clamp_min(3 * job:nccl_busbw_noise:ratio, 0.08))
)
unless on (<job>) job:nccl_unsettled:bool""",
        unit=Unit.GBPS,
        labels=("<job>", "<peer>"),
        sources="8 % and 3 sigma: as job:nccl_degraded:bool.",
        group=GROUP,
    ),
)
