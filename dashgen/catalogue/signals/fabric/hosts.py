# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a job's nodes as the kernel counts: odd MTUs, and TCP segments that are sent again."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.runbooks import FABRIC_TOOLS
from dashgen.catalogue.signals.fabric.counters import LIMITS, OF_JOB, RETRANSMITTED, WINDOW
from dashgen.catalogue.signals.fabric.tickets import BY_THE_SUSPECT, tickets
from dashgen.catalogue.signals.freshness import SEEN_SOURCES
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit, indented

_MTU = f"""max by (<job>, <node>, <instance>, device) (
  (<net_mtu>{{device=~"<net_devices>"}} and on (<target>, device) <net_up> == 1)
  * {OF_JOB}
)"""

SIGNALS = (
    Signal(
        name="node:network_mtu_odd:bytes",
        question="Which interfaces have another MTU than the same interface of the job's other nodes?",
        healthy="absent",
        expr=f"""
{_MTU}
!= on (<job>, device) group_left ()
quantile by (<job>, device) (0.5,
  {indented(_MTU)}
)""",
        unit=Unit.BYTES,
        labels=("<job>", "<node>", "<instance>", "device"),
        sources=SEEN_SOURCES,
        group=groups.FABRIC,
        companion="host_network",
    ),
    Signal(
        name="node:tcp_retransmits:ratio",
        question="What share of its TCP segments does each node of the job send again?",
        healthy="absent: below half a percent, or too little traffic to tell",
        expr=f"""
max by (<job>, <node>, <instance>) (
  rate(<tcp_retransmitted>[{WINDOW}])
  / (rate(<tcp_sent>[{WINDOW}]) > 100)
  * {OF_JOB}
) > 0.005""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>"),
        sources="OceanBase OCP warns at 10 %; rows from half a percent show what is rising; below 100 segments a "
        "second a ratio means nothing.",
        group=groups.FABRIC,
        companion="host_network",
    ),
)

ALERTS = (
    Alert(
        name="NcclFabricMtuMismatch",
        kind="fabric",
        signal="node:network_mtu_odd:bytes",
        expr="node:network_mtu_odd:bytes > <threshold>",
        companion="host_network",
        limit="an MTU unlike that of the other nodes",
        summary="Job <this_job>: {{ $labels.device }} of {{ $labels.<node_label> }} has another MTU than its peers.",
        description="{{ $labels.device }} of {{ $labels.<node_label> }} has an MTU of {{ $value }} bytes, unlike the same "
        "interface of other nodes of job <this_job>. Jobs of two nodes may work and larger ones hang or crawl. "
        "Look first at the interface's configuration, then at every hop: `ping -M do -s 8972`.",
        tiers=tickets(Severity.WARNING, 0, medium=4, high=2),
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
        explained_by=BY_THE_SUSPECT,
        signal="node:tcp_retransmits:ratio",
        expr="node:tcp_retransmits:ratio > <threshold>",
        companion="host_network",
        limit="more than <threshold %> of the TCP segments sent again",
        summary="Job <this_job>: {{ $labels.<node_label> }} sends much of its TCP traffic again.",
        description="{{ $labels.<node_label> }} sends {{ $value | humanizePercentage }} of its TCP segments again. NCCL over "
        "sockets, storage and the scheduler suffer; RDMA does not show here. Look first whether the job uses sockets: "
        "NET/Socket in its NCCL log.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=LIMITS[RETRANSMITTED], dumps=2, severity=Severity.INFO, keep_firing=10),
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
)
