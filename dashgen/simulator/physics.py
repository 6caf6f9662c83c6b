# SPDX-License-Identifier: Apache-2.0
"""How long a step takes, and how long each operation takes each GPU, under what slows them down.

Ranks of a communicator end an operation together, so the time that Inspector reports is the wait for the last rank
plus the transfer, and the rank that comes last has the shortest time. Everything else follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dashgen.errors import UserError
from dashgen.simulator.communicators import INNER, Floats
from dashgen.simulator.events import Event, LateGpu, Network, Nic, Nvlink, SlowNode
from dashgen.simulator.jobs import TRANSFER_NOISE, Group, Job
from dashgen.simulator.plans import Operation, Plan

RANK_SKEW = 0.003
"""Spread of one operation's end over the ranks; the same traces show 0.04 to 1.4 %."""

KERNEL_JITTER = 0.02
"""Mean lateness of a GPU at one operation, part of its compute time; exponential, so with a long tail."""

TAIL_INDEX = 1.5
"""How fast long transfers become rare: those of a contended fabric have no finite variance, but here an end at 10."""

Drift = Mapping[Group, Floats]
"""How much longer the transfers of a group's communicators take in each step, (steps, communicators)."""


@dataclass(frozen=True, eq=False)
class Effect:
    """What an event of full strength does: ``late`` lengthens each GPU's compute, ``slow[o]`` each communicator's
    transfers of operation o, both as a part of the healthy time; ``noise`` is the sigma of the slow transfers."""

    level: Callable[[float], float]
    late: Floats
    slow: tuple[Floats, ...]
    noise: float = TRANSFER_NOISE


def _in_job(job: Job, event: LateGpu | Nic) -> int:
    """The number of an event's GPU on its node. Raises UserError where the job has fewer there."""
    if event.gpu >= job.gpus_per_node:
        raise UserError(f"{event.kind}: {event.node} has no GPU {event.gpu} in job {job.id}")
    return event.gpu


def unit_effect(job: Job, plan: Plan, event: Event, nodes: Sequence[str]) -> Effect | None:
    """What an event does to a plan, as if it doubled the time of all that it touches; None when it slows nothing.

    Raises UserError for a GPU that the job does not have.
    """
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
            late[first + _in_job(job, event)] = event.percent / 100
        case SlowNode():
            late[on_node] = event.percent / 100
        case Network():
            noise = event.noise
            for mask, each in zip(touched, plan.operations, strict=True):
                chosen = not event.collectives or each.traffic.operation in event.collectives
                mask[:] = float(each.comm.n_nodes > 1 and chosen)
        case Nic():
            for mask, each in zip(touched, plan.operations, strict=True):
                if each.comm.n_nodes > 1:
                    mask[:] = (each.comm.members == first + _in_job(job, event)).any(axis=1)
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
