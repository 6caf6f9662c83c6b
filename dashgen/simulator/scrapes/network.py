# SPDX-License-Identifier: Apache-2.0
"""Counters of NICs, of hosts' interfaces and of switch ports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dashgen.catalogue.metrics import upstream
from dashgen.simulator.communicators import Floats
from dashgen.simulator.drift import stream
from dashgen.simulator.dumps import Run
from dashgen.simulator.events import Mtu, Nic, PortErrors, SwitchErrors, TcpLoss
from dashgen.simulator.lifecycle import nic_bytes
from dashgen.simulator.scrapes.site import Sheet, Site, node_labels, within

# What scenario files call the counters of a port, which are node_exporter's words, by the catalogue's keys.
_ALWAYS = {
    "symbol_error": "ib_symbol_errors",
    "port_errors_received": "ib_receive_errors",
    "port_discards_transmitted": "ib_discards",
    "link_downed": "ib_link_downed",
}
# What node_exporter exposes as well, left out of recordings in which it rests.
_MORE = {
    "link_error_recovery": "ib_link_recoveries",
    "local_link_integrity_errors": "ib_integrity_errors",
    "excessive_buffer_overrun_errors": "ib_buffer_overruns",
    "port_transmit_wait": "ib_wait",
}
_HW = {
    "local_ack_timeout_errors": "hw_ack_timeouts",
    "rnr_nak_retry_packets_received": "hw_rnr_retries",
    "roce_slow_restart": "hw_slow_restarts",
    "rp_cnp_packets_handled": "hw_cnp_handled",
    "np_cnp_packets_sent": "hw_cnp_sent",
    "out_of_sequence_packets_received": "hw_out_of_sequence",
}
_SWITCH = {
    "symbol_error": "switch_symbol_errors",
    "receive_errors": "switch_receive_errors",
    "transmit_discards": "switch_discards",
    "link_downed": "switch_link_downed",
}

_RATE = 400e9 / 8
"""Bytes a second of a port of 400 Gbit/s."""


def _counter(word: str, known: Mapping[str, str], prefix: str) -> str:
    """The series of a counter that a scenario names; the catalogue need not know it."""
    return upstream(known[word]) if word in known else f"{prefix}_{word}_total"


def infiniband(site: Site, runs: list[Run], sheet: Sheet) -> None:
    """Counters of one NIC per GPU (prometheus/node_exporter collector/infiniband_linux.go)."""
    scenario = site.scenario
    rng = stream(site.seed, "infiniband")
    for node, name in enumerate(scenario.nodes):
        sent = np.zeros(sheet.scrapes)
        for run in runs:
            if 0 <= node - run.job.first_node + 1 < run.job.nodes and len(run.pulse.ends):
                sent += np.interp(site.offsets, run.pulse.ends, np.cumsum(nic_bytes(run.pulse)))
        for nic in range(scenario.gpus_per_node):
            labels = {**node_labels(site, node), "device": f"mlx5_{nic}", "port": "1"}
            start, share = float(rng.integers(10**14, 10**15)), 1 + 0.01 * rng.standard_normal()
            discards, rate = np.zeros(sheet.scrapes), np.full(sheet.scrapes, _RATE)
            for event in scenario.events:
                if not isinstance(event, Nic) or not _at(event, name, nic):
                    continue
                active = within(site, event)
                if event.trained and event.bandwidth:
                    rate[active] *= event.bandwidth
                if event.discards:
                    pace = event.discards * scenario.scrape_interval
                    discards += np.cumsum(stream(site.seed, "discards", nic).poisson(pace, sheet.scrapes) * active)
            counters: dict[str, Floats | float] = {
                upstream("ib_transmitted"): np.floor(start + sent * share),
                upstream("ib_received"): np.floor(start * 0.99 + sent * share),
                **{upstream(key): 0.0 for key in _ALWAYS.values()},
                upstream("ib_discards"): discards,
                upstream("ib_state"): 4.0,
                upstream("ib_rate"): rate,
            }
            errors = [event for event in scenario.events if isinstance(event, PortErrors) and _at(event, name, nic)]
            if errors or scenario.companions.hw_counters:
                counters |= {upstream(key): 0.0 for key in _MORE.values()}
            if scenario.companions.hw_counters:
                counters |= {upstream(key): 0.0 for key in _HW.values()}
            for event in errors:
                for word, pace in event.counters.items():
                    metric = _counter(word, _ALWAYS | _MORE | _HW, "node_infiniband")
                    counters[metric] = counters.get(metric, 0.0) + _events(site, event, pace, word)
                if event.down:
                    counters[upstream("ib_link_downed")] += (site.offsets > event.start).astype(float)
                    counters[upstream("ib_state")] = np.where(within(site, event), 1.0, 4.0)
            for metric, values in counters.items():
                sheet.put(metric, labels, values, site.answers[node])


def host_network(site: Site, sheet: Sheet) -> None:
    """One interface of each node (prometheus/node_exporter collector/netclass_linux.go, netstat_linux.go)."""
    scenario = site.scenario
    for node, name in enumerate(scenario.nodes):
        rng = stream(site.seed, "host network", node)
        mtu, carrier = np.full(sheet.scrapes, 9000.0), np.full(sheet.scrapes, 2.0)
        sent = rng.poisson(2000 * scenario.scrape_interval, sheet.scrapes).astype(float)
        again = rng.poisson(0.2 * scenario.scrape_interval, sheet.scrapes).astype(float)
        for event in scenario.events:
            match event:
                case Mtu() if event.node == name:
                    mtu[within(site, event)] = event.bytes
                case TcpLoss() if event.node == name:
                    again += rng.poisson(event.share * sent) * within(site, event)
                case PortErrors() if event.node == name and event.down:
                    carrier += 1.0 * (site.offsets > event.start) + 1.0 * (site.offsets > event.until)
        labels, device = node_labels(site, node), {"device": "eth0"}
        sheet.put(upstream("net_mtu"), labels | device, mtu, site.answers[node])
        sheet.put(upstream("net_up"), labels | device, 1.0, site.answers[node])
        sheet.put(upstream("net_carrier_changes"), labels | device, carrier, site.answers[node])
        sheet.put(upstream("tcp_sent"), labels, 1e9 + np.cumsum(sent), site.answers[node])
        sheet.put(upstream("tcp_retransmitted"), labels, 1e5 + np.cumsum(again), site.answers[node])


def switch_ports(site: Site, sheet: Sheet) -> None:
    """The switch port at the other end of each NIC's cable, a switch for each rail (treydock/infiniband_exporter)."""
    scenario = site.scenario
    always = np.ones(sheet.scrapes, bool)
    for node, name in enumerate(scenario.nodes):
        for nic in range(scenario.gpus_per_node):
            switch = {"job": "infiniband", "instance": "fabric01:9315", "guid": f"0x506b4b03005c27{nic:02x}"}
            labels = {**switch, "port": str(node + 1)}
            uplink = {"switch": f"leaf{nic + 1:02d}", "uplink": f"{name} mlx5_{nic}", "uplink_type": "CA"}
            sheet.put(upstream("switch_uplink"), labels | uplink, 1.0, always)
            counters = {upstream(key): np.zeros(sheet.scrapes) for key in _SWITCH.values()}
            for event in scenario.events:
                if isinstance(event, SwitchErrors) and _at(event, name, nic):
                    for word, pace in event.counters.items():
                        metric = _counter(word, _SWITCH, "infiniband_switch_port")
                        counters[metric] = counters.get(metric, 0.0) + _events(site, event, pace, word)
            for metric, values in counters.items():
                sheet.put(metric, labels, values, always)


def _at(event: Nic | PortErrors | SwitchErrors, node: str, nic: int) -> bool:
    return (event.node, event.gpu) == (node, nic)


def _events(site: Site, event: PortErrors | SwitchErrors, pace: float, name: str) -> Floats:
    """A counter that rises by about ``pace`` a second while an event lasts."""
    rng = stream(site.seed, event.kind, name, round(event.start), event.gpu)
    new = rng.poisson(pace * site.scenario.scrape_interval, len(site.offsets)) * within(site, event)
    return np.cumsum(new.astype(float))
