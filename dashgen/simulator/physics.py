# SPDX-License-Identifier: Apache-2.0
"""How a training job behaves: who talks to whom, how long a step takes, and how long each operation takes each GPU.

Ranks of a communicator end an operation together, so the time that Inspector reports is the wait for the last rank
plus the transfer, and the rank that comes last has the shortest time. Everything else follows from that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dashgen.errors import UserError
from dashgen.simulator.scenario import (
    TRANSFER_NOISE,
    Algorithm,
    Burst,
    Evaluation,
    Event,
    Group,
    Job,
    LateGpu,
    MessageSize,
    Network,
    Nic,
    Nvlink,
    SlowNode,
    Traffic,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MB = 1024 * 1024

RANK_SKEW = 0.003
"""Spread of one operation's end over the ranks; the same traces show 0.04 to 1.4 %."""

KERNEL_JITTER = 0.02
"""Mean lateness of a GPU at one operation, part of its compute time; exponential, so with a long tail."""

TAIL_INDEX = 1.5
"""How fast long transfers become rare: those of a contended fabric have no finite variance, but here an end at 10."""

INNER: tuple[Group, ...] = ("tp", "cp")
"""Groups that compute waits for in every layer; all others meet a few times per step."""

PRESETS: dict[str, tuple[Traffic, ...]] = {
    name: tuple(
        Traffic(group=group, operation=operation, size=size, algorithm=algorithm, share=share, exposed=exposed)
        for group, operation, size, algorithm, share, exposed in rows
    )
    for name, rows in {
        "fsdp": (
            ("dp", "AllGather", 134 * MB + MB // 2, "RING_SIMPLE", 0.22, 0.5),
            ("dp", "AllGather", 20 * MB + MB // 4, "RING_SIMPLE", 0.03, 0.5),
            ("dp", "ReduceScatter", 134 * MB + MB // 2, "RING_SIMPLE", 0.2, 0.65),
            ("dp", "ReduceScatter", 20 * MB + MB // 4, "RING_SIMPLE", 0.03, 0.65),
            ("world", "AllReduce", 16 * 1024, "TREE_LL128", 0.001, 1.0),
        ),
        "cp-fsdp": (
            ("cp", "AllGather", 16 * MB + MB // 2, "RING_SIMPLE", 0.08, 1.0),
            ("cp", "ReduceScatter", 16 * MB + MB // 2, "RING_SIMPLE", 0.05, 1.0),
            ("dp", "AllGather", 134 * MB + MB // 2, "RING_SIMPLE", 0.25, 0.5),
            ("dp", "ReduceScatter", 134 * MB + MB // 2, "RING_SIMPLE", 0.22, 0.6),
            ("world", "AllReduce", 16 * 1024, "TREE_LL128", 0.001, 1.0),
        ),
        "tp-fsdp": (
            ("tp", "AllReduce", 64 * MB + MB // 2, "NVLS_SIMPLE", 0.11, 1.0),
            ("tp", "AllReduce", 12 * MB + MB // 2, "NVLS_SIMPLE", 0.03, 1.0),
            ("dp", "AllGather", 96 * MB + MB // 2, "RING_SIMPLE", 0.25, 0.5),
            ("dp", "ReduceScatter", 96 * MB + MB // 2, "RING_SIMPLE", 0.22, 0.6),
            ("world", "AllReduce", 16 * 1024, "TREE_LL128", 0.001, 1.0),
        ),
        "tp-dp": (
            ("tp", "AllGather", 16 * MB + MB // 2, "NVLS_SIMPLE", 0.07, 1.0),
            ("tp", "ReduceScatter", 16 * MB + MB // 2, "NVLS_SIMPLE", 0.07, 1.0),
            ("dp", "AllReduce", 256 * MB + MB // 2, "RING_SIMPLE", 0.3, 0.55),
            ("dp", "AllReduce", 40 * MB + MB // 2, "RING_SIMPLE", 0.12, 0.55),
            ("world", "AllReduce", 16 * 1024, "TREE_LL128", 0.001, 1.0),
        ),
        "tp-pp-dp": (
            ("tp", "AllGather", 16 * MB + MB // 2, "NVLS_SIMPLE", 0.07, 1.0),
            ("tp", "ReduceScatter", 16 * MB + MB // 2, "NVLS_SIMPLE", 0.07, 1.0),
            ("dp", "AllGather", 96 * MB + MB // 2, "RING_SIMPLE", 0.14, 0.6),
            ("dp", "ReduceScatter", 96 * MB + MB // 2, "RING_SIMPLE", 0.14, 0.6),
            ("embedding", "AllReduce", 250 * MB, "RING_SIMPLE", 0.02, 1.0),
            ("pp", "Send", 32 * MB, "RING_SIMPLE", 0.06, 0.4),
            ("pp", "Recv", 32 * MB, "RING_SIMPLE", 0.06, 0.4),
        ),
    }.items()
}
"""What the usual parallelisms send in a step; sizes as in published job samples (NVIDIA's NCCL Inspector blog)."""


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


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of operation in a step: ``count`` times, each ``seconds`` long when nobody is late."""

    traffic: Traffic
    comm: Communicators
    size: int
    algorithm: str
    count: int
    seconds: float

    @property
    def inner(self) -> bool:
        """Whether compute waits for it in every layer."""
        return self.comm.group in INNER

    @property
    def p2p(self) -> bool:
        """Whether it is a Send or a Recv."""
        return self.traffic.operation in ("Send", "Recv")

    @property
    def spread(self) -> bool:
        """Whether it runs so often that no part of a step is without it."""
        return self.count >= 8

    @property
    def exposed(self) -> float:
        """Seconds that it adds to a step."""
        return self.count * self.seconds * self.traffic.exposed

    @property
    def bus_bytes(self) -> float:
        """Bytes that bus bandwidth counts."""
        return bus_bytes(self.traffic.operation, self.size, self.comm.nranks)


@dataclass(frozen=True, eq=False)
class Plan:
    """What every step does: seconds of computing, and operations; only a training step ends with a log line."""

    compute: float
    operations: tuple[Operation, ...]
    training: bool = True


def bus_bytes(operation: str, size: int, nranks: int) -> float:
    """Traffic times factor, as NVIDIA/nccl 2.30.7 inspector_prom.cc counts both."""
    match operation:
        case "AllReduce":
            return size * 2 * (nranks - 1) / nranks
        case "AllGather" | "ReduceScatter":
            return size * float(nranks - 1)
        case _:
            return float(size)


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


def _seconds(job: Job, comm: Communicators, operation: str, size: int, algorithm: str) -> float:
    """How long a transfer takes when nobody is late: bytes by peak bandwidth, and a latency that grows to its full.

    The latencies fit a public nccl-tests log of 2x8 H100 (1, 16, 128 MB and 1 GB at 9.7, 32, 152 and 298 GB/s) and
    what NVLink needs for half its bandwidth. Within a domain only NVLS reaches the full value (NVIDIA/nccl README:
    485 and 366 GB/s), between domains several NICs reach 340 of 8 x 46 GB/s.
    """
    total = bus_bytes(operation, size, comm.nranks)
    if comm.n_nodes == 1:
        peak, latency = job.nvlink_gbs * (1.0 if algorithm.startswith("NVLS") else 0.77), 52e-6
    else:
        rails = 1 if operation in ("Send", "Recv") else max(1, comm.nranks // comm.n_nodes)
        peak, latency = job.nic_gbs * rails * (0.925 if rails > 1 else 1.0), 470e-6
    return total / peak / 1e9 + latency * min(1.0, max(0.1, math.sqrt(total / 16e6)))


def base_plan(job: Job) -> Plan:
    """The healthy step of a job: the time that exposed communication leaves is spent computing.

    A job that lost its NVLink between nodes does the same work over the network.
    """
    if not job.mnnvl:
        planned = base_plan(job.model_copy(update={"mnnvl": True}))
        groups = layout(job.model_copy(update={"domain": 1}))
        slower = []
        for each in planned.operations:
            comm = groups[each.traffic.group]
            seconds = _seconds(job, comm, each.traffic.operation, each.size, each.algorithm)
            slower.append(replace(each, comm=comm, seconds=seconds))
        return replace(planned, operations=tuple(slower))
    groups = layout(job)
    operations = []
    for traffic in (() if job.only else PRESETS[job.preset]) + job.traffic:
        comm = groups[traffic.group]
        if comm.nranks == 1:
            raise UserError(f"job {job.id}: {traffic.group} groups have one rank; set {traffic.group} or the preset")
        seconds = _seconds(job, comm, traffic.operation, traffic.size, traffic.algorithm)
        count = max(1, round(traffic.share * job.step / seconds))
        operations.append(Operation(traffic, comm, traffic.size, traffic.algorithm, count, seconds))
    compute = job.step - sum(each.exposed / each.traffic.every for each in operations)
    if compute < 0.1 * job.step:
        raise UserError(f"job {job.id}: communication leaves no time to compute; lower a share or raise step")
    return Plan(compute, tuple(operations))


def changed_plan(job: Job, plan: Plan, event: Event) -> Plan:
    """The plan while an evaluation, another message size or another algorithm is in force."""
    if isinstance(event, Evaluation):
        forward = [each for each in plan.operations if each.inner or each.p2p or each.traffic.operation == "AllGather"]
        return Plan(plan.compute / 3, tuple(replace(each, count=max(1, each.count // 2)) for each in forward), False)
    operations = []
    for each in plan.operations:
        size, algorithm, factor = each.size, each.algorithm, 1.0
        if isinstance(event, MessageSize) and each.comm.group in event.groups:
            size = int(size * event.factor)
        if isinstance(event, Algorithm) and each.comm.group in event.groups:
            algorithm, factor = event.to, event.bandwidth
        before = _seconds(job, each.comm, each.traffic.operation, each.size, each.traffic.algorithm)
        after = _seconds(job, each.comm, each.traffic.operation, size, each.traffic.algorithm) / factor
        operations.append(replace(each, size=size, algorithm=algorithm, seconds=each.seconds * after / before))
    return replace(plan, operations=tuple(operations))


@dataclass(frozen=True, eq=False)
class Effect:
    """What an event of full strength does: ``late`` lengthens each GPU's compute, ``slow[o]`` each communicator's
    transfers of operation o, both as a part of the healthy time; ``noise`` is the sigma of the slow transfers."""

    level: Callable[[float], float]
    late: Floats
    slow: tuple[Floats, ...]
    noise: float = TRANSFER_NOISE


def unit_effect(job: Job, plan: Plan, event: Event, nodes: Sequence[str]) -> Effect | None:
    """What an event does to a plan, as if it doubled the time of all that it touches; None when it slows nothing."""
    gpus = job.nodes * job.gpus_per_node
    late = np.zeros(gpus)
    touched: list[Floats] = [np.zeros(len(each.comm.members)) for each in plan.operations]
    noise = TRANSFER_NOISE
    on_node = np.zeros(gpus, bool)
    if node := getattr(event, "node", None):
        first = (nodes.index(node) - job.first_node + 1) * job.gpus_per_node
        if not 0 <= first < gpus:
            return None
        on_node[first : first + job.gpus_per_node] = True
    match event:
        case LateGpu():
            late[first + event.gpu] = event.percent / 100
        case SlowNode():
            late[on_node] = event.percent / 100
        case Network() | Burst():
            noise = event.noise
            for mask, each in zip(touched, plan.operations, strict=True):
                chosen = not event.collectives or each.traffic.operation in event.collectives
                mask[:] = float(each.comm.n_nodes > 1 and chosen)
        case Nic():
            for mask, each in zip(touched, plan.operations, strict=True):
                if each.comm.n_nodes > 1:
                    mask[:] = (each.comm.members == first + event.gpu).any(axis=1)
        case Nvlink():
            for mask, each in zip(touched, plan.operations, strict=True):
                if each.comm.n_nodes == 1:
                    mask[:] = on_node[each.comm.members].any(axis=1)
        case _:
            return None
    return Effect(event.level, late, tuple(touched), noise)


def arrivals(plan: Plan, compute: Floats, slow: Sequence[Floats]) -> tuple[dict[str, Floats], Floats]:
    """When each GPU is ready, seconds after the step's start: for each inner group, and for all that follows.

    ``compute`` is (steps, GPUs), ``slow[o]`` (steps, communicators). GPUs that meet in an inner group go on together,
    and the stages of a pipeline go as fast as the slowest.
    """
    ready: dict[str, Floats] = {}
    now = compute
    for group in INNER:
        ready[group] = now
        ours = [(each, pace) for each, pace in zip(plan.operations, slow, strict=True) if each.comm.group == group]
        if ours:
            comm = ours[0][0].comm
            exposed = sum(((pace * each.exposed) for each, pace in ours), start=np.zeros(()))
            now = (comm.last(now) + exposed)[..., comm.owner]
    return ready, now


def step_seconds(plan: Plan, compute: Floats, slow: Sequence[Floats]) -> Floats:
    """How long each step takes: the last GPU's arrival, then the exposed part of what all of them exchange."""
    _, now = arrivals(plan, compute, slow)
    seconds: Floats = now.max(axis=-1)
    for each, pace in zip(plan.operations, slow, strict=True):
        if not each.inner:
            seconds = seconds + pace.max(axis=-1) * each.exposed / each.traffic.every
    return seconds


Drift = Mapping[Group, Floats]
"""How much longer the transfers of a group's communicators take in each step, (steps, communicators)."""


def steady(plan: Plan, steps: int, drift: Drift = MappingProxyType({})) -> list[Floats]:
    """Transfers at their healthy pace."""
    return [
        drift[each.comm.group] if each.comm.group in drift else np.ones((steps, len(each.comm.members)))
        for each in plan.operations
    ]


def strength(plan: Plan, effect: Effect, draws: Floats, loss: float) -> float:
    """How much longer the touched transfers must take for a job to lose this part of its throughput.

    Found by bisection, because exposed communication hides behind other GPUs' lateness; nan when nothing is enough.
    """

    def seconds(extra: float) -> float:
        slow = [pace * (1 + extra * mask) for pace, mask in zip(healthy, effect.slow, strict=True)]
        return float(step_seconds(plan, plan.compute * draws, slow).mean())

    healthy = steady(plan, len(draws))
    wanted = seconds(0.0) / (1 - loss)
    low, high = 0.0, 1000.0
    if seconds(high) < wanted:
        return float("nan")
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < wanted else (low, middle)
    return high


def sample_times(
    operation: Operation,
    plan: Plan,
    compute: Floats,
    slow: Sequence[Floats],
    sigma: Floats,
    bias: Floats,
    offset: Floats,
    tails: float,
    rng: np.random.Generator,
    samples: int,
) -> Floats:
    """Execution times in µs of a few operations of each step, shaped (steps, samples, communicators, ranks).

    The lateness of a step is shared out over its operations by the time that they are in flight. ``sigma`` is the
    noise of each step's transfers, ``bias`` every GPU's lasting deviation, ``offset`` its lasting lateness as a part
    of a transfer, ``tails`` the part of the transfers that take much longer.
    """
    comm = operation.comm
    pace = slow[plan.operations.index(operation)]
    ready, after = arrivals(plan, compute, slow)
    arrival = ready[comm.group] if operation.inner else after
    level = [each for each in plan.operations if each.comm.group == comm.group or not (each.inner or operation.inner)]
    weight = operation.traffic.share / sum(each.traffic.share for each in level) / operation.count
    shape = (len(compute), samples, *comm.members.shape)
    if operation.p2p:
        wait = _pipeline_wait(operation, arrival, shape, weight, rng)
    else:
        for each in plan.operations:
            if each.comm.group == "pp" and not operation.inner:
                arrival = each.comm.meet(arrival)
        slices = rng.standard_exponential(shape) * KERNEL_JITTER * compute.mean() + arrival[:, None, comm.members]
        wait = (slices.max(axis=-1, keepdims=True) - slices) * weight
        lasting = offset[comm.members]
        wait = wait + (lasting.max(axis=-1, keepdims=True) - lasting) * operation.seconds
    noise = rng.standard_normal(shape[:3]) * sigma[:, None, None] - sigma[:, None, None] ** 2 / 2
    transfer = operation.seconds * pace[:, None, :] * np.exp(noise)
    if tails and comm.n_nodes > 1:
        long = np.minimum(1 + rng.pareto(TAIL_INDEX, shape[:3]), 10.0)
        transfer = transfer * np.where(rng.random(shape[:3]) < tails, long, 1.0)
    skew = 1 + RANK_SKEW * rng.standard_normal(shape)
    times: Floats = (transfer[..., None] + wait) * (1 + bias[comm.members]) * skew * 1e6
    return times


def _pipeline_wait(
    operation: Operation, arrival: Floats, shape: tuple[int, ...], weight: float, rng: np.random.Generator
) -> Floats:
    """A Send waits for the next stage and a Recv for the previous one, besides the bubbles of any pipeline."""
    stages = arrival[:, operation.comm.members]
    neighbour = np.roll(stages, 1 if operation.traffic.operation == "Recv" else -1, axis=-1)
    behind = np.maximum(neighbour - stages, 0.0)[:, None] * weight
    bubbles: Floats = behind + operation.seconds * 0.5 * rng.standard_exponential(shape)
    return bubbles
