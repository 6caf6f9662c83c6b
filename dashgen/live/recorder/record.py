# SPDX-License-Identifier: Apache-2.0
"""Record jobs from a live Prometheus, or anything that speaks its HTTP API.

Only what the jobs need is fetched: their own series, and of their machines those that the rules and boards read. Raw
samples come from instant queries of range selectors, so that their own timestamps are known; then every series is put
on the recording's scrape grid. What was fetched before an interruption is not fetched again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.live.client.api import Key, Prometheus, Samples
from dashgen.live.recorder.fetch import Fetcher, forget
from dashgen.live.recorder.grid import on_grid, rhythms
from dashgen.live.recorder.selection import beside, further, of_jobs
from dashgen.recordings.format import MOST_SCRAPES, Recording, Series
from dashgen.recordings.importing import SCRAPE_INTERVAL, ImportReport, Progress, check_writable, save
from dashgen.recordings.pseudonyms import Pseudonyms


def record(
    server: Prometheus,
    jobs: Sequence[str],
    start: datetime,
    end: datetime,
    *,
    out: Path,
    site: Site,
    step: int | None = None,
    pseudonyms: bool = False,
    extra: Iterable[str] = (),
    progress: Progress | None = None,
) -> tuple[Recording, list[Series], ImportReport]:
    """Record the series of jobs in [start, end] into the folder ``out``.

    ``step`` is the recording's scrape interval in seconds, by default the one of the jobs' own series. ``extra`` are
    further metrics: a bare name is narrowed to the jobs, a selector is taken as it is. With ``pseudonyms`` no host,
    job, GPU or communicator keeps its name. What was fetched waits beside ``out`` until the recording is whole. Raises
    UserError when the server cannot be used or has nothing of the jobs, and where ``out`` holds something else.
    """
    first, last = start.timestamp(), end.timestamp()
    if last <= first:
        raise UserError(f"end {end.isoformat()} is not after start {start.isoformat()}")
    if (last - first) / (step or SCRAPE_INTERVAL) > MOST_SCRAPES:
        raise UserError(f"{(last - first) / 86400:.0f} days are too long for one recording; record a shorter time")
    check_writable(out)
    kept = out.absolute().with_name(f".{out.absolute().name}.pieces")
    fetched = fetch(server, jobs, first, last, site, kept=kept, extra=extra, progress=progress)
    report = ImportReport(records=sum(len(times) for times, _ in fetched.values()))
    step = step or own_step(fetched, site)
    series = gridded(fetched, step)
    report.used = sum(len(one.times) for one in series)
    told = list(jobs)
    if pseudonyms:
        alias = Pseudonyms(site)
        series, told = alias.series(series), [alias.job(job) for job in jobs]
    flags = " ".join([*(["--pseudonyms"] if pseudonyms else []), *(f"--job {job}" for job in told)])
    recording = Recording(
        format=1,
        story=f"Job{'s' if len(told) > 1 else ''} {', '.join(told)} as a live Prometheus recorded it.",
        source="recorded",
        made_by=f"dashgen record {flags}" + ("" if pseudonyms else f" --prometheus {server.url}"),
        start=datetime.fromtimestamp(math.floor(first / step) * step, UTC),
        end=datetime.fromtimestamp(math.ceil(last / step) * step + step, UTC),
        scrape_interval=step,
        site=_names(site, pseudonyms),
    )
    save(out, recording, series)
    forget(kept)
    return recording, series, report


def fetch(
    server: Prometheus,
    jobs: Sequence[str],
    first: float,
    last: float,
    site: Site,
    *,
    kept: Path | None = None,
    extra: Iterable[str] = (),
    progress: Progress | None = None,
) -> dict[Key, Samples]:
    """All samples of the jobs' series in [first, last], in seconds since the epoch, as they were scraped.

    Raises UserError when there is nothing of the jobs, and before anything is asked for what ``extra`` cannot be.
    """
    more = further(extra, jobs, site)
    get = Fetcher(server, first, last, kept, progress)
    own = get([of_jobs(jobs, site)])
    seen = {dict(labels).get(site.labels.job) for _, labels in own}
    for job in jobs:
        if job not in seen:
            if kept is not None:
                # Nothing of them is of use to a recording of what is there.
                forget(kept)
            what = f"no series of Inspector with {site.labels.job}={job!r} in that time"
            raise UserError(f"{server.url}: {what}; check job, label and time, or ask `dashgen doctor`")
    return {**own, **get(beside(own, jobs, site) + more)}


def own_step(fetched: dict[Key, Samples], site: Site) -> int:
    """The scrape interval of the jobs' own series, in whole seconds."""
    rhythm_of = rhythms(fetched)
    spacings = [rhythm_of[key].spacing for key in fetched if site.labels.job in dict(key[1])]
    return max(1, round(float(np.median(spacings))))


def gridded(fetched: dict[Key, Samples], step: int) -> list[Series]:
    """Series on multiples of ``step`` seconds; what was fetched is used up, so that it is not held twice."""
    rhythm_of = rhythms(fetched)
    return [Series(*key, *on_grid(*fetched.pop(key), rhythm_of[key], step)) for key in sorted(fetched)]


def _names(site: Site, pseudonyms: bool) -> dict[str, object]:
    """How the site names things, so that the recording is understood without its dashgen.yaml."""
    keys = {"labels", "metrics", "dump_interval", "companions", "selector"}
    found = site.model_dump(mode="json", exclude_defaults=True, include=keys)
    if pseudonyms:
        # What may hold a name of the site, or ask for one.
        found.pop("selector", None)
        for companion, key in (("throughput", "expr"), ("textfile", "file_regex"), ("host_network", "device_regex")):
            found.get("companions", {}).get(companion, {}).pop(key, None)
    return found
