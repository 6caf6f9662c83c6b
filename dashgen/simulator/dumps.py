# SPDX-License-Identifier: Apache-2.0
"""What Inspector writes into the file of each GPU while a job lives.

Every process dumps on its own clock: dump, sleep for the interval, dump again. A dump holds the operations since the
previous one, at most the newest 1024 of a communicator (NVIDIA/nccl 2.30.7, NCCL_INSPECTOR_DUMP_COLL_RING_SIZE).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dashgen.errors import UserError
from dashgen.recordings.inspector import RING_SIZE, message_size_range
from dashgen.simulator.communicators import Floats, Ints
from dashgen.simulator.drift import during, stream
from dashgen.simulator.events import DeadRank, Unwritable
from dashgen.simulator.jobs import Group, Job
from dashgen.simulator.lifecycle import Pulse, live, paced
from dashgen.simulator.physics import Effect, sample_times
from dashgen.simulator.plans import Operation, Plan
from dashgen.simulator.scenario import Scenario

Bools = NDArray[np.bool_]
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Bucket:
    """One bucket of a job's GPUs by dump: operations, mean execution time in µs, mean bus bandwidth in GB/s.

    The arrays are shaped (dumps, GPUs).
    """

    p2p: bool
    labels: Key
    count: Ints
    exec_us: Floats
    busbw: Floats


@dataclass(frozen=True, eq=False)
class Run:
    """All that the world can see of a job.

    ``dumps`` are the moments of the dumps by GPU, ``written`` says which of them happened, ``unlinked`` when each
    file was removed, ``died`` when each process was killed alone. ``total`` and ``dropped`` count collectives as the
    opt-in counters do.
    """

    job: Job
    begin: float
    end: float
    pulse: Pulse
    dumps: Floats
    written: Bools
    unlinked: Floats
    buckets: tuple[Bucket, ...]
    total: Ints
    dropped: Ints
    died: Floats


def run_job(scenario: Scenario, number: int, seed: int) -> Run:
    """Let one job live through a scenario."""
    job = scenario.jobs[number]
    gpus = job.nodes * job.gpus_per_node
    # A job that runs from before the recording has dumped at least once by its start, and outlives it likewise.
    begin = -3.0 * scenario.dump_interval if job.start is None else job.start
    end = scenario.lasts + scenario.dump_interval if job.to is None else job.to
    pulse = live(scenario, number, begin, end, seed)
    died, muted = np.full((2, gpus), np.inf)
    for event in scenario.events_of(job):
        if isinstance(event, DeadRank):
            died[_place(scenario, job, event.kind, event.node, event.gpu)] = event.start
        elif isinstance(event, Unwritable):
            first, many = 0, gpus
            if event.node:
                first, many = _place(scenario, job, event.kind, event.node), job.gpus_per_node
            muted[first : first + many] = event.start
    dumps = _dump_times(scenario, job, begin, seed, number)
    alive = (dumps < end) & (dumps < died) & (dumps < muted)
    buckets, total, dropped = _aggregate(scenario, job, pulse, dumps, alive, seed, number)
    busy = np.any([bucket.count > 0 for bucket in buckets], axis=0)
    written = alive if scenario.companions.counters else alive & busy
    unlinked = np.full(gpus, np.inf)
    if job.ends == "clean":
        # The last ncclCommDestroy joins the sleeping dump thread before it removes the files.
        unlinked = np.where(dumps >= end, dumps, np.inf).min(axis=0)
    return Run(
        job,
        begin,
        end,
        pulse,
        dumps,
        written,
        unlinked,
        buckets,
        total,
        dropped,
        died,
    )


def _place(scenario: Scenario, job: Job, kind: str, node: str, gpu: int = 0) -> int:
    """The place of a GPU in its job. Raises UserError when it is of another."""
    number = scenario.nodes.index(node) - job.first_node + 1
    if not (0 <= number < job.nodes and gpu < job.gpus_per_node):
        raise UserError(f"{scenario.name}: {kind}: {node} GPU {gpu} is not in job {job.id}")
    return number * job.gpus_per_node + gpu


def _dump_times(scenario: Scenario, job: Job, begin: float, seed: int, number: int) -> Floats:
    """Moments of the dumps, (dumps, GPUs): processes of one node start together, nodes at any moment."""
    rng = stream(seed, "dumps", number)
    phase = np.repeat(rng.uniform(1, scenario.dump_interval, job.nodes), job.gpus_per_node)
    phase = phase + rng.uniform(0, 1.5, len(phase))
    cadence = scenario.dump_interval + np.repeat(rng.uniform(0.05, 0.3, job.nodes), job.gpus_per_node)
    count = int((scenario.lasts - begin) / scenario.dump_interval) + 2
    return np.asarray(begin + phase + np.arange(count)[:, None] * cadence)


def _aggregate(
    scenario: Scenario,
    job: Job,
    pulse: Pulse,
    dumps: Floats,
    alive: Bools,
    seed: int,
    number: int,
) -> tuple[tuple[Bucket, ...], Ints, Ints]:
    """What the dumps say: the buckets, and the running totals of recorded and of overwritten operations."""
    steps, gpus = pulse.draws.shape
    ended = np.searchsorted(pulse.ends, dumps, side="right")
    progress = _progress(pulse, dumps, ended) if job.spread else ended
    sums: dict[tuple[bool, Key], list[Floats]] = {}
    recorded, lost = np.zeros(dumps.shape, np.int64), np.zeros(dumps.shape, np.int64)
    bias = _biases(job, gpus, stream(seed, "bias", number))
    offsets = _offsets(job, gpus, stream(seed, "offset", number))
    for index, (plan, effects) in enumerate(zip(pulse.plans, pulse.effects, strict=True)):
        rings: dict[tuple[str, bool], int] = {}
        for each in plan.operations:
            ring = (each.comm.group, each.p2p)
            rings[ring] = rings.get(ring, 0) + each.count
        for place, each in enumerate(plan.operations):
            rng = stream(seed, "operation", number, index, place)
            ours = np.flatnonzero((pulse.plan == index) & (np.arange(steps) % each.traffic.every == 0))
            if not len(ours):
                continue
            # A ring shared by many operations of a step only holds the newest steps.
            newest = max(1, RING_SIZE // rings[each.comm.group, each.p2p])
            # A mean over few steps stands for as many operations as one over many.
            samples = int(np.clip(24 // min(newest, scenario.dump_interval / job.step), 3, 12))
            stacked = np.zeros((3, steps + 1, gpus))
            lasting = bias[each.comm.group], offsets[each.comm.group]
            stacked[:, ours + 1] = _sums(job, each, plan, effects, pulse, ours, *lasting, rng, samples)
            running = stacked.cumsum(axis=1)
            upto: NDArray[Any] = progress if each.spread else ended
            since = np.vstack([np.zeros((1, gpus), upto.dtype), upto[:-1]])
            until = _at(running, upto)
            oldest = np.maximum(since, upto - newest)
            window = until - _at(running, oldest)
            window[:, ~alive] = 0
            if not each.p2p:
                operations = (np.rint(until[0]) - np.rint(_at(running, since)[0])).astype(np.int64)
                recorded += operations
                lost += operations - np.rint(window[0]).astype(np.int64)
            key = (each.p2p, _labels(job, each))
            have = sums.setdefault(key, [np.zeros(dumps.shape) for _ in range(3)])
            for total, part in zip(have, window, strict=True):
                total += part
    buckets = []
    for (p2p, labels), (count, time, log) in sorted(sums.items(), key=lambda item: item[0]):
        some = np.where(count >= 0.5, count, 1.0)
        buckets.append(Bucket(p2p, labels, np.rint(count).astype(np.int64), time / some, np.exp(log / some)))
    if job.poisoned and buckets:
        buckets += _poison(buckets[0], stream(seed, "poison", number))
    recorded[~alive] = 0
    lost[~alive] = 0
    return tuple(buckets), recorded.cumsum(axis=0), lost.cumsum(axis=0)


def _progress(pulse: Pulse, dumps: Floats, ended: Ints) -> Floats:
    """How many steps were done at each dump, the one in hand by its part."""
    if not len(pulse.ends):
        return ended.astype(float)
    now = np.minimum(ended, len(pulse.ends) - 1)
    part = 1 - (pulse.ends[now] - dumps) / pulse.seconds[now]
    return np.asarray(ended + np.where(ended > now, 0.0, np.clip(part, 0.0, 0.999)))


def _at(running: Floats, position: NDArray[Any]) -> Floats:
    """What was done up to these steps, (values, dumps, GPUs)."""
    columns = np.arange(running.shape[2])
    whole = position.astype(np.int64)
    done = running[:, whole, columns]
    if position.dtype != whole.dtype:
        part = position - whole
        done = done * (1 - part) + running[:, np.minimum(whole + 1, running.shape[1] - 1), columns] * part
    return np.asarray(done)


def _sums(
    job: Job,
    each: Operation,
    plan: Plan,
    effects: tuple[Effect, ...],
    pulse: Pulse,
    ours: Ints,
    bias: Floats,
    offset: Floats,
    rng: np.random.Generator,
    samples: int,
) -> Floats:
    """Count, sum of times and sum of log bandwidths of one operation, (3, steps, GPUs)."""
    noise = job.noise if each.comm.n_nodes > 1 else job.inner_noise
    levels = pulse.levels[ours]
    compute, slow = paced(plan, effects, levels, pulse.draws[ours], during(pulse.drift, ours))
    usual = each.traffic.noise if each.traffic.noise is not None else noise
    sigma = np.full(len(ours), usual)
    place = plan.operations.index(each)
    for column, effect in enumerate(effects):
        if effect.slow[place].any():
            sigma += levels[:, column] * (max(effect.noise, usual) - usual)
    times = sample_times(each, plan, compute, slow, sigma, bias, offset, job.tails, rng, samples)
    result = np.zeros((3, len(ours), pulse.draws.shape[1]))
    result[0][:, each.comm.members] = each.count
    result[1][:, each.comm.members] = times.mean(axis=1) * each.count
    result[2][:, each.comm.members] = np.log(each.bus_bytes / times / 1e3).mean(axis=1) * each.count
    return result


def _biases(job: Job, gpus: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Lasting deviations of GPUs by group: nearly always small, sometimes as large as the job allows.

    In healthy Megatron runs the first rank of a group was nearly always the fastest (nebius-solutions-library).
    """
    biases = {}
    for group in get_args(Group):
        large = rng.random(gpus) < job.biased
        bias = np.clip(rng.normal(0, 0.01, gpus), -job.position_bias, job.position_bias)
        biases[group] = np.where(large, rng.uniform(-job.position_bias, job.position_bias, gpus), bias)
    return biases


def _offsets(job: Job, gpus: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Lasting lateness of GPUs by group, half of it their node's."""
    offsets = {}
    for group in get_args(Group):
        host = np.repeat(rng.random(job.nodes), job.gpus_per_node)
        offsets[group] = job.arrival_bias * (host + rng.random(gpus)) / 2
    return offsets


def _labels(job: Job, each: Operation) -> Key:
    """The labels that Inspector gives a bucket, besides those of the GPU."""
    labels = {
        "comm_name": job.comm_names.get(each.comm.group, "unknown"),
        "n_nodes": str(each.comm.n_nodes),
        "nranks": str(each.comm.nranks),
        "p2p_operation" if each.p2p else "collective": each.traffic.operation,
        "message_size": message_size_range(each.size),
    }
    if not each.p2p:
        labels["algo_proto"] = each.algorithm
    return tuple(sorted(labels.items()))


def _poison(like: Bucket, rng: np.random.Generator) -> list[Bucket]:
    """Collectives over ncclUint8, whose size Inspector computes as about 2^64 bytes (NVIDIA/nccl inspector.cc)."""
    made = []
    for size in ("16777215-16777216TB", "0B"):
        labels = {**dict(like.labels), "collective": "AllGather", "message_size": size, "algo_proto": "RING_LL"}
        exec_us = rng.uniform(40, 80, like.count.shape)
        seen = (rng.random(like.count.shape) < 0.8) & (like.count > 0)
        busbw = 2.0**64 / exec_us / 1e3
        made.append(Bucket(False, tuple(sorted(labels.items())), seen.astype(np.int64), exec_us, busbw))
    return made
