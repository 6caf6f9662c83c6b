# SPDX-License-Identifier: Apache-2.0
"""What node_exporter says of the memory of hosts."""

from __future__ import annotations

import numpy as np

from dashgen.catalogue.metrics import upstream
from dashgen.simulator.drift import stream
from dashgen.simulator.dumps import Run
from dashgen.simulator.scrapes.gpus import states
from dashgen.simulator.scrapes.site import Sheet, Site, node_labels

GB = 1024**3


def host_memory(site: Site, runs: list[Run], sheet: Sheet) -> None:
    """Memory of the processes of all jobs and of everything else (prometheus/node_exporter collector/meminfo.go).

    A process holds as much as another of its job, and what it had fills up within a minute and is free within half of
    one. A checkpoint may be copied to the host first, which takes up to twice as much more.
    """
    scenario = site.scenario
    total = 2048.0 * GB
    rest = np.exp(stream(site.seed, "host memory").uniform(np.log(5), np.log(60), len(scenario.nodes))) * GB
    used = rest[:, np.newaxis] * np.ones(sheet.scrapes)
    for run in runs:
        rng = stream(site.seed, "host memory", run.job.id)
        process = np.exp(rng.uniform(np.log(4), np.log(60))) * GB
        copies = rng.uniform(0, 2) * (rng.random() < 0.5)
        for place in range(run.job.nodes):
            for local in range(run.job.gpus_per_node):
                gpu = place * run.job.gpus_per_node + local
                alive, _, paused = states(site, run, gpu)
                begun = np.clip((site.offsets - run.begin) / 60, 0, 1)
                over = np.clip((site.offsets - min(run.end, run.died[gpu])) / 30, 0, 1)
                held = np.where(alive, begun * (1 + copies * paused), begun * (1 - over))
                used[run.job.first_node - 1 + place] += process * held
    for node in range(len(scenario.nodes)):
        wander = stream(site.seed, "host memory", node).normal(0, 0.01, sheet.scrapes)
        free = np.floor(total - np.clip(used[node] * (1 + wander), 0, 0.95 * total))
        sheet.put(upstream("host_memory_total"), node_labels(site, node), total, site.answers[node])
        sheet.put(upstream("host_memory_available"), node_labels(site, node), free, site.answers[node])
