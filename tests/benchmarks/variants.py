# SPDX-License-Identifier: Apache-2.0
"""Recordings as another site would have made them of the same jobs, to judge rules on what they were not chosen on.

Run: python tests/benchmarks/variants.py RECORDINGS -o DIR [--rarer N] [--scraped N] [--slower N] [--longer N]
     [--repeated N] [--without PREFIX ...]

What is asked for is done in this order, to every recording below a folder. Nothing is invented: samples are left out,
moved or repeated, and the truth with them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.recordings.format import Fault, Recording, Series, read_samples, read_story, write_samples, write_story

SETTLED = 600.0
"""Seconds after which a job has begun: what comes before is not repeated."""
AROUND = 120.0
"""Seconds around the beginning of a fault that are not repeated, and half of it at its end."""


class Made(NamedTuple):
    """A recording in memory."""

    story: Recording
    series: list[Series]


@dataclass(frozen=True)
class _Piece:
    """Seconds of a recording, from its start, and by how much they are moved."""

    begin: float
    end: float
    moved: float


def without(made: Made, prefixes: tuple[str, ...]) -> Made:
    """The recording of a site that lacks the metrics whose names begin so, a throughput among them."""
    site = dict(made.story.site)
    throughput = config.site(site, "recording").companions.throughput.metric
    if throughput and throughput.startswith(prefixes):
        site["companions"] = {key: value for key, value in site.get("companions", {}).items() if key != "throughput"}
    series = [one for one in made.series if not one.name.startswith(prefixes)]
    return Made(made.story.model_copy(update={"site": site}), series)


def scraped(made: Made, each: int) -> Made:
    """The recording of a Prometheus that scrapes so many times more rarely."""
    interval = made.story.scrape_interval
    begin = made.story.start.timestamp()
    thinned = (_kept(one, np.round((one.times - begin) / interval) % each == 0) for one in made.series)
    story = made.story.model_copy(update={"scrape_interval": interval * each})
    return Made(story, [one for one in thinned if one.times.size])


def rarer(made: Made, each: int) -> Made:
    """The recording of a job that dumps so many times more rarely: files keep what they said in between.

    Each file has a moment of its own, so what is kept is chosen by the clock and not by counting.
    """
    site = config.site(made.story.site, "recording")
    files: dict[tuple[str | None, ...], list[Series]] = defaultdict(list)
    others = []
    for one in made.series:
        labels = dict(one.labels)
        if one.name == upstream("mtime") or one.name.startswith("nccl_"):
            of = (labels.get(key) for key in ("instance", "file", "gpu", site.labels.job))
            files[(one.name, *of)].append(one)
        else:
            others.append(one)
    begin = made.story.start.timestamp()
    held = [found for listed in files.values() for found in _held(listed, begin, site.dump_interval, each)]
    return Made(made.story.model_copy(update={"site": _dumping(made.story, each)}), others + held)


def _held(file: list[Series], begin: float, dump: float, each: int) -> Iterator[Series]:
    """The series of one file, which is rewritten in each n-th dump only."""
    grid = np.unique(np.concatenate([one.times for one in file]))
    said = np.full((len(file), len(grid)), np.nan)
    for row, one in enumerate(file):
        said[row, np.searchsorted(grid, one.times)] = one.values
    # A file that is torn for a scrape has not changed.
    change = np.append(True, (np.abs(np.diff(said, axis=1)) > 0).any(axis=0))
    number = np.cumsum(change) - 1
    first = np.flatnonzero(change)
    kept = np.floor((grid[first] - begin) / dump) % each == 0
    kept[0] = True
    last = np.maximum.accumulate(np.where(kept, np.arange(len(first)), 0))[number]
    for row, one in enumerate(file):
        # Whatever a dump says at any of its scrapes.
        content = np.array([_said(part) for part in np.split(said[row], first[1:])])[last]
        there = ~np.isnan(content)
        if there.any():
            yield replace(one, times=grid[there], values=content[there])


def _said(part: NDArray[np.float64]) -> float:
    known = part[~np.isnan(part)]
    return float(known[0]) if known.size else np.nan


def slower(made: Made, factor: int) -> Made:
    """The recording of a site where everything takes so many times as long: steps, dumps, scrapes and faults."""
    start = made.story.start
    begin = start.timestamp()

    def later(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return begin + factor * (times - begin)

    series = [
        replace(one, times=later(one.times), values=later(one.values) if one.name == upstream("mtime") else one.values)
        for one in made.series
    ]
    faults = tuple(
        each.model_copy(update={key: start + factor * (getattr(each, key) - start) for key in ("start", "end")})
        for each in made.story.faults
    )
    update = {
        "end": start + factor * (made.story.end - start),
        "scrape_interval": factor * made.story.scrape_interval,
        "site": _dumping(made.story, factor),
        "faults": faults,
    }
    return Made(made.story.model_copy(update=update), series)


def longer(made: Made, times: int) -> Made:
    """The recording of a job that is healthy so many times as long, and then sick so many times as long.

    Only of a recording with one fault at most. Counters go on rising.
    """
    story, begin = made.story, made.story.start.timestamp()
    if len(story.faults) > 1:
        return made
    pieces = list(_pieces(story, times))
    return _made_of(made, pieces, tuple(_moved(fault, pieces, begin) for fault in story.faults))


def repeated(made: Made, times: int) -> Made:
    """The recording of a job to which everything happens so many times, as when it is always started again.

    Only of a recording with one job, which has begun before anything happens. Counters go on rising.
    """
    story, begin = made.story, made.story.start.timestamp()
    jobs = {dict(one.labels).get(config.site(story.site, "recording").labels.job) for one in made.series} - {None}
    seam = _whole(story, (story.end - story.start).total_seconds() - AROUND / 2)
    settled, last = (story.start + timedelta(seconds=seconds) for seconds in (SETTLED, seam))
    if len(jobs) > 1 or any(not settled <= fault.start < last for fault in story.faults):
        return made
    faults = [fault.model_copy(update={"end": min(fault.end, last)}) for fault in story.faults]
    pieces = [_Piece(SETTLED, seam, turn * (seam - SETTLED)) for turn in range(times)]
    moved = tuple(_moved(fault, [piece], begin) for piece in pieces for fault in faults)
    return _made_of(made, [_Piece(0.0, SETTLED, 0.0), *pieces], moved)


def _made_of(made: Made, pieces: Sequence[_Piece], faults: tuple[Fault, ...]) -> Made:
    """The recording that these pieces of another make, one after the other."""
    story, begin = made.story, made.story.start.timestamp()
    series = [found for one in made.series if (found := _laid(one, pieces, begin)).times.size]
    end = story.start + timedelta(seconds=pieces[-1].end + pieces[-1].moved)
    return Made(story.model_copy(update={"end": end, "faults": faults}), series)


def _whole(story: Recording, cut: float) -> float:
    """A moment after whole dumps and scrapes, so that a file is as old after a seam as before."""
    whole = math.lcm(int(config.site(story.site, "recording").dump_interval), story.scrape_interval)
    return float(round(cut / whole) * whole)


def _pieces(story: Recording, times: int) -> Iterator[_Piece]:
    """What follows what."""
    begin, end = story.start.timestamp(), (story.end - story.start).total_seconds()
    cuts = [SETTLED, end - AROUND]
    if story.faults:
        [fault] = story.faults
        sick, well = fault.start.timestamp() - begin, fault.end.timestamp() - begin
        cuts = [SETTLED, sick - AROUND / 2, sick + AROUND, min(well, end) - AROUND / 2]
    edges = [_whole(story, cut) for cut in cuts]
    at = 0.0
    for place, (first, last) in enumerate(zip([0.0, *edges], [*edges, end], strict=True)):
        if last <= first:
            continue
        for _ in range(times if place % 2 else 1):
            yield _Piece(first, last, at - first)
            at += last - first


def _laid(one: Series, pieces: Iterable[_Piece], begin: float) -> Series:
    seconds = one.times - begin
    times, values, risen, before = [], [], 0.0, -np.inf
    for piece in pieces:
        inside = (seconds >= piece.begin) & (seconds < piece.end)
        if not inside.any():
            continue
        part = one.values[inside]
        if one.name.endswith("_total"):
            risen = max(risen, before - part[0])
            part = part + risen
            before = part[-1]
        elif one.name == upstream("mtime"):
            part = part + piece.moved
        times.append(one.times[inside] + piece.moved)
        values.append(part)
    return replace(one, times=np.concatenate([np.empty(0), *times]), values=np.concatenate([np.empty(0), *values]))


def _moved(fault: Fault, pieces: Sequence[_Piece], begin: float) -> Fault:
    """The fault from its beginning in the first piece that holds it to its end in the last."""
    start, end = (moment.timestamp() - begin for moment in (fault.start, fault.end))
    first = next(piece.moved for piece in pieces if piece.begin <= start < piece.end)
    last = [piece.moved for piece in pieces if piece.begin < end][-1]
    return fault.model_copy(
        update={"start": fault.start + timedelta(seconds=first), "end": fault.end + timedelta(seconds=last)}
    )


def _dumping(story: Recording, factor: int) -> dict[str, object]:
    """The keys of a site whose jobs dump so many times more rarely."""
    dump = config.site(story.site, "recording").dump_interval
    return {**story.site, "dump_interval": f"{dump * factor:g}s"}


def _kept(one: Series, which: NDArray[np.bool_]) -> Series:
    return replace(one, times=one.times[which], values=one.values[which])


CHANGES: Mapping[Callable[[Made, int], Made], str] = {
    rarer: "dumps are so many times rarer",
    scraped: "scrapes are so many times rarer",
    slower: "everything takes so many times as long",
    longer: "health and sickness last so many times as long",
    repeated: "everything happens so many times",
}


def main() -> int:
    """Write the variants that were asked for."""
    parser = argparse.ArgumentParser(description="Write recordings as another site would have made them.")
    parser.add_argument("recordings", type=Path, help="the folder of the recordings")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder of their variants")
    parser.add_argument("--without", nargs="+", default=(), metavar="PREFIX", help="metrics that the site lacks")
    for change, what in CHANGES.items():
        parser.add_argument(f"--{change.__name__}", type=int, default=1, metavar="N", help=f"{what} (default: 1)")
    given = parser.parse_args()

    for file in sorted(given.recordings.glob("*/recording.yaml")):
        made = Made(read_story(file.parent), read_samples(file.parent))
        if given.without:
            made = without(made, tuple(given.without))
        for change in CHANGES:
            if (factor := getattr(given, change.__name__)) > 1:
                made = change(made, factor)
        target = given.output / file.parent.name
        target.mkdir(parents=True, exist_ok=True)
        write_samples(target, made.series)
        write_story(target, made.story)
        print(target.name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
