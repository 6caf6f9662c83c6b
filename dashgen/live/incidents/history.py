# SPDX-License-Identifier: Apache-2.0
"""What the rules recorded of jobs: asked of a server, or made from raw series where the rules were not loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np

from dashgen import build
from dashgen.config.site import Site
from dashgen.engine import evaluated as replay
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import Evaluation, Firing
from dashgen.errors import UserError
from dashgen.live.client.api import Prometheus
from dashgen.live.recorder.fetch import Fetcher
from dashgen.live.recorder.record import fetch, gridded, own_step
from dashgen.live.recorder.selection import UP
from dashgen.recordings.format import Recording, Series, selector
from dashgen.validation import packs

WARM_UP = 3600.0
"""Seconds before what is asked for that rules are replayed over: what a job is used to takes a quarter of an hour, and
one that has just learned it is judged more carefully."""

MOST_REPLAYED = 3_000_000
"""Samples on which promtool replays the rules: a day of 20 GPUs, five minutes of a processor and more than 1 GB."""

_PIECE = 6 * 3600.0  # seconds of recorded series in one answer; there are few, and one sample a dump
_OURS = "(job|peer|gpu|node):.*"


class History(Protocol):
    """Series that rules recorded, ``ALERTS`` among them; only finite samples."""

    def series(self, name: str, start: float, end: float, labels: Mapping[str, str]) -> list[Series]:
        """The samples in [start, end], in seconds since the epoch, of the series of a name with these labels."""


class Asked:
    """The history that a server keeps."""

    def __init__(self, server: Prometheus) -> None:
        self._server = server

    def series(self, name: str, start: float, end: float, labels: Mapping[str, str]) -> list[Series]:
        """See ``History``; raises UserError as the server."""
        found = Fetcher(self._server, start, end, None, None, _PIECE)([selector(name, labels)])
        # A server may answer with more than it was asked for.
        return AtHand(Series(*key, *samples) for key, samples in found.items()).series(name, start, end, labels)


class AtHand:
    """A history in memory."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._by_name: dict[str, list[Series]] = {}
        for one in series:
            self._by_name.setdefault(one.name, []).append(one)

    def series(self, name: str, start: float, end: float, labels: Mapping[str, str]) -> list[Series]:
        """See ``History``."""
        found = []
        for one in self._by_name.get(name, ()):
            inside = (one.times >= start) & (one.times <= end) & np.isfinite(one.values)
            if labels.items() <= dict(one.labels).items() and inside.any():
                found.append(Series(one.name, one.labels, one.times[inside], one.values[inside]))
        return found


class TooMuch(UserError):
    """There are more samples than rules are replayed on in an acceptable time."""


def check_size(samples: int) -> None:
    """Raise TooMuch for more samples than promtool should replay rules on."""
    if samples > MOST_REPLAYED:
        raise TooMuch(
            f"{samples / 1e6:.1f} million samples are more than the {MOST_REPLAYED / 1e6:g} million on which rules are "
            "replayed; ask for a shorter time, or load the rules so that their verdict is recorded"
        )


@dataclass(frozen=True)
class Played:
    """Rules replayed on raw series: as a history, and for drawing boards."""

    replay: replay.Replay
    history: AtHand


def played(story: Recording, samples: Sequence[Series], site: Site) -> Played:
    """What this site's rules make of raw series, with the alerts of its tier.

    Raises TooMuch when there are too many for promtool and the rule engine is not there, UserError when the rules
    cannot be evaluated.
    """
    program = engine.engine()
    if program is None:
        check_size(sum(one.times.size for one in samples))
        made = replay.replay(build.bundle(site, [site.sensitivity]), story, samples, [site.sensitivity])
        return Played(made, AtHand(made.series))
    every = build.evaluated_every(site)
    moments = engine.Moments.of(story, every, offsets=False)
    outcome = engine.replay(program, packs.own([site.sensitivity]).at(site), samples, moments, _OURS, moments.start)
    alerts = list(_alerts(outcome.alerts, every))
    result = Evaluation(outcome.series, outcome.alerts, alerts)
    series = (*samples, *outcome.series, *alerts)
    return Played(replay.Replay(story, int(every), result, series, 0.0), AtHand(series))


def fetched(
    server: Prometheus, jobs: Sequence[str], start: float, end: float, site: Site
) -> tuple[Recording, list[Series]]:
    """The raw series of jobs that a server has, as a recording that is not written down.

    Raises UserError when the server has nothing of the jobs.
    """
    known = {*build.exposed(site), UP}
    raw = {key: samples for key, samples in fetch(server, jobs, start, end, site).items() if key[0] in known}
    if not any(site.labels.job in dict(labels) for _, labels in raw):
        what = f"nothing of these jobs is known to the catalogue under the label {site.labels.job}"
        raise UserError(f"{server.url}: {what}; check the labels, or ask `dashgen doctor`")
    step = own_step(raw, site)
    samples = gridded(raw, step)
    story = Recording(
        format=1,
        story=f"Job {', '.join(jobs)} as a live Prometheus recorded it.",
        source="recorded",
        made_by=f"dashgen incidents --prometheus {server.url}",
        start=datetime.fromtimestamp(start // step * step, UTC),
        end=datetime.fromtimestamp(end // step * step + step, UTC),
        scrape_interval=step,
    )
    return story, samples


def _alerts(firings: Iterable[Firing], interval: float) -> Iterator[Series]:
    """``ALERTS`` as a server would have recorded it."""
    for one in firings:
        for state, spans in (("pending", one.pending), ("firing", one.firing)):
            times = np.concatenate([np.arange(begin, stop, interval) for begin, stop in spans] or [np.empty(0)])
            labels: Mapping[str, str] = {**dict(one.labels), "alertname": one.alert, "alertstate": state}
            if times.size:
                yield Series("ALERTS", tuple(sorted(labels.items())), times, np.ones(times.size))
