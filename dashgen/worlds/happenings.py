# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a wide world, once, again and again, or twice at a time: one function for each family."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dashgen.worlds.draft import MINUTE, Data, Draft, span
from dashgen.worlds.priors import WideDice
from dashgen.worlds.wide import add_habits, add_job, nodes_of, wide_draft

Span = tuple[float, float]

SLOW = ("network", "nic", "nvlink", "late-gpu", "slow-node")


def _node(dice: WideDice, draft: Draft, job: Data) -> Data:
    return {"node": dice.choice(nodes_of(draft, job))}


def _gpu(dice: WideDice, draft: Draft, job: Data) -> Data:
    return _node(dice, draft, job) | {"gpu": dice.randrange(job["gpus_per_node"])}


def _link(dice: WideDice) -> Data:
    """How slow a link becomes, by what it costs or by what is left."""
    if dice.of("by loss"):
        return {"loss": round(dice.uniform(*dice.of("loss")), 3)}
    return {"bandwidth": round(dice.of("bandwidth"), 3)}


def _fault(dice: WideDice, draft: Draft, kind: str, number: int = 0) -> Data:
    """A fault of a kind in one of the jobs: how strong it is, and where."""
    job = draft.jobs[number]
    return {"job": job["id"]} | _what(dice, draft, kind, job)


def _what(dice: WideDice, draft: Draft, kind: str, job: Data) -> Data:
    match kind:
        case "network":
            return {"loss": round(dice.uniform(*dice.of("loss")), 3), "noise": dice.of("fault noise")}
        case "nic":
            return _link(dice) | _gpu(dice, draft, job) | {"discards": dice.choice((0.0, 0.0, 3.0, 30.0))}
        case "nvlink":
            return _link(dice) | _node(dice, draft, job)
        case "late-gpu":
            percent = round(dice.of("late percent"), 1)
            return _gpu(dice, draft, job) | {"percent": percent, "throttled": dice.of("throttled")}
        case "slow-node":
            return _node(dice, draft, job) | {"percent": round(dice.of("node percent"), 1)}
        case "dead-rank" | "unreadable":
            return _gpu(dice, draft, job)
        case "exporter-gone":
            return _node(dice, draft, job)
        case _:
            return {}


def _spell(dice: WideDice, draft: Draft) -> Span:
    """When a fault begins and ends; some last longer than the recording."""
    start = (dice.of("onset") + dice.uniform(0, 0.1)) * draft.lasts
    end = start + dice.of("fault lasts")
    return (start, draft.lasts) if dice.of("outlasts") else (start, min(end, draft.lasts - MINUTE))


def _ramp(dice: WideDice, start: float, end: float) -> Data:
    ramp = dice.of("ramp")
    return {"ramp": span(min(ramp, (end - start) / 2))} if ramp else {}


def _slow(kind: str) -> Callable[[WideDice], Draft]:
    """A job that something slows, at some time or from its very start."""

    def family(dice: WideDice) -> Draft:
        draft = wide_draft(dice, inner=kind == "nvlink")
        start, end = _spell(dice, draft)
        if dice.of("from start"):
            start = 0.0
            if dice.chance(0.6):
                start = dice.minutes(1, 4)
                draft.job["start"] = span(start)
            if dice.chance(0.5):
                end = draft.lasts
        draft.happens(kind, start, end, **_fault(dice, draft, kind), **_ramp(dice, start, end))
        return draft

    return family


def _blinks(dice: WideDice, start: float, end: float) -> Iterator[Span]:
    """A few minutes on, a few minutes off."""
    on, off = dice.of("on"), dice.of("off")
    while start + on / 2 < end:
        yield start, min(start + on, end)
        start += on + off


def _intermittent(dice: WideDice) -> Draft:
    """A fault that blinks; every time is a fault of its own."""
    kind = dice.choice(SLOW)
    draft = wide_draft(dice, inner=kind == "nvlink")
    start = dice.uniform(0.2, 0.4) * draft.lasts
    what = _fault(dice, draft, kind)
    for begin, end in _blinks(dice, start, draft.lasts - 2 * MINUTE):
        draft.happens(kind, begin, end, **what)
    return draft


def _repeated(dice: WideDice) -> Draft:
    """The same fault comes back, after a long while and for as long as it likes."""
    kind = dice.choice(SLOW)
    draft = wide_draft(dice, inner=kind == "nvlink")
    what = _fault(dice, draft, kind)
    moment = dice.uniform(0.15, 0.3) * draft.lasts
    while moment < draft.lasts - 5 * MINUTE:
        end = min(moment + dice.uniform(0.05, 0.2) * draft.lasts, draft.lasts - MINUTE)
        draft.happens(kind, moment, max(end, moment + 4 * MINUTE), **what)
        moment = end + dice.uniform(0.1, 0.3) * draft.lasts
    return draft


def _overlapping(dice: WideDice) -> Draft:
    """Two faults at once, begun and ended at different times."""
    first, second = dice.sample(SLOW, 2)
    draft = wide_draft(dice, inner="nvlink" in (first, second))
    start, end = _spell(dice, draft)
    draft.happens(first, start, end, **_fault(dice, draft, first))
    later = start + dice.uniform(0.1, 0.6) * (end - start)
    until = min(draft.lasts - 1, max(later + 4 * MINUTE, end + dice.uniform(-0.3, 0.5) * (end - start)))
    draft.happens(second, later, until, **_fault(dice, draft, second))
    return draft


def _two_jobs(dice: WideDice) -> Draft:
    """Two jobs side by side, each with a fault of its own."""
    first, second = dice.choice(SLOW), dice.choice(SLOW)
    draft = wide_draft(dice, inner="nvlink" in (first, second))
    if len(draft.jobs) == 1:
        add_job(dice, draft, 1)
    for number, kind in enumerate((first, second)):
        start, end = _spell(dice, draft)
        draft.happens(kind, start, end, **_fault(dice, draft, kind, number))
    return draft


def _still(kind: str) -> Callable[[WideDice], Draft]:
    """A job that stands still until it is killed, or for as long as anybody looks."""

    def family(dice: WideDice) -> Draft:
        draft = wide_draft(dice)
        start = (dice.of("onset") + dice.uniform(0, 0.1)) * draft.lasts
        start = min(start, draft.lasts - 20 * MINUTE)
        if dice.of("killed"):
            draft.job.update({"to": span(start + dice.of("watchdog")), "ends": "killed"})
        draft.happens(kind, start, **_fault(dice, draft, kind))
        return draft

    return family


def _hang_that_ends(dice: WideDice) -> Draft:
    """Nothing completes for some minutes, and then all goes on."""
    draft = wide_draft(dice)
    start, end = _spell(dice, draft)
    draft.happens("hang", start, max(end, start + 4 * MINUTE))
    return draft


def _blind(kind: str) -> Callable[[WideDice], Draft]:
    """Something that hides a part of the job."""

    def family(dice: WideDice) -> Draft:
        draft = wide_draft(dice)
        start, end = _spell(dice, draft)
        draft.happens(kind, start, end, **_fault(dice, draft, kind))
        return draft

    return family


def _prometheus_gone(dice: WideDice) -> Draft:
    """Nobody scrapes for a while."""
    draft = wide_draft(dice)
    start = dice.uniform(0.2, 0.6) * draft.lasts
    draft.happens("prometheus-gone", start, start + dice.minutes(8, 14))
    return draft


def _healthy(dice: WideDice) -> Draft:
    draft = wide_draft(dice)
    if warm_up := dice.of("warm-up"):
        draft.job.update({"start": span(dice.minutes(1, 8)), "warm_up": span(warm_up)})
    return draft


def _ended(how: str) -> Callable[[WideDice], Draft]:
    """A job that ends, and nothing after it; a killed one leaves its files."""

    def family(dice: WideDice) -> Draft:
        draft = wide_draft(dice)
        draft.job.update({"to": span(dice.uniform(0.3, 0.6) * draft.lasts), "ends": how})
        return draft

    return family


def _restart(dice: WideDice) -> Draft:
    """The job ends and comes back on the same nodes, under its own id when the scheduler requeues it."""
    draft = wide_draft(dice)
    end = dice.uniform(0.3, 0.6) * draft.lasts
    life: Data = {"start": span(end + dice.uniform(40, 600)), "warm_up": span(dice.of("warm-up") or 60.0)}
    again = draft.job | life | ({} if dice.chance(0.4) else {"id": "70900"})
    draft.job.update({"to": span(end), "ends": dice.choice(("clean", "killed"))})
    draft.jobs.append(again)
    return draft


def _requeued(dice: WideDice) -> Draft:
    """The job dies and comes back under its id on some other nodes; its files stay on the old ones. It may be slow."""
    kind = dice.choice((*SLOW, *3 * ("healthy",)))
    draft = wide_draft(dice, inner=kind == "nvlink")
    end = dice.uniform(0.3, 0.5) * draft.lasts
    again = end + dice.uniform(1 * MINUTE, 8 * MINUTE)
    first, nodes = draft.job.get("first_node", 1), draft.job["nodes"]
    life: Data = {"start": span(again), "first_node": first + dice.randint(1, max(1, nodes // 4))}
    draft.jobs.append(draft.job | life | {"warm_up": span(dice.of("warm-up") or MINUTE)})
    draft.job.update({"to": span(end), "ends": "killed"})
    if kind != "healthy":
        start = again + dice.uniform(4 * MINUTE, 15 * MINUTE)
        until = min(start + dice.of("fault lasts"), draft.lasts - MINUTE)
        what = _fault(dice, draft, kind, len(draft.jobs) - 1)
        draft.happens(kind, start, max(until, start + 3 * MINUTE), **what, **_ramp(dice, start, until))
    return draft


def _short_jobs(dice: WideDice) -> Draft:
    """Jobs of some minutes, one after the other on the same nodes."""
    draft = wide_draft(dice)
    first, start = draft.job, dice.minutes(0.5, 2)
    draft.jobs.clear()
    while start < draft.lasts - 5 * MINUTE:
        end = start + dice.uniform(0.06, 0.2) * draft.lasts
        life = {"id": str(71000 + len(draft.jobs)), "start": span(start), "to": span(end), "ends": "clean"}
        draft.jobs.append(first | life)
        start = end + dice.minutes(1, 4)
    return draft


FAMILIES: Mapping[str, Callable[[WideDice], Draft]] = {
    **{kind: _slow(kind) for kind in SLOW},
    "intermittent": _intermittent,
    "repeated": _repeated,
    "overlapping": _overlapping,
    "two-jobs": _two_jobs,
    "hang": _still("hang"),
    "short-hang": _hang_that_ends,
    "dead-rank": _still("dead-rank"),
    "exporter-gone": _blind("exporter-gone"),
    "unreadable": _blind("unreadable"),
    "prometheus-gone": _prometheus_gone,
    "healthy": _healthy,
    "ended": _ended("clean"),
    "killed": _ended("killed"),
    "restart": _restart,
    "requeued": _requeued,
    "short-jobs": _short_jobs,
}
"""How to draw a scenario of each family; the world says how often it does."""


def happen(dice: WideDice, family: str) -> Draft:
    """A scenario of a family, with the habits that all jobs have."""
    draft = FAMILIES[family](dice)
    add_habits(dice, draft)
    return draft
