# SPDX-License-Identifier: Apache-2.0
"""Ports of a job's nodes: their error counters, and the port under suspicion."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.runbooks import COUNTERS, FABRIC_TOOLS
from dashgen.catalogue.signals.fabric.counters import (
    COUNTERS_OF_PORTS,
    ENOUGH,
    LIMITS,
    NVSENTINEL,
    OF_JOB,
    PORT,
    RETRANSMITTED,
    Counter,
    rising,
)
from dashgen.catalogue.signals.fabric.tickets import (
    BY_THE_SUSPECT,
    FIGURE,
    HURTS,
    WHERE,
    port_runbook,
    tickets,
)
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit

RISING = {
    "node:fabric_suspect:ratio": '{{ range query "topk by (<job>) (3, node:fabric_suspect:ratio)" }}{{ if <same_job> }} Rising meanwhile: {{ .Labels.counter }} of {{ .Labels.<node_label> }}'
    "{{ with .Labels.device }} {{ . }}{{ end }}{{ with .Labels.port }} port {{ . }}{{ end }}, "
    "at {{ .Value | humanizePercentage }} of the published limit.{{ end }}{{ end }}"
}
"""What an alert about a slow network says of the ports whose errors rise with it: the best hint at a place."""


def _devices(key: str) -> str:
    return '<net_carrier_changes>{device=~"<net_devices>"}' if key == "net_carrier_changes" else f"<{key}>"


def _excess(each: Counter) -> str:
    """How many times over its limit a counter is."""
    return f'node:fabric_errors:rate{{counter="{each.name}"}} / {each.limit:.4g}'


_RESENT = f"node:tcp_retransmits:ratio / {LIMITS[RETRANSMITTED]:g}"

SIGNALS = (
    Signal(
        name="node:fabric_errors:rate",
        question="Which error counters rise on the ports of a job's nodes, and how fast?",
        healthy="absent: a counter that rests has no row",
        expr=f"""
max by (<job>, <node>, <instance>, device, port, counter) (
  (
    <branches>
  )
  * {OF_JOB}
)""",
        branches=tuple((each.companion, rising(each.name, _devices(each.key))) for each in COUNTERS_OF_PORTS),
        join="or",
        unit=Unit.PER_SECOND,
        labels=(*PORT, "counter"),
        sources="Five minutes: the window of NVSentinel's limits, whatever the dump interval.",
        group=groups.FABRIC,
    ),
    Signal(
        name="node:fabric_suspect:ratio",
        question="Which node and port has rising errors while the verdict blames the network, in multiples of the limit?",
        healthy="absent",
        # Errors alone are a ticket, a slow network alone is a question; together they are an answer.
        expr=f"""
(
  <branches>
) > {ENOUGH:g}
and on (<job>) job:nccl_verdict:depth{{suspect="network"}}""",
        branches=(
            *((each.companion, _excess(each)) for each in COUNTERS_OF_PORTS),
            ("host_network", f'label_replace({_RESENT}, "counter", "{RETRANSMITTED}", "", "")'),
        ),
        join="or",
        unit=Unit.COUNT,
        labels=(*PORT, "counter"),
        sources="The limits of NVIDIA/NVSentinel docs/configuration/nic-health-monitor.md; for TCP the 10 % of "
        "OceanBase OCP.",
        group=groups.FABRIC,
    ),
)

ALERTS = (
    Alert(
        name="NcclFabricSuspect",
        kind="fabric",
        signal="node:fabric_suspect:ratio",
        expr="node:fabric_suspect:ratio > <threshold>",
        labels={"suspect": "network"},
        limit="the verdict blames the network, and an error counter rises at more than <threshold %> of its published limit",
        summary="Job <this_job>: communication is slow and {{ $labels.<node_label> }} has rising {{ $labels.counter }}.",
        description="While the verdict about job <this_job> blames the network, {{ $labels.counter }} of "
        "{{ $labels.<node_label> }}{{ with $labels.device }} {{ . }}{{ end }}{{ with $labels.port }} port {{ . }}{{ end }} "
        "rise at {{ $value | humanizePercentage }} of their published limit. Look first at the fabric board: is it "
        "{{ if $labels.device }}this port{{ else }}this node{{ end }} alone, and did it begin with the window?",
        tiers={
            Sensitivity.LOW: Tier(threshold=1, dumps=2, severity=Severity.WARNING, keep_firing=6),
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=1, severity=Severity.WARNING, keep_firing=6),
            Sensitivity.HIGH: Tier(threshold=ENOUGH, dumps=0, severity=Severity.WARNING, keep_firing=4),
        },
        sources=f"The limits of {NVSENTINEL}; for TCP the 10 % of OceanBase OCP's ob_host_tcp_retrans_percent. A third of a "
        "limit is enough in the most sensitive tier, because the slow network is evidence of its own.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="Two independent observations agree: the job's network has become slow, and a counter of one of its nodes rises beyond what is normal. That is the best hint at the place that metrics can give.",
            look_first=(
                "Fabric board of the job: which ports, and do their errors begin with the degradation window?",
                "Job board: how deep is the window, and does the transport within the domain hold?",
            ),
            tell_apart=(
                "One port: cable, transceiver, adapter. Many ports of many nodes at once: a switch or congestion.",
                "discards, slow_restarts and tcp_retransmits are symptoms of congestion as well, and then not the port's fault.",
                *(f"{name}: {text}" for name, text in COUNTERS.items()),
            ),
            act=(
                "Run nccl-tests with and without the node; drain it when it is more than 20 % below the accepted value.",
                "Give the fabric team node, device, port and the times of the window.",
            ),
            tools=FABRIC_TOOLS,
        ),
    ),
    Alert(
        name="NcclFabricLinkDown",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="link_downed"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> links lost",
        summary=f"Job <this_job>: the link of {WHERE} went down.",
        description=f"The link of {WHERE} has gone down within the last minutes, and may be back. {HURTS} Look first at "
        "the counter on the fabric board, then at the state of the link beside it.",
        tiers=tickets(Severity.WARNING, 0, medium=0, high=0),
        sources=f"{NVSENTINEL}: link_downed is fatal at any increase.",
        dashboard="fabric",
        runbook=port_runbook(
            "A link that had worked went away. NCCL retries for a while, so the job may stall, abort, or never notice.",
            "link_downed",
            "Once: note it. Again on the same port: reseat the cable, exchange the transceiver, drain the node until then.",
        ),
    ),
    Alert(
        name="NcclFabricSymbolErrors",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        # Errors of the last hour, for as long as they go on.
        expr="""
<every> * sum_over_time(node:fabric_errors:rate{counter="symbol_errors"}[1h]) > <threshold>
and
node:fabric_errors:rate{counter="symbol_errors"}""",
        companion="infiniband",
        limit="more than <threshold> symbol errors an hour",
        summary=f"Job <this_job>: the signal at {WHERE} is bad.",
        description=f"{WHERE} has counted {{{{ $value | humanize }}}} symbol errors within the last hour. {HURTS} Look first "
        "at the cable and the transceiver.",
        tiers=tickets(Severity.WARNING, LIMITS["symbol_errors"] * 3600, medium=2, high=0),
        sources=f"{NVSENTINEL}: symbol_error is fatal above 120 an hour.",
        dashboard="fabric",
        runbook=port_runbook(
            "The receiver of this link sees symbols that it cannot read. Packets are lost and sent again.",
            "symbol_errors",
            "Clean or exchange cable and transceiver; compare the optical power of both ends (`mlxlink -d DEVICE -m`).",
        ),
    ),
    Alert(
        name="NcclFabricReceiveErrors",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="receive_errors"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> broken packets a second",
        summary=f"Job <this_job>: {WHERE} receives broken packets.",
        description=f"{WHERE} receives {{{{ $value | humanize }}}} broken packets a second. {HURTS} Look first at the port "
        "at the far end of its cable.",
        tiers=tickets(Severity.INFO, LIMITS["receive_errors"], medium=2, high=0),
        sources=f"{NVSENTINEL}: port_rcv_errors above 10 a second.",
        dashboard="fabric",
        runbook=port_runbook(
            "Packets reach this port with errors. They were damaged on the way, or before: look at the far end.",
            "receive_errors",
            "`perfquery` on the far port; where it has symbol errors too, the cable; else the switch behind it.",
        ),
    ),
    Alert(
        name="NcclFabricDiscards",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="discards"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> discarded packets a second",
        summary=f"Job <this_job>: {WHERE} discards packets.",
        description=f"{WHERE} discards {{{{ $value | humanize }}}} packets a second that it could not send. {HURTS} Look "
        "first whether other nodes do so too: then it is congestion.",
        tiers=tickets(Severity.INFO, LIMITS["discards"], medium=2, high=0),
        sources=f"{NVSENTINEL}: port_xmit_discards above 100 a second.",
        dashboard="fabric",
        runbook=port_runbook(
            "The port cannot get rid of its packets in time and throws them away.",
            "discards",
            "Many nodes: placement, routing, QoS or PFC. One node: the far port is slow or pauses it.",
        ),
    ),
    Alert(
        name="NcclFabricLinkUnstable",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr="""
60 * node:fabric_errors:rate{counter="link_recoveries"} > <threshold>
or
60 * node:fabric_errors:rate{counter="integrity_errors"} > <integrity_errors>""",
        companion="infiniband",
        limit="more than <threshold> retrainings a minute, or more than <integrity_errors> integrity errors a minute",
        summary=f"Job <this_job>: the link of {WHERE} is unstable.",
        description=f"{WHERE} counts {FIGURE} {{{{ $labels.counter }}}} a minute: "
        '{{ if eq $labels.counter "integrity_errors" }}more errors on the wire than it tolerates'
        "{{ else }}the link keeps training itself again{{ end }}. "
        f"{HURTS} Look first at the cable and the transceiver.",
        tiers={
            level: Tier(
                threshold=LIMITS["link_recoveries"] * 60,
                dumps=dumps,
                severity=Severity.WARNING,
                keep_firing=10,
                extra={"integrity_errors": 0},
            )
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"{NVSENTINEL}: link_error_recovery above 5 a minute; local_link_integrity_errors is fatal above 0.",
        dashboard="fabric",
        runbook=port_runbook(
            "The link repairs itself again and again without going down, or sees more errors than it tolerates. Each time its "
            "traffic waits.",
            ("link_recoveries", "integrity_errors"),
            "As for symbol errors: cable, transceiver, then adapter; drain the node when it goes on.",
        ),
    ),
    Alert(
        name="NcclFabricBufferOverrun",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="buffer_overruns"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> overruns of a buffer",
        summary=f"Job <this_job>: a buffer of {WHERE} overran.",
        description=f"Flow control of {WHERE} failed: packets came in for which there was no room. {HURTS} Look first at the "
        "MTU of both ends and at the firmware.",
        tiers=tickets(Severity.WARNING, 0, medium=0, high=0),
        sources=f"{NVSENTINEL}: excessive_buffer_overrun_errors is fatal above 0.",
        dashboard="fabric",
        runbook=port_runbook(
            "The sender ignored the credits of the receiver, which InfiniBand must never do.",
            "buffer_overruns",
            "Compare MTU and virtual lanes of both ends; update the firmware of adapter and switch.",
        ),
    ),
    Alert(
        name="NcclFabricTimeouts",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr="""
node:fabric_errors:rate{counter="ack_timeouts"} > <threshold>
or
node:fabric_errors:rate{counter="rnr_retries"} > <rnr_retries>""",
        companion="hw_counters",
        limit="unanswered operations at more than <threshold> a second, or receivers that are not ready at more than <rnr_retries> a second",
        summary=f"Job <this_job>: RDMA operations of {WHERE} time out.",
        description=f"{WHERE} counts {FIGURE} {{{{ $labels.counter }}}} a second: "
        '{{ if eq $labels.counter "rnr_retries" }}its peers are not ready to receive'
        "{{ else }}its peers do not answer in time{{ end }}. "
        f"{HURTS} Look first for the peer: the counter is on the side that waits.",
        tiers={
            level: Tier(
                threshold=LIMITS["ack_timeouts"],
                dumps=dumps,
                severity=Severity.WARNING,
                keep_firing=10,
                extra={"rnr_retries": 0},
            )
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"{NVSENTINEL}: local_ack_timeout_err above 1 a second; rnr_nak_retry_err is fatal above 0.",
        dashboard="fabric",
        runbook=port_runbook(
            "RDMA operations are repeated because nobody acknowledged them, or because the receiver was not ready. After "
            "NCCL_IB_RETRY_CNT the job aborts.",
            ("ack_timeouts", "rnr_retries"),
            "Find the silent peer: its port state, its firmware, PFC storms on the path between.",
        ),
    ),
    Alert(
        name="NcclFabricCongested",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="slow_restarts"} > <threshold>',
        companion="hw_counters",
        limit="more than <threshold> slow restarts a second",
        summary=f"Job <this_job>: RoCE of {WHERE} keeps slowing down.",
        description=f"{WHERE} restarts {{{{ $value | humanize }}}} RoCE connections a second slowly, which it does after loss. "
        f"{HURTS} Look first at congestion notifications on the fabric board: who receives them, who sends them?",
        tiers=tickets(Severity.INFO, LIMITS["slow_restarts"], medium=2, high=0),
        sources=f"{NVSENTINEL}: roce_slow_restart above 10 a second.",
        dashboard="fabric",
        runbook=port_runbook(
            "Packets were lost on a path that is meant to lose none, and the adapter falls back to a low rate.",
            "slow_restarts",
            "Check PFC and ECN settings end to end (`mlnx_qos -i INTERFACE`), and for an incast: many senders to one node.",
        ),
    ),
    Alert(
        name="NcclFabricLinkFlapping",
        kind="fabric",
        explained_by=BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='300 * node:fabric_errors:rate{counter="carrier_changes"} > <threshold>',
        companion="host_network",
        limit="more than <threshold> changes of the carrier within five minutes",
        summary="Job <this_job>: {{ $labels.device }} of {{ $labels.<node_label> }} flaps.",
        description="{{ $labels.device }} of {{ $labels.<node_label> }} has changed its carrier {{ $value | humanize }} times "
        f"within five minutes. {HURTS} Look first at the cable.",
        tiers=tickets(Severity.INFO, LIMITS["carrier_changes"] * 300, medium=0, high=0),
        sources=f"{NVSENTINEL}: carrier_changes increases by more than 2.",
        dashboard="fabric",
        runbook=port_runbook(
            "The interface loses and regains its carrier.",
            "carrier_changes",
            "Reseat or exchange the cable; an interface of the management network does not slow collectives.",
        ),
    ),
)
