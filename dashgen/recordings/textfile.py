# SPDX-License-Identifier: Apache-2.0
"""Import copies of Inspector's ``.prom`` files, taken from time to time, as a recording.

When a copy was taken is read from its path: from the file name (``<name>.<time>.prom`` or ``<name>.prom.<time>``),
else from the nearest folder whose name is a time (``<time>/<name>.prom``), else it is the file's modification time.
A time is seconds or milliseconds since the epoch, or ISO 8601 with or without separators, in UTC unless it says
otherwise. A folder named by a time is a snapshot of the whole directory: a file that the next snapshot lacks was gone.

A file is taken or refused as a whole, as node_exporter does (collector/textfile.go): a torn last line, a client
timestamp or an unescaped quote costs the file at that moment, which then has no modification time either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from dashgen.catalogue.metrics.inspector import OLD, OLD_LABEL
from dashgen.errors import UserError
from dashgen.guard.files import opened
from dashgen.guard.text import counted
from dashgen.recordings.format import EARLIEST, LATEST, Labels, Recording, Series
from dashgen.recordings.importing import (
    JOB,
    LONGEST_HOLD,
    MTIME,
    SCRAPE_INTERVAL,
    Damaged,
    ImportReport,
    Progress,
    Scrapes,
    TooMuch,
    imported,
    instance_of,
    mtime_labels,
    sorted_labels,
    until_next,
)
from dashgen.recordings.inspector import DUMP_INTERVAL, UNKNOWN

LARGEST_FILE = 4 << 20  # bytes; Inspector writes some kB per communicator
MOST_SERIES = 150_000  # of all files together; they take some 300 MB while they are read
_RESERVED = ("instance", "job")  # labels that the scrape sets; Prometheus prefixes a file's own with exported_

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_EPOCH = re.compile(r"\d{10}(\.\d+)?|\d{13}")
_ISO = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_](\d\d)[-:]?(\d\d)[-:]?(\d\d)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?")

Key = tuple[str, Labels]


@dataclass(frozen=True)
class _Copy:
    """One copy of one textfile: ``root`` holds the snapshot folders, or is None when the file itself has a time."""

    path: Path
    name: str
    root: tuple[str, ...] | None
    where: tuple[str, ...]
    time: float


@dataclass
class _History:
    """What one textfile held, copy by copy."""

    written: list[float] = field(default_factory=list)
    until: list[float] = field(default_factory=list)
    mtimes: list[float] = field(default_factory=list)
    columns: dict[Key, dict[int, float]] = field(default_factory=dict)
    node: str = UNKNOWN


def import_textfile(
    path: Path, *, scrape_interval: int = SCRAPE_INTERVAL, progress: Progress | None = None
) -> tuple[Recording, list[Series], ImportReport]:
    """Import the copies of ``.prom`` files under a folder; see the module for how they are named.

    Raises UserError when nothing usable is found, or when the files are of NCCL 2.29, whose series cannot be used.
    """
    copies = sorted(_copies(path), key=lambda one: (one.where, one.name, one.time))
    if not copies:
        raise UserError(f"{path}: no *.prom file; give a folder of copies of Inspector's textfiles")
    report = ImportReport(files=len(copies))
    histories: dict[tuple[tuple[str, ...], str], _History] = {}
    following = _following(copies)
    done, total = 0, sum(one.path.stat().st_size for one in copies)
    text, series = "", 0
    for one in copies:
        history = histories.get((one.where, one.name))
        if history is None:
            history = histories[one.where, one.name] = _History()
            text = ""
        elif one.time == history.written[-1]:
            report.skipped["two copies of one file at one time"] += 1
            continue
        before = len(history.columns)
        text = _take(one, history, following, text, report)
        series += len(history.columns) - before
        if series > MOST_SERIES:
            raise UserError(f"{path}: more than {MOST_SERIES} series; import the files of one job at a time")
        done += one.path.stat().st_size
        if progress:
            progress(done, total)
    try:
        return *_recording(path, histories, scrape_interval, report), report
    except TooMuch as error:
        raise UserError(f"{path}: {error}") from error


def _copies(path: Path) -> Iterator[_Copy]:
    if not path.is_dir():
        raise UserError(f"{path}: not a folder; give a folder of copies of Inspector's textfiles")
    for file in path.rglob("*"):
        pieces = file.name.split(".")
        if "prom" not in pieces[1:] or not file.is_file():
            continue
        times = [_moment(piece) for piece in pieces]
        own = next((time for time in reversed(times) if time is not None), None)
        name = ".".join(piece for piece, time in zip(pieces, times, strict=True) if time is None)
        if not name.endswith(".prom"):
            continue
        folders = file.relative_to(path.parent).parts[:-1] if own is None else file.relative_to(path).parts[:-1]
        dated = next((at for at in reversed(range(len(folders))) if own is None and _moment(folders[at])), None)
        if own is not None or dated is None:
            yield _Copy(file, name, None, folders, own if own is not None else _modified(file))
        else:
            time = _moment(folders[dated])
            assert time is not None
            yield _Copy(file, name, folders[:dated], (*folders[:dated], "", *folders[dated + 1 :]), time)


def _modified(file: Path) -> float:
    """When a copy was made, by the file system. Raises UserError for a time that no copy can have."""
    time = file.stat().st_mtime
    if not EARLIEST <= time <= LATEST:
        raise UserError(
            f"{file}: its modification time is lost, so nobody knows when it was copied; name its folder by the time, "
            "as in 20260319T144000Z"
        )
    return time


def _moment(text: str) -> float | None:
    """The time that a part of a path names, in seconds since the epoch, or None when it is no time."""
    if _EPOCH.fullmatch(text):
        time = float(text) / (1000 if len(text) == 13 and "." not in text else 1)
    elif match := _ISO.fullmatch(text):
        zone = (match[7] or "Z").replace(":", "").replace("Z", "+0000")
        try:
            time = datetime.strptime("".join(match.groups()[:6]) + zone, "%Y%m%d%H%M%S%z").timestamp()
        except ValueError:
            return None
    else:
        return None
    return time if EARLIEST <= time <= LATEST else None


def _following(copies: list[_Copy]) -> dict[tuple[tuple[str, ...], float], float]:
    """For each snapshot folder the time of the next one beside it; the last lasts as long as the one before."""
    roots: dict[tuple[str, ...], set[float]] = {}
    for one in copies:
        if one.root is not None:
            roots.setdefault(one.root, set()).add(one.time)
    following = {}
    for root, found in roots.items():
        times = sorted(found)
        last = times[-1] - times[-2] if len(times) > 1 else DUMP_INTERVAL
        following.update(
            {(root, time): after for time, after in zip(times, [*times[1:], times[-1] + last], strict=True)}
        )
    return following


def _take(
    copy: _Copy,
    history: _History,
    following: dict[tuple[tuple[str, ...], float], float],
    before: str,
    report: ImportReport,
) -> str:
    """Add a copy to its file's history, and return its text."""
    number = len(history.written)
    history.written.append(copy.time)
    history.until.append(math.inf if copy.root is None else following[copy.root, copy.time])
    history.mtimes.append(math.nan)
    try:
        text = _read(copy.path)
        samples = _samples(copy.path, text, report)
    except Damaged as damage:
        report.skipped[str(damage)] += 1
        return ""
    unchanged = number > 0 and text == before and not math.isnan(history.mtimes[number - 1])
    history.mtimes[number] = history.mtimes[number - 1] if unchanged else math.floor(copy.time)
    for key, value in samples.items():
        history.columns.setdefault(key, {})[number] = value
        history.node = dict(key[1]).get("node", UNKNOWN)
    return text


def _read(file: Path) -> str:
    try:
        with opened(file, "make it readable, or take it away") as copy:
            data = copy.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise Damaged("file is too large for a textfile")
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Damaged("file is not UTF-8") from error
    if text and not text.endswith("\n"):
        raise Damaged("file is torn: its last line is not complete")
    return text


def _samples(file: Path, text: str, report: ImportReport) -> dict[Key, float]:
    found: dict[Key, float] = {}
    used = 0
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                report.records += 1
                if sample.timestamp is not None:
                    raise Damaged("file has client timestamps, which node_exporter refuses")
                if not sample.name.startswith("nccl_"):
                    report.filtered["not an NCCL series"] += 1
                    continue
                if OLD_LABEL in sample.labels:
                    raise UserError(f"{file}: {OLD}; record the job again with Inspector of NCCL 2.30 or newer")
                if not all(map(_NAME.fullmatch, (sample.name, *sample.labels))):
                    report.skipped["name is not one of Inspector's"] += 1
                    continue
                value = float(sample.value)
                key = (sample.name, _labels(sample.labels))
                if not 0 <= value < math.inf:
                    report.skipped["value is negative or not a number"] += 1
                elif key in found:
                    report.skipped["series is twice in one file, the first one counts"] += 1
                else:
                    found[key] = value
                    used += 1
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise Damaged("file is torn or not in Prometheus text format") from error
    report.used += used
    return found


def _labels(labels: dict[str, str]) -> Labels:
    kept = {f"exported_{name}" if name in _RESERVED else name: value for name, value in labels.items()}
    return sorted_labels(kept | {"instance": instance_of(labels.get("node", UNKNOWN)), "job": JOB})


def _recording(
    path: Path, histories: dict[tuple[tuple[str, ...], str], _History], scrape_interval: int, report: ImportReport
) -> tuple[Recording, list[Series]]:
    if not report.used:
        reasons = ", ".join(f"{count} × {reason}" for reason, count in report.skipped.most_common(2)) or "no nccl_ line"
        raise UserError(f"{path}: no usable Inspector series ({reasons}); give copies of Inspector's textfiles")
    untils = {key: _until(history) for key, history in histories.items()}
    first = min(history.written[0] for history in histories.values())
    scrapes = Scrapes(first, max(float(until[-1]) for until in untils.values()), scrape_interval)
    for key, history in histories.items():
        held = scrapes.held(np.array(history.written), untils[key])
        for (name, labels), column in history.columns.items():
            values = np.full(len(history.written), np.nan)
            values[list(column)] = list(column.values())
            scrapes.add(name, labels, held, values)
        scrapes.add(MTIME, mtime_labels(history.node, key[1]), held, np.array(history.mtimes))
    nodes = {history.node for history in histories.values() if history.columns}
    copies, files = counted(report.files, "copy", "copies"), counted(len(histories), "Inspector textfile")
    story = f"Imported from {copies} of {files} of {counted(len(nodes), 'node')}."
    return imported(scrapes, story, f"dashgen import textfile {path}")


def _until(history: _History) -> NDArray[np.float64]:
    written, snapshots = np.array(history.written), np.array(history.until)
    until: NDArray[np.float64] = until_next(written)
    dated = np.isfinite(snapshots)
    until[dated] = np.minimum(snapshots, written + LONGEST_HOLD)[dated]
    return until
