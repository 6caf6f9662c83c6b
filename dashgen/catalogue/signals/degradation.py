# SPDX-License-Identifier: Apache-2.0
"""Who is told of a verdict: a ticket names the suspect, and a page follows where it lasts and costs throughput."""

from __future__ import annotations

from collections.abc import Mapping

from dashgen.catalogue.names import VERDICT
from dashgen.catalogue.runbooks import COMMUNICATION, LATE
from dashgen.catalogue.signals.fabric.links import SLOW_LINKS
from dashgen.catalogue.signals.fabric.ports import RISING
from dashgen.model import Alert, Runbook, Scope, Sensitivity, Severity, Tier

SINCE = (
    '{{ range query "job:nccl_verdict:since" }}{{ if <same_job> }} since '
    "{{ .Value | humanizeTimestamp }}{{ end }}{{ end }}"
)

# A job on one node says by that which node it is.
_ONLY_NODE = '{{ range query "<present> and on (<job>) count by (<job>) (<present>) == 1" }}{{ if <same_job> }}'


def _on_node(word: str) -> str:
    """The node that a verdict names, or the only one of its job, after a word."""
    only = f"{_ONLY_NODE}{word} {{{{ .Labels.<node_label> }}}}{{{{ end }}}}{{{{ end }}}}"
    return f"{{{{ with $labels.<node_label> }}}}{word} {{{{ . }}}}{{{{ else }}}}{only}{{{{ end }}}}"


# Paths are judged over two dumps. A second verdict makes sure, or what the first one costs.
_SURE = """
and (
  count_over_time(job:nccl_verdict:depth{state="degraded"}[<2 dumps in a row>]) >= <2 results>
  or
  job:nccl_verdict:depth and on (<job>) job:training_throughput_loss:ratio > <paged_loss>
)"""
_SURE_LIMIT = ", in two dumps in a row or while more than <paged_loss %> of the throughput is lost"

_PAGED_LOSS = {Sensitivity.LOW: 0.10, Sensitivity.MEDIUM: 0.05, Sensitivity.HIGH: 0.04}
_BLIND_DEPTH = {Sensitivity.LOW: 0.20, Sensitivity.MEDIUM: 0.15, Sensitivity.HIGH: 0.10}


def _page(level: Sensitivity) -> Tier:
    """A page where three verdicts in a row cost throughput: a fault that is worth a night lasts that long, a hiccup does not."""
    extra = {"depth_without_throughput": _BLIND_DEPTH[level]}
    return Tier(threshold=_PAGED_LOSS[level], dumps=2, severity=Severity.CRITICAL, keep_firing=10, extra=extra)


def _tickets(*, dumps: int = 0, sure: bool = False) -> dict[Sensitivity, Tier]:
    """A ticket for every verdict, in the tiers that have tickets; the verdict has thresholds of its own."""
    return {
        level: Tier(
            threshold=0.0,
            dumps=dumps,
            severity=Severity.WARNING,
            keep_firing=10,
            extra={"paged_loss": _PAGED_LOSS[level]} if sure else {},
        )
        for level in (Sensitivity.MEDIUM, Sensitivity.HIGH)
    }


_WITHOUT_PAST = 'gpu:nccl_lateness_excess:ratio{past="none"}'

_ALWAYS = (
    "{{ range query \"max by (<job>, <node>) (gpu:nccl_lateness_excess:ratio{past='none'})\" }}"
    "{{ if <same_job> }}{{ if eq .Labels.<node_label> $labels.<node_label> }} Nothing is known of it from before: the stage of "
    "a pipeline or a cap of power makes somebody late from the start as well.{{ end }}{{ end }}{{ end }}"
)
"""Of who is late without a past, in a ticket."""

# A job without a past is compared with what a fixed position in the ring may explain.
_BEYOND = "than job <this_job> is used to (before it has a past: than a position in the ring explains)"

_TICKET_SOURCES = (
    "The verdict has its own: effect and significance. Paths are judged over two dumps, and a ticket waits for a third where it costs nothing; "
    "lateness over three, and twice."
)

# The page about the job speaks for the finer alerts that say why.
_BY_THE_PAGE: Mapping[str, Scope] = {"NcclJobStalled": "job", "NcclJobDegraded": "job"}

ALERTS = (
    Alert(
        name="NcclJobDegraded",
        kind="degradation",
        # A job that stands still is not slow: the stall is the page.
        explained_by={"NcclJobStalled": "job"},
        signal=VERDICT,
        # Somebody is always late in a job, by the stage of a pipeline or by a cap of power. Who has been so since it began has a
        # ticket, as nothing says that this costs anything.
        expr=f"""
job:nccl_verdict:depth{{state="degraded"}} ^ 0
* on (<job>) group_left (evidence)
(job:training_throughput_loss:ratio > <threshold>)
or on (<job>)
label_replace(
  job:nccl_verdict:depth{{state="degraded"}} > <depth_without_throughput>
  unless on (<job>) job:training_throughput_loss:ratio
  unless on (<job>, suspect, <node>, <gpu>)
  label_replace(
    {_WITHOUT_PAST} or group by (<job>, <node>) ({_WITHOUT_PAST}),
    "suspect", "straggler", "", ""
  ),
  "evidence", "none", "", ""
)""",
        limit="more than <threshold %> of the throughput is lost; where nothing tells the throughput, the suspect's depth is above <depth_without_throughput %>, and who is late is later than it was before",
        summary='Job <this_job> is slow; suspect: {{ if eq $labels.suspect "straggler" }}late GPU or node{{ else }}'
        "{{ $labels.suspect }}{{ end }}{{ with $labels.<node_label> }}, {{ . }}{{ end }}"
        '{{ if eq $labels.suspect "network" }}{{ with $labels.<gpu_label> }}, the rail of {{ . }}{{ end }}'
        "{{ else }}{{ with $labels.<gpu_label> }} {{ . }}{{ end }}{{ end }}.",
        description="""
{{ if eq $labels.evidence "none" -}}
Communication is {{ $value | humanizePercentage }} worse """
        + _BEYOND
        + """; \
what that costs in throughput is not known.
{{- else -}}
Job <this_job> has lost {{ $value | humanizePercentage }} of its throughput \
(evidence: {{ $labels.evidence }}) while its communication is slow.
{{- end }} Suspect: {{ $labels.suspect }}{{ with $labels.transport }}, transport {{ . }}{{ end }}\
"""
        + _on_node(", node")
        + """{{ if eq $labels.suspect "network" }}{{ with $labels.<gpu_label> }}, the rail of {{ . }}{{ end }}\
{{ else }}{{ with $labels.<gpu_label> }}, {{ . }} (CUDA's number){{ end }}{{ end }}"""
        + f"{SINCE}."
        + """ Look first at the verdict on the job board, then at the evidence beside it.""",
        beside=SLOW_LINKS | RISING,
        tiers={level: _page(level) for level in Sensitivity},
        sources="NVIDIA's blog of 2026-05-07 calls -13 % (310 to 268 TFLOP/s/GPU) an incident, and its shorter dip cost "
        "6 to 8 % for four to eight dumps. Without throughput evidence: a 13 % loss takes at "
        "least 13.5 % off bus bandwidth when all communication is exposed and 24 % when half of it is.",
        dashboard="job",
        runbook=Runbook(
            meaning="The job does less work per second than it is used to, and its communication is slow at the same "
            "time. This is the page; its labels are the verdict: suspect, transport, node and GPU as far as they are known. Its evidence "
            "says what tells the throughput: `reported` by the job, `collectives` that are completed, `tensor` cores that work, or `none`.",
            look_first=(
                "Job board: the verdict, since when, how deep, and the evidence beside it.",
                "A node or a GPU is named: that host; NcclGpuLate says how to find a GPU by its number. Only a GPU number is named with a network: the rail of that number.",
                "Fabric counters of the job's nodes.",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "suspect network: find what the slow paths share: a rail, a switch, a placement group; follow NcclTransportDegraded. Without a "
                "transport, a few GPUs of several nodes are slower than their like: the outlier board, slowness above the usual, shows which.",
                "suspect nvlink: follow NcclNvlinkDegraded; drain the node.",
                "suspect straggler: follow NcclGpuLate or NcclNodeLate, which say when to drain a node. Without a node several come equally late, "
                "as those of one pipeline stage, and one of them holds up the others: the outlier board shows which, their clocks and hosts who.",
            ),
        ),
    ),
    Alert(
        name="NcclTransportDegraded",
        kind="degradation",
        explained_by=_BY_THE_PAGE,
        signal=VERDICT,
        expr='job:nccl_verdict:depth{state="degraded", suspect="network"} > <threshold>' + _SURE,
        limit="the verdict blames the network" + _SURE_LIMIT,
        summary="Job <this_job>: bandwidth across the network is degraded{{ with $labels.<gpu_label> }} on the rail of {{ . }}{{ end }}; "
        "suspect: {{ $labels.suspect }}.",
        # Of mixed communicators one path may be meant: their GPU numbers are not told. Without a transport a few GPUs, the
        # members of a slow communicator, spend longer in collectives than their like.
        description="{{ if $labels.<gpu_label> }}The bus bandwidth of the rail of {{ $labels.<gpu_label> }}, and maybe of others, of"
        '{{ else if eq $labels.transport "network" }}The best bus bandwidth over network communicators of'
        "{{ else if $labels.transport }}The bus bandwidth of some {{ $labels.transport }} communicators of"
        "{{ else }}Some GPUs of{{ end }} job <this_job> "
        "{{ if $labels.transport }}is {{ $value | humanizePercentage }} lower{{ else }}are {{ $value | humanizePercentage }} slower "
        "among their like{{ end }} " + _BEYOND + f"{SINCE}. "
        "Look first at {{ if $labels.<gpu_label> }}Rails, now, on the outlier board: is it one rail, and what do its ports say?"
        "{{ else if $labels.transport }}the job board: which collectives fall, and does the other transport hold?"
        "{{ else }}the outlier board, slowness above the usual: which GPUs, and what do they share?{{ end }}",
        beside=SLOW_LINKS | RISING,
        tiers=_tickets(sure=True),
        sources=_TICKET_SOURCES,
        dashboard="job",
        runbook=Runbook(
            meaning="The fastest member of a communicator, who waits for nobody, is slower than it used to be: the "
            "path itself has become slower, not a rank. Overlapped communication may slow down without costing "
            "throughput.",
            look_first=(
                "Job board, Bandwidth lost by path: mixed and network down with the domain flat is the network.",
                "No transport is named: outlier board, slowness above the usual; these GPUs share a communicator that is slow.",
                "Job board, Algorithm and protocol mix: a forced NCCL_ALGO or NCCL_PROTO shows as a change here.",
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
        signal=VERDICT,
        expr='job:nccl_verdict:depth{state="degraded", suspect="straggler", <gpu>!=""} > <threshold>',
        limit="the verdict blames one GPU",
        summary="Job <this_job>: {{ $labels.<gpu_label> }} of {{ $labels.<node_label> }} arrives late.",
        description="{{ $labels.<gpu_label> }} (CUDA's number) of {{ $labels.<node_label> }} is {{ $value | humanizePercentage }} later "
        + _BEYOND
        + f": it arrives last and the other GPUs wait for it{SINCE}.{_ALWAYS} "
        "Look first at the outlier board, then at clocks, XIDs and processes of that GPU.",
        tiers=_tickets(),
        sources=_TICKET_SOURCES,
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNodeLate",
        kind="outlier",
        explained_by={**_BY_THE_PAGE, "NcclNvlinkDegraded": "node"},
        signal=VERDICT,
        expr='job:nccl_verdict:depth{state="degraded", suspect="straggler", <node>!="", <gpu>=""} > <threshold>',
        limit="the verdict blames one node",
        summary="Job <this_job>: node {{ $labels.<node_label> }} arrives late.",
        description="The GPUs of {{ $labels.<node_label> }} are {{ $value | humanizePercentage }} later "
        + _BEYOND
        + f": the node arrives last and all others wait for it{SINCE}.{_ALWAYS} Look first at the "
        "outlier board, then at the host: CPU, storage, clocks, links inside the domain.",
        tiers=_tickets(dumps=1),
        sources=_TICKET_SOURCES
        + " A whole node waits for a second verdict: a host that hiccups for less than a dump was six of fourteen "
        "alarms without a cause in sixty random jobs.",
        dashboard="outliers",
        runbook=LATE,
    ),
    Alert(
        name="NcclNvlinkDegraded",
        kind="degradation",
        explained_by=_BY_THE_PAGE,
        signal=VERDICT,
        expr='job:nccl_verdict:depth{state="degraded", suspect="nvlink"} > <threshold>' + _SURE,
        limit="the verdict blames the links inside a domain" + _SURE_LIMIT,
        summary="Job <this_job>: links inside a domain are degraded.",
        description="Collectives within the domain run {{ $value | humanizePercentage }} slower"
        + _on_node(" on")
        + " than job <this_job> is used to"
        + f"{SINCE}. Look first at the outlier board, then at "
        "link error counters{{ with $labels.<node_label> }} of {{ . }}, and of all nodes of its domain where it has several{{ end }}.",
        tiers=_tickets(sure=True),
        sources=_TICKET_SOURCES,
        dashboard="outliers",
        runbook=Runbook(
            meaning="The links between the GPUs inside a domain are slower than they were. Where a node is named, those of "
            "other domains are not, and the node also arrives late at collectives across nodes; else all are slower alike. Of a domain of several "
            "nodes any one is named.",
            look_first=(
                "Outlier board, Bandwidth lost inside each node: is it one node, and since when?",
                "nvidia-smi nvlink -e and -s on the node: replay, recovery and CRC counters, lanes that are down.",
            ),
            tell_apart=COMMUNICATION,
            act=(
                "A domain of several nodes, as in a rack of NVL72, is slow as a whole: compare the "
                "counters of all before you drain one.",
                "Drain the node, run nccl-tests and p2pBandwidthLatencyTest inside it, compare with a healthy node.",
            ),
        ),
    ),
)
