# SPDX-License-Identifier: Apache-2.0
"""A job's life: step after step, through pauses, hangs and slow times, until it ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from dashgen.errors import UserError
from dashgen.simulator.communicators import Floats, Ints
from dashgen.simulator.drift import compute_draws, during, path_drift, stream
from dashgen.simulator.events import Algorithm, DeadRank, Evaluation, Event, Hang, MessageSize, Pause
from dashgen.simulator.jobs import Job
from dashgen.simulator.physics import Drift, Effect, steady, step_seconds, strength, unit_effect
from dashgen.simulator.plans import Plan, base_plan, changed_plan
from dashgen.simulator.scenario import Scenario

Span = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Pulse:
    """When a job works, in seconds of the scenario, and under what.

    Step k ends at ``ends[k]`` after ``seconds[k]``, does ``plans[plan[k]]`` with compute times ``draws[k]`` by GPU, and
    suffers ``effects[plan[k]]`` with strengths ``levels[k]``; ``drift`` is how the paths wander meanwhile. ``hangs``
    are also the pauses in which ranks wait spinning. ``loss`` is the part of its throughput that each event took, by
    the event's place in the scenario.
    """

    ends: Floats
    seconds: Floats
    plan: Ints
    levels: Floats
    plans: tuple[Plan, ...]
    effects: tuple[tuple[Effect, ...], ...]
    draws: Floats
    drift: Drift
    pauses: tuple[Span, ...]
    hangs: tuple[Span, ...]
    loss: dict[int, float] = field(default_factory=dict)


def _pauses(events: tuple[Event, ...], end: float, spinning: bool) -> Iterator[Span]:
    for event in events:
        if isinstance(event, Pause) and event.spins == spinning:
            moment = event.start or (event.every or 0.0)
            while moment < min(end, event.until):
                yield moment, moment + event.lasts
                if event.every is None:
                    break
                moment += event.every


def _hangs(events: tuple[Event, ...], end: float) -> Iterator[Span]:
    for event in events:
        if isinstance(event, Hang | DeadRank) and event.start < end:
            yield event.start, min(end, event.until)
    yield from _pauses(events, end, spinning=True)


class _Plans:
    """The plans that a job follows, one for each set of changes in force, in the order in which they are met."""

    def __init__(self, scenario: Scenario, job: Job, draws: Floats, begin: float) -> None:
        self._scenario, self._job, self._begin = scenario, job, begin
        events = scenario.events_of(job)
        self.slowing = [(place, event) for place, event in enumerate(scenario.events) if event in events]
        self._base = base_plan(job)
        self.strengths = _strengths(scenario, job, self._base, self.slowing, draws)
        self._changes = [event for event in events if isinstance(event, Evaluation | MessageSize | Algorithm)]
        self._met: dict[frozenset[int], tuple[int, Plan, tuple[Effect, ...]]] = {}

    def at(self, moment: float) -> tuple[int, Plan, tuple[Effect, ...]]:
        """The plan of a moment with its number, and what each event does to it."""
        active = frozenset(place for place, event in enumerate(self._changes) if event.start <= moment < event.until)
        if active not in self._met:
            plan = self._base
            for place in sorted(active):
                plan = changed_plan(self._job, plan, self._changes[place])
            effects = _effects(self._scenario, self._job, plan, self.slowing, self.strengths, self._begin)
            self._met[active] = (len(self._met), plan, effects)
        return self._met[active]

    def met(self) -> list[tuple[int, Plan, tuple[Effect, ...]]]:
        """All plans so far, by number."""
        return sorted(self._met.values(), key=lambda each: each[0])


def live(scenario: Scenario, number: int, begin: float, end: float, seed: int) -> Pulse:
    """Walk through the steps of a job, and ask of each event what the job would have been without it."""
    job = scenario.jobs[number]
    steps = int((end - begin) / (0.3 * job.step)) + 8
    draws = compute_draws(job, steps, seed, number)
    plans = _Plans(scenario, job, draws, begin)
    pulse = _walk(scenario, job, (begin, end), plans, draws, path_drift(job, steps, seed, number))
    losses = _losses(pulse, [place for place, _ in plans.strengths])
    for place, event in plans.slowing:
        under = (pulse.ends > event.start) & (pulse.ends < event.until)
        if isinstance(event, Algorithm) and under.any():
            losses[place] = 1 - usual_seconds(pulse) / float(pulse.seconds[under].mean())
    return replace(pulse, loss=losses)


def _walk(scenario: Scenario, job: Job, span: Span, plans: _Plans, draws: Floats, drift: Drift) -> Pulse:
    """One step after the other, until the job ends or hangs for good."""
    moment, end = span
    events = scenario.events_of(job)
    pauses, hangs = tuple(_pauses(events, end, spinning=False)), tuple(_hangs(events, end))
    steps, step = len(draws), 0
    ends, seconds, chosen = np.zeros(steps), np.zeros(steps), np.zeros(steps, np.int64)
    levels = np.zeros((steps, len(plans.strengths) + bool(job.warm_up)))
    if job.start is not None:
        moment += min(4 * job.step, 30.0)  # the first step compiles kernels and opens connections
    while step < steps:
        blocked = [stop for start, stop in pauses + hangs if start <= moment < stop]
        if blocked:
            moment = max(blocked)
            continue
        index, plan, effects = plans.at(moment)
        levels[step] = [effect.level(moment) for effect in effects]
        now = slice(step, step + 1)
        compute, slow = paced(plan, effects, levels[now], draws[now], during(drift, now))
        length = float(step_seconds(plan, compute, slow)[0])
        if moment + length > min([end, *(start for start, stop in hangs if moment < start and stop >= end)]):
            break
        moment += length
        ends[step], seconds[step], chosen[step] = moment, length, index
        step += 1
    met = plans.met()
    return Pulse(
        ends[:step],
        seconds[:step],
        chosen[:step],
        levels[:step],
        tuple(plan for _, plan, _ in met),
        tuple(effects for _, _, effects in met),
        draws[:step],
        during(drift, slice(step)),
        pauses,
        hangs,
    )


def _strengths(
    scenario: Scenario, job: Job, plan: Plan, slowing: list[tuple[int, Event]], draws: Floats
) -> list[tuple[int, float]]:
    """How strong each event that slows the job down is, by the event's place in the scenario."""
    found = []
    for place, event in slowing:
        effect = unit_effect(job, plan, event, scenario.nodes)
        if effect is None:
            continue
        extra = 1.0
        if bandwidth := getattr(event, "bandwidth", None):
            extra = 1 / bandwidth - 1
        elif loss := getattr(event, "loss", None):
            extra = strength(plan, effect, draws[:400], loss)
            if np.isnan(extra):
                raise UserError(f"{scenario.name}: events.{place}: no traffic of job {job.id} costs that; lower loss")
        found.append((place, extra))
    return found


def _effects(
    scenario: Scenario,
    job: Job,
    plan: Plan,
    slowing: list[tuple[int, Event]],
    strengths: list[tuple[int, float]],
    begin: float,
) -> tuple[Effect, ...]:
    """What each event does to a plan; the last effect is the warm-up of the job."""
    events = dict(slowing)
    effects = []
    for place, extra in strengths:
        unit = unit_effect(job, plan, events[place], scenario.nodes)
        assert unit is not None
        effects.append(Effect(unit.level, unit.late, tuple(mask * extra for mask in unit.slow), unit.noise))
    if job.warm_up:
        cold = stream(0, "warm-up", job.id).uniform(0.3, 1.0, job.nodes * job.gpus_per_node)
        calm = tuple(np.zeros(len(each.comm.members)) for each in plan.operations)
        effects.append(Effect(lambda moment: float(np.exp(-(moment - begin) * 3 / job.warm_up)), cold, calm))
    return tuple(effects)


def paced(
    plan: Plan, effects: tuple[Effect, ...], levels: Floats, draws: Floats, drift: Drift
) -> tuple[Floats, list[Floats]]:
    """Compute seconds by GPU and pace of transfers by communicator, of the steps with these levels."""
    compute = plan.compute * draws
    slow = steady(plan, len(draws), drift)
    for place, effect in enumerate(effects):
        level = levels[:, place, None]
        if not level.any():
            continue
        compute = compute * (1 + level * effect.late)
        slow = [pace * (1 + level * extra) for pace, extra in zip(slow, effect.slow, strict=True)]
    return compute, slow


def _losses(pulse: Pulse, places: list[int]) -> dict[int, float]:
    """The part of its throughput that each event took while it was there: the same steps, once without it."""
    losses = {}
    for column, place in enumerate(places):
        took = without = 0.0
        for index, (plan, effects) in enumerate(zip(pulse.plans, pulse.effects, strict=True)):
            steps = (pulse.plan == index) & (pulse.levels[:, column] > 0)
            levels = pulse.levels[steps].copy()
            levels[:, column] = 0
            if steps.any():
                took += float(pulse.seconds[steps].sum())
                drift = during(pulse.drift, steps)
                without += float(step_seconds(plan, *paced(plan, effects, levels, pulse.draws[steps], drift)).sum())
        if took:
            losses[place] = 1 - without / took
    return losses


def readings(scenario: Scenario, job: Job, pulse: Pulse) -> tuple[tuple[float, float], ...]:
    """When the training log shows which TFLOP/s per GPU; published readings take the place of their neighbours."""
    if not len(pulse.ends):
        return ()
    training = np.array([plan.training for plan in pulse.plans])
    usual = usual_seconds(pulse)
    kept = np.flatnonzero(training[pulse.plan])
    found = []
    for last in range(job.log_every - 1, len(kept), job.log_every):
        steps = kept[last - job.log_every + 1 : last + 1]
        took = float(pulse.seconds[steps].mean())
        if job.log_counts == "pauses" and last >= job.log_every:
            took = float(pulse.ends[steps[-1]] - pulse.ends[kept[last - job.log_every]]) / job.log_every
        found.append((float(pulse.ends[steps[-1]]), round(job.tflops * usual / took, 1)))
    grid = scenario.scrape_interval
    published = {moment // grid * grid - 1.0: value for moment, value in job.readings}
    spacing = job.log_every * job.step
    found = [pair for pair in found if all(abs(pair[0] - moment) > 0.75 * spacing for moment in published)]
    return tuple(sorted(found + list(published.items())))


def usual_seconds(pulse: Pulse) -> float:
    """The mean length that the first plan's steps have without any event."""
    plan = pulse.plans[0]
    draws = pulse.draws[: max(1, min(400, len(pulse.draws)))]
    return float(step_seconds(plan, plan.compute * draws, steady(plan, len(draws))).mean())


def nic_bytes(pulse: Pulse) -> Floats:
    """Bytes that one NIC sends in each step: the bus bytes of what leaves the domain, shared by the domain's NICs."""
    by_plan = np.zeros(len(pulse.plans))
    for index, plan in enumerate(pulse.plans):
        for each in plan.operations:
            if each.comm.n_nodes > 1:
                rails = max(1, each.comm.nranks // each.comm.n_nodes)
                by_plan[index] += each.count * each.bus_bytes / rails / each.traffic.every
    return np.asarray(by_plan[pulse.plan])
