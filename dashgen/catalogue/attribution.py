# SPDX-License-Identifier: Apache-2.0
"""Whose fault is it: from which transports are slow, and whether somebody is late, to one suspect for a job.

The table: across domains slow and within a domain fast is the network; within a domain slow is the link of that node;
everything slow with growing skew, or nothing slow and somebody late, is a straggler; everything slow at equal skew is
a shared cause such as clocks, power or placement, which the metrics cannot name.
"""

from __future__ import annotations

from dashgen.catalogue.runbooks import COMMUNICATION, LATE
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit

GROUP = "nccl-detection"

SIGNALS = (
    Signal(
        name="job:nccl_window:depth",
        question="Which transports are in a degradation window, how deep, and who is the suspect?",
        healthy="absent",
        # The first verdict on a window stays for as long as it is open: a verdict that changes is a second page. A late
        # GPU is the reason where it explains the whole drop of the best bandwidth, or where it is very late and skew has
        # grown with it. Where somebody seems late, or arrival has become uneven, a window that has just opened waits two
        # dumps for its verdict: dumps of different nodes are up to an interval apart, so for a dump or two some GPUs look
        # late that are not, and others not yet.
        expr="""
(job:nccl_degraded:depth and job:nccl_degraded:bool == 1)
* on (<job>, transport) group_left (suspect)
(0 * last_over_time(job:nccl_window:depth[<2 dumps - 1s>]) + 1)
or on (<job>, transport)
label_replace(
  (job:nccl_degraded:depth and job:nccl_degraded:bool == 1)
  and on (<job>)
  (
    (job:nccl_late_soon:min < 0.85 or job:nccl_late:min < 0.88)
    and on (<job>) job:nccl_unexplained:depth <= 0
    or
    job:nccl_late:min < 0.75 and on (<job>) job:nccl_skew_growth:ratio > 1.15
  ),
  "suspect", "straggler", "", ""
)
or on (<job>, transport)
(
  label_replace(
    (job:nccl_degraded:depth{transport!="nvlink"} and job:nccl_degraded:bool == 1)
    unless on (<job>) job:nccl_degraded:bool{transport="nvlink"} == 1,
    "suspect", "network", "", ""
  )
  or on (<job>, transport)
  label_replace(
    (job:nccl_degraded:depth{transport="nvlink"} and job:nccl_degraded:bool == 1)
    unless on (<job>) job:nccl_degraded:bool{transport!="nvlink"} == 1,
    "suspect", "nvlink", "", ""
  )
  or on (<job>, transport)
  label_replace(
    (job:nccl_degraded:depth and job:nccl_degraded:bool == 1)
    and on (<job>) job:nccl_skew_growth:ratio > 1.3,
    "suspect", "straggler", "", ""
  )
  or on (<job>, transport)
  label_replace(
    job:nccl_degraded:depth and job:nccl_degraded:bool == 1,
    "suspect", "unknown", "", ""
  )
)
unless on (<job>, transport)
(
  min_over_time(job:nccl_degraded:bool[<3 dumps - 1s>]) == 0
  and on (<job>)
  (
    job:nccl_late_soon:min < 0.9
    and on (<job>) (job:nccl_unexplained:depth <= 0 or job:nccl_skew_growth:ratio > 1.15)
    or
    job:nccl_skew_growth:ratio > 1.3 and on (<job>) job:nccl_unexplained:depth <= 0
  )
)""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "suspect"),
        sources="0.85 and 0.9 around the rule of 0.8 on ByteDance's traces, 0.75 is the score of "
        "nvidia-resiliency-ext; 1.15 and 1.3 exceed the growth of skew in healthy jobs (1.1, in noisy ones "
        "1.3); tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_candidate:depth",
        question="Which causes of slow communication does anything speak for?",
        healthy="absent",
        # A GPU that has been late for three dumps, or, where nobody can be named, arrival that has become uneven while
        # throughput falls, told under the transport of the widest communicator; open windows; one slow communicator among
        # equal ones, where nobody is late, and then only a very late GPU changes that; a single node's links for two
        # dumps, or a domain that fell apart.
        expr="""
label_replace(
  (
    1 - (job:nccl_late:min < 0.85)
    or
    (
      1 - (job:nccl_late:min < 0.93)
      or
      1 - 1 / (min_over_time(job:nccl_skew_growth:ratio[<3 dumps - 1s>]) > 1.12)
      unless on (<job>) job:nccl_tail_growth:ratio > 1.12
      or
      job:nccl_tail_slow:depth and on (<job>) last_over_time(job:nccl_cause:depth{suspect="straggler"}[<6 dumps>])
    )
    and on (<job>) job:training_throughput_loss:ratio > 0.05
    unless on (<job>) job:nccl_unexplained:depth > 0
  )
  * on (<job>) group_right ()
  (
    group by (<job>, transport) (job:nccl_transport:info{transport="mixed"})
    or on (<job>)
    group by (<job>, transport) (job:nccl_transport:info{transport="network"})
    or on (<job>)
    group by (<job>, transport) (job:nccl_transport:info{transport="nvlink"})
  ),
  "suspect", "straggler", "", ""
)
or
job:nccl_window:depth
or
label_replace(
  (
    (
      job:nccl_tail_slow:depth > 1 - 1 / 1.2
      or
      job:nccl_tail_slow:depth and on (<job>) job:training_throughput_loss:ratio > 0.05
    )
    * on (<job>) group_right ()
    (
      group by (<job>, transport) (job:nccl_transport:info{transport="mixed"})
      or on (<job>)
      group by (<job>, transport) (job:nccl_transport:info{transport="network"})
    )
  )
  unless on (<job>) job:training_throughput_loss:ratio <= 0.05
  unless on (<job>)
  (
    (
      job:nccl_late:min < 0.92
      or
      job:nccl_late_soon:min < 0.88
    )
    unless on (<job>)
    (last_over_time(job:nccl_cause:depth{suspect="network"}[<6 dumps>]) unless on (<job>) job:nccl_late:min < 0.75)
  )
  unless on (<job>) last_over_time(job:nccl_cause:depth{suspect="straggler"}[<6 dumps>])
  unless on (<job>) job:nccl_window:depth,
  "suspect", "network", "", ""
)
or
label_replace(
  label_replace(
    max by (<job>) (
      min_over_time(node:nccl_nvlink_slow:ratio[<2 dumps - 1s>])
      and
      count_over_time(node:nccl_nvlink_slow:ratio[<2 dumps - 1s>]) >= 2
    ) > 0.15
    or
    1 - 1 / job:nccl_domains:growth,
    "transport", "nvlink", "", ""
  ),
  "suspect", "nvlink", "", ""
)""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "suspect"),
        sources="0.85: as NcclGpuLate; 0.93 and 1.12 only together with a throughput loss of 5 %, the smallest "
        "published dip costs 6 %; 1.2: Greyhound suspects a communicator at 1.2 times its siblings; 0.15 as "
        "NcclNvlinkDegraded in the highest tier; tests/benchmarks/sweep.py.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_cause:depth",
        question="What is the one most likely cause of slow communication in this job?",
        healthy="absent",
        # One row a job, so that one incident is one page: what was said before, for as long as it is a candidate; else
        # links of one node, through which rings across nodes pass, too; other paths across domains, and within; and a
        # straggler last, who is a candidate also where a path is slow: not soon after another cause, because when a path
        # recovers, those behind it look late for a moment.
        expr="""
topk by (<job>) (1,
  job:nccl_candidate:depth
  and on (<job>, transport, suspect)
  last_over_time(job:nccl_cause:depth[<6 dumps>])
)
or on (<job>)
job:nccl_candidate:depth{suspect="nvlink"}
or on (<job>)
job:nccl_candidate:depth{transport="mixed", suspect!="straggler"}
or on (<job>)
job:nccl_candidate:depth{transport="network", suspect!="straggler"}
or on (<job>)
job:nccl_candidate:depth{transport="nvlink", suspect!="straggler"}
or on (<job>)
(
  job:nccl_candidate:depth{transport="mixed"}
  or on (<job>)
  job:nccl_candidate:depth{transport="network"}
  or on (<job>)
  job:nccl_candidate:depth
)
unless on (<job>) last_over_time(job:nccl_cause:depth{suspect!="straggler"}[<6 dumps>])""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "suspect"),
        sources="Six dumps: longer than any gap that a missed dump or a checkpoint of a minute tears.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_impact:ratio",
        question="How much does slow communication cost the job?",
        healthy="absent; otherwise the loss of throughput, or without throughput evidence the loss of bandwidth",
        # Slow communication takes no more from a step than its own time grows: a far larger loss, as in an evaluation, has
        # another cause. Two dumps in a row, because a checkpoint is a loss, too, and so must be the cause, deeper than a
        # window that is about to close, but for a GPU that is clearly late and for the links of a node: these have been
        # for three and two. What has begun lasts as long as its cause. Three dumps where bandwidth alone must tell.
        expr="""
(
  0 * (
    job:nccl_cause:depth{suspect="straggler"} > 0.2
    or
    job:nccl_cause:depth{suspect="nvlink"} > 0.05
    or
    (
      job:nccl_cause:depth > 0.4 * max_over_time(job:nccl_cause:depth[<3 dumps - 1s>])
      and min_over_time(job:nccl_cause:depth[<2 dumps - 1s>]) > 0.05
      and count_over_time(job:nccl_cause:depth[<2 dumps - 1s>]) >= 2
    )
    or
    (
      job:nccl_cause:depth
      and on (<job>, transport, suspect)
      last_over_time(job:nccl_impact:ratio{evidence!="none"}[<2 dumps - 1s>])
    )
  )
  + 1
)
* on (<job>) group_left (evidence)
(min_over_time(job:training_throughput_loss:ratio[<2 dumps - 1s>]) and job:training_throughput_loss:ratio)
<= on (<job>) group_left ()
3 * job:nccl_cause:depth + 0.05
or on (<job>)
label_replace(
  job:nccl_cause:depth and count_over_time(job:nccl_cause:depth[<3 dumps - 1s>]) >= 3,
  "evidence", "none", "", ""
)
unless on (<job>) last_over_time(job:training_throughput_loss:ratio[<10 dumps>])""",
        unit=Unit.RATIO,
        labels=("<job>", "transport", "suspect", "evidence"),
        sources="A checkpoint is a loss for one dump, an evaluation one of half and more; three times the depth: "
        "tests/benchmarks/sweep.py; 0.2 is the rule of 0.8 on ByteDance's traces; 0.05 is above the 0.04 that close a "
        "window, of which bursts of less than a minute leave no more in their third dump.",
        group=GROUP,
    ),
)

ALERTS = (
    Alert(
        name="NcclJobDegraded",
        kind="degradation",
        signal="job:nccl_impact:ratio",
        # Once beyond the threshold, less is enough: a loss that ripples around the threshold is one page.
        expr="""
job:nccl_impact:ratio{evidence!="none"} > <threshold>
or
job:nccl_impact:ratio{evidence!="none"} > <still>
and max_over_time(job:nccl_impact:ratio[<14 dumps>]) > <threshold>
or
job:nccl_impact:ratio{evidence="none"} > <late>
and (job:nccl_impact:ratio{suspect="straggler"} or max_over_time(job:nccl_impact:ratio[<14 dumps>]) > <blind>)""",
        summary="Job {{ $labels.<job_label> }} is slowed down by its communication; suspect: {{ $labels.suspect }}.",
        description="""
{{ if eq $labels.evidence "none" -}}
Communication of job {{ $labels.<job_label> }} runs {{ $value | humanizePercentage }} below what it is used to; \
there is no throughput evidence.
{{- else -}}
Job {{ $labels.<job_label> }} has lost {{ $value | humanizePercentage }} of its throughput \
(evidence: {{ $labels.evidence }}) while its communication is slow.
{{- end }} Transport: {{ $labels.transport }}, suspect: {{ $labels.suspect }}. Look first at the degradation windows \
of the job board, then at the outlier board.""",
        tiers={
            Sensitivity.LOW: Tier(
                threshold=0.10,
                dumps=3,
                severity=Severity.CRITICAL,
                hold=14,
                extra={"still": 0.05, "blind": 0.20, "late": 0.15},
            ),
            Sensitivity.MEDIUM: Tier(
                threshold=0.06,
                dumps=1,
                severity=Severity.CRITICAL,
                hold=10,
                extra={"still": 0.03, "blind": 0.20, "late": 0.15},
            ),
            Sensitivity.HIGH: Tier(
                threshold=0.05,
                dumps=0,
                severity=Severity.CRITICAL,
                hold=8,
                extra={"still": 0.025, "blind": 0.15, "late": 0.15},
            ),
        },
        sources="NVIDIA's blog of 2026-05-07 calls -13 % (310 to 268 TFLOP/s/GPU) an incident, and its shorter dip cost "
        "6 to 8 % for four to eight dumps, hence a verdict after three. A "
        "checkpoint of half a minute shows in a rate over four dumps for five, hence four in low. Without throughput evidence: a 13 % loss takes at "
        "least 13.5 % off bus bandwidth when all communication is exposed and 24 % when half of it is; who is late is late "
        "by as much as NcclGpuLate says. Half of the threshold is "
        "enough within 14 dumps, the longest hold: pages per incident in tests/benchmarks/detection.py.",
        dashboard="job",
        runbook=Runbook(
            meaning="The job does less work per second than it is used to, and its communication is slow at the same "
            "time. This is the page: the finer alerts of the same job say more about the cause.",
            look_first=(
                "Job board: which transport is in a degradation window, since when, how deep.",
                "Outlier board: is one GPU or node late?",
                "Fabric counters of the job's nodes.",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "suspect network: follow NcclTransportDegraded.",
                "suspect nvlink: follow NcclNvlinkDegraded; drain the node.",
                "suspect straggler: follow NcclGpuLate or NcclNodeLate; drain the node that is late.",
                "suspect unknown: everything is slow alike; compare clocks, power and placement before blaming links.",
            ),
        ),
    ),
    Alert(
        name="NcclTransportDegraded",
        kind="degradation",
        signal="job:nccl_window:depth",
        # A ring across nodes is as slow as the links inside a node that it passes.
        expr="""
job:nccl_window:depth > <threshold>
unless on (<job>) job:nccl_cause:depth{suspect="nvlink"}
or
job:nccl_window:depth{suspect="nvlink"} > <threshold>""",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.transport }} bandwidth is degraded; "
        "suspect: {{ $labels.suspect }}.",
        description="The best bus bandwidth over {{ $labels.transport }} communicators of job {{ $labels.<job_label> }} is "
        "{{ $value | humanizePercentage }} below what the job is used to. Look first at the job board: which collectives "
        "fall, and does the other transport hold?",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.12, dumps=1, severity=Severity.WARNING, hold=4),
            Sensitivity.HIGH: Tier(threshold=0.08, dumps=0, severity=Severity.WARNING, hold=3),
        },
        sources="Greyhound (ATC'25) keeps change points of at least 10 % and holds links from 1.1 times; the published "
        "6-8 % dip of 2026-03-19 takes 11-15 % off bus bandwidth when half of the communication is exposed.",
        dashboard="job",
        runbook=Runbook(
            meaning="The fastest member of a communicator, who waits for nobody, is slower than it used to be: the "
            "path itself has become slower, not a rank. Overlapped communication may slow down without costing "
            "throughput.",
            look_first=(
                "Job board, bandwidth by transport: mixed and network down with the domain flat is the network.",
                "Job board, algorithm mix: a forced NCCL_ALGO or NCCL_PROTO shows as a change here.",
                "Fabric counters of the job's nodes, for the time of the window.",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "Find what the slow communicators share: a node, a rail (GPU number), a switch, a placement group.",
                "Compare the suspect nodes with healthy ones by nccl-tests; drain those more than 20 % below.",
            ),
        ),
    ),
)

LATE_ALERTS = (
    Alert(
        name="NcclGpuLate",
        kind="outlier",
        signal="gpu:nccl_latest:avg",
        # The latest of its node and as late as the latest of the job in the last dumps: its mates wait for it inside the
        # node and then look late to the other nodes. Those at half of their usual time are all named: in a pipeline
        # without communication inside the nodes nothing tells the stages of a replica apart. Where a whole node is late
        # NcclNodeLate says so; beside a slow path those who look late are only held up.
        expr="""
gpu:nccl_latest:avg < <threshold>
and
gpu:nccl_latest:avg
<= on (<job>) group_left ()
clamp_min(1.03 * min by (<job>) (min_over_time(gpu:nccl_latest:avg[<6 dumps>])), 0.5)
and
gpu:nccl_latest:avg <= on (<job>, <node>) group_left () min by (<job>, <node>) (gpu:nccl_latest:avg)
unless on (<job>, <node>) node:nccl_late:ratio
unless on (<job>, <node>) node:nccl_nvlink_drop:ratio > 0.1
unless on (<job>) (job:nccl_cause:depth{suspect="network"} and on (<job>) job:nccl_late:min > 0.75)""",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.<gpu_label> }} of {{ $labels.<node_label> }} arrives late.",
        description="{{ $labels.<gpu_label> }} of {{ $labels.<node_label> }} spends {{ $value | humanizePercentage }} of its "
        "usual share of time in collectives: it arrives last and the other GPUs of job {{ $labels.<job_label> }} wait for it. "
        "Look first at the outlier board, then at clocks, XIDs and processes of that GPU.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.85, dumps=1, severity=Severity.WARNING, hold=10),
            Sensitivity.HIGH: Tier(threshold=0.88, dumps=1, severity=Severity.WARNING, hold=8),
        },
        rises=False,
        sources="Replay of public ByteDance traces: 0.67 over 3 windows finds the slow worker in 168 of 168 positions "
        "and never a healthy rank; 0.8 fires twice in 1,408 healthy windows.",
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNodeLate",
        kind="outlier",
        signal="node:nccl_late:ratio",
        # A node whose links inside are slow arrives late for that reason: NcclNvlinkDegraded says so. Beside a much later
        # GPU or a slow path, a node that looks late is only held up.
        expr="""
node:nccl_late:ratio < <threshold>
and
node:nccl_late:ratio <= on (<job>) group_left () min_over_time(job:nccl_late:min[<6 dumps>]) / 0.85
unless on (<job>) node:nccl_nvlink_slow:ratio > 0.1
unless on (<job>, <node>) node:nccl_nvlink_drop:ratio > 0.1
unless on (<job>) (job:nccl_cause:depth{suspect="network"} and on (<job>) job:nccl_late:min > 0.75)""",
        summary="Job {{ $labels.<job_label> }}: node {{ $labels.<node_label> }} arrives late.",
        description="The GPUs of {{ $labels.<node_label> }} spend {{ $value | humanizePercentage }} of their usual share of "
        "time in collectives: the node arrives last and job {{ $labels.<job_label> }} waits for it. Look first at the "
        "outlier board, then at the host: CPU, storage, clocks, links inside the domain.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.88, dumps=1, severity=Severity.WARNING, hold=10),
            Sensitivity.HIGH: Tier(threshold=0.91, dumps=1, severity=Severity.WARNING, hold=8),
        },
        rises=False,
        sources="As NcclGpuLate, applied where three quarters of a node's GPUs are late.",
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNvlinkDegraded",
        kind="degradation",
        signal="node:nccl_nvlink_slow:ratio",
        expr="node:nccl_nvlink_slow:ratio > <threshold>",
        labels={"transport": "nvlink", "suspect": "nvlink"},
        summary="Job {{ $labels.<job_label> }}: links inside {{ $labels.<node_label> }} are degraded.",
        description="Collectives within the domain run {{ $value | humanizePercentage }} slower on {{ $labels.<node_label> }} "
        "than before, compared with the other nodes of job {{ $labels.<job_label> }}. Look first at the outlier board, then at "
        "link error counters of that node.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.20, dumps=2, severity=Severity.WARNING, hold=10),
            Sensitivity.HIGH: Tier(threshold=0.15, dumps=2, severity=Severity.WARNING, hold=8),
        },
        sources="Greyhound (ATC'25) suspects a communicator at 1.2 times the median of its siblings.",
        dashboard="outliers",
        runbook=Runbook(
            meaning="The links between the GPUs of one node are slower than they were, while those of the other nodes "
            "are not. The node then also arrives late at collectives across nodes.",
            look_first=(
                "Outlier board, node comparison: is it one node, and since when?",
                "nvidia-smi nvlink -e and -s on the node: replay, recovery and CRC counters, lanes that are down.",
            ),
            tell_apart=COMMUNICATION,
            act=("Drain the node, run nccl-tests and p2pBandwidthLatencyTest inside it, compare with a healthy node.",),
        ),
    ),
)
