# SPDX-License-Identifier: Apache-2.0
"""What a Prometheus that comes by every few seconds reads from the nodes: Inspector's files and their companions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dashgen.recordings.format import Labels, Series
from dashgen.recordings.inspector import (
    BUS_BANDWIDTH,
    COLLECTIVES_TOTAL,
    DROPPED_TOTAL,
    EXEC_TIME,
    P2P_BUS_BANDWIDTH,
    P2P_EXEC_TIME,
)
from dashgen.simulator.dumps import Run
from dashgen.simulator.lifecycle import nic_bytes, readings, stream, usual_seconds
from dashgen.simulator.physics import Floats, Ints
from dashgen.simulator.scenario import (
    Event,
    ExporterFlap,
    ExporterGone,
    LateGpu,
    Mtu,
    Nic,
    PortErrors,
    PrometheusGone,
    Scenario,
    SwitchErrors,
    TcpLoss,
    Unreadable,
)

Bools = NDArray[np.bool_]

DIRECTORY = "/var/lib/node_exporter/textfile"

VERSION = "v5.1"
"""Profiler interface 5, text format 1 (NVIDIA/nccl 2.30.7 inspector_prom.cc)."""


@dataclass(frozen=True, eq=False)
class Site:
    """The machines as a scraper meets them.

    ``offsets`` are seconds since the scenario's start, ``answers`` says which scrapes of a node's exporter succeed,
    ``broken`` and ``emptied`` which scrapes catch a file half written or without content.
    """

    scenario: Scenario
    seed: int
    offsets: Floats
    uuids: tuple[tuple[str, ...], ...]
    answers: Bools
    broken: Bools
    emptied: Bools


@dataclass(eq=False)
class Sheet:
    """Series under construction, dense over the scrapes; nan where a scrape does not have the series."""

    scrapes: int
    rows: dict[tuple[str, Labels], Floats] = field(default_factory=dict)

    def put(self, name: str, labels: dict[str, str], values: Floats | float, seen: Bools) -> Bools:
        """Add samples where ``seen``. What is there already stays, as in node_exporter; says where that happened."""
        key = (name, tuple(sorted(labels.items())))
        row = self.rows.get(key)
        if row is None:
            self.rows[key] = np.where(seen, values, np.nan)
            return np.zeros(self.scrapes, bool)
        taken: Bools = ~np.isnan(row)
        np.copyto(row, values, where=seen & ~taken)
        return taken & seen

    def series(self, times: Floats, kept: Bools, more: dict[str, str]) -> list[Series]:
        """The series that have a sample, in the order of names and labels, of the scrapes that were kept.

        ``more`` are labels that every series gets.
        """
        made = []
        for (name, own), row in sorted(self.rows.items(), key=lambda item: item[0]):
            labels = tuple(sorted((*own, *more.items())))
            seen = ~np.isnan(row) & kept
            if seen.all():
                made.append(Series(name, labels, times, row))
            elif seen.any():
                made.append(Series(name, labels, times[seen], row[seen]))
        return made


def scrape(scenario: Scenario, runs: list[Run], seed: int) -> list[Series]:
    """All series of a scenario on its scrape grid."""
    site = _site(scenario, seed)
    sheet = Sheet(len(site.offsets))
    duplicates = np.zeros(site.answers.shape, bool)
    held = np.zeros(site.broken.shape, bool)
    for run in sorted(runs, key=lambda each: each.begin, reverse=True):
        _inspector(site, run, sheet, held, duplicates)
    _exporter(site, sheet, held, duplicates)
    if scenario.companions.infiniband:
        _infiniband(site, runs, sheet)
    if scenario.companions.host_network:
        _host_network(site, sheet)
    if scenario.companions.switch_ports:
        _switch_ports(site, sheet)
    if scenario.companions.dcgm:
        _dcgm(site, runs, sheet)
    if scenario.companions.throughput:
        _trainer(site, runs, sheet, scenario.companions.throughput)
    kept = np.ones(len(site.offsets), bool)
    for event in scenario.events:
        if isinstance(event, PrometheusGone):
            kept &= (site.offsets < event.start) | (site.offsets >= event.until)
    return sheet.series(scenario.start.timestamp() + site.offsets, kept, scenario.labels)


def _site(scenario: Scenario, seed: int) -> Site:
    nodes, gpus = len(scenario.nodes), scenario.gpus_per_node
    offsets = np.arange(0.0, scenario.lasts + 1e-9, scenario.scrape_interval)
    rng = stream(seed, "site")
    uuids = gpu_uuids(scenario, rng)
    answers = rng.random((nodes, len(offsets))) >= scenario.missed
    broken = rng.random((nodes, gpus, len(offsets))) < scenario.torn
    emptied = rng.random((nodes, gpus, len(offsets))) < scenario.empty
    for event in scenario.events:
        if isinstance(event, ExporterGone | ExporterFlap | Unreadable):
            within = (offsets >= event.start) & (offsets < event.until)
            node = scenario.nodes.index(event.node)
            if isinstance(event, ExporterGone):
                answers[node] &= ~within
            elif isinstance(event, ExporterFlap):
                missed = stream(seed, "flap", event.node, round(event.start)).random(len(offsets)) < event.share
                answers[node] &= ~(within & missed)
            else:
                broken[node, event.gpu] |= within
    return Site(scenario, seed, offsets, uuids, answers, broken, emptied)


def gpu_uuids(scenario: Scenario, rng: np.random.Generator) -> tuple[tuple[str, ...], ...]:
    """The UUIDs of all GPUs, node by node: the first that the stream ``site`` of a seed is used for."""
    return tuple(
        tuple(str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(scenario.gpus_per_node))
        for _ in scenario.nodes
    )


def six_digits(values: Floats) -> Floats:
    """Values as a C++ stream prints them: six significant digits."""
    safe = np.where(values == 0, 1.0, np.abs(values))
    digits = 5 - np.floor(np.log10(safe))
    up, down = 10.0 ** np.maximum(digits, 0), 10.0 ** np.maximum(-digits, 0)
    return np.asarray(np.rint(values * up / down) * down / up)


def _instance(site: Site, node: int, port: int) -> str:
    """What the scraper calls an exporter."""
    if site.scenario.instances == "addresses":
        return f"10.20.{(node + 7) // 200}.{(node + 7) % 200 + 11}:{port}"
    return f"{site.scenario.nodes[node]}:{port}"


def _node_labels(site: Site, node: int) -> dict[str, str]:
    return {"job": "node", "instance": _instance(site, node, 9100)}


def _places(run: Run) -> list[tuple[int, int, int]]:
    """Each GPU of a job with its node's number and its place there."""
    size = run.job.gpus_per_node
    return [(gpu, run.job.first_node - 1 + gpu // size, gpu % size) for gpu in range(run.job.nodes * size)]


def _inspector(site: Site, run: Run, sheet: Sheet, held: Bools, duplicates: Bools) -> None:
    """The files of one job. Files of jobs that came later are in ``held``: a GPU has one file, the last writer's."""
    values = [(six_digits(each.busbw), six_digits(each.exec_us)) for each in run.buckets]
    places = _places(run)
    if run.job.one_visible_gpu:
        # node_exporter reads files in the order of their names, and of equal series keeps the first.
        places.sort(key=lambda place: (place[1], site.uuids[place[1]][place[2]]))
    for gpu, node, local in places:
        written = np.flatnonzero(run.written[:, gpu])
        if not len(written):
            continue
        newest = np.searchsorted(run.dumps[written, gpu], site.offsets, side="right") - 1
        content = written[np.maximum(newest, 0)]
        there = (newest >= 0) & (site.offsets < run.unlinked[gpu]) & ~held[node, local]
        held[node, local] |= newest >= 0
        stat = there & site.answers[node] & ~site.broken[node, local]
        file = f"{DIRECTORY}/nccl_inspector_metrics_{site.uuids[node][local]}.prom"
        mtime = np.floor(site.scenario.start.timestamp() + run.dumps[content, gpu])
        if site.scenario.companions.mtime:
            sheet.put("node_textfile_mtime_seconds", {**_node_labels(site, node), "file": file}, mtime, stat)
        labels = {
            **_node_labels(site, node),
            "version": VERSION,
            "slurm_job_id": run.job.id,
            "node": site.scenario.nodes[node],
            "gpu": "GPU0" if run.job.one_visible_gpu else f"GPU{local}",
        }
        if site.scenario.flavour == "rccl":
            labels["cluster"] = site.scenario.cluster
        shown = stat & ~site.emptied[node, local]
        for bucket, (busbw, exec_us) in zip(run.buckets, values, strict=True):
            if bucket.p2p and dict(bucket.labels)["n_nodes"] != "1" and not site.scenario.companions.p2p_across:
                continue
            seen = shown & (bucket.count[content, gpu] > 0)
            names = (P2P_BUS_BANDWIDTH, P2P_EXEC_TIME) if bucket.p2p else (BUS_BANDWIDTH, EXEC_TIME)
            if seen.any():
                mine = {**labels, **dict(bucket.labels)}
                duplicates[node] |= sheet.put(names[0], mine, busbw[content, gpu], seen)
                sheet.put(names[1], mine, exec_us[content, gpu], seen)
        if site.scenario.companions.counters:
            sheet.put(COLLECTIVES_TOTAL, labels, run.total[content, gpu].astype(float), shown)
            sheet.put(DROPPED_TOTAL, labels, run.dropped[content, gpu].astype(float), shown)


def _exporter(site: Site, sheet: Sheet, held: Bools, duplicates: Bools) -> None:
    """node_exporter's own word on its textfiles (prometheus/node_exporter collector/textfile.go)."""
    for node in range(len(site.scenario.nodes)):
        labels, answers = _node_labels(site, node), site.answers[node]
        always = np.ones(sheet.scrapes, bool)
        sheet.put("up", labels, answers.astype(float), always)
        failed = (held[node] & site.broken[node]).any(axis=0)
        sheet.put("node_textfile_scrape_error", labels, failed.astype(float), answers)
        # An error is counted after the response that it concerns was written.
        errors = np.concatenate([[0.0], np.cumsum(duplicates[node] & answers)[:-1]])
        cause = {**labels, "cause": "gathering"}
        sheet.put("promhttp_metric_handler_errors_total", cause, errors, answers)


def _infiniband(site: Site, runs: list[Run], sheet: Sheet) -> None:
    """Counters of one NIC per GPU (prometheus/node_exporter collector/infiniband_linux.go)."""
    scenario = site.scenario
    rng = stream(site.seed, "infiniband")
    for node, name in enumerate(scenario.nodes):
        sent = np.zeros(sheet.scrapes)
        for run in runs:
            if 0 <= node - run.job.first_node + 1 < run.job.nodes and len(run.pulse.ends):
                sent += np.interp(site.offsets, run.pulse.ends, np.cumsum(nic_bytes(run.pulse)))
        for nic in range(scenario.gpus_per_node):
            labels = {**_node_labels(site, node), "device": f"mlx5_{nic}", "port": "1"}
            start, share = float(rng.integers(10**14, 10**15)), 1 + 0.01 * rng.standard_normal()
            discards = np.zeros(sheet.scrapes)
            for event in scenario.events:
                if isinstance(event, Nic) and event.discards and (event.node, event.gpu) == (name, nic):
                    active = (site.offsets > event.start) & (site.offsets <= event.until)
                    rate = event.discards * scenario.scrape_interval
                    discards += np.cumsum(stream(site.seed, "discards", nic).poisson(rate, sheet.scrapes) * active)
            counters: dict[str, Floats | float] = {
                "port_data_transmitted_bytes_total": np.floor(start + sent * share),
                "port_data_received_bytes_total": np.floor(start * 0.99 + sent * share),
                "symbol_error_total": 0.0,
                "port_errors_received_total": 0.0,
                "port_discards_transmitted_total": discards,
                "link_downed_total": 0.0,
                "state_id": 4.0,
                "rate_bytes_per_second": 5e10,
            }
            errors = [event for event in scenario.events if isinstance(event, PortErrors) and _at(event, name, nic)]
            if errors or scenario.companions.hw_counters:
                counters |= dict.fromkeys(_MORE_COUNTERS, 0.0)
            if scenario.companions.hw_counters:
                counters |= dict.fromkeys(_HW_COUNTERS, 0.0)
            for event in errors:
                paces = {f"{key}_total": _events(site, event, pace, key) for key, pace in event.counters.items()}
                counters |= {metric: counters.get(metric, 0.0) + more for metric, more in paces.items()}
                if event.down:
                    counters["link_downed_total"] += (site.offsets > event.start).astype(float)
                    counters["state_id"] = np.where(_during(site, event), 1.0, 4.0)
            for metric, values in counters.items():
                sheet.put(f"node_infiniband_{metric}", labels, values, site.answers[node])


# What node_exporter exposes as well, left out of recordings in which it rests.
_MORE_COUNTERS = (
    "link_error_recovery_total",
    "local_link_integrity_errors_total",
    "excessive_buffer_overrun_errors_total",
    "port_transmit_wait_total",
)
_HW_COUNTERS = (
    "local_ack_timeout_errors_total",
    "rnr_nak_retry_packets_received_total",
    "roce_slow_restart_total",
    "rp_cnp_packets_handled_total",
    "np_cnp_packets_sent_total",
    "out_of_sequence_packets_received_total",
)


def _at(event: PortErrors | SwitchErrors, node: str, nic: int) -> bool:
    return (event.node, event.gpu) == (node, nic)


def _during(site: Site, event: Event) -> Bools:
    """The scrapes of which the interval lies in an event."""
    return np.asarray((site.offsets > event.start) & (site.offsets <= event.until))


def _events(site: Site, event: PortErrors | SwitchErrors, pace: float, name: str) -> Floats:
    """A counter that rises by about ``pace`` a second while an event lasts."""
    rng = stream(site.seed, event.kind, name, round(event.start), event.gpu)
    new = rng.poisson(pace * site.scenario.scrape_interval, len(site.offsets)) * _during(site, event)
    return np.cumsum(new.astype(float))


def _host_network(site: Site, sheet: Sheet) -> None:
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
                    mtu[_during(site, event)] = event.bytes
                case TcpLoss() if event.node == name:
                    again += rng.poisson(event.share * sent) * _during(site, event)
                case PortErrors() if event.node == name and event.down:
                    carrier += 1.0 * (site.offsets > event.start) + 1.0 * (site.offsets > event.until)
        labels, device = _node_labels(site, node), {"device": "eth0"}
        sheet.put("node_network_mtu_bytes", labels | device, mtu, site.answers[node])
        sheet.put("node_network_up", labels | device, 1.0, site.answers[node])
        sheet.put("node_network_carrier_changes_total", labels | device, carrier, site.answers[node])
        sheet.put("node_netstat_Tcp_OutSegs", labels, 1e9 + np.cumsum(sent), site.answers[node])
        sheet.put("node_netstat_Tcp_RetransSegs", labels, 1e5 + np.cumsum(again), site.answers[node])


def _switch_ports(site: Site, sheet: Sheet) -> None:
    """The switch port at the other end of each NIC's cable, a switch for each rail (treydock/infiniband_exporter)."""
    scenario = site.scenario
    always = np.ones(sheet.scrapes, bool)
    for node, name in enumerate(scenario.nodes):
        for nic in range(scenario.gpus_per_node):
            switch = {"job": "infiniband", "instance": "fabric01:9315", "guid": f"0x506b4b03005c27{nic:02x}"}
            labels = {**switch, "port": str(node + 1)}
            uplink = {"switch": f"leaf{nic + 1:02d}", "uplink": f"{name} mlx5_{nic}", "uplink_type": "CA"}
            sheet.put("infiniband_switch_uplink_info", labels | uplink, 1.0, always)
            counters = dict.fromkeys(_SWITCH_COUNTERS, np.zeros(sheet.scrapes))
            for event in scenario.events:
                if isinstance(event, SwitchErrors) and _at(event, name, nic):
                    for metric, pace in event.counters.items():
                        counters[metric] = counters[metric] + _events(site, event, pace, metric)
            for metric, values in counters.items():
                sheet.put(f"infiniband_switch_port_{metric}_total", labels, values, always)


_SWITCH_COUNTERS = ("symbol_error", "receive_errors", "transmit_discards", "link_downed")


def _states(site: Site, run: Run, gpu: int) -> tuple[Bools, Bools, Bools]:
    """When a GPU of a job has a process, waits in a collective that never ends, or waits for a checkpoint."""
    alive = (site.offsets >= run.begin) & (site.offsets < min(run.end, run.died[gpu]))
    hung, paused = np.zeros_like(alive), np.zeros_like(alive)
    for spans, state in ((run.pulse.hangs, hung), (run.pulse.pauses, paused)):
        for start, stop in spans:
            state |= (site.offsets >= start) & (site.offsets < stop)
    return alive, alive & hung, alive & paused & ~hung


def driver_index(scenario: Scenario, node: int, local: int) -> int:
    """The driver's number of a GPU, which is shifted against CUDA's by the node's number."""
    return (local + node) % scenario.gpus_per_node


def _dcgm(site: Site, runs: list[Run], sheet: Sheet) -> None:
    """GPU activity as dcgm-exporter shows it by default (NVIDIA/dcgm-exporter etc/default-counters.csv).

    Kernels of a collective that hangs spin, so utilisation reads 100 while the tensor cores rest. DCGM counts GPUs
    in the driver's order (NVML), which need not be CUDA's.
    """
    scenario, scrapes = site.scenario, sheet.scrapes
    rng = stream(site.seed, "dcgm")
    always = np.ones(scrapes, bool)
    for node, name in enumerate(scenario.nodes):
        instance = _instance(site, node, 9400)
        sheet.put("up", {"job": "dcgm", "instance": instance}, 1.0, always)
        for local in range(scenario.gpus_per_node):
            util, tensor = np.zeros(scrapes), np.zeros(scrapes)
            clock, memory = np.full(scrapes, 345.0), np.full(scrapes, 4.0)
            for run in runs:
                place = node - run.job.first_node + 1
                if not (0 <= place < run.job.nodes and local < run.job.gpus_per_node):
                    continue
                alive, hung, paused = _states(site, run, place * run.job.gpus_per_node + local)
                busy = alive & ~hung & ~paused
                util[busy] = rng.integers(97, 101, scrapes)[busy]
                util[hung], util[paused] = 100.0, rng.integers(0, 6, scrapes)[paused]
                tensor[busy] = (_activity(site, run) * (1 + 0.02 * rng.standard_normal(scrapes)))[busy]
                clock[alive] = 1980.0
                clock[busy] = (1980 - 15.0 * rng.integers(0, 3, scrapes))[busy]
                memory[alive] = 61000.0 + 16 * local
                for event in scenario.events_of(run.job):
                    if isinstance(event, LateGpu) and event.throttled and (event.node, event.gpu) == (name, local):
                        level = np.array([event.level(moment) for moment in site.offsets.tolist()])
                        clock[busy] = np.rint(clock / (1 + level * event.percent / 100) / 15)[busy] * 15
            index = driver_index(scenario, node, local)
            labels = {
                "job": "dcgm",
                "instance": instance,
                "gpu": str(index),
                "UUID": f"GPU-{site.uuids[node][local]}",
                "Hostname": name,
                "device": f"nvidia{index}",
                "modelName": "NVIDIA H100 80GB HBM3",
            }
            sheet.put("DCGM_FI_DEV_GPU_UTIL", labels, util, always)
            if scenario.companions.dcgm_tensor:
                sheet.put("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", labels, np.round(tensor, 3), always)
            if scenario.companions.dcgm_clock:
                sheet.put("DCGM_FI_DEV_SM_CLOCK", labels, clock, always)
            if scenario.companions.dcgm_memory:
                sheet.put("DCGM_FI_DEV_FB_USED", labels, memory, always)
            if scenario.companions.dcgm_power:
                # An H100 SXM draws 70 W idle and up to 700 W; its cooler keeps it within about 40 K of the inlet.
                watts = 70 + 630 * np.clip(tensor / 0.5, 0, 1)
                sheet.put("DCGM_FI_DEV_POWER_USAGE", labels, np.round(watts, 1), always)
                sheet.put("DCGM_FI_DEV_GPU_TEMP", labels, np.rint(30 + watts * 40 / 700), always)
            if scenario.companions.dcgm_health:
                sheet.put("DCGM_FI_DEV_XID_ERRORS", labels, 0.0, always)
                traffic = np.cumsum(np.rint(2e5 * tensor * scenario.scrape_interval))
                sheet.put("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", labels, traffic, always)
                idle = {**labels, "clock_event": "gpu_idle"}
                sheet.put("DCGM_EXP_CLOCK_EVENTS_COUNT", idle, 0.0, always)


def _activity(site: Site, run: Run) -> Floats:
    """Share of time in which tensor cores work: 45 % of a healthy step, so less of a longer one."""
    if not len(run.pulse.ends):
        return np.zeros(len(site.offsets))
    step: Ints = np.minimum(np.searchsorted(run.pulse.ends, site.offsets), len(run.pulse.ends) - 1)
    return np.asarray(0.45 * usual_seconds(run.pulse) / run.pulse.seconds[step])


def _trainer(site: Site, runs: list[Run], sheet: Sheet, name: str) -> None:
    """The throughput gauge of each job's first process: the last line of its log for as long as it lives."""
    for run in runs:
        log = readings(site.scenario, run.job, run.pulse)
        if not log:
            continue
        labels = {"job": "trainer", "instance": _instance(site, run.job.first_node - 1, 8000)}
        moments, values = np.array(log).T
        newest = np.searchsorted(moments, site.offsets, side="right") - 1
        alive = (site.offsets >= run.begin) & (site.offsets < min(run.end, run.died[0]))
        sheet.put("up", labels, alive.astype(float), alive | (run.job.ends == "killed"))
        seen = alive & (newest >= 0)
        sheet.put(name, {**labels, "slurm_job_id": run.job.id}, values[np.maximum(newest, 0)], seen)
