# SPDX-License-Identifier: Apache-2.0
"""Recordings judged: what packs made of samples whose truth is known."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dashgen.build import evaluated_every
from dashgen.catalogue.metrics import METRICS
from dashgen.catalogue.metrics.inspector import INSPECTOR
from dashgen.config import site as config
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import ExpressionError, check_rules, evaluate
from dashgen.engine.workers import pool
from dashgen.errors import UserError
from dashgen.guard.text import counted
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.validation.cases import SIGNALS, Case, Job, job_of
from dashgen.validation.judge import Verdict, verdict
from dashgen.validation.packs import Packs, apart
from dashgen.validation.spans import Span

GHOST = 7200.0
"""Seconds after a job's last sample from which on nothing of it may be left."""

_LEFT = "(job|gpu|node|peer):.*"


@dataclass(frozen=True)
class Engine:
    """What evaluates rules: the program of the engine, or promtool where there is none (None).

    With ``offsets`` targets and groups have moments of their own, which promtool cannot do.
    """

    program: str | None
    offsets: bool

    @property
    def name(self) -> str:
        """What to call it."""
        return "promtool" if self.program is None else "dashgen-replay"

    def check(self, packs: Packs) -> None:
        """Raise UserError with the first thing that is wrong with rule files of anybody's."""
        if packs.files is None:
            return
        if self.program is not None:
            engine.check(self.program, packs.files)
            return
        for finding in check_rules(packs.files, lint=False):
            raise UserError(f"{finding}; mend the rule file")


@dataclass(frozen=True, kw_only=True)
class Judged(Verdict):
    """What packs made of a recording.

    ``world`` is the folder that it belongs to. ``ghosts`` are series that are left two hours after their job, None
    where the engine cannot tell; ``errors`` say which rule failed and why, ``seconds`` is the time of evaluation.
    """

    world: str
    name: str
    seconds: float
    ghosts: int | None
    errors: tuple[str, ...]


def judge_all(
    recordings: Sequence[tuple[str, Path, config.Site]],
    packs: Packs,
    using: Engine,
    step: Callable[[str], None] = lambda name: None,
    workers: int | None = None,
) -> list[Judged]:
    """Judge recordings, each with its world and its site, in their order; ``step`` hears of every one that is done.

    Raises UserError as ``judge_one``.
    """
    number = min(len(recordings), workers or os.cpu_count() or 1)
    judge = partial(judge_one, packs=packs, using=using)
    if number <= 1:
        return list(_told(map(judge, recordings), step))
    with pool(number) as made:
        return list(_told(made.map(judge, recordings), step))


def _told(found: Iterable[Judged], step: Callable[[str], None]) -> Iterator[Judged]:
    for each in found:
        step(each.name)
        yield each


def judge_one(recording: tuple[str, Path, config.Site], packs: Packs, using: Engine) -> Judged:
    """Judge one recording. Raises UserError when it is damaged, or too large for the engine."""
    world, folder, site = recording
    story, samples = read_story(folder), read_samples(folder)
    here = presence(story, samples, site)
    evidence = any(one.name.startswith("DCGM_") for one in samples)
    # The file of a killed job stays where it is.
    case = Case(story, site.labels, here, evidence, sick=frozenset(SIGNALS) | {"kill"})
    began = time.monotonic()
    files = packs.at(site)
    ghosts, errors = None, []
    if using.program is None:
        start, end = story.start.timestamp(), story.end.timestamp()
        try:
            every = int(evaluated_every(site))
            found = evaluate(apart(files), samples, start, end, every, story.scrape_interval, "ALERTS")
            alerts = found.alerts
        except ExpressionError as error:
            alerts, errors = [], [str(error)]
        seconds = time.monotonic() - began
    else:
        outcome = _replay(using, files, story, samples, site, min(map(_end, here.values()), default=0.0) + GHOST)
        alerts = outcome.alerts
        ghosts = left(outcome, here, site.labels)
        seconds = sum(rule.seconds for rule in outcome.rules)
        failed = (one for one in outcome.rules if one.failures)
        errors = [f"{one.rule}: fails {counted(one.failures, 'time')}: {one.message}" for one in failed]
    found_out = verdict(case, alerts, packs.names, packs.unnamed)
    return Judged(
        world=world,
        name=folder.name,
        seconds=seconds,
        ghosts=ghosts,
        errors=tuple(errors),
        healthy_hours=found_out.healthy_hours,
        incidents=found_out.incidents,
        alarms=found_out.alarms,
    )


def _replay(
    using: Engine,
    files: Mapping[str, str],
    story: Recording,
    samples: Sequence[Series],
    site: config.Site,
    since: float,
) -> engine.Outcome:
    assert using.program is not None
    moments = engine.Moments.of(story, evaluated_every(site), offsets=using.offsets)
    return engine.replay(using.program, files, samples, moments, _LEFT if since <= moments.end else "", since)


def _end(spans: Sequence[Span]) -> float:
    return spans[-1][1]


def presence(story: Recording, samples: Iterable[Series], site: config.Site) -> dict[Job, list[Span]]:
    """When Inspector wrote of which job, in seconds since the epoch; a scrape stands for its interval."""
    inspector = {site.metric(metric.key) for metric in METRICS if metric.source == INSPECTOR}
    times: dict[Job, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for one in samples:
        if one.name in inspector and (job := job_of(dict(one.labels), site.labels)) is not None:
            times.setdefault(job, []).append(one.times)
    step = float(story.scrape_interval)
    spans: dict[Job, list[Span]] = {}
    for job, columns in times.items():
        seen = np.unique(np.concatenate(columns))
        ends = np.flatnonzero(np.diff(seen, append=np.inf) > 1.5 * step)
        starts = [0, *(ends[:-1] + 1).tolist()]
        spans[job] = [(float(seen[a]), float(seen[b]) + step) for a, b in zip(starts, ends.tolist(), strict=True)]
    return spans


def left(outcome: engine.Outcome, here: Mapping[Job, Sequence[Span]], names: config.Labels) -> int:
    """How many series the rules still make two hours after the last sample of their job, or of all jobs."""
    if not here:
        return 0
    last = max(map(_end, here.values()))
    made = [(dict(one.labels), float(one.times[-1])) for one in outcome.series]
    made += [
        (dict(one.labels), max(end for _, end in spans))
        for one in outcome.alerts
        for spans in (one.pending, one.firing)
        if spans
    ]
    count = 0
    for labels, until in made:
        job = job_of(labels, names)
        gone = last if job is None else _end(here.get(job, [(0.0, last)]))
        count += until > gone + GHOST
    return count
