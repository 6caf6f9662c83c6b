# SPDX-License-Identifier: Apache-2.0
"""One verdict per job: from evidence to suspects, from suspects to what is wrong, since when, and where.

A suspect is the network, NVLink, or a late GPU or node. Its depth is what it does, its score how many times over the
evidence convinces: effect and significance in one number, which lost throughput strengthens.
The verdict is the best suspect whose score reaches 1, on the mean of two dumps, and whom no other explains; it stays
while half of that is left.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashgen.catalogue.baselines import remembered
from dashgen.catalogue.runbooks import COMMUNICATION, LATE
from dashgen.model import Alert, Runbook, Scope, Sensitivity, Severity, Signal, Tier, Unit

GROUP = "nccl-verdict"

SUSPECT = ("<job>", "suspect", "transport", "<node>", "<gpu>")

# All paths of a transport are slow: by as much as the best one.
_ALL = (
    "job:nccl_busbw_drop:ratio",
    "clamp_min(5 * job:nccl_busbw_noise:ratio, 0.08)",
)
# One path is slow among equal ones. Many paths are looked at, so more is asked.
# A communicator is alone where it has as many ranks as the job has GPUs; the largest number of the last hour counts, because a
# node that goes dark for a moment does not change what the job is.
_ONE = (
    """(
    peer:nccl_busbw_drop:ratio - on (<job>, transport) group_left () job:nccl_busbw_drop:ratio
    and on (<job>, transport) (
      job:nccl_transport:info
      unless on (<job>, nranks)
      count_values by (<job>) ("nranks", max_over_time(job:nccl_gpus:count[1h]))
    )
  )""",
    f"clamp_min(6 * {remembered('peer:nccl_slowness:spread')}, 0.12)",
)
# One GPU is later than anybody on any other node: whoever is as late as another is only held up, or late in turn.
_LATEST = """(
      (gpu:nccl_lateness_excess:ratio >= on (<job>) group_left () max by (<job>) (gpu:nccl_lateness_excess:ratio))
      - on (<job>) group_left ()
      clamp_min(
        min by (<job>) (topk by (<job>) (2, max by (<job>, <node>) (gpu:nccl_lateness_excess:ratio)))
        and on (<job>) count by (<job>) (group by (<job>, <node>) (gpu:nccl_lateness_excess:ratio)) > 1
        or on (<job>)
        0 * job:nccl_gpus:count,
        0
      )
    )"""
# Without a past, the noise of ordinary jobs.
_LATE_NEED = (
    f"clamp_min(4 * ({remembered('gpu:nccl_lateness:spread')} or 0 * gpu:nccl_lateness_excess:ratio + 0.025), 0.1)"
)
# More than half of the GPUs of a node are about as late: the node is.
_WHOLE_NODE = """(
      count by (<job>, <node>) (
        gpu:nccl_lateness_excess:ratio
        > on (<job>) group_left ()
        0.7 * max by (<job>) (gpu:nccl_lateness_excess:ratio)
      )
      > 0.5 * count by (<job>, <node>) (gpu:nccl_lateness:ratio)
    )"""


def _indented(text: str, by: int) -> str:
    return text.strip().replace("\n", "\n" + by * " ")


def _named(transports: str) -> str:
    """Slow transports or paths as suspects."""
    return f"""
label_replace(
  label_replace(
    {transports},
    "suspect", "network", "transport", "network|mixed"
  ),
  "suspect", "nvlink", "transport", "nvlink"
)"""


def _late(need: str = "") -> str:
    """The late GPU or node as a suspect."""
    return f"""
label_replace(
  {_LATEST}{need}
  unless on (<job>, <node>) {_WHOLE_NODE}
  or
  max by (<job>, <node>) (
    {_LATEST}{need}
  )
  and on (<job>, <node>) {_WHOLE_NODE},
  "suspect", "straggler", "", ""
)"""


SIGNALS = (
    Signal(
        name="job:nccl_suspect:depth",
        question="What slows each job's communication, and by how much?",
        healthy="around zero: somebody is always the slowest",
        expr=_named(f"{_ALL[0]}\n    or\n    {_ONE[0]}") + "\nor" + _late(),
        unit=Unit.RATIO,
        labels=SUSPECT,
        sources="More than half of the GPUs, at 0.7 of the latest: mates of one late GPU are held up across nodes only, so by half.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_suspect:score",
        question="How many times over does the evidence against each suspect convince?",
        healthy="below a half",
        # Any hiccup costs throughput, and says nothing about one path among equal ones.
        expr=f"""
(
  (
    {_indented(_named(f"{_ALL[0]} / {_ALL[1]}") + chr(10) + "or" + _late(f" / {_LATE_NEED}"), 4)}
  )
  * on (<job>) group_left ()
  (
    1.5 * (job:training_throughput_loss:ratio > 0.05) ^ 0
    or on (<job>)
    job:nccl_gpus:count ^ 0
  )
  or
  {_indented(_named(f"{_ONE[0]} / {_ONE[1]}"), 2)}
)
unless on (<job>) job:nccl_familiar:ratio < 0.75""",
        unit=Unit.COUNT,
        labels=SUSPECT,
        sources="Effect and significance, as Greyhound (ATC'25), which keeps changes of 10 %: 8 % and five standard deviations; 12 % and six for "
        "one path of many; a late GPU 10 % and four. 5 % is below the smallest published dip, which costs 6 %.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_verdict:depth",
        question="What is the state of each job, who is the suspect, and how deep is it?",
        healthy='0, with state="healthy"',
        # One row a job. Who was blamed before is believed a little more, so that one incident is one page. A late GPU
        # explains a path whose members wait for it, also for a moment after it; slow links inside a node explain why the node is late. Mixed communicators
        # hold several GPU numbers, so theirs is no rail and not told.
        expr="""
label_replace(
  (
    max by (<job>) (job:nccl_quiet:seconds{evidence=~"spinning|idle|none"} > <pause>)
    unless on (<job>)
    job:nccl_dump_age:seconds < 1.3 * max_over_time(job:nccl_pause:seconds[1d])
  ) ^ 0,
  "state", "stalled", "", ""
)
or on (<job>)
label_replace(max by (<job>) (job:nccl_quiet:seconds{evidence="gone"} > <pause>) ^ 0, "state", "gone", "", "")
or on (<job>)
label_replace(
  label_replace((
    topk by (<job>) (1,
      (
        1.5 * job:nccl_suspect:score and last_over_time(job:nccl_suspect:since[<3 dumps>])
        or
        sum_over_time(job:nccl_suspect:score{suspect!="straggler"}[<2 dumps - 1s>]) / 2 and job:nccl_suspect:score
        or
        job:nccl_suspect:score{suspect="straggler"}
      )
      unless (
        job:nccl_suspect:score{suspect="network", <gpu>!=""}
        and on (<job>) (
          job:nccl_suspect:score{suspect="straggler"} >= 0.5
          or
          last_over_time(job:nccl_suspect:since{suspect="straggler"}[<6 dumps>])
        )
      )
      unless (
        job:nccl_suspect:score{suspect="straggler"}
        and on (<job>, <node>) job:nccl_suspect:score{suspect="nvlink"} >= 0.5
      )
      unless (
        job:nccl_suspect:score{suspect="nvlink", <node>!=""}
        and on (<job>) (
          job:nccl_suspect:score{suspect="straggler"} >= 0.5
          unless on (<job>, <node>) job:nccl_suspect:score{suspect="nvlink"} >= 0.5
        )
      )
    ) >= 1
  ) ^ 0 * job:nccl_suspect:depth, "<gpu_label>", "", "transport", "mixed"),
  "state", "degraded", "", ""
)
or on (<job>)
label_replace(
  0 * group by (<job>) (last_over_time(job:nccl_suspect:since[<11 dumps - 1s>])) and on (<job>) job:nccl_gpus:count,
  "state", "recovering", "", ""
)
or on (<job>)
label_replace(
  0 * (job:nccl_dump_age:seconds <= 4 * <dump> and on (<job>) last_over_time(job:nccl_busbw_drop:ratio[<5 dumps - 1s>])),
  "state", "healthy", "", ""
)
or on (<job>)
label_replace(0 * job:nccl_gpus:count, "state", "unknown", "", "")""",
        unit=Unit.RATIO,
        labels=("<job>", "state", *SUSPECT[1:]),
        sources="Two dumps on the mean: of 33 false verdicts in random jobs 20 lasted one dump, and 82 of 122 true ones convince twice over in their first; lateness has lasted three. Half of what opens a verdict keeps it open; 1.3 times the job's longest finished pause is no habit any more; PyTorch's heartbeat "
        "monitor aborts after 480 s, so a page after four minutes still helps.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_suspect:since",
        question="Since when is each suspect blamed?",
        healthy="absent",
        # The one rule that reads itself. It ends when half of the evidence is gone; while nothing can be judged, as in
        # a checkpoint, it waits, and it ends with the job.
        expr="""
last_over_time(job:nccl_suspect:since[<3 dumps>]) and job:nccl_suspect:score > 0.5
or
last_over_time(job:nccl_suspect:since[<3 dumps>])
and on (<job>) (job:nccl_dump_age:seconds > 2.5 * <dump> or job:nccl_familiar:ratio < 0.75)
or
(job:nccl_suspect:score > 0.5 and on (<job>, suspect, transport, <node>) job:nccl_verdict:depth{state="degraded"}) ^ 0
* time()""",
        unit=Unit.TIMESTAMP,
        labels=SUSPECT,
        sources="Three dumps: a missed evaluation and a noisy dump do not end it.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_verdict:since",
        question="Since when is each job in its state?",
        healthy="absent",
        expr="""
max by (<job>) (
  job:nccl_suspect:since
  and on (<job>, suspect, transport, <node>) job:nccl_verdict:depth{state="degraded"}
)
or on (<job>)
(
  last_over_time(job:nccl_progress:timestamp[1d])
  and on (<job>) job:nccl_verdict:depth{state=~"stalled|gone"}
)""",
        unit=Unit.TIMESTAMP,
        labels=("<job>",),
        sources="A day: longer than any fault that a job survives.",
        group=GROUP,
    ),
)

SINCE = (
    '{{ range query "job:nccl_verdict:since" }}{{ if eq .Labels.<job_label> $labels.<job_label> }} since '
    "{{ .Value | humanizeTimestamp }}{{ end }}{{ end }}"
)

# Deep enough to page where nothing tells the throughput, and in three verdicts in a row.
_BLIND = """\
  job:nccl_verdict:depth{state="degraded"} > <depth_without_throughput>
  and count_over_time(job:nccl_verdict:depth{state="degraded"}[<3 dumps - 1s>]) >= 3
  unless on (<job>) job:training_throughput_loss:ratio"""
# A loss that the page tells of is no ticket as well.
_UNSEEN = f"""
unless on (<job>) job:training_throughput_loss:ratio > <paged_loss>
unless on (<job>) (
{_BLIND}
)"""

_PAGES = {
    Sensitivity.LOW: {"paged_loss": 0.10, "depth_without_throughput": 0.20},
    Sensitivity.MEDIUM: {"paged_loss": 0.05, "depth_without_throughput": 0.15},
    Sensitivity.HIGH: {"paged_loss": 0.04, "depth_without_throughput": 0.10},
}


def _page(level: Sensitivity, dumps: int) -> Tier:
    """A page from the tier's loss of throughput on."""
    extra = _PAGES[level]
    return Tier(threshold=extra["paged_loss"], dumps=dumps, severity=Severity.CRITICAL, keep_firing=10, extra=extra)


def _tickets(dumps: int) -> dict[Sensitivity, Tier]:
    """A ticket for every verdict of that age, in the tiers that have tickets; the verdict has thresholds of its own."""
    return {
        level: Tier(threshold=0.0, dumps=dumps, severity=Severity.WARNING, keep_firing=10, extra=_PAGES[level])
        for level in (Sensitivity.MEDIUM, Sensitivity.HIGH)
    }


_TICKET_SOURCES = "The verdict has its own: effect and significance. Paths are judged over two dumps, and a ticket waits for a third; lateness over three."

# The page about the job speaks for the finer alerts that say why.
_BY_THE_PAGE: Mapping[str, Scope] = {"NcclJobStalled": "job", "NcclJobDegraded": "job"}

ALERTS = (
    Alert(
        name="NcclJobDegraded",
        kind="degradation",
        # A job that stands still is not slow: the stall is the page.
        explained_by={"NcclJobStalled": "job"},
        signal="job:nccl_verdict:depth",
        expr=f"""
job:nccl_verdict:depth{{state="degraded"}} ^ 0
* on (<job>) group_left (evidence)
(job:training_throughput_loss:ratio > <threshold>)
or on (<job>)
label_replace(
{_BLIND},
  "evidence", "none", "", ""
)""",
        limit="more than <threshold %> of the throughput is lost; where nothing tells the throughput, the suspect's depth is above <depth_without_throughput %>",
        summary="Job {{ $labels.<job_label> }} is slowed down by its communication; suspect: {{ $labels.suspect }}.",
        description="""
{{ if eq $labels.evidence "none" -}}
Communication of job {{ $labels.<job_label> }} is {{ $value | humanizePercentage }} worse than it is used to; \
there is no throughput evidence.
{{- else -}}
Job {{ $labels.<job_label> }} has lost {{ $value | humanizePercentage }} of its throughput \
(evidence: {{ $labels.evidence }}) while its communication is slow.
{{- end }} Suspect: {{ $labels.suspect }}{{ with $labels.transport }}, transport {{ . }}{{ end }}\
{{ with $labels.<node_label> }}, node {{ . }}{{ end }}{{ with $labels.<gpu_label> }}, {{ . }}{{ end }}"""
        + f"{SINCE}."
        + """ Look first at the verdict on the job board, then at the evidence beside it.""",
        tiers={
            Sensitivity.LOW: _page(Sensitivity.LOW, 2),
            Sensitivity.MEDIUM: _page(Sensitivity.MEDIUM, 0),
            Sensitivity.HIGH: _page(Sensitivity.HIGH, 0),
        },
        sources="NVIDIA's blog of 2026-05-07 calls -13 % (310 to 268 TFLOP/s/GPU) an incident, and its shorter dip cost "
        "6 to 8 % for four to eight dumps. Without throughput evidence: a 13 % loss takes at "
        "least 13.5 % off bus bandwidth when all communication is exposed and 24 % when half of it is.",
        dashboard="job",
        runbook=Runbook(
            meaning="The job does less work per second than it is used to, and its communication is slow at the same "
            "time. This is the page; its labels are the verdict: suspect, transport, node and GPU as far as they are known.",
            look_first=(
                "Job board: the verdict, since when, how deep, and the evidence beside it.",
                "A node or a GPU is named: that host. Only a GPU number is named with a network: the rail of that number.",
                "Fabric counters of the job's nodes.",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "suspect network: find what the slow paths share: a rail, a switch, a placement group; follow NcclTransportDegraded.",
                "suspect nvlink: follow NcclNvlinkDegraded; drain the node.",
                "suspect straggler: follow NcclGpuLate or NcclNodeLate; drain the node that is late.",
            ),
        ),
    ),
    Alert(
        name="NcclTransportDegraded",
        kind="degradation",
        explained_by=_BY_THE_PAGE,
        signal="job:nccl_verdict:depth",
        expr='job:nccl_verdict:depth{state="degraded", suspect="network"} > <threshold>' + _UNSEEN,
        limit="the verdict blames the network, and NcclJobDegraded does not page for it",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.transport }} bandwidth is degraded; "
        "suspect: {{ $labels.suspect }}.",
        description="The best bus bandwidth over {{ $labels.transport }} communicators of job {{ $labels.<job_label> }} is "
        "{{ $value | humanizePercentage }} below what the job is used to"
        "{{ with $labels.<gpu_label> }}, on the rail of {{ . }} alone{{ end }}" + f"{SINCE}. "
        "Look first at the job board: which collectives fall, and does the other transport hold?",
        tiers=_tickets(1),
        sources=_TICKET_SOURCES,
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
    Alert(
        name="NcclGpuLate",
        kind="outlier",
        # A node whose links are slow arrives late as well; the links are the cause.
        explained_by={**_BY_THE_PAGE, "NcclNvlinkDegraded": "node"},
        signal="job:nccl_verdict:depth",
        expr='job:nccl_verdict:depth{state="degraded", suspect="straggler", <gpu>!=""} > <threshold>' + _UNSEEN,
        limit="the verdict blames one GPU, and NcclJobDegraded does not page for it",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.<gpu_label> }} of {{ $labels.<node_label> }} arrives late.",
        description="{{ $labels.<gpu_label> }} of {{ $labels.<node_label> }} is {{ $value | humanizePercentage }} later than it is "
        "used to: it arrives last and the other GPUs of job {{ $labels.<job_label> }} wait for it" + f"{SINCE}. "
        "Look first at the outlier board, then at clocks, XIDs and processes of that GPU.",
        tiers=_tickets(0),
        sources=_TICKET_SOURCES,
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNodeLate",
        kind="outlier",
        explained_by={**_BY_THE_PAGE, "NcclNvlinkDegraded": "node"},
        signal="job:nccl_verdict:depth",
        expr='job:nccl_verdict:depth{state="degraded", suspect="straggler", <gpu>=""} > <threshold>' + _UNSEEN,
        limit="the verdict blames one node, and NcclJobDegraded does not page for it",
        summary="Job {{ $labels.<job_label> }}: node {{ $labels.<node_label> }} arrives late.",
        description="The GPUs of {{ $labels.<node_label> }} are {{ $value | humanizePercentage }} later than they are used to: "
        "the node arrives last and job {{ $labels.<job_label> }} waits for it" + f"{SINCE}. Look first at the "
        "outlier board, then at the host: CPU, storage, clocks, links inside the domain.",
        tiers=_tickets(0),
        sources=_TICKET_SOURCES,
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNvlinkDegraded",
        kind="degradation",
        explained_by=_BY_THE_PAGE,
        signal="job:nccl_verdict:depth",
        expr='job:nccl_verdict:depth{state="degraded", suspect="nvlink"} > <threshold>' + _UNSEEN,
        limit="the verdict blames the links inside a domain, and NcclJobDegraded does not page for it",
        summary="Job {{ $labels.<job_label> }}: links inside {{ $labels.<node_label> }} are degraded.",
        description="Collectives within the domain run {{ $value | humanizePercentage }} slower"
        "{{ with $labels.<node_label> }} on {{ . }}{{ end }}"
        " than job {{ $labels.<job_label> }} is used to" + f"{SINCE}. Look first at the outlier board, then at "
        "link error counters of that node.",
        tiers=_tickets(1),
        sources=_TICKET_SOURCES,
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
