# SPDX-License-Identifier: Apache-2.0
"""What a demo will show: a scenario whose clock runs faster than the machine's, from a little before its first event.

The whole story is simulated before anything starts. Only time is compressed: operations, their sizes and their
bandwidths are those of the story, so every dump says what it would have said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.live.demo.faults import RESTARTS, Injection, injected
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series
from dashgen.recordings.inspector import EXEC_TIME
from dashgen.simulator.dumps import Run, run_job
from dashgen.simulator.events import Event, ExporterGone, PrometheusGone
from dashgen.simulator.scenario import MOST_WORK, Scenario
from dashgen.simulator.scrapes.scrape import scrape

HISTORY_DUMPS = 60
"""Dumps before the beginning that the rules have seen: half an hour at 30 s, three times what a first verdict takes."""

LEAD_DUMPS = 10
"""Dumps between the beginning and the first event of a scenario."""


@dataclass(frozen=True)
class Action:
    """Something that happens to the programs of the stack: ``what`` is stop, start or restart."""

    at: float
    what: str
    program: str
    node: str = ""


@dataclass(frozen=True, eq=False)
class Plan:
    """A scenario on the machine's clock.

    ``begin`` and ``history`` are seconds of the story: when the demo begins, and when the first sample before it was
    scraped. ``dump`` and ``scrape`` are seconds of the machine between two dumps and two scrapes, ``lasts`` how long
    the demo may run. ``site`` is built for these intervals. ``runs`` and ``series`` are the simulated story.
    """

    scenario: Scenario
    site: Site
    speed: float
    dump: int
    scrape: int
    history: float
    begin: float
    lasts: float
    runs: tuple[Run, ...]
    series: tuple[Series, ...]
    actions: tuple[Action, ...]

    @property
    def span(self) -> float:
        """Seconds of the machine from the first sample of the history to the beginning."""
        return (self.begin - self.history) / self.speed

    @cached_property
    def targets(self) -> list[tuple[str, str]]:
        """Everything that is scraped, as job and instance."""
        return sorted({(labels["job"], labels["instance"]) for labels in (dict(one.labels) for one in self.series)})

    @cached_property
    def instances(self) -> dict[str, str]:
        """What the scraper calls the node_exporter of each node that has Inspector's files."""
        ours = (dict(one.labels) for one in self.series if one.name == EXEC_TIME)
        return {labels["node"]: labels["instance"] for labels in ours}


def tempo(dump_interval: int, speed: float) -> tuple[int, int]:
    """Seconds of the machine between dumps and between scrapes, at the nearest speed where both are whole."""
    whole = [each for each in range(1, dump_interval + 1) if dump_interval % each == 0]
    dump = min(whole, key=lambda each: (abs(each - dump_interval / speed), each))
    return dump, max(1, dump // 2)


def plan(
    scenario: Scenario,
    *,
    speed: float = 15.0,
    lasts: float = 600.0,
    injections: tuple[Injection, ...] = (),
    sensitivity: Sensitivity = Sensitivity.MEDIUM,
) -> Plan:
    """Simulate a story for a demo of ``lasts`` seconds of the machine's clock; injections come on top of its events.

    Raises UserError when the scenario cannot be shown live, or a fault does not fit it.
    """
    dump, scraping = tempo(scenario.dump_interval, speed)
    speed = scenario.dump_interval / dump
    step = round(scraping * speed)
    begin = _begin(scenario) // step * step
    _check(scenario, injections, lasts, begin + lasts * speed)
    history = max(0.0, begin - HISTORY_DUMPS * scenario.dump_interval) // step * step
    fitted = scenario.model_copy(
        update={
            "scrape_interval": step,
            "start": scenario.start.fromtimestamp(scenario.start.timestamp() // step * step, scenario.start.tzinfo),
            # Two dumps more, so that the end of the story is not seen.
            "lasts": begin + lasts * speed + 2 * scenario.dump_interval,
        }
    )
    told = injected(fitted, injections, begin, speed)
    runs = tuple(run_job(told, number, told.seed) for number in range(len(told.jobs)))
    return Plan(
        scenario=told,
        site=_site(scenario, dump, sensitivity),
        speed=speed,
        dump=dump,
        scrape=scraping,
        history=history,
        begin=begin,
        lasts=lasts,
        runs=runs,
        series=tuple(scrape(told, list(runs), told.seed)),
        actions=tuple(sorted(_actions(told, injections, begin, speed), key=lambda each: each.at)),
    )


def _check(scenario: Scenario, injections: tuple[Injection, ...], lasts: float, story: float) -> None:
    work = sum(job.nodes * job.gpus_per_node * story / min(job.step, scenario.dump_interval) for job in scenario.jobs)
    if work > MOST_WORK:
        raise UserError(f"{scenario.name}: {story / 3600:.0f} hours of it are too many; lower --for or --speed")
    if scenario.flavour != "nvidia":
        raise UserError(f"{scenario.name}: the demo writes the files of NVIDIA's Inspector; take another scenario")
    for each in injections:
        if each.at >= lasts:
            raise UserError(f"--inject {each.fault}: comes after the end of the demo; make --for longer")


def _begin(scenario: Scenario) -> float:
    """The second of the story at which the demo begins: shortly before anything happens, or after a usual history."""
    moments = [event.start for event in scenario.events if not event.benign]
    moments += [moment for job in scenario.jobs for moment in (job.start, job.to) if moment]
    if not moments:
        return float(HISTORY_DUMPS * scenario.dump_interval)
    return max(0.0, min(moments) - LEAD_DUMPS * scenario.dump_interval)


def _site(scenario: Scenario, dump: int, sensitivity: Sensitivity) -> Site:
    keys: dict[str, Any] = {**scenario.site, "dump_interval": float(dump), "sensitivity": sensitivity.value}
    return config.site(keys, f"{scenario.name}: site")


def _actions(scenario: Scenario, injections: tuple[Injection, ...], begin: float, speed: float) -> Iterator[Action]:
    """What happens to programs, in seconds of the machine's clock since the beginning."""
    for event in scenario.events:
        if isinstance(event, ExporterGone):
            which = ("node_exporter", event.node)
        elif isinstance(event, PrometheusGone):
            which = ("prometheus", "")
        else:
            continue
        yield Action(max(0.0, (event.start - begin) / speed), "stop", *which)
        if np.isfinite(event.until):
            yield Action((event.until - begin) / speed, "start", *which)
    for each in injections:
        if each.fault in RESTARTS:
            yield Action(each.at, "restart", RESTARTS[each.fault])


def happenings(plan: Plan) -> Iterator[tuple[str, str, float, float]]:
    """Everything that happens in a plan: its name, its job, and begin and end in seconds after the beginning."""
    for event in plan.scenario.events:
        start, end = ((moment - plan.begin) / plan.speed for moment in (event.start, event.until))
        yield _named_event(event), event.job or plan.scenario.jobs[0].id, start, end
    for run in plan.runs:
        if run.job.to is not None:
            how = "is killed and leaves its files" if run.job.ends == "killed" else "ends"
            yield f"job {run.job.id} {how}", run.job.id, (run.job.to - plan.begin) / plan.speed, math.inf


def _named_event(event: Event) -> str:
    gpu = getattr(event, "gpu", None)
    places = (
        event.kind,
        event.job and f"of job {event.job}",
        getattr(event, "node", None),
        gpu is not None and f"GPU{gpu}",
    )
    return " ".join(part for part in places if part)
