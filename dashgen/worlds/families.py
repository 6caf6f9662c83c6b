# SPDX-License-Identifier: Apache-2.0
"""What can happen to a job, or only seem to: one function for each family of faults and of false friends."""

from __future__ import annotations

from collections.abc import Callable

from dashgen.simulator.plans import PRESETS
from dashgen.worlds.draft import MINUTE, Data, Dice, Draft, add_neighbour, healthy_draft, span

MB = 1024 * 1024

# Faults.


def _onset(dice: Dice) -> float:
    """When a fault begins: mostly when the job is known well, sometimes as soon as it can be known."""
    return dice.minutes(10, 14) if dice.chance(0.1) else dice.minutes(15, 26)


def _faulty(dice: Dice, low: float, high: float, tensor_parallel: bool = False) -> tuple[Draft, float, float]:
    """A job, and the start and end of a fault that lasts between so many minutes."""
    start = _onset(dice)
    end = start + dice.minutes(low, high)
    draft = healthy_draft(dice, end + dice.minutes(5, 8), tensor_parallel)
    if dice.chance(0.2):
        every, lasts = dice.minutes(8, 14), dice.minutes(0.3, 1.2)
        draft.happens("checkpoint", 0, lasts=span(lasts), every=span(every))
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
    """A constraint of all paths between domains, short or long, sometimes twice within the hour."""
    loss = _loss(dice)
    short = dice.chance(0.45)
    shortest = 5.05 if loss > 0.13 else 4.05
    draft, start, end = _faulty(dice, *((shortest, 6) if short else (7, 20)))
    if dice.chance(0.12):
        add_neighbour(dice, draft)
    more: Data = {"loss": loss, "noise": dice.uniform(0.03, 0.3)}
    if not short and dice.chance(0.5):
        more["ramp"] = span(dice.uniform(5, 90))
    across = {each.operation for each in PRESETS[draft.job["preset"]] if each.group == "dp"}
    if dice.chance(0.3):
        more["collectives"] = [dice.choice(sorted(across))]
    draft.happens("network", start, end, **more)
    if dice.chance(0.2):
        again = end + dice.minutes(7, 15)
        over = again + dice.minutes(5.05, 8)
        draft.happens("network", again, over, **more)
        draft.lasts = over + dice.minutes(5, 8)
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
        draft.job["start"] = span(begun)
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
        draft.job.update({"to": span(start + dice.uniform(480, 630)), "ends": "killed"})
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
    draft.job.update({"to": span(start), "ends": "killed"})
    return draft


def _exporter_gone(dice: Dice) -> Draft:
    draft, start, end = _faulty(dice, 5, 15)
    draft.happens("exporter-gone", start, end, **_node(dice, draft))
    return draft


# False friends.


def _long(dice: Dice, low: float = 45, high: float = 90) -> Draft:
    return healthy_draft(dice, dice.minutes(low, high))


def _healthy(dice: Dice) -> Draft:
    draft = _long(dice, 60, 150)
    for _ in range(dice.choice((0, 0, 1))):
        add_neighbour(dice, draft)
    return draft


def _checkpoints(dice: Dice) -> Draft:
    """Pauses of up to three minutes."""
    draft = _long(dice)
    lasts, every = dice.minutes(0.3, 2.9), dice.minutes(7, 16)
    draft.happens("checkpoint", 0, lasts=span(lasts), every=span(every))
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
    draft.job.update({"start": span(dice.minutes(1, 8)), "warm_up": span(dice.minutes(3, 15))})
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
        {"group": group, "operation": operation, "share": 0.005}
        | {"size": dice.randint(2, 90) * MB, "every": dice.randint(5, 20)}
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
    again = draft.job | {"id": "70900", "start": span(end + dice.minutes(1, 5)), "warm_up": span(dice.minutes(1, 6))}
    draft.job.update({"to": span(end), "ends": "clean"})
    draft.jobs.append(again)
    return draft


def _short_jobs(dice: Dice) -> Draft:
    """Jobs of about ten minutes, one after the other on the same nodes."""
    draft = _long(dice, 60, 75)
    first, start = draft.jobs.pop(), dice.minutes(0.5, 2)
    while start < draft.lasts - 5 * MINUTE:
        end = start + dice.minutes(6, 13)
        life = {"id": str(71000 + len(draft.jobs)), "start": span(start), "to": span(end), "ends": "clean"}
        draft.jobs.append(first | life)
        start = end + dice.minutes(1, 4)
    return draft


def _ripple(dice: Dice) -> Draft:
    """A shared network that is now a little better, now a little worse, all day."""
    draft = _long(dice, 60, 120)
    profile, moment = [], 0.0
    while moment < draft.lasts:
        profile.append((span(moment), dice.random()))
        moment += dice.minutes(2, 9)
    profile.append((span(draft.lasts), 0.0))
    draft.happens("burst", 0, loss=dice.uniform(0.005, 0.02), profile=profile, noise=dice.uniform(0.03, 0.15))
    return draft


FAMILIES: dict[str, tuple[int, Callable[[Dice], Draft]]] = {
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
