# SPDX-License-Identifier: Apache-2.0
"""The error counters of ports: their names, their published limits, and how they are joined to a job."""

from __future__ import annotations

from dataclasses import dataclass

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


WINDOW = "5m"
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
ENOUGH = 0.3
"""The share of a published limit that is enough beside a slow network; see the sources of NcclFabricSuspect."""

RETRANSMITTED = "tcp_retransmits"
LIMITS = {each.name: each.limit for each in COUNTERS_OF_PORTS} | {RETRANSMITTED: 0.1}
"""The published limits: events a second of counters, and the share of TCP segments that are sent again."""

SWITCH_COUNTERS = (
    ("link_downed", "switch_link_downed"),
    ("symbol_errors", "switch_symbol_errors"),
    ("receive_errors", "switch_receive_errors"),
    ("discards", "switch_discards"),
)


def rising(name: str, selector: str) -> str:
    """Events a second of the counters that rise; a counter that rests has no row, so a sound fleet costs nothing."""
    return f'label_replace(rate({selector}[{WINDOW}]) > 0, "counter", "{name}", "", "")'


# Labels that name the job and the node of a scrape target, to multiply series of node_exporter with.
OF_JOB = "on (<target>) group_left (<job_label>, <node>) (topk by (<target>) (1, <present>) ^ 0)"
