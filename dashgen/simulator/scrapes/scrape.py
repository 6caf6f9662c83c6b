# SPDX-License-Identifier: Apache-2.0
"""All series of a scenario, on the grid of its scrapes."""

from __future__ import annotations

import numpy as np

from dashgen.recordings.format import Series
from dashgen.simulator.dumps import Run
from dashgen.simulator.events import PrometheusGone
from dashgen.simulator.scenario import Scenario
from dashgen.simulator.scrapes.gpus import dcgm, trainer
from dashgen.simulator.scrapes.hosts import host_memory
from dashgen.simulator.scrapes.network import host_network, infiniband, switch_ports
from dashgen.simulator.scrapes.site import Sheet, site_of
from dashgen.simulator.scrapes.textfiles import exporter, inspector


def scrape(scenario: Scenario, runs: list[Run], seed: int) -> list[Series]:
    """All series of a scenario on its scrape grid."""
    site = site_of(scenario, seed)
    sheet = Sheet(len(site.offsets))
    duplicates = np.zeros(site.answers.shape, bool)
    held = np.zeros(site.broken.shape, bool)
    for run in sorted(runs, key=lambda each: each.begin, reverse=True):
        inspector(site, run, sheet, held, duplicates)
    exporter(site, sheet, held, duplicates)
    if scenario.companions.infiniband:
        infiniband(site, runs, sheet)
    if scenario.companions.host_memory:
        host_memory(site, runs, sheet)
    if scenario.companions.host_network:
        host_network(site, sheet)
    if scenario.companions.switch_ports:
        switch_ports(site, sheet)
    if scenario.companions.dcgm:
        dcgm(site, runs, sheet)
    if scenario.companions.throughput:
        trainer(site, runs, sheet, scenario.companions.throughput)
    kept = np.ones(len(site.offsets), bool)
    for event in scenario.events:
        if isinstance(event, PrometheusGone):
            kept &= (site.offsets < event.start) | (site.offsets >= event.until)
    return sheet.series(scenario.start.timestamp() + site.offsets, kept, scenario.labels)
