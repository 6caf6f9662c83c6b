# SPDX-License-Identifier: Apache-2.0
"""What alerts on counters have in common: no page, and no word against a port on its own."""

from __future__ import annotations

from collections.abc import Mapping

from dashgen.catalogue.runbooks import COUNTERS, FABRIC_TOOLS
from dashgen.model import Runbook, Scope, Sensitivity, Severity, Tier

WHERE = "{{ $labels.device }} port {{ $labels.port }} of {{ $labels.<node_label> }}"
FIGURE = '{{ if lt $value 1.0 }}{{ printf "%.2g" $value }}{{ else }}{{ $value | humanize }}{{ end }}'
"""A rate, which `humanize` alone would write in thousandths."""
ONE_OR_MANY = (
    "One port: its cable, transceiver or adapter. All ports of a node: the node. Ports of one rail or one switch "
    "on many nodes: the switch."
)
HURTS = (
    "On its own this proves no harm: NcclFabricSuspect fires too where errors rise now and the network of job <this_job> is slow. "
    "Whether it is, its verdict says."
)


def tickets(severity: Severity, threshold: float, *, medium: int, high: int) -> dict[Sensitivity, Tier]:
    """A counter alone is never a page and not in the lowest tier."""
    return {
        Sensitivity.MEDIUM: Tier(threshold=threshold, dumps=medium, severity=severity, keep_firing=10),
        Sensitivity.HIGH: Tier(threshold=threshold, dumps=high, severity=severity, keep_firing=10),
    }


def port_runbook(meaning: str, which: str | tuple[str, ...], *act: str) -> Runbook:
    """The runbook of a counter, or of several; ``act`` is what to do first."""
    rising = (which,) if isinstance(which, str) else which
    return Runbook(
        meaning=meaning,
        look_first=(
            "Fabric board: since when does it rise, on this port alone or on many?",
            "Boards of the jobs there: is mixed or network bandwidth in a degradation window at the same time?",
        ),
        tell_apart=(
            ONE_OR_MANY,
            "Counters are kept for ever and count other traffic too, storage for one: only what rises now is evidence.",
        ),
        act=(*act, *(f"Its line of the counter table: {COUNTERS[counter]}" for counter in rising)),
        tools=FABRIC_TOOLS,
    )


# A node that is under suspicion speaks for its counters, and not for what it does not look at: dead ports, odd MTUs.
BY_THE_SUSPECT: Mapping[str, Scope] = {"NcclFabricSuspect": "node"}
