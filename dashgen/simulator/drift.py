# SPDX-License-Identifier: Apache-2.0
"""What changes by itself while a job runs: how fast its GPUs compute, and how the paths between them wander."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dashgen.simulator.communicators import Floats, Ints, layout
from dashgen.simulator.jobs import Job
from dashgen.simulator.physics import Drift


def stream(seed: int, *purpose: int | str) -> np.random.Generator:
    """Random numbers for one purpose, so that a change in one thing leaves all others as they were."""
    words = [seed, *(int.from_bytes(str(word).encode()[:16], "little") for word in purpose)]
    return np.random.default_rng(words)


def compute_draws(job: Job, steps: int, seed: int, number: int) -> Floats:
    """Each step's compute time of each GPU, relative to the plan's, of the job of that number."""
    gpus = job.nodes * job.gpus_per_node
    rng = stream(seed, "compute", number)
    late = rng.standard_exponential((steps, gpus)) * job.jitter
    hiccup = (rng.random((steps, gpus)) < 1e-4) * rng.standard_exponential((steps, gpus)) * 0.15
    draws = 1 + late + hiccup
    if job.imbalance:
        replicas = np.arange(gpus) // (job.tp * job.cp)
        luck = rng.random((steps, int(replicas[-1]) + 1))[np.arange(steps) // job.dwell]
        draws = draws * (1 + job.imbalance * luck[:, replicas])
    if job.compute_wander:
        levels = _wander(steps, gpus, max(1.0, job.wander_over / job.step), stream(seed, "clocks", number))
        draws = draws * np.exp(job.compute_wander * levels)
    return draws


SHARED = 0.7
"""The part of the variance of paths' wander that all paths have in common: they share their spine switches."""


def _wander(steps: int, columns: int, memory: float, rng: np.random.Generator) -> Floats:
    """Levels of variance one that forget where they were in so many steps, (steps, columns), joined by lines."""
    spacing = max(1.0, memory / 4)
    knots = rng.standard_normal((int(steps / spacing) + 2, columns))
    keep = float(np.exp(-spacing / memory))
    for place in range(1, len(knots)):
        knots[place] = keep * knots[place - 1] + np.sqrt(1 - keep**2) * knots[place]
    before = np.arange(steps) / spacing
    low = before.astype(np.int64)
    part = (before - low)[:, None]
    return np.asarray(knots[low] * (1 - part) + knots[low + 1] * part)


def path_drift(job: Job, steps: int, seed: int, number: int) -> Drift:
    """How the paths of each group differ for ever, and how those across domains wander."""
    if not (job.wander or job.uneven):
        return {}
    memory = max(1.0, job.wander_over / job.step)
    common = _wander(steps, 1, memory, stream(seed, "wander", number))
    drift = {}
    for group, comm in layout(job).items():
        rng = stream(seed, "wander", number, group)
        level = np.broadcast_to(job.uneven * rng.standard_normal(len(comm.members)), (steps, len(comm.members)))
        if comm.n_nodes > 1:
            own = _wander(steps, len(comm.members), memory, rng)
            level = level + job.wander * (np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * own)
        drift[group] = np.exp(level)
    return drift


def during(drift: Drift, steps: slice | Ints | NDArray[np.bool_]) -> Drift:
    """The wander of some steps."""
    return {group: levels[steps] for group, levels in drift.items()}
