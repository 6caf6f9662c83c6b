# SPDX-License-Identifier: Apache-2.0
"""Where incidents are looked for: what the rules recorded on a server, or raw series on which they are replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dashgen.catalogue.names import VERDICT
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.guard.text import counted
from dashgen.live.client.api import Prometheus
from dashgen.live.incidents.history import WARM_UP, Asked, Played, TooMuch, check_size, fetched, played
from dashgen.live.incidents.windows import Incident, incidents
from dashgen.recordings.format import read_samples, read_story, selector

MOST_JOBS = 20
"""Jobs whose rules are replayed where nobody names any: each takes seconds to minutes."""

AROUND = 900.0
"""Seconds after an incident that a review still shows."""


@dataclass(frozen=True)
class Found:
    """Incidents, and how the boards of each can be drawn: with the raw series and rules around it.

    ``replayed`` are jobs of which the server has no verdict, ``left_out`` those for which there was no time.
    """

    incidents: tuple[Incident, ...]
    around: Callable[[Incident], Played]
    replayed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know beside the incidents, a line each."""
        found = []
        if self.replayed:
            found.append(f"{', '.join(self.replayed)}: no verdict recorded; the rules were replayed on the raw series")
        if self.left_out:
            more = counted(len(self.left_out), "more job has", "more jobs have")
            found.append(f"{more} no verdict recorded; name them with --job to replay the rules on them")
        return tuple(found)


def in_recording(folder: Path, site: Site, jobs: Sequence[str]) -> Found:
    """The incidents of a recording made at this site. Raises UserError when it is damaged, or has no such job."""
    story, samples = read_story(folder), read_samples(folder)
    there = {dict(one.labels).get(site.labels.job) for one in samples} - {None}
    for job in jobs:
        if job not in there:
            raise UserError(f"{folder}: no series with {site.labels.job}={job!r}; check the job")
    if not there:
        raise UserError(f"{folder}: no series with the label {site.labels.job}; name the job's label in dashgen.yaml")
    made = played(story, samples, site)
    start, end = story.start.timestamp(), story.end.timestamp()
    return Found(tuple(incidents(made.history, site, start, end, jobs)), lambda _: made)


def on_server(
    server: Prometheus,
    site: Site,
    start: float,
    end: float,
    jobs: Sequence[str],
    replaying: Callable[[int, int], None] = lambda done, all: None,
) -> Found:
    """The incidents of jobs, or of all, in [start, end], in seconds since the epoch.

    ``replaying`` hears how many jobs are done of all on whose raw series the rules are replayed. Raises UserError as
    the server, and when it has nothing of a job that is named, or too much.
    """
    asked = Asked(server)
    matcher = f"{{{site.selector}}}" if site.selector else ""
    raw = f"{site.metric('busbw')}{matcher}"
    judged = {job for job in jobs if asked.series(VERDICT, start, end, {site.labels.job: job})}
    unjudged = [job for job in jobs if job not in judged]
    if not jobs:
        judged = set(server.label_values(site.labels.job, VERDICT, start, end))
        unjudged = [job for job in server.label_values(site.labels.job, raw, start, end) if job not in judged]
        unjudged = [job for job in unjudged if _there(server, site, job, start, end)]
        if not (judged or unjudged):
            what = f"no job has a verdict or {site.metric('busbw')} under the label {site.labels.job} in that time"
            raise UserError(f"{server.url}: {what}; check --start, --end and labels, or ask `dashgen doctor`")
    found = incidents(asked, site, start, end, jobs and sorted(judged)) if judged else []
    replayed, samples = [], 0
    chosen = unjudged if jobs else unjudged[:MOST_JOBS]
    for done, job in enumerate(chosen):
        replaying(done, len(chosen))
        raw_series = fetched(server, [job], start - WARM_UP, end, site)
        try:
            # Where nobody names jobs, all of them together have to be done in time.
            samples += 0 if jobs else sum(one.times.size for one in raw_series[1])
            check_size(samples)
            made = played(*raw_series, site)
        except TooMuch:
            if jobs:
                raise
            break
        found += incidents(made.history, site, start, end, [job])
        replayed.append(job)
    left_out = tuple(job for job in unjudged if job not in replayed)

    def around(one: Incident) -> Played:
        stop = min(end, one.end + AROUND)
        return played(*fetched(server, [one.job], one.start - WARM_UP, stop, site), site)

    return Found(tuple(sorted(found, key=lambda one: (one.start, one.job))), around, tuple(replayed), left_out)


def _there(server: Prometheus, site: Site, job: str, start: float, end: float) -> bool:
    """Whether a job has samples in that time; the index of a server knows only about when."""
    of_job = selector(site.metric("busbw"), {site.labels.job: job})
    return bool(server.instant(f"count(last_over_time({of_job}[{max(1, round(end - start))}s]))", end))
