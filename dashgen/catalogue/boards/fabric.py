# SPDX-License-Identifier: Apache-2.0
"""Is the fabric or a GPU of this job's nodes at fault?

Rules record errors only; what is drawn here is read from the exporters, confined to the job's scrape targets by a hidden
variable, so that a fleet of thousands of ports costs no more than the ports of one job.
"""

from __future__ import annotations

from dashgen.catalogue.boards.gpus import GPUS
from dashgen.catalogue.boards.parts import FEW, JOB, JOBS, SCRAPED, answers, of_nodes, threshold
from dashgen.catalogue.signals.fabric.counters import LIMITS
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit, Variable

NODE = Variable(name="node", label="<node_label>", series=f"{JOBS}{{<of_job>}}", title="Node", narrows=True)
TARGET = Variable(
    name="target",
    label="<instance_label>",
    series=f'{JOBS}{{<node_label>=~"$node", <of_job>}}',
    title="Scrape target",
    narrows=True,
    hidden=True,
)

_HERE = '<instance_label>=~"$target", <in_cluster>'
_PORT = "{{<node_label>}} {{device}} {{port}}"
_NAMED = of_nodes("<of_job>")
_AN_HOUR = {name: f"{limit * 3600:,.0f}" for name, limit in LIMITS.items()}
_LINK_STATES = {
    0: ("no data", "neutral"),
    1: ("down", "bad"),
    2: ("initialising", "warn"),
    3: ("armed", "warn"),
    4: ("active", "ok"),
}


def _exporter(
    title: str,
    description: str,
    companion: str,
    *queries: tuple[str, str],
    unit: Unit = Unit.PER_SECOND,
    also: tuple[Query, ...] = (),
    **more: object,
) -> Panel:
    """A panel of node_exporter's series: pairs of PromQL, in which ``HERE`` confines a selector, and legend; ``also`` are
    queries of recorded series beside them."""
    return Panel(
        title=title,
        description=description,
        type=more.pop("type", "timeseries"),  # type: ignore[arg-type]
        unit=unit,
        queries=(
            *(Query(expr=f"({expr.replace('HERE', _HERE)})\n{_NAMED}", legend=legend) for expr, legend in queries),
            *also,
        ),
        companion=companion,
        **{"width": 8, "height": 7, "points": FEW, "interval": SCRAPED, **more},  # type: ignore[arg-type]
    )


_SUSPECTS = Row(
    title="Suspects",
    panels=(
        answers(
            "node:fabric_suspect:ratio",
            title="Ports that are suspect, down or slow",
            question="Which port is down, has a link of a lower rate than its like, or rising errors while the job's network is slow?",
            query='@{<node_label>=~"$node", <of_job>}',
            type="table",
            instant=True,
            also=tuple(
                Query(expr=f'{signal}{{<node_label>=~"$node", <of_job>}}', instant=True)
                for signal in ("node:fabric_port_down:state", "node:fabric_rate_low:bits")
            ),
            healthy="no row",
            bad="a row: this node, device and port, how many times over the published limit, and the state of its link or the "
            "rate that is too low",
            width=12,
            height=6,
            columns={
                "<node_label>": "Node",
                "device": "Device",
                "port": "Port",
                "counter": "Counter",
                "Value #A": "Times the limit",
                "Value #B": "Link",
                "Value #C": "Rate",
            },
            column_states={"Value #B": _LINK_STATES},
            column_units={"Value #C": Unit.BITS_PER_SECOND},
            order="-Times the limit",
            no_value="no port is down, slow or under suspicion, or no port counters",
            companion="infiniband",
        ),
        answers(
            "node:fabric_errors:rate",
            title="Error counters that rise",
            query='3600 * @{<node_label>=~"$node", <of_job>}',
            legend=f"{_PORT} {{{{counter}}}}",
            read=f"The published limits: {_AN_HOUR['symbol_errors']} symbol errors, {_AN_HOUR['link_recoveries']} link recoveries, "
            f"{_AN_HOUR['receive_errors']} broken packets, {_AN_HOUR['discards']} discards.",
            bad="a line that begins with a degradation window of the job",
            unit=Unit.PER_HOUR,
            width=12,
            height=6,
            minimum=0.0,
            no_value="no counter rises, or no port counters",
            companion="infiniband",
        ),
        answers(
            "node:fabric_port_down:state",
            title="Link state by port",
            question="Which links went away, and when?",
            query='@{<node_label>=~"$node", <of_job>}',
            legend=_PORT,
            also=(
                Query(
                    expr="(\n  4 * group(<ib_state> and on (<target>) node:nccl_gpus:count{<of_job>})\n"
                    "  or on ()\n  vector(0)\n)\nunless on () node:fabric_port_down:state{<of_job>}",
                    legend="all links that were in use",
                ),
            ),
            type="state-timeline",
            unit=Unit.NONE,
            read="A port has a line for as long as its link is away; one that nobody ever used has none.",
            healthy="one line: all that were in use are active",
            bad="a bar that is down or initialising, however short",
            states=_LINK_STATES,
            width=12,
            height=6,
            companion="infiniband",
        ),
        _exporter(
            "Link losses by port",
            "How often did links go down, or train themselves again, at each point? Healthy: 0. Bad: any loss "
            "while a job runs, and more than a few recoveries: cable, transceiver, adapter. Drawn are the twenty ports with most of each kind.",
            "infiniband",
            ("increase(<ib_link_downed>{HERE}[$__rate_interval])", f"{_PORT} down"),
            ("increase(<ib_link_recoveries>{HERE}[$__rate_interval])", f"{_PORT} recovered"),
            unit=Unit.COUNT,
            minimum=0.0,
            width=12,
            height=6,
            no_value="no link was lost, or no port counters",
        ),
    ),
)

_PORTS = Row(
    title="InfiniBand and RoCE ports (node_exporter, infiniband)",
    collapsed=True,
    panels=(
        _exporter(
            "Traffic by port",
            "How much do the ports send (up) and receive (down)? Healthy: alike on all ports of a job. Bad: one port "
            "far below the others is the slow rail, one far above is the way around it.",
            "infiniband",
            ("rate(<ib_transmitted>{HERE}[$__rate_interval])", f"{_PORT} sent"),
            ("-rate(<ib_received>{HERE}[$__rate_interval])", f"{_PORT} received"),
            unit=Unit.BYTES_PER_SECOND,
        ),
        _exporter(
            "Waiting for credit by port",
            "How long do ports have data and may not send it (PortXmitWait, in ticks a second)? Healthy: 0, or alike on all "
            "ports. Bad: there is no published limit: a port that waits more than its neighbours sends into congestion.",
            "infiniband",
            ("rate(<ib_wait>{HERE}[$__rate_interval])", _PORT),
            minimum=0.0,
        ),
    ),
)

_ROCE = Row(
    title="RoCE (node_exporter 1.11 or newer, hw_counters)",
    collapsed=True,
    panels=(
        _exporter(
            "Congestion notifications by port",
            "Who is told to send slower (handled), and who tells others (sent)? Healthy: few. Bad: one port that sends "
            "many is the target of an incast, the ports that handle them are its senders.",
            "hw_counters",
            ("rate(<hw_cnp_handled>{HERE}[$__rate_interval])", f"{_PORT} handled"),
            ("rate(<hw_cnp_sent>{HERE}[$__rate_interval])", f"{_PORT} sent"),
            minimum=0.0,
        ),
        _exporter(
            "Time-outs and retries by port",
            "Do RDMA operations have to be repeated? Healthy: 0. Bad: more than one unanswered operation a second, or "
            "any receiver that was not ready.",
            "hw_counters",
            ("rate(<hw_ack_timeouts>{HERE}[$__rate_interval])", f"{_PORT} unanswered"),
            ("rate(<hw_rnr_retries>{HERE}[$__rate_interval])", f"{_PORT} not ready"),
            minimum=0.0,
        ),
        _exporter(
            "Slow restarts and disorder by port",
            "Were packets lost or overtaken? Healthy: 0 slow restarts; some disorder is normal with adaptive routing. "
            "Bad: more than ten slow restarts a second.",
            "hw_counters",
            ("rate(<hw_slow_restarts>{HERE}[$__rate_interval])", f"{_PORT} slow restart"),
            ("rate(<hw_out_of_sequence>{HERE}[$__rate_interval])", f"{_PORT} out of order"),
            minimum=0.0,
        ),
    ),
)


def _host_network(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Host network (node_exporter, netclass and netstat)",
        collapsed=True,
        panels=(
            _exporter(
                "MTU by node and interface",
                "Do all nodes agree about the largest packet? An interface that differs from its peers has a second line. "
                "Healthy: one value an interface. Bad: one node on another line than its peers: works on two nodes, fails "
                "on eight.",
                "host_network",
                ('<net_mtu>{device=~"<net_devices>", HERE}', "{{<node_label>}} {{device}}"),
                unit=Unit.NONE,
                lowest_first=True,
                also=(
                    Query(
                        expr='node:network_mtu_odd:bytes{<node_label>=~"$node", <of_job>}',
                        legend="unlike its peers: {{<node_label>}} {{device}}",
                    ),
                ),
            ),
            _exporter(
                "TCP retransmits by node",
                "What share of its TCP segments does each node send again? Healthy: far below one percent. Bad: percents; "
                "of interest where NCCL uses sockets, else for storage and control traffic.",
                "host_network",
                (
                    "rate(<tcp_retransmitted>{HERE}[$__rate_interval]) / rate(<tcp_sent>{HERE}[$__rate_interval])",
                    "{{<node_label>}}",
                ),
                unit=Unit.RATIO,
                minimum=0.0,
                steps=((None, "ok"), (threshold("NcclTcpRetransmits", sensitivity), "warn")),
            ),
            _exporter(
                "Carrier changes by interface",
                "How often did interfaces lose or regain their carrier at each point? Healthy: 0. Bad: more than 2 within minutes.",
                "host_network",
                (
                    'increase(<net_carrier_changes>{device=~"<net_devices>", HERE}[$__rate_interval])',
                    "{{<node_label>}} {{device}}",
                ),
                unit=Unit.COUNT,
                minimum=0.0,
            ),
        ),
    )


_SWITCHES = Row(
    title="Switch ports (infiniband_exporter)",
    collapsed=True,
    panels=(
        answers(
            "node:switch_errors:rate",
            title="Switch ports with rising errors",
            query='@{<node_label>=~"$node", <in_cluster>}',
            legend="{{switch}} {{port}} {{uplink}} {{counter}}",
            bad="a line: the same cable as the port of the node that it names, seen from the other end",
            width=24,
            height=7,
            minimum=0.0,
            no_value="no counter rises, or no counters of switches",
        ),
    ),
)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of a job's ports, interfaces, switches and GPUs."""
    return Dashboard(
        slug="fabric",
        place=50,
        title="Fabric and GPU",
        question="Is the fabric or a GPU of this job's nodes at fault?",
        variables=(JOB, NODE, TARGET),
        rows=(
            _SUSPECTS,
            _PORTS,
            _ROCE,
            _host_network(sensitivity),
            _SWITCHES,
            GPUS,
        ),
    )
