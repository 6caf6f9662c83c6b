# SPDX-License-Identifier: Apache-2.0
"""Switch ports: the other ends of the cables."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.signals.fabric.counters import LIMITS, NVSENTINEL, SWITCH_COUNTERS, rising
from dashgen.catalogue.signals.fabric.tickets import port_runbook
from dashgen.model import Alert, Sensitivity, Severity, Signal, Tier, Unit

SIGNALS = (
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
        branches=tuple(("switch_ports", rising(name, f"<{key}>")) for name, key in SWITCH_COUNTERS),
        join="or",
        unit=Unit.PER_SECOND,
        labels=("<node>", "guid", "port", "switch", "uplink", "counter"),
        sources="As node:fabric_errors:rate.",
        group=groups.FABRIC,
        companion="switch_ports",
    ),
)

ALERTS = (
    Alert(
        name="NcclSwitchPortErrors",
        kind="fabric",
        signal="node:switch_errors:rate",
        expr="""
node:switch_errors:rate{counter="link_downed"} > <threshold>
or
<every> * sum_over_time(node:switch_errors:rate{counter="symbol_errors"}[1h]) > <symbol_errors>
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
                extra={
                    "symbol_errors": LIMITS["symbol_errors"] * 3600,
                    "receive_errors": LIMITS["receive_errors"],
                    "discards": LIMITS["discards"],
                },
            )
            for level, dumps in ((Sensitivity.MEDIUM, 2), (Sensitivity.HIGH, 0))
        },
        sources=f"The limits of {NVSENTINEL} for adapters, applied to the other end of their cables.",
        dashboard="fabric",
        runbook=port_runbook(
            "A switch port sees what an adapter would see at the other end of the cable. Ports between switches carry many jobs.",
            tuple(name for name, _ in SWITCH_COUNTERS),
            "Towards a node: treat cable and node. Between switches: the fabric team; many jobs slow at once point here.",
        ),
    ),
)
