# SPDX-License-Identifier: Apache-2.0
"""What a step of a job does: how long it computes, and which operations it runs how often and how fast."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dashgen.errors import UserError
from dashgen.simulator.communicators import INNER, Communicators, layout
from dashgen.simulator.events import Algorithm, Evaluation, Event, MessageSize
from dashgen.simulator.jobs import Job, Traffic

MB = 1024 * 1024

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
