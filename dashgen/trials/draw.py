# SPDX-License-Identifier: Apache-2.0
"""A random scenario from a seed: one family of fault or false friend, everything else as varied as jobs are.

Even seeds are for tuning rules, odd seeds are held out: what is published comes from odd seeds alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal, TypeVar

from dashgen.errors import UserError
from dashgen.recordings.format import Recording, Series
from dashgen.recordings.physics import PRESETS
from dashgen.recordings.scenario import Scenario
from dashgen.recordings.simulate import simulate

Split = Literal["tuning", "held-out"]
Data = dict[str, Any]
T = TypeVar("T")

MB = 1024 * 1024
MINUTE = 60.0
START = "2026-07-01T00:00:00Z"


class Dice(random.Random):
    """Random numbers by the words that a scenario is described in."""

    def chance(self, probability: float) -> bool:
        """Whether something happens that happens this often."""
        return self.random() < probability

    def minutes(self, low: float, high: float) -> float:
        """A span of that many minutes, in whole seconds."""
        return float(round(self.uniform(low, high) * MINUTE))

    def log_uniform(self, low: float, high: float) -> float:
        """A positive number whose magnitude is uniform."""
        return float(low * (high / low) ** self.random())


@dataclass
class Draft:
    """A scenario in the making; the first job is the one that things happen to. Times are seconds."""

    jobs: list[Data]
    lasts: float
    companions: Data
    events: list[Data] = field(default_factory=list)
    rest: Data = field(default_factory=dict)

    @property
    def job(self) -> Data:
        """The job that things happen to."""
        return self.jobs[0]

    def happens(self, kind: str, start: float, end: float | None = None, **more: Any) -> None:
        """Add an event."""
        span = {"start": _span(start)} | ({} if end is None else {"end": _span(end)})
        self.events.append({"kind": kind, **span, **more})


def _span(seconds: float) -> str:
    return f"{seconds:.0f}s"


# Jobs.


def _layout(dice: Dice, tensor_parallel: bool) -> Data:
    """A parallelism on 16 to 64 GPUs; within a domain it communicates if asked to."""
    if not tensor_parallel and dice.chance(0.08):
        return _rack_scale(dice)
    gpus = dice.choice((4, 8, 8))
    nodes = dice.choice((4, 6, 8, 12, 16) if gpus == 4 else (2, 3, 4, 6, 8))
    presets = ["cp-fsdp", "tp-fsdp", "tp-dp"] + ([] if tensor_parallel else ["fsdp"])
    if nodes % 2 == 0 and nodes >= 4:
        presets.append("tp-pp-dp")
    preset = dice.choice(presets)
    job: Data = {"preset": preset, "nodes": nodes, "gpus_per_node": gpus}
    ways = [size for size in (2, 4, 8) if size <= gpus]
    if preset == "cp-fsdp":
        job["cp"] = dice.choice(ways[1:])
    elif preset != "fsdp":
        job["tp"] = dice.choice(ways)
    if preset == "tp-pp-dp":
        job["pp"] = dice.choice((2, 4) if nodes % 4 == 0 and nodes >= 8 else (2,))
    return job


def _rack_scale(dice: Dice) -> Data:
    """NVLink domains of several nodes, as in NVL72 racks."""
    return {
        "preset": dice.choice(("tp-fsdp", "tp-dp")),
        "nodes": dice.choice((8, 16)),
        "gpus_per_node": 4,
        "tp": dice.choice((4, 8)),
        "domain": 4,
        "nvlink_gbs": 811,
    }


def _traffic(dice: Dice, preset: str) -> list[Data]:
    """The operations of a preset at other sizes and shares, more or less hidden behind computing."""
    return [
        {
            "group": each.group,
            "operation": each.operation,
            "size": max(8192, int(each.size * dice.log_uniform(0.4, 2.0))),
            "algorithm": each.algorithm,
            "share": each.share * dice.uniform(0.6, 1.1),
            "exposed": min(1.0, each.exposed * dice.uniform(0.7, 1.5)),
        }
        for each in PRESETS[preset]
    ]


def _job(dice: Dice, number: int, tensor_parallel: bool = False) -> Data:
    """A healthy job with its own habits."""
    job = _layout(dice, tensor_parallel)
    step = round(dice.log_uniform(1, 12), 2)
    job |= {
        "id": str(70000 + number),
        "step": f"{step}s",
        "tflops": round(dice.uniform(200, 900)),
        "log_every": max(1, int(dice.uniform(4, 60) / step)),
        "jitter": dice.log_uniform(0.002, 0.03),
        "position_bias": dice.uniform(0.05, 0.25),
        "biased": dice.uniform(0, 0.15),
        "nic_gbs": dice.choice((46.0, 46.0, 23.0, 12.0)),
    }
    job.setdefault("nvlink_gbs", dice.choice((476.0, 440.0, 360.0)))
    if dice.chance(0.15):
        job["imbalance"] = dice.uniform(0.02, 0.15)
    if dice.chance(0.3):
        job["comm_names"] = {group: f"{group}:0" for group in ("tp", "cp", "dp", "pp", "world")}
    if dice.chance(0.3):
        job |= {"traffic": _traffic(dice, job["preset"]), "only": True}
    return job


def _companions(dice: Dice) -> Data:
    return {
        "dcgm": dice.chance(0.75),
        "infiniband": dice.chance(0.25),
        "counters": dice.chance(0.25),
        "throughput": "megatron_training_throughput_tflops" if dice.chance(0.6) else None,
    }


def _surroundings(dice: Dice, draft: Draft) -> None:
    """How well the site sees, and how restless its network is on a good day."""
    draft.rest |= {
        "scrape_interval": dice.choice((15, 15, 15, 30)),
        "torn": dice.log_uniform(0.0001, 0.005),
        "empty": dice.log_uniform(0.0001, 0.005),
        "missed": dice.uniform(0, 0.03) if dice.chance(0.2) else 0.0,
        "seed": dice.randrange(2**31),
    }
    site: Data = {}
    if draft.companions["throughput"] and dice.chance(0.6):
        site["companions"] = {"throughput": {"metric": draft.companions["throughput"]}}
    if dice.chance(0.06):
        draft.rest |= {"flavour": "rccl", "cluster": "east"}
        if dice.chance(0.5):
            site["labels"] = {"cluster": "cluster"}
    draft.rest["site"] = site
    # The spread of contended transfers reaches 0.3 (median of 30 % in NVIDIA's published ReduceScatter samples).
    if dice.chance(0.5):
        noise = dice.log_uniform(0.04, 0.3)
        draft.happens("burst", 0, bandwidth=0.999, noise=noise)


def _draft(dice: Dice, lasts: float, tensor_parallel: bool = False) -> Draft:
    draft = Draft([_job(dice, 0, tensor_parallel)], lasts, _companions(dice))
    _surroundings(dice, draft)
    return draft


def _neighbour(dice: Dice, draft: Draft) -> None:
    """Another job beside the first one, on nodes of its own."""
    job = _job(dice, len(draft.jobs))
    while job["gpus_per_node"] != draft.job["gpus_per_node"] or job["nodes"] * job["gpus_per_node"] > 32:
        job = _job(dice, len(draft.jobs))
    last = draft.jobs[-1]
    draft.jobs.append(job | {"first_node": last.get("first_node", 1) + last["nodes"]})


# Faults.


def _onset(dice: Dice) -> float:
    """When a fault begins: mostly when the job is known well, sometimes as soon as it can be known."""
    return dice.minutes(10, 14) if dice.chance(0.1) else dice.minutes(15, 26)


def _faulty(dice: Dice, low: float, high: float, tensor_parallel: bool = False) -> tuple[Draft, float, float]:
    """A job, and the start and end of a fault that lasts between so many minutes."""
    start = _onset(dice)
    end = start + dice.minutes(low, high)
    draft = _draft(dice, end + dice.minutes(5, 8), tensor_parallel)
    if dice.chance(0.2):
        every, lasts = dice.minutes(8, 14), dice.minutes(0.3, 1.2)
        draft.happens("checkpoint", 0, lasts=_span(lasts), every=_span(every))
    return draft, start, end


def _node(dice: Dice, draft: Draft) -> Data:
    last = sum(job["nodes"] for job in draft.jobs)
    return {"node": f"node{dice.randint(1, draft.job['nodes']):0{max(2, len(str(last)))}d}"}


def _gpu(dice: Dice, draft: Draft) -> Data:
    return _node(dice, draft) | {"gpu": dice.randrange(draft.job["gpus_per_node"])}


def _loss(dice: Dice) -> float:
    """A loss of throughput: rarely 3 %, else 6 to 13 % or more, as in NVIDIA's published cases (6-8 % and 13 %)."""
    low, high = dice.choices(((0.03, 0.04), (0.063, 0.127), (0.135, 0.3)), (1, 5, 5))[0]
    return round(dice.uniform(low, high), 3)


def _network(dice: Dice) -> Draft:
    loss = _loss(dice)
    short = dice.chance(0.45)
    shortest = 5.05 if loss > 0.13 else 4.05
    draft, start, end = _faulty(dice, *((shortest, 6) if short else (7, 20)))
    if dice.chance(0.12):
        _neighbour(dice, draft)
    more: Data = {"loss": loss, "noise": dice.uniform(0.03, 0.3)}
    if not short and dice.chance(0.5):
        more["ramp"] = _span(dice.uniform(5, 90))
    across = {each.operation for each in PRESETS[draft.job["preset"]] if each.group == "dp"}
    if dice.chance(0.3):
        more["collectives"] = [dice.choice(sorted(across))]
    draft.happens("network", start, end, **more)
    return draft


def _strength(dice: Dice) -> Data:
    """How slow a link becomes, by its bandwidth or by what it costs."""
    return {"bandwidth": dice.uniform(0.3, 0.75)} if dice.chance(0.5) else {"loss": _loss(dice)}


def _nic(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 6, 18)
    discards = dice.choice((0.0, 0.0, 3.0, 30.0))
    draft.happens("nic", start, end, discards=discards, **_gpu(dice, draft), **_strength(dice))
    return draft


def _nvlink(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 6, 18, tensor_parallel=True)
    draft.happens("nvlink", start, end, **_node(dice, draft), **_strength(dice))
    return draft


def _late_gpu(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 6, 18)
    percent = round(dice.uniform(20, 50) if dice.chance(0.8) else dice.uniform(10, 20), 1)
    where = _gpu(dice, draft)
    if dice.chance(0.2):
        begun = dice.minutes(1, 3)
        draft.job["start"] = _span(begun)
        draft.happens("late-gpu", begun, percent=percent, **where)
    else:
        draft.happens("late-gpu", start, end, percent=percent, **where)
    return draft


def _slow_node(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 6, 18)
    draft.happens("slow-node", start, end, percent=round(dice.uniform(12, 45), 1), **_node(dice, draft))
    return draft


def _frozen(dice: Dice) -> tuple[Draft, float]:
    """A job that will stand still, in half of the cases until PyTorch's monitor ends it (480 to 600 s)."""
    draft, start, _ = _faulty(dice, 12, 13)
    if dice.chance(0.5):
        draft.job.update({"to": _span(start + dice.uniform(480, 630)), "ends": "killed"})
    draft.companions["dcgm"] = dice.chance(0.5)
    return draft, start


def _hang(dice: Dice) -> Draft:
    draft, start = _frozen(dice)
    draft.happens("hang", start)
    return draft


def _dead_rank(dice: Dice) -> Draft:
    draft, start = _frozen(dice)
    draft.happens("dead-rank", start, **_gpu(dice, draft))
    return draft


def _kill(dice: Dice) -> Draft:
    """A job killed with SIGKILL leaves its files behind; only GPU activity tells that from a hang."""
    draft, start, _ = _faulty(dice, 12, 16)
    draft.companions["dcgm"] = True
    draft.job.update({"to": _span(start), "ends": "killed"})
    return draft


def _exporter_gone(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 5, 15)
    draft.happens("exporter-gone", start, end, **_node(dice, draft))
    return draft


# False friends.


def _long(dice: Dice, low: float = 45, high: float = 90) -> Draft:
    return _draft(dice, dice.minutes(low, high))


def _healthy(dice: Dice) -> Draft:
    draft = _long(dice, 60, 150)
    for _ in range(dice.choice((0, 0, 1))):
        _neighbour(dice, draft)
    return draft


def _checkpoints(dice: Dice) -> Draft:
    """Pauses of up to three minutes."""
    draft = _long(dice)
    lasts, every = dice.minutes(0.3, 2.9), dice.minutes(7, 16)
    draft.happens("checkpoint", 0, lasts=_span(lasts), every=_span(every))
    return draft


def _evaluations(dice: Dice) -> Draft:
    draft = _long(dice)
    start = dice.minutes(8, 18)
    while start < draft.lasts - 5 * MINUTE:
        end = start + dice.minutes(0.7, 5)
        draft.happens("evaluation", start, end)
        start = end + dice.minutes(8, 18)
    return draft


def _batch_size(dice: Dice) -> Draft:
    draft = _long(dice)
    group = dice.choice(("tp", "dp"))
    start = dice.minutes(12, 25)
    end = start + dice.minutes(8, 25) if dice.chance(0.5) else None
    draft.happens("message-size", start, end, groups=[group], factor=dice.choice((0.5, 0.66, 1.25, 1.5, 2.0, 4.0)))
    return draft


def _bursts(dice: Dice) -> Draft:
    """Contention of less than a minute, now and then."""
    draft = _long(dice)
    start = dice.minutes(10, 16)
    while start < draft.lasts - 3 * MINUTE:
        end = start + round(dice.uniform(8, 50))
        draft.happens("burst", start, end, loss=round(dice.uniform(0.04, 0.25), 3), noise=dice.uniform(0.05, 0.3))
        start = end + dice.minutes(5, 12)
    return draft


def _imbalance(dice: Dice) -> Draft:
    """Every step another replica has more work."""
    draft = _long(dice)
    draft.job["imbalance"] = dice.uniform(0.15, 0.9)
    return draft


def _position_bias(dice: Dice) -> Draft:
    draft = _long(dice)
    draft.job.update({"position_bias": dice.uniform(0.15, 0.25), "biased": dice.uniform(0.1, 0.6)})
    return draft


def _warm_up(dice: Dice) -> Draft:
    draft = _long(dice)
    draft.job.update({"start": _span(dice.minutes(1, 8)), "warm_up": _span(dice.minutes(3, 15))})
    return draft


def _torn_files(dice: Dice) -> Draft:
    draft = _long(dice)
    draft.rest |= {"torn": dice.uniform(0.01, 0.05), "empty": dice.uniform(0.01, 0.05)}
    return draft


def _missed_scrapes(dice: Dice) -> Draft:
    draft = _long(dice)
    draft.rest["missed"] = dice.uniform(0.03, 0.12)
    return draft


def _flapping(dice: Dice) -> Draft:
    """Operations that run in every n-th step only, so their series come and go."""
    draft = _long(dice)
    rare = [
        {"group": group, "operation": operation, "size": dice.randint(2, 90) * MB, "share": 0.005, "every": dice.randint(5, 20)}
        for group, operation in (("world", "AllReduce"), ("dp", "AllGather"), ("dp", "Broadcast"))
    ]
    draft.job["traffic"] = [*draft.job.get("traffic", []), *rare]
    return draft


def _bytes(dice: Dice) -> Draft:
    draft = _long(dice)
    draft.job["poisoned"] = True
    return draft


def _restart(dice: Dice) -> Draft:
    """The job ends and comes back under another id, with a warm-up of its own."""
    draft = _long(dice, 50, 80)
    end = dice.minutes(15, 25)
    again = draft.job | {"id": "70900", "start": _span(end + dice.minutes(1, 5)), "warm_up": _span(dice.minutes(1, 6))}
    draft.job.update({"to": _span(end), "ends": "clean"})
    draft.jobs.append(again)
    return draft


def _short_jobs(dice: Dice) -> Draft:
    """Jobs of about ten minutes, one after the other on the same nodes."""
    draft = _long(dice, 60, 75)
    first, start = draft.jobs.pop(), dice.minutes(0.5, 2)
    while start < draft.lasts - 5 * MINUTE:
        end = start + dice.minutes(6, 13)
        life = {"id": str(71000 + len(draft.jobs)), "start": _span(start), "to": _span(end), "ends": "clean"}
        draft.jobs.append(first | life)
        start = end + dice.minutes(1, 4)
    return draft


def _ripple(dice: Dice) -> Draft:
    """A shared network that is now a little better, now a little worse, all day."""
    draft = _long(dice, 60, 120)
    profile, moment = [], 0.0
    while moment < draft.lasts:
        profile.append((_span(moment), dice.random()))
        moment += dice.minutes(2, 9)
    profile.append((_span(draft.lasts), 0.0))
    draft.happens("burst", 0, loss=dice.uniform(0.005, 0.02), profile=profile, noise=dice.uniform(0.03, 0.15))
    return draft


_FAMILIES: dict[str, tuple[int, Callable[[Dice], Draft]]] = {
    "network": (32, _network),
    "nic": (8, _nic),
    "nvlink": (8, _nvlink),
    "late-gpu": (22, _late_gpu),
    "slow-node": (8, _slow_node),
    "hang": (14, _hang),
    "dead-rank": (4, _dead_rank),
    "kill": (3, _kill),
    "exporter-gone": (3, _exporter_gone),
    "healthy": (14, _healthy),
    "checkpoints": (4, _checkpoints),
    "evaluation": (3, _evaluations),
    "batch-size": (4, _batch_size),
    "bursts": (4, _bursts),
    "imbalance": (4, _imbalance),
    "position-bias": (3, _position_bias),
    "warm-up": (3, _warm_up),
    "torn-files": (2, _torn_files),
    "missed-scrapes": (2, _missed_scrapes),
    "flapping": (2, _flapping),
    "uint8": (2, _bytes),
    "restart": (2, _restart),
    "ten-minute-jobs": (3, _short_jobs),
    "ripple": (3, _ripple),
}
"""Each family with its share in a run, and how to draw one of it."""

FAMILIES = tuple(_FAMILIES)


def _schedule() -> tuple[str, ...]:
    """All families by their shares, evenly mixed, so that a part of a run is a small run."""
    places = [
        ((turn + 0.5) / share, name) for name, (share, _) in _FAMILIES.items() for turn in range(share)
    ]
    return tuple(name for _, name in sorted(places))


SCHEDULE = _schedule()


def seeds(split: Split, runs: int) -> Iterator[int]:
    """The first seeds of a split."""
    return islice(count(0 if split == "tuning" else 1, 2), runs)


def family(seed: int) -> str:
    """The family that a seed belongs to."""
    return SCHEDULE[seed // 2 % len(SCHEDULE)]


def draw(seed: int, attempt: int = 0) -> Scenario:
    """The scenario of a seed. Some draws cannot be simulated; a further attempt is another draw of the same family."""
    name = family(seed)
    draft = _FAMILIES[name][1](Dice(f"{seed} {attempt}"))
    return Scenario.model_validate(
        {
            "name": f"trial-{seed}",
            "story": f"A random job of the family {name}.",
            "start": START,
            "lasts": _span(draft.lasts),
            "companions": draft.companions,
            "jobs": draft.jobs,
            "events": draft.events,
            **draft.rest,
        }
    )


@dataclass(frozen=True, eq=False)
class Trial:
    """A scenario, and what Prometheus would have recorded of it."""

    seed: int
    family: str
    scenario: Scenario
    recording: Recording
    series: Sequence[Series]


def trial(seed: int) -> Trial:
    """The trial of a seed: the first of its draws that can be simulated."""
    for attempt in count():
        scenario = draw(seed, attempt)
        try:
            recording, series = simulate(scenario)
        except UserError:
            continue  # for example a loss that the job's traffic cannot cost
        return Trial(seed, family(seed), scenario, recording, series)
    raise AssertionError("unreachable")
