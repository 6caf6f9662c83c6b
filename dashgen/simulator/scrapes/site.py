# SPDX-License-Identifier: Apache-2.0
"""The machines as a scraper meets them, and the sheet that its samples are written on."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dashgen.recordings.format import Labels, Series
from dashgen.simulator.communicators import Floats
from dashgen.simulator.drift import stream
from dashgen.simulator.events import Event, ExporterFlap, ExporterGone, Unreadable
from dashgen.simulator.scenario import Scenario

Bools = NDArray[np.bool_]


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


def site_of(scenario: Scenario, seed: int) -> Site:
    nodes, gpus = len(scenario.nodes), scenario.gpus_per_node
    offsets = np.arange(0.0, scenario.lasts + 1e-9, scenario.scrape_interval)
    rng = stream(seed, "site")
    uuids = gpu_uuids(scenario, rng)
    answers = rng.random((nodes, len(offsets))) >= scenario.missed
    broken = rng.random((nodes, gpus, len(offsets))) < scenario.torn
    emptied = rng.random((nodes, gpus, len(offsets))) < scenario.empty
    for event in scenario.events:
        if isinstance(event, ExporterGone | ExporterFlap | Unreadable):
            lasting = (offsets >= event.start) & (offsets < event.until)
            node = scenario.nodes.index(event.node)
            if isinstance(event, ExporterGone):
                answers[node] &= ~lasting
            elif isinstance(event, ExporterFlap):
                missed = stream(seed, "flap", event.node, round(event.start)).random(len(offsets)) < event.share
                answers[node] &= ~(lasting & missed)
            else:
                broken[node, event.gpu] |= lasting
    return Site(scenario, seed, offsets, uuids, answers, broken, emptied)


def gpu_uuids(scenario: Scenario, rng: np.random.Generator) -> tuple[tuple[str, ...], ...]:
    """The UUIDs of all GPUs, node by node: the first that the stream ``site`` of a seed is used for."""
    return tuple(
        tuple(str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(scenario.gpus_per_node))
        for _ in scenario.nodes
    )


def exporter_of(site: Site, node: int, port: int) -> str:
    """What the scraper calls an exporter."""
    if site.scenario.instances == "addresses":
        return f"10.20.{(node + 7) // 200}.{(node + 7) % 200 + 11}:{port}"
    return f"{site.scenario.nodes[node]}:{port}"


def node_labels(site: Site, node: int) -> dict[str, str]:
    return {"job": "node", "instance": exporter_of(site, node, 9100)}


def within(site: Site, event: Event) -> Bools:
    """The scrapes of which the interval lies in an event."""
    return np.asarray((site.offsets > event.start) & (site.offsets <= event.until))
