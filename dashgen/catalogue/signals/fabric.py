# SPDX-License-Identifier: Apache-2.0
"""What ports, interfaces and switches of a job's nodes say, by the limits that NVSentinel publishes.

Counters belong to ports, not to communicators: they are joined to a job by the scrape target that they share with
Inspector's files, and they accuse nobody on their own. Only together with a network that has become slow for the job
does a port turn into a suspect. Where a node works for two jobs, its ports are told to the one with more GPUs there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashgen.catalogue.runbooks import COUNTERS, FABRIC_TOOLS
from dashgen.catalogue.signals.freshness import SEEN_SOURCES
from dashgen.model import Alert, Runbook, Scope, Sensitivity, Severity, Signal, Tier, Unit

GROUP = "nccl-fabric"

NVSENTINEL = "NVIDIA/NVSentinel docs/configuration/nic-health-monitor.md"
PORT = ("<job>", "<node>", "<instance>", "device", "port")


@dataclass(frozen=True, kw_only=True)
class Counter:
    """An error counter of a port: ``name`` is its value of the label counter, ``limit`` the published events a second.

    Where any event is one too many, the limit is a single one within the window.
    """

    name: str
    key: str
    companion: str
    limit: float


_WINDOW = "5m"
_ANY = 1 / 600
COUNTERS_OF_PORTS = (
    Counter(name="link_downed", key="ib_link_downed", companion="infiniband", limit=_ANY),
    Counter(name="buffer_overruns", key="ib_buffer_overruns", companion="infiniband", limit=_ANY),
    Counter(name="integrity_errors", key="ib_integrity_errors", companion="infiniband", limit=_ANY),
    Counter(name="symbol_errors", key="ib_symbol_errors", companion="infiniband", limit=120 / 3600),
    Counter(name="link_recoveries", key="ib_link_recoveries", companion="infiniband", limit=5 / 60),
    Counter(name="receive_errors", key="ib_receive_errors", companion="infiniband", limit=10),
    Counter(name="discards", key="ib_discards", companion="infiniband", limit=100),
    Counter(name="rnr_retries", key="hw_rnr_retries", companion="hw_counters", limit=_ANY),
    Counter(name="ack_timeouts", key="hw_ack_timeouts", companion="hw_counters", limit=1),
    Counter(name="slow_restarts", key="hw_slow_restarts", companion="hw_counters", limit=10),
    Counter(name="carrier_changes", key="net_carrier_changes", companion="host_network", limit=2 / 300),
)
SWITCH_COUNTERS = (
    ("link_downed", "switch_link_downed"),
    ("symbol_errors", "switch_symbol_errors"),
    ("receive_errors", "switch_receive_errors"),
    ("discards", "switch_discards"),
)


def _rising(name: str, selector: str) -> str:
    """Events a second of the counters that rise; a counter that rests has no row, so a sound fleet costs nothing."""
    return f'label_replace(rate({selector}[{_WINDOW}]) > 0, "counter", "{name}", "", "")'


def _devices(key: str) -> str:
    return '<net_carrier_changes>{device=~"<net_devices>"}' if key == "net_carrier_changes" else f"<{key}>"


def _excess(each: Counter) -> str:
    """How many times over its limit a counter is."""
    return f'node:fabric_errors:rate{{counter="{each.name}"}} / {each.limit:.4g}'


# Labels that name the job and the node of a scrape target, to multiply series of node_exporter with.
_OF_JOB = "on (<target>) group_left (<job_label>, <node>) (topk by (<target>) (1, last_over_time(node:nccl_gpus:count[<4 dumps>])) ^ 0)"

_MTU = f"""max by (<job>, <node>, <instance>, device) (
  (<net_mtu>{{device=~"<net_devices>"}} and on (<target>, device) <net_up> == 1)
  * {_OF_JOB}
)"""

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
  * {_OF_JOB}
)""",
        branches=tuple((each.companion, _rising(each.name, _devices(each.key))) for each in COUNTERS_OF_PORTS),
        join="or",
        unit=Unit.PER_SECOND,
        labels=(*PORT, "counter"),
        sources="Five minutes: the window of NVSentinel's limits, whatever the dump interval.",
        group=GROUP,
    ),
    Signal(
        name="node:fabric_port_down:state",
        question="Which ports went down and have not come back?",
        healthy="absent; 1 is down, 2 initialising, 3 armed",
        # A port that nobody uses is down for ever: only one that was seen to go down counts, for as long as it stays so.
        expr=f"""
max by (<job>, <node>, <instance>, device, port) (
  (<ib_state> != 4)
  * {_OF_JOB}
)
and on (<target>, device, port) last_over_time(node:fabric_errors:rate{{counter="link_downed"}}[1d])""",
        unit=Unit.COUNT,
        labels=PORT,
        sources="A day since its link went down: longer than any fault that a job survives.",
        group=GROUP,
        companion="infiniband",
    ),
    Signal(
        name="node:network_mtu_odd:bytes",
        question="Which interfaces have another MTU than the same interface of the job's other nodes?",
        healthy="absent",
        expr=f"""
{_MTU}
!= on (<job>, device) group_left ()
quantile by (<job>, device) (0.5,
  {_MTU.replace(chr(10), chr(10) + "  ")}
)""",
        unit=Unit.BYTES,
        labels=("<job>", "<node>", "<instance>", "device"),
        sources=SEEN_SOURCES,
        group=GROUP,
        companion="host_network",
    ),
    Signal(
        name="node:tcp_retransmits:ratio",
        question="What share of its TCP segments does each node of the job send again?",
        healthy="absent: below half a percent, or too little traffic to tell",
        expr=f"""
max by (<job>, <node>, <instance>) (
  rate(<tcp_retransmitted>[{_WINDOW}])
  / (rate(<tcp_sent>[{_WINDOW}]) > 100)
  * {_OF_JOB}
) > 0.005""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>"),
        sources="OceanBase OCP warns at 10 %; rows from half a percent show what is rising; below 100 segments a "
        "second a ratio means nothing.",
        group=GROUP,
        companion="host_network",
    ),
    Signal(
        name="node:fabric_suspect:ratio",
        question="Which node and port has rising errors while the job's network is slow, in multiples of the limit?",
        healthy="absent",
        # Errors alone are a ticket, a slow network alone is a question; together they are an answer.
        expr="""
(
  <branches>
)
and on (<job>) job:nccl_verdict:depth{suspect="network"}""",
        branches=(
            *((each.companion, _excess(each)) for each in COUNTERS_OF_PORTS),
            ("host_network", 'label_replace(node:tcp_retransmits:ratio / 0.1, "counter", "tcp_retransmits", "", "")'),
        ),
        join="or",
        unit=Unit.COUNT,
        labels=(*PORT, "counter"),
        sources="The limits of NVIDIA/NVSentinel docs/configuration/nic-health-monitor.md; for TCP the 10 % of "
        "OceanBase OCP.",
        group=GROUP,
    ),
    Signal(
        name="node:switch_errors:rate",
        question="Which error counters rise on switch ports, and what hangs on their cables?",
        healthy="absent",
        # The other end of the cable calls itself by host and adapter: the first word is the node.
        expr="""
label_replace(
  max by (guid, port, switch, uplink, counter) (
    (
      <branches>
    )
    * on (guid, port) group_left (switch, uplink) max by (guid, port, switch, uplink) (<switch_uplink>)
  ),
  "<node>", "$1", "uplink", "([^ ]+).*"
)""",
        branches=tuple(("switch_ports", _rising(name, f"<{key}>")) for name, key in SWITCH_COUNTERS),
        join="or",
        unit=Unit.PER_SECOND,
        labels=("<node>", "guid", "port", "switch", "uplink", "counter"),
        sources="As node:fabric_errors:rate.",
        group=GROUP,
        companion="switch_ports",
    ),
)

_WHERE = "{{ $labels.device }} port {{ $labels.port }} of {{ $labels.<node_label> }}"
_HURTS = (
    "On its own this proves no harm: NcclFabricSuspect fires too when the network of job {{ $labels.<job_label> }} is slow "
    "at the same time."
)


def _tiers(severity: Severity, threshold: float, *, medium: int, high: int, hold: int = 10) -> dict[Sensitivity, Tier]:
    """A counter alone is never a page and not in the lowest tier."""
    return {
        Sensitivity.MEDIUM: Tier(threshold=threshold, dumps=medium, severity=severity, keep_firing=hold),
        Sensitivity.HIGH: Tier(threshold=threshold, dumps=high, severity=severity, keep_firing=hold),
    }


def _runbook(meaning: str, counter: str, *act: str) -> Runbook:
    return Runbook(
        meaning=meaning,
        look_first=(
            "Fabric board of the job: since when does it rise, on this port alone or on many?",
            "Job board: is mixed or network bandwidth in a degradation window at the same time?",
        ),
        tell_apart=(
            "One port: its cable, transceiver or adapter. All ports of a node: the node. Ports of one rail or one switch "
            "on many nodes: the switch.",
            "Counters are kept for ever and count other traffic too, storage for one: only what rises now is evidence.",
        ),
        act=(*act, f"Its line of the counter table: {COUNTERS[counter]}"),
        tools=FABRIC_TOOLS,
    )


# A port that is under suspicion speaks for its counters.
_BY_THE_SUSPECT: Mapping[str, Scope] = {"NcclFabricSuspect": "node"}

ALERTS = (
    Alert(
        name="NcclFabricSuspect",
        kind="fabric",
        signal="node:fabric_suspect:ratio",
        expr="node:fabric_suspect:ratio > <threshold>",
        labels={"suspect": "network"},
        limit="the network is slow, and an error counter rises at more than <threshold %> of its published limit",
        summary="Job {{ $labels.<job_label> }}: the network is slow and {{ $labels.<node_label> }} has rising "
        "{{ $labels.counter }}.",
        description="While the network of job {{ $labels.<job_label> }} is degraded, {{ $labels.counter }} of "
        "{{ $labels.<node_label> }}{{ with $labels.device }} {{ . }}{{ end }}{{ with $labels.port }} port {{ . }}{{ end }} "
        "rise at {{ $value | humanize }} times their published limit. Look first at the fabric board: is it this port "
        "alone, and did it begin with the window?",
        tiers={
            Sensitivity.LOW: Tier(threshold=1, dumps=2, severity=Severity.WARNING, keep_firing=6),
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=1, severity=Severity.WARNING, keep_firing=6),
            Sensitivity.HIGH: Tier(threshold=0.3, dumps=0, severity=Severity.WARNING, keep_firing=4),
        },
        sources=f"The limits of {NVSENTINEL}; for TCP the 10 % of OceanBase OCP's ob_host_tcp_retrans_percent. A third of a "
        "limit is enough in the most sensitive tier, because the slow network is evidence of its own.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="Two independent observations agree: the job's network has become slow, and a counter of one of its "
            "nodes rises beyond what is normal. That is the best hint at the place that metrics can give.",
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
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="link_downed"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> links lost",
        summary=f"Job {{{{ $labels.<job_label> }}}}: the link of {_WHERE} went down.",
        description=f"The link of {_WHERE} has gone down within the last minutes, and may be back. {_HURTS} Look first at "
        "the link state on the fabric board.",
        tiers=_tiers(Severity.WARNING, 0, medium=0, high=0),
        sources=f"{NVSENTINEL}: link_downed is fatal at any increase.",
        dashboard="fabric",
        runbook=_runbook(
            "A link that had worked went away. NCCL retries for a while, so the job may stall, abort, or never notice.",
            "link_downed",
            "Once: note it. Again on the same port: reseat the cable, exchange the transceiver, drain the node until then.",
        ),
    ),
    Alert(
        name="NcclFabricPortDown",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_port_down:state",
        expr="node:fabric_port_down:state < <threshold>",
        companion="infiniband",
        limit="port state below <threshold> (active)",
        summary=f"Job {{{{ $labels.<job_label> }}}}: {_WHERE} is down.",
        description=f"{_WHERE} went down and has not come back: its state is {{{{ $value }}}}, 4 would be active. One rail of "
        "job {{ $labels.<job_label> }} is missing on this node. Look first at `ibstat` there.",
        tiers=_tiers(Severity.WARNING, 4, medium=8, high=2),
        rises=False,
        sources="leptonai/gpud calls a port dropped that is down for 4 minutes, eight dumps.",
        dashboard="fabric",
        runbook=_runbook(
            "A port that had worked is not active. Communicators that use its rail hang, or go through fewer adapters.",
            "link_downed",
            "`ibstat` on the node, state of the far port on the switch; drain the node.",
        ),
    ),
    Alert(
        name="NcclFabricSymbolErrors",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        # Errors of the last hour, for as long as they go on.
        expr="""
<dump> * sum_over_time(node:fabric_errors:rate{counter="symbol_errors"}[1h]) > <threshold>
and
node:fabric_errors:rate{counter="symbol_errors"}""",
        companion="infiniband",
        limit="more than <threshold> symbol errors an hour",
        summary=f"Job {{{{ $labels.<job_label> }}}}: the signal at {_WHERE} is bad.",
        description=f"{_WHERE} has counted {{{{ $value | humanize }}}} symbol errors within the last hour. {_HURTS} Look first "
        "at the cable and the transceiver.",
        tiers=_tiers(Severity.WARNING, 120, medium=2, high=0),
        sources=f"{NVSENTINEL}: symbol_error is fatal above 120 an hour.",
        dashboard="fabric",
        runbook=_runbook(
            "The receiver of this link sees symbols that it cannot read. Packets are lost and sent again.",
            "symbol_errors",
            "Clean or exchange cable and transceiver; compare the optical power of both ends (`mlxlink -d DEVICE -m`).",
        ),
    ),
    Alert(
        name="NcclFabricReceiveErrors",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="receive_errors"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> broken packets a second",
        summary=f"Job {{{{ $labels.<job_label> }}}}: {_WHERE} receives broken packets.",
        description=f"{_WHERE} receives {{{{ $value | humanize }}}} broken packets a second. {_HURTS} Look first at the port "
        "at the far end of its cable.",
        tiers=_tiers(Severity.INFO, 10, medium=2, high=0),
        sources=f"{NVSENTINEL}: port_rcv_errors above 10 a second.",
        dashboard="fabric",
        runbook=_runbook(
            "Packets reach this port with errors. They were damaged on the way, or before: look at the far end.",
            "receive_errors",
            "`perfquery` on the far port; where it has symbol errors too, the cable; else the switch behind it.",
        ),
    ),
    Alert(
        name="NcclFabricDiscards",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="discards"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> discarded packets a second",
        summary=f"Job {{{{ $labels.<job_label> }}}}: {_WHERE} discards packets.",
        description=f"{_WHERE} discards {{{{ $value | humanize }}}} packets a second that it could not send. {_HURTS} Look "
        "first whether other nodes do so too: then it is congestion.",
        tiers=_tiers(Severity.INFO, 100, medium=2, high=0),
        sources=f"{NVSENTINEL}: port_xmit_discards above 100 a second.",
        dashboard="fabric",
        runbook=_runbook(
            "The port cannot get rid of its packets in time and throws them away.",
            "discards",
            "Many nodes: placement, routing, QoS or PFC. One node: the far port is slow or pauses it.",
        ),
    ),
    Alert(
        name="NcclFabricLinkUnstable",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr="""
60 * node:fabric_errors:rate{counter="link_recoveries"} > <threshold>
or
60 * node:fabric_errors:rate{counter="integrity_errors"} > <integrity_errors>""",
        companion="infiniband",
        limit="more than <threshold> retrainings a minute, or more than <integrity_errors> integrity errors a minute",
        summary=f"Job {{{{ $labels.<job_label> }}}}: the link of {_WHERE} is unstable.",
        description=f"{_WHERE} counts {{{{ $value | humanize }}}} {{{{ $labels.counter }}}} a minute: the link keeps training "
        f"itself again. {_HURTS}",
        tiers={
            level: Tier(
                threshold=5, dumps=dumps, severity=Severity.WARNING, keep_firing=10, extra={"integrity_errors": 0}
            )
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"{NVSENTINEL}: link_error_recovery above 5 a minute; local_link_integrity_errors is fatal above 0.",
        dashboard="fabric",
        runbook=_runbook(
            "The link repairs itself again and again without going down. Each time its traffic waits.",
            "link_recoveries",
            "As for symbol errors: cable, transceiver, then adapter; drain the node when it goes on.",
        ),
    ),
    Alert(
        name="NcclFabricBufferOverrun",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="buffer_overruns"} > <threshold>',
        companion="infiniband",
        limit="more than <threshold> overruns of a buffer",
        summary=f"Job {{{{ $labels.<job_label> }}}}: a buffer of {_WHERE} overran.",
        description=f"Flow control of {_WHERE} failed: packets came in for which there was no room. {_HURTS} Look first at the "
        "MTU of both ends and at the firmware.",
        tiers=_tiers(Severity.WARNING, 0, medium=0, high=0),
        sources=f"{NVSENTINEL}: excessive_buffer_overrun_errors is fatal above 0.",
        dashboard="fabric",
        runbook=_runbook(
            "The sender ignored the credits of the receiver, which InfiniBand must never do.",
            "buffer_overruns",
            "Compare MTU and virtual lanes of both ends; update the firmware of adapter and switch.",
        ),
    ),
    Alert(
        name="NcclFabricTimeouts",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr="""
node:fabric_errors:rate{counter="ack_timeouts"} > <threshold>
or
node:fabric_errors:rate{counter="rnr_retries"} > <rnr_retries>""",
        companion="hw_counters",
        limit="unanswered operations at more than <threshold> a second, or receivers that are not ready at more than <rnr_retries> a second",
        summary=f"Job {{{{ $labels.<job_label> }}}}: RDMA operations of {_WHERE} time out.",
        description=f"{_WHERE} counts {{{{ $value | humanize }}}} {{{{ $labels.counter }}}} a second: its peers do not answer in "
        f"time. {_HURTS} Look first for the peer: the counter is on the side that waits.",
        tiers={
            level: Tier(threshold=1, dumps=dumps, severity=Severity.WARNING, keep_firing=10, extra={"rnr_retries": 0})
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"{NVSENTINEL}: local_ack_timeout_err above 1 a second; rnr_nak_retry_err is fatal above 0.",
        dashboard="fabric",
        runbook=_runbook(
            "RDMA operations are repeated because nobody acknowledged them. After NCCL_IB_RETRY_CNT the job aborts.",
            "ack_timeouts",
            "Find the silent peer: its port state, its firmware, PFC storms on the path between.",
        ),
    ),
    Alert(
        name="NcclFabricCongested",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='node:fabric_errors:rate{counter="slow_restarts"} > <threshold>',
        companion="hw_counters",
        limit="more than <threshold> slow restarts a second",
        summary=f"Job {{{{ $labels.<job_label> }}}}: RoCE of {_WHERE} keeps slowing down.",
        description=f"{_WHERE} restarts {{{{ $value | humanize }}}} RoCE connections a second slowly, which it does after loss. "
        f"{_HURTS} Look first at congestion notifications on the fabric board: who receives them, who sends them?",
        tiers=_tiers(Severity.INFO, 10, medium=2, high=0),
        sources=f"{NVSENTINEL}: roce_slow_restart above 10 a second.",
        dashboard="fabric",
        runbook=_runbook(
            "Packets were lost on a path that is meant to lose none, and the adapter falls back to a low rate.",
            "slow_restarts",
            "Check PFC and ECN settings end to end (`mlnx_qos -i INTERFACE`), and for an incast: many senders to one node.",
        ),
    ),
    Alert(
        name="NcclFabricLinkFlapping",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:fabric_errors:rate",
        expr='10 * <dump> * node:fabric_errors:rate{counter="carrier_changes"} > <threshold>',
        companion="host_network",
        limit="more than <threshold> changes of the carrier within ten dumps",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.device }} of {{ $labels.<node_label> }} flaps.",
        description="{{ $labels.device }} of {{ $labels.<node_label> }} has changed its carrier {{ $value | humanize }} times "
        f"within ten dump intervals. {_HURTS} Look first at the cable.",
        tiers=_tiers(Severity.INFO, 2, medium=0, high=0),
        sources=f"{NVSENTINEL}: carrier_changes increases by more than 2.",
        dashboard="fabric",
        runbook=_runbook(
            "The interface loses and regains its carrier.",
            "carrier_changes",
            "Reseat or exchange the cable; an interface of the management network does not slow collectives.",
        ),
    ),
    Alert(
        name="NcclFabricMtuMismatch",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:network_mtu_odd:bytes",
        expr="node:network_mtu_odd:bytes > <threshold>",
        companion="host_network",
        limit="an MTU unlike that of the other nodes",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.device }} of {{ $labels.<node_label> }} has another MTU than its peers.",
        description="{{ $labels.device }} of {{ $labels.<node_label> }} has an MTU of {{ $value }} bytes, unlike the same "
        "interface of most other nodes of job {{ $labels.<job_label> }}. Jobs of two nodes may work and larger ones hang or crawl. "
        "Look first at the interface's configuration, then at every hop: `ping -M do -s 8972`.",
        tiers=_tiers(Severity.WARNING, 0, medium=4, high=2),
        sources="An MTU that differs is wrong by itself; four dumps outlast a reconfiguration of all nodes.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="The nodes of one job disagree about the largest packet. What one sends whole another drops, or it is cut "
            "into pieces. 'Works on two nodes, fails on eight' is most often this.",
            look_first=(
                "Fabric board, MTU by node and interface: one node, or two halves?",
                "`ip link show DEVICE` and `ibv_devinfo | grep mtu` on that node and on a peer.",
            ),
            tell_apart=(
                "The metric shows the interface only. The active MTU of RDMA follows it and is not exposed: `ibv_devinfo`.",
                "Interfaces that no job uses may differ: name those that count in companions.host_network.device_regex.",
            ),
            act=(
                "Set the MTU of the node to that of its peers, then test end to end: `ping -M do -s 8972 PEER` for 9000.",
            ),
            tools=FABRIC_TOOLS,
        ),
    ),
    Alert(
        name="NcclTcpRetransmits",
        kind="fabric",
        explained_by=_BY_THE_SUSPECT,
        signal="node:tcp_retransmits:ratio",
        expr="node:tcp_retransmits:ratio > <threshold>",
        companion="host_network",
        limit="more than <threshold %> of the TCP segments sent again",
        summary="Job {{ $labels.<job_label> }}: {{ $labels.<node_label> }} sends much of its TCP traffic again.",
        description="{{ $labels.<node_label> }} sends {{ $value | humanizePercentage }} of its TCP segments again. NCCL over "
        "sockets, storage and the scheduler suffer; RDMA does not show here. Look first whether the job uses sockets: "
        "NET/Socket in its NCCL log.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.10, dumps=2, severity=Severity.INFO, keep_firing=10),
            Sensitivity.HIGH: Tier(threshold=0.02, dumps=2, severity=Severity.INFO, keep_firing=10),
        },
        sources="OceanBase OCP alerts at 10 % (ob_host_tcp_retrans_percent), Performance Co-Pilot's network.tcp_retransmit at "
        "20 % and only above 100 packets a second, as here; 2 % is a tenth of the latter, for the most sensitive tier.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="TCP segments of this node get lost on the way. All interfaces are counted together.",
            look_first=(
                "Fabric board, TCP retransmits by node: one node, or all that share a switch?",
                "The NCCL log of the job: NET/IB or NET/Socket? With NET/IB this is about storage and control traffic.",
            ),
            tell_apart=(
                "One node: its cable, duplex, driver or MTU. Many nodes: a switch that is overloaded.",
                "Unwanted NET/Socket: NCCL_IB_DISABLE, NCCL_IB_HCA or a missing RDMA device; fix that first.",
            ),
            act=("`iperf3 -P 4` between the node and a healthy one: about 94 % of the line rate is sound.",),
            tools=FABRIC_TOOLS,
        ),
    ),
    Alert(
        name="NcclSwitchPortErrors",
        kind="fabric",
        signal="node:switch_errors:rate",
        expr="""
node:switch_errors:rate{counter="link_downed"} > <threshold>
or
<dump> * sum_over_time(node:switch_errors:rate{counter="symbol_errors"}[1h]) > <symbol_errors>
and
node:switch_errors:rate{counter="symbol_errors"}
or
node:switch_errors:rate{counter="receive_errors"} > <receive_errors>
or
node:switch_errors:rate{counter="discards"} > <discards>""",
        companion="switch_ports",
        limit="more than <threshold> links lost, <symbol_errors> symbol errors an hour, <receive_errors> broken packets a second, or <discards> discarded packets a second",
        summary="Switch {{ $labels.switch }} port {{ $labels.port }} towards {{ $labels.uplink }} has rising "
        "{{ $labels.counter }}.",
        description="Port {{ $labels.port }} of switch {{ $labels.switch }} ({{ $labels.guid }}), at the other end of which is "
        "{{ $labels.uplink }}, is over the limit of {{ $labels.counter }}: {{ $value | humanize }}, symbol errors by the hour, "
        "everything else by the second. Look first at the other end of the cable.",
        tiers={
            level: Tier(
                threshold=0,
                dumps=dumps,
                severity=Severity.INFO,
                keep_firing=10,
                extra={"symbol_errors": 120, "receive_errors": 10, "discards": 100},
            )
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"The limits of {NVSENTINEL} for adapters, applied to the other end of their cables.",
        dashboard="fabric",
        runbook=_runbook(
            "A switch port sees what an adapter would see at the other end of the cable. Ports between switches carry many jobs.",
            "symbol_errors",
            "Towards a node: treat cable and node. Between switches: the fabric team; many jobs slow at once point here.",
        ),
    ),
)
