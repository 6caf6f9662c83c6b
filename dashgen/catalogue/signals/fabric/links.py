# SPDX-License-Identifier: Apache-2.0
"""Links of a job's nodes: away, or slower than those of the same port elsewhere."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.runbooks import FABRIC_TOOLS
from dashgen.catalogue.signals.fabric.counters import OF_JOB, PORT
from dashgen.catalogue.signals.fabric.tickets import ONE_OR_MANY, WHERE, tickets
from dashgen.model import Alert, Runbook, Severity, Signal, Unit, indented


def _of_ports(each: str) -> str:
    """What each port of a job's nodes says."""
    return f"""max by (<job>, <node>, <instance>, device, port) (
  {each}
  * {OF_JOB}
)"""


_RATE = _of_ports("<ib_rate>")
_DOWN = _of_ports("(<ib_state> != 4)")

SLOW_LINKS = {
    "node:fabric_rate_low:bits": '{{ range query "bottomk by (<job>) (3, node:fabric_rate_low:bits)" }}{{ if <same_job> }}'
    " Slower than its like: {{ .Labels.device }} port {{ .Labels.port }} of {{ .Labels.<node_label> }}, whose link runs at "
    "{{ .Value | humanize }}bit/s.{{ end }}{{ end }}"
}
"""What an alert about a slow network says of links that are slower than their like: the adapter that the job waits for."""

LESS_IS_WORSE = frozenset({"node:fabric_port_down:state", "node:fabric_rate_low:bits"})
"""Of a port that is down, 1, and of a link that is slow the lowest rate tell most."""

SIGNALS = (
    Signal(
        name="node:fabric_port_down:state",
        question="Which ports are down that were up, or that are up on most of the job's nodes?",
        healthy="absent; 1 is down, 2 initialising, 3 armed",
        # A port that nobody uses is down for ever, on all nodes.
        expr=f"""
{_DOWN}
and on (<target>, device, port) last_over_time(node:fabric_errors:rate{{counter="link_downed"}}[1d])
or
{_DOWN}
and on (<job>, device, port)
quantile by (<job>, device, port) (0.5,
  {indented(_of_ports("<ib_state>"))}
) == 4""",
        unit=Unit.COUNT,
        labels=PORT,
        sources="A day since its link went down: longer than any fault that a job survives. What most nodes have is right.",
        group=groups.FABRIC,
        companion="infiniband",
    ),
    Signal(
        name="node:fabric_rate_low:bits",
        question="Which links run at a lower rate than that of the same port on the job's other nodes?",
        healthy="absent",
        # A link that went away has its own row, and a rate that means nothing.
        expr=f"""
8 * (
  {indented(_RATE)}
  < on (<job>, device, port) group_left ()
  quantile by (<job>, device, port) (0.5,
    {indented(_RATE, 4)}
  )
)
unless on (<target>, device, port) node:fabric_port_down:state""",
        unit=Unit.BITS_PER_SECOND,
        labels=PORT,
        sources="The rates of links are a few fixed ones, so any difference counts. What most nodes have is right; of two "
        "nodes the faster one is.",
        group=groups.FABRIC,
        companion="infiniband",
    ),
)

ALERTS = (
    Alert(
        name="NcclFabricPortDown",
        kind="fabric",
        signal="node:fabric_port_down:state",
        expr="node:fabric_port_down:state < <threshold>",
        companion="infiniband",
        limit="port state below <threshold> (active)",
        summary=f"Job <this_job>: {WHERE} is down.",
        description=f"{WHERE} went down and has not come back, or is down where most nodes of the job have it up: its state is {{{{ $value }}}}, 4 would be active. One rail of "
        "job <this_job> is missing on this node. Look first at `ibstat` there.",
        tiers=tickets(Severity.WARNING, 4, medium=8, high=2),
        rises=False,
        sources="leptonai/gpud calls a port dropped that is down for 4 minutes, eight dumps.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="A port that had worked, or works on most of the job's nodes, is not active. Communicators that use its rail hang, or go through fewer adapters.",
            look_first=(
                "`ibstat` on the node: the state now; `dmesg | grep -i mlx5`: since when?",
                "Fabric board, Link state by port: this port alone, or others of its rail or switch?",
            ),
            tell_apart=(ONE_OR_MANY,),
            act=(
                "State of the far port on the switch; reseat the cable, exchange the transceiver; drain the node until then.",
            ),
            tools=FABRIC_TOOLS,
        ),
    ),
    Alert(
        name="NcclFabricLinkSlow",
        kind="fabric",
        signal="node:fabric_rate_low:bits",
        expr="node:fabric_rate_low:bits > <threshold>",
        companion="infiniband",
        limit="a lower rate than that of the same port on the job's other nodes",
        summary=f"Job <this_job>: the link of {WHERE} runs at a lower rate than its like.",
        description=f"The link of {WHERE} runs at {{{{ $value | humanize }}}}bit/s, less than that of the same port on "
        "the other nodes of job <this_job>, and what goes through it is as slow. Look first at `ibstat` there and at a peer.",
        tiers=tickets(Severity.WARNING, 0, medium=4, high=2),
        sources="facebookresearch/gcm check-iblink fails a port whose rate is not that of its kind, as `ibdiagnet --ls --lw` "
        "does; four dumps outlast a link that comes up.",
        dashboard="fabric",
        runbook=Runbook(
            meaning="The link came up with fewer lanes or a lower speed than it can. No counter of errors rises, and "
            "every communicator that uses this adapter is as slow as it is: the commonest slow adapter.",
            look_first=(
                "`ibstat` on the node and on a peer: the rate of both. Fabric board: this port alone, or others?",
                "Job board: is the network slow by about as much, or the rail of this adapter alone?",
            ),
            tell_apart=(
                ONE_OR_MANY,
                "Half of the nodes: two generations of adapters in one job, which is as fast as the slower one: no fault.",
                "Adapters are compared by their name: one that no job uses, as for storage, may differ.",
            ),
            act=(
                "`mlxlink -d DEVICE -m` on both ends: active against enabled width and speed, and what the cable can do.",
                "Take the link down and up again; reseat or exchange the cable or transceiver; drain the node until then.",
            ),
            tools=FABRIC_TOOLS,
        ),
    ),
)
