# SPDX-License-Identifier: Apache-2.0
"""What all importers share: the report, a file's life as a scraper sees it, and writing a recording atomically."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dashgen.catalogue.metrics import upstream
from dashgen.errors import UserError
from dashgen.guard.text import counted, line
from dashgen.output import staging
from dashgen.recordings.format import (
    MOST_SAMPLES,
    MOST_SCRAPES,
    SAMPLES,
    STORY,
    Labels,
    Recording,
    Series,
    write_samples,
    write_story,
)
from dashgen.recordings.inspector import DUMP_INTERVAL, FILE_PREFIX

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in total."""

SCRAPE_INTERVAL = 15  # seconds, a usual node_exporter scrape interval
LONGEST_HOLD = 86400.0  # seconds that an unchanged file is held: one damaged time stamp must not fill the disk
JOB = "import"  # the `job` label of imported series
EXPORTER_PORT = 9100  # node_exporter's default port, in the `instance` label
TEXTFILE_DIRECTORY = "/var/lib/node_exporter/nccl_inspector"  # the directory that Inspector's README gives
MTIME = upstream("mtime")


class Damaged(Exception):
    """A record that cannot be used; the text is the reason that the report counts. Never leaves an importer."""


class TooMuch(Exception):
    """More than a recording may hold; the text says of what, and the remedy."""


def printable(text: object, longest: int) -> bool:
    """Whether Inspector could print it as a label value: it escapes nothing, so a quote would break its file."""
    return isinstance(text, str) and 0 < len(text) <= longest and text.isprintable() and not set(text) & {'"', "\\"}


@dataclass
class ImportReport:
    """What an import did with its input.

    ``skipped`` counts damaged records or files by reason; ``filtered`` counts sound ones that Prometheus mode does not
    show either; ``notes`` are things that a reader of the recording should know.
    """

    files: int = 0
    records: int = 0
    used: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The report for a person, one fact a line, most frequent reasons first."""
        text = [f"{counted(self.files, 'file')}, {counted(self.records, 'record')}, {self.used} used"]
        text += [f"skipped {count}: {reason}" for reason, count in self.skipped.most_common()]
        text += [f"left out {count}: {reason}" for reason, count in self.filtered.most_common()]
        return text + self.notes


def instance_of(node: str) -> str:
    """The ``instance`` label of a node's exporter."""
    return f"{node}:{EXPORTER_PORT}"


def mtime_labels(node: str, filename: str) -> Labels:
    """The labels of a textfile's mtime series, whose ``file`` is a full path as node_exporter prints it."""
    file = f"{TEXTFILE_DIRECTORY}/{filename}"
    return (("file", file), ("instance", instance_of(node)), ("job", JOB))


def textfile_name(gpu_uuid: str) -> str:
    """The name that Inspector gives to the file of a GPU; the UUID has no ``GPU-`` in front."""
    return f"{FILE_PREFIX}{gpu_uuid}.prom"


class Scrapes:
    """Collects what a scraper would have seen, series by series, on one grid of scrape times.

    A file is given as its dumps: when each was written and until when it stayed. Later additions to a series win.
    """

    def __init__(self, first: float, last: float, interval: int) -> None:
        """A grid of multiples of ``interval`` seconds over [first, last]."""
        start, stop = math.ceil(first / interval), max(math.ceil(first / interval), math.floor(last / interval))
        if stop - start > MOST_SCRAPES:
            days = (last - first) / 86400
            raise TooMuch(f"the time stamps span {days:.0f} days; import the files of one job at a time")
        self.interval = interval
        self.times: NDArray[np.float64] = np.arange(start, stop + 1, dtype=np.float64) * interval
        self._parts: dict[tuple[str, Labels], list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
        self._samples = 0

    def held(self, written: NDArray[np.float64], until: NDArray[np.float64]) -> NDArray[np.intp]:
        """For each scrape the index of the dump that the file held, or -1; ``written`` rises, ``until`` excludes."""
        index: NDArray[np.intp] = np.searchsorted(written, self.times, side="right") - 1
        index[(index >= 0) & (self.times >= until[index])] = -1
        return index

    def add(self, name: str, labels: Labels, held: NDArray[np.intp], values: NDArray[np.float64]) -> None:
        """Add a series of a file: ``values`` has one entry per dump, NaN where the dump did not have the series."""
        seen = values[np.maximum(held, 0)]
        there = (held >= 0) & ~np.isnan(seen)
        if there.any():
            self._samples += int(there.sum())
            if self._samples > MOST_SAMPLES:
                raise TooMuch(f"more than {MOST_SAMPLES} samples; import the files of one job, or of fewer GPUs")
            self._parts.setdefault((name, labels), []).append((self.times[there], seen[there]))

    def series(self) -> list[Series]:
        """All series, in the order of names and labels."""
        return [Series(name, labels, *_merged(parts)) for (name, labels), parts in sorted(self._parts.items())]


def _merged(
    parts: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part[0] for part in reversed(parts)])
    values = np.concatenate([part[1] for part in reversed(parts)])
    unique, first = np.unique(times, return_index=True)
    return unique, values[first]


def until_next(written: NDArray[np.float64], interval: float = DUMP_INTERVAL) -> NDArray[np.float64]:
    """Until when each dump stayed in the file: the next dump, and one interval for the last, which ended the job."""
    until: NDArray[np.float64] = written + LONGEST_HOLD
    until[:-1] = np.minimum(until[:-1], written[1:])
    until[-1] = written[-1] + interval
    return until


def imported(scrapes: Scrapes, story: str, made_by: str) -> tuple[Recording, list[Series]]:
    """The recording of imported series; its span is that of the samples."""
    series = scrapes.series()
    if not series:
        raise UserError(f"{made_by}: no usable record; expected dumps of NCCL Inspector 2.28 or newer")
    first = min(float(one.times[0]) for one in series)
    last = max(float(one.times[-1]) for one in series)
    recording = Recording(
        format=1,
        story=story,
        source="imported",
        # A path that is not UTF-8 can be read, but not be written down.
        made_by=made_by.encode("utf-8", "backslashreplace").decode(),
        start=datetime.fromtimestamp(first, UTC),
        end=datetime.fromtimestamp(max(last, first + scrapes.interval), UTC),
        scrape_interval=scrapes.interval,
    )
    return recording, series


def sorted_labels(labels: Mapping[str, str]) -> Labels:
    """Labels as a recording keeps them; an empty value is no label, as in Prometheus."""
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def save(folder: Path, recording: Recording, series: Sequence[Series]) -> None:
    """Write a recording, which takes the place of an older one at once, and never of anything else.

    Raises UserError.
    """
    check_writable(folder)
    target = folder.absolute()
    try:
        staging.sweep(target)
        with staging.folder(target) as made:
            write_story(made, recording)
            write_samples(made, series)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the recording: {error.strerror or error}; choose --output") from error


def check_writable(folder: Path) -> None:
    """Raise UserError when ``folder`` exists and holds something else than a recording."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UserError(f"{folder}: is not a folder; choose another --output")
    try:
        _check_recording(folder)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; choose another --output") from error


def _check_recording(folder: Path) -> None:
    if folder.is_dir():
        foreign = sorted({each.name for each in folder.iterdir()} - {STORY, SAMPLES})
        if foreign:
            raise UserError(
                f"{folder}: holds {line(foreign[0], 60)}, so it is not a recording; choose another --output"
            )
