# SPDX-License-Identifier: Apache-2.0
"""Jobs and sites drawn from the wide priors: what they send, on which machines, with which habits, and who watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from dashgen.simulator.communicators import INNER
from dashgen.simulator.jobs import Group
from dashgen.simulator.plans import PRESETS
from dashgen.worlds.draft import MINUTE, Data, Draft, span
from dashgen.worlds.priors import MB, WideDice

MARGIN = 2 * MINUTE
"""Habits leave so much room at both ends of a recording."""

LUCK = MINUTE
"""Who is unlucky for longer is a straggler."""

LAYOUTS: Mapping[str, str] = {
    "flat": "fsdp",
    "hsdp": "tp-dp",
    "rails": "tp-dp",
    "tp-dp": "tp-dp",
    "tp-fsdp": "tp-fsdp",
    "cp-fsdp": "cp-fsdp",
    "pipeline": "tp-pp-dp",
    "merged": "tp-dp",
    "rack": "tp-dp",
}
"""The preset that a layout is a kind of."""


def wide_job(dice: WideDice, number: int = 0, gpus_per_node: int | None = None, inner: bool = False) -> Data:
    """A job as it could run anywhere; ``inner`` makes sure that it communicates within a domain."""
    job = _machines(dice, gpus_per_node, inner)
    layout = job.pop("layout")
    step = round(dice.of("step"), 2)
    job |= {
        "id": str(70000 + number),
        "step": f"{step}s",
        "tflops": round(dice.of("tflops")),
        "log_every": max(1, round(dice.of("log seconds") / step)),
        "log_counts": dice.of("log counts"),
        "jitter": dice.of("jitter"),
        "imbalance": dice.of("imbalance") or 0.0,
        "dwell": max(1, int(min(dice.of("dwell"), LUCK / step))),
        "noise": dice.of("noise"),
        "inner_noise": dice.of("inner noise"),
        "tails": dice.of("tails") or 0.0,
        "wander": dice.of("wander") or 0.0,
        "compute_wander": dice.of("compute wander") or 0.0,
        "uneven": dice.of("uneven") or 0.0,
        "wander_over": span(dice.of("wander over")),
        "position_bias": dice.of("position bias"),
        "biased": dice.of("biased"),
        "arrival_bias": dice.of("arrival bias") or 0.0,
        "nic_gbs": dice.of("nic"),
        "poisoned": dice.of("poisoned"),
        "spread": True,
        "only": True,
    }
    job.setdefault("nvlink_gbs", dice.of("nvlink"))
    job["traffic"] = [*_usual(dice, job, layout), *_further(dice, job)]
    if names := _names(dice):
        job["comm_names"] = names
    return job


def _machines(dice: WideDice, gpus_per_node: int | None, inner: bool) -> Data:
    """How many GPUs, and in which dimensions they are parallel."""
    while True:
        layout = dice.of("layout")
        size = gpus_per_node or dice.of("gpus per node")
        nodes, rest = divmod(dice.of("gpus"), size)
        ways = [way for way in (2, 4, 8) if way <= size]
        job: Data = {"layout": layout, "preset": LAYOUTS[layout], "nodes": nodes, "gpus_per_node": size}
        match layout:
            case "flat":
                pass
            case "hsdp" | "rails":
                job["tp"] = size
            case "tp-dp" | "tp-fsdp":
                job["tp"] = dice.choice(ways)
            case "cp-fsdp":
                job["cp"] = dice.choice(ways)
            case "pipeline":
                job |= {"tp": dice.choice(ways), "pp": dice.choice((2, 4))}
            case "merged":
                one = {"tp": 4, "domain": 4, "nvlink_gbs": 811.0}
                job |= one if size == nodes == 4 else {"tp": 2, "cp": 2}
            case "rack":
                job |= {"tp": dice.choice((4, 8)), "domain": dice.choice((2, 4)), "nvlink_gbs": 811.0}
        least = 1 if layout == "flat" else 2
        sound = not rest and nodes >= least and nodes % job.get("domain", 1) == 0 and nodes % job.get("pp", 1) == 0
        if layout == "rack":
            sound = sound and size == 4 and nodes // job["domain"] >= 2
        if layout == "pipeline":
            sound = sound and nodes // job["pp"] >= 2
        if sound and not (inner and layout == "flat"):
            return job


def _usual(dice: WideDice, job: Data, layout: str) -> list[Data]:
    """What the preset sends, at other sizes and shares."""
    rows = []
    for each in PRESETS[job["preset"]]:
        rows.append(
            {
                "group": each.group,
                "operation": each.operation,
                "size": max(8192, int(each.size * dice.of("size factor"))),
                "algorithm": each.algorithm,
                "share": min(0.45, each.share * dice.of("share factor")),
                "exposed": min(1.0, each.exposed * dice.uniform(0.5, 1.5)),
            }
        )
    if layout == "hsdp":  # shards are gathered in a node, gradients are reduced across
        for row in rows:
            row["share"] *= 1.5 if row["group"] == "tp" else 0.7
    if layout == "merged":  # groups of one shape that send the same: their series are one where they have no names
        twin = "cp" if "cp" in job else "dp"
        rows += [row | {"group": twin} for row in rows if row["group"] == "tp"]
    return rows


def _further(dice: WideDice, job: Data) -> Iterator[Data]:
    """Operations of other sizes, small and large, frequent and rare, in the groups that the job has."""
    usual = {each.group for each in PRESETS[job["preset"]]} - {"pp", "embedding"}
    for _ in range(dice.of("further sizes")):
        group = dice.choice(sorted(usual))
        size = int(dice.of("further size"))
        small = size < 2 * MB
        row: Data = {
            "group": group,
            "operation": dice.choice(("AllReduce", "AllGather", "ReduceScatter", "AllReduce", "Broadcast")),
            "size": size,
            "algorithm": dice.choice(("RING_LL", "TREE_LL128") if small else ("RING_SIMPLE", "TREE_SIMPLE")),
            "share": dice.of("further share") * (0.05 if small else 1.0),
            "exposed": dice.uniform(0.2, 1.0),
            "every": 1 if group in INNER else dice.of("every"),
        }
        if small:
            row["noise"] = dice.of("small noise")
        yield row


def _names(dice: WideDice) -> dict[str, str]:
    """Names of communicators: mostly none, or those that a framework gives."""
    known = dice.of("names")
    style = dice.choice(("{} Group 0", "{}:0", "mesh_{}"))
    groups = get_args(Group)
    chosen = groups if known == "all" else dice.sample(groups, 2) if known == "some" else ()
    return {group: style.format(group.upper()) for group in chosen}


def nodes_of(draft: Draft, job: Data) -> list[str]:
    """The names of a job's nodes, as the scenario will make them."""
    last = max(one.get("first_node", 1) + one["nodes"] - 1 for one in draft.jobs)
    first, width = job.get("first_node", 1), max(2, len(str(last)))
    return [f"{draft.rest['node_prefix']}{number:0{width}d}" for number in range(first, first + job["nodes"])]


def wide_draft(dice: WideDice, inner: bool = False) -> Draft:
    """A site with its jobs, to which only happens what happens anywhere; the first job is to be the faulty one."""
    companions: Data = {
        key: dice.of(prior)
        for key, prior in {
            "mtime": "mtime",
            "counters": "counters",
            "host_memory": "host memory",
            "dcgm": "dcgm",
            "dcgm_tensor": "dcgm field",
            "dcgm_memory": "dcgm field",
            "dcgm_clock": "dcgm field",
            "infiniband": "infiniband",
            "throughput": "throughput",
        }.items()
    }
    draft = Draft([wide_job(dice, 0, None, inner)], dice.of("minutes") * MINUTE, companions)
    for number in range(dice.of("neighbours")):
        add_job(dice, draft, number + 1)
    torn, dump = dice.of("torn"), dice.of("dump interval")
    draft.rest |= {
        "scrape_interval": dice.of("scrape interval"),
        "dump_interval": dump,
        "torn": torn,
        "empty": torn,
        "missed": dice.of("missed") or 0.0,
        "node_prefix": dice.of("prefix"),
        "instances": dice.of("instances"),
        "seed": dice.randrange(2**31),
        "site": {} if dump == 30 else {"dump_interval": f"{dump}s"},
    }
    if companions["throughput"] and dice.of("throughput known"):
        draft.rest["site"]["companions"] = {"throughput": {"metric": companions["throughput"]}}
    return draft


def add_job(dice: WideDice, draft: Draft, number: int) -> None:
    """Another job beside the others, on nodes of its own."""
    job = wide_job(dice, number, draft.job["gpus_per_node"])
    last = draft.jobs[-1]
    draft.jobs.append(job | {"first_node": last.get("first_node", 1) + last["nodes"]})


# Habits.


def _now_and_then(dice: WideDice, every: float, lasts: float) -> Iterator[float]:
    """Moments that are so far apart in the mean."""
    moment = MARGIN + dice.expovariate(1 / every)
    while moment < lasts - MARGIN:
        yield moment
        moment += MARGIN + dice.expovariate(1 / every)


def add_habits(dice: WideDice, draft: Draft) -> None:
    """What every job does now and then, and every site suffers now and then."""
    for job in draft.jobs:
        _pauses(dice, draft, job)
        _hiccups(dice, draft, job)
        _bursts(dice, draft, job)
        if factor := dice.of("size change"):
            moment = dice.uniform(0.2, 0.7) * draft.lasts
            draft.happens("message-size", moment, groups=["dp"], factor=factor, job=job["id"])
    if share := dice.of("flap share"):
        where = dice.choice(nodes_of(draft, draft.job))
        draft.happens("exporter-flap", 0, draft.lasts, node=where, share=round(share, 3))
    if blind := dice.of("blind"):
        moment = dice.uniform(0.1, 0.8) * draft.lasts
        draft.happens("prometheus-gone", moment, moment + blind)


def _hiccups(dice: WideDice, draft: Draft, job: Data) -> None:
    """Some node or other is late for less than a dump; by how much of a long step is in proportion."""
    if every := dice.of("hiccup every"):
        for moment in _now_and_then(dice, every, draft.lasts):
            lasts = max(2.0, dice.uniform(0.2, 0.9) * draft.rest["dump_interval"])
            percent = dice.of("hiccup percent") * _part(lasts, job)
            where = dice.choice(nodes_of(draft, job))
            draft.happens("hiccup", moment, moment + lasts, node=where, percent=round(percent, 1), job=job["id"])


def _bursts(dice: WideDice, draft: Draft, job: Data) -> None:
    """Contention of seconds."""
    if every := dice.of("burst every"):
        for moment in _now_and_then(dice, every, draft.lasts):
            lasts = dice.of("burst lasts")
            extra = (1 / dice.uniform(0.3, 0.9) - 1) * _part(lasts, job)
            strength = {"bandwidth": round(1 / (1 + extra), 3), "noise": dice.of("fault noise")}
            draft.happens("burst", moment, moment + lasts, job=job["id"], **strength)


def _part(lasts: float, job: Data) -> float:
    """The part of a step that something short can touch: events act on whole steps."""
    return min(1.0, lasts / float(job["step"].removesuffix("s")))


def _pauses(dice: WideDice, draft: Draft, job: Data) -> None:
    """Checkpoints and evaluations."""
    if every := dice.of("pause every"):
        more = {"every": span(every), "spins": dice.of("pause spins"), "job": job["id"]}
        first = dice.uniform(0.2, 1.0) * every
        lasts = min(dice.of("pause lasts"), every / 2)
        draft.happens("checkpoint", max(first, 1.0), lasts=span(lasts), **more)
    if every := dice.of("evaluation every"):
        start, lasts = dice.uniform(0.3, 1.0) * every, min(dice.of("evaluation lasts"), every / 2)
        while start < draft.lasts - MARGIN:
            draft.happens("evaluation", start, start + lasts, job=job["id"])
            start += every
