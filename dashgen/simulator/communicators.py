# SPDX-License-Identifier: Apache-2.0
"""Who talks to whom: the communicators of a job, by the way in which its ranks are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dashgen.errors import UserError
from dashgen.simulator.jobs import Group, Job

Floats = NDArray[np.float64]

Ints = NDArray[np.int64]

INNER: tuple[Group, ...] = ("tp", "cp")
"""Groups that compute waits for in every layer; all others meet a few times per step."""


@dataclass(frozen=True, eq=False)
class Communicators:
    """All communicators of one group: ``members[c]`` are the GPUs of communicator c, ``n_nodes`` its domains."""

    group: Group
    members: Ints
    n_nodes: int
    gpus: int

    @property
    def nranks(self) -> int:
        """GPUs in each of the communicators."""
        return int(self.members.shape[1])

    @cached_property
    def owner(self) -> Ints:
        """The communicator of each GPU, 0 for a GPU that is in none."""
        owner = np.zeros(self.gpus, np.int64)
        owner[self.members] = np.arange(len(self.members))[:, None]
        return owner

    def last(self, arrival: Floats) -> Floats:
        """When the last member arrives, for each communicator (the last axis goes from GPUs to communicators)."""
        latest: Floats = arrival[..., self.members].max(axis=-1)
        return latest

    def meet(self, arrival: Floats) -> Floats:
        """The arrival of every GPU after it waited for the last of its communicator."""
        if self.members.size == self.gpus:
            return self.last(arrival)[..., self.owner]
        met = arrival.copy()
        met[..., self.members] = self.last(arrival)[..., None]
        return met


def layout(job: Job) -> dict[Group, Communicators]:
    """The communicators of a job, by group; data parallel groups include the context parallel ranks, as in Megatron."""
    gpus = job.nodes * job.gpus_per_node
    grid = np.arange(gpus).reshape(job.pp, -1, job.cp, job.tp)
    ways: dict[Group, Ints] = {
        "tp": grid.reshape(-1, job.tp),
        "cp": np.moveaxis(grid, 2, -1).reshape(-1, job.cp),
        "dp": np.moveaxis(grid, 3, 1).reshape(job.pp * job.tp, -1),
        "pp": np.moveaxis(grid, 0, -1).reshape(-1, job.pp),
        "embedding": np.moveaxis(grid[[0, -1]], 0, -1).reshape(-1, 2),
        "world": grid.reshape(1, -1),
    }
    return {group: _communicators(job, group, members, gpus) for group, members in ways.items()}


def _communicators(job: Job, group: Group, members: Ints, gpus: int) -> Communicators:
    spans = {len(set(row)) for row in (members // (job.gpus_per_node * job.domain)).tolist()}
    if len(spans) > 1:
        raise UserError(f"job {job.id}: {group} groups span {sorted(spans)} nodes; change nodes, tp, cp or pp")
    return Communicators(group, members, spans.pop(), gpus)
