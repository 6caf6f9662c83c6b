# SPDX-License-Identifier: Apache-2.0
"""Healthy jobs as varied as they come: parallelism, size, habits, companions, and how quiet their network is."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from dashgen.simulator.plans import PRESETS

Data = dict[str, Any]

MINUTE = 60.0


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
        moments = {"start": span(start)} | ({} if end is None else {"end": span(end)})
        self.events.append({"kind": kind, **moments, **more})


def span(seconds: float) -> str:
    """Seconds as a scenario writes them."""
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


def healthy_draft(dice: Dice, lasts: float, tensor_parallel: bool = False) -> Draft:
    """A job to which nothing happens yet."""
    draft = Draft([_job(dice, 0, tensor_parallel)], lasts, _companions(dice))
    _surroundings(dice, draft)
    return draft


def add_neighbour(dice: Dice, draft: Draft) -> None:
    """Another job beside the first one, on nodes of its own."""
    job = _job(dice, len(draft.jobs))
    while job["gpus_per_node"] != draft.job["gpus_per_node"] or job["nodes"] * job["gpus_per_node"] > 32:
        job = _job(dice, len(draft.jobs))
    last = draft.jobs[-1]
    draft.jobs.append(job | {"first_node": last.get("first_node", 1) + last["nodes"]})
