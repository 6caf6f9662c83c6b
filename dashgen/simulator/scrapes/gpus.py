# SPDX-License-Identifier: Apache-2.0
"""What a GPU and a training job say of themselves: DCGM's activity, and the throughput in the log."""

from __future__ import annotations

import numpy as np

from dashgen.catalogue.metrics import upstream
from dashgen.simulator.communicators import Floats, Ints
from dashgen.simulator.drift import stream
from dashgen.simulator.dumps import Run
from dashgen.simulator.events import LateGpu
from dashgen.simulator.lifecycle import readings, usual_seconds
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.scrapes.site import Bools, Sheet, Site, exporter_of


def driver_index(scenario: Scenario, node: int, local: int) -> int:
    """The driver's number of a GPU, which is shifted against CUDA's by the node's number."""
    return (local + node) % scenario.gpus_per_node


def dcgm(site: Site, runs: list[Run], sheet: Sheet) -> None:
    """GPU activity as dcgm-exporter shows it by default (NVIDIA/dcgm-exporter etc/default-counters.csv).

    Kernels of a collective that hangs spin, so utilisation reads 100 while the tensor cores rest. DCGM counts GPUs
    in the driver's order (NVML), which need not be CUDA's.
    """
    scenario, scrapes = site.scenario, sheet.scrapes
    rng = stream(site.seed, "dcgm")
    always = np.ones(scrapes, bool)
    for node, name in enumerate(scenario.nodes):
        instance = exporter_of(site, node, 9400)
        sheet.put("up", {"job": "dcgm", "instance": instance}, 1.0, always)
        for local in range(scenario.gpus_per_node):
            util, tensor = np.zeros(scrapes), np.zeros(scrapes)
            clock, memory = np.full(scrapes, 345.0), np.full(scrapes, 4.0)
            for run in runs:
                place = node - run.job.first_node + 1
                if not (0 <= place < run.job.nodes and local < run.job.gpus_per_node):
                    continue
                alive, hung, paused = states(site, run, place * run.job.gpus_per_node + local)
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
            sheet.put(upstream("gpu_util"), labels, util, always)
            if scenario.companions.dcgm_tensor:
                sheet.put(upstream("tensor_active"), labels, np.round(tensor, 3), always)
            if scenario.companions.dcgm_clock:
                sheet.put(upstream("sm_clock"), labels, clock, always)
            if scenario.companions.dcgm_memory:
                sheet.put(upstream("memory_used"), labels, memory, always)
            if scenario.companions.dcgm_power:
                # An H100 SXM draws 70 W idle and up to 700 W; its cooler keeps it within about 40 K of the inlet.
                watts = 70 + 630 * np.clip(tensor / 0.5, 0, 1)
                sheet.put(upstream("gpu_power"), labels, np.round(watts, 1), always)
                sheet.put(upstream("gpu_temperature"), labels, np.rint(30 + watts * 40 / 700), always)
            if scenario.companions.dcgm_health:
                sheet.put(upstream("xid"), labels, 0.0, always)
                traffic = np.cumsum(np.rint(2e5 * tensor * scenario.scrape_interval))
                sheet.put(upstream("nvlink_traffic"), labels, traffic, always)
                idle = {**labels, "clock_event": "gpu_idle"}
                sheet.put(upstream("clock_events"), idle, 0.0, always)


def states(site: Site, run: Run, gpu: int) -> tuple[Bools, Bools, Bools]:
    """When a GPU of a job has a process, waits in a collective that never ends, or waits for a checkpoint."""
    alive = (site.offsets >= run.begin) & (site.offsets < min(run.end, run.died[gpu]))
    hung, paused = np.zeros_like(alive), np.zeros_like(alive)
    for spans, state in ((run.pulse.hangs, hung), (run.pulse.pauses, paused)):
        for start, stop in spans:
            state |= (site.offsets >= start) & (site.offsets < stop)
    return alive, alive & hung, alive & paused & ~hung


def _activity(site: Site, run: Run) -> Floats:
    """Share of time in which tensor cores work: 45 % of a healthy step, so less of a longer one."""
    if not len(run.pulse.ends):
        return np.zeros(len(site.offsets))
    step: Ints = np.minimum(np.searchsorted(run.pulse.ends, site.offsets), len(run.pulse.ends) - 1)
    return np.asarray(0.45 * usual_seconds(run.pulse) / run.pulse.seconds[step])


def trainer(site: Site, runs: list[Run], sheet: Sheet, name: str) -> None:
    """The throughput gauge of each job's first process: the last line of its log for as long as it lives."""
    for run in runs:
        log = readings(site.scenario, run.job, run.pulse)
        if not log:
            continue
        labels = {"job": "trainer", "instance": exporter_of(site, run.job.first_node - 1, 8000)}
        moments, values = np.array(log).T
        newest = np.searchsorted(moments, site.offsets, side="right") - 1
        alive = (site.offsets >= run.begin) & (site.offsets < min(run.end, run.died[0]))
        sheet.put("up", labels, alive.astype(float), alive | (run.job.ends == "killed"))
        seen = alive & (newest >= 0)
        sheet.put(name, {**labels, "slurm_job_id": run.job.id}, values[np.maximum(newest, 0)], seen)
