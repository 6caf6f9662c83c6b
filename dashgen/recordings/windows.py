# SPDX-License-Identifier: Apache-2.0
"""Single operations, gathered into what Inspector's Prometheus mode would have written for the same process.

A Process is fed record by record and keeps only the open window (at most 1024 operations per communicator and kind)
and, for every finished window, two numbers per bucket.
"""

from __future__ import annotations

import math
import uuid
from array import array
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dashgen.recordings.importing import (
    JOB,
    MTIME,
    Damaged,
    Scrapes,
    TooMuch,
    instance_of,
    mtime_labels,
    printable,
    sorted_labels,
    textfile_name,
    until_next,
)
from dashgen.recordings.inspector import (
    MAX_LABELS,
    UNKNOWN,
    Bucket,
    Entry,
    bucket_labels,
    drain,
    new_ring,
    printed,
    series_names,
)

JUMP = 86400.0  # seconds; a stamp this far from its predecessor is believed when the next record agrees
JITTER = 1.0  # seconds that stamps of one dump may step back: the plugin stamps each record when it writes it
LONGEST_JOB = 45 * 86400.0  # seconds around the median dump; what lies outside is a damaged time stamp

Header = tuple[object, object, object, object, object]
"""What a record says of its communicator, unchecked: id, rank, number of ranks, number of nodes, name."""


@dataclass(slots=True)
class Communicator:
    """One communicator as seen by one rank: its labels, its rings for collectives and P2P, a cache of its buckets."""

    header: Header
    id: str
    rank: int
    nranks: int
    n_nodes: int
    name: str
    rings: tuple[deque[Entry], deque[Entry]] = field(default_factory=lambda: (new_ring(), new_ring()))
    buckets: dict[tuple[object, object, object, object], Bucket] = field(default_factory=dict)


@dataclass(slots=True)
class _Column:
    """The values of one bucket: the numbers of the dumps that had it, and what they said."""

    dumps: array[int] = field(default_factory=lambda: array("Q"))
    busbw: array[float] = field(default_factory=lambda: array("d"))
    exec_us: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class _Gpu:
    """What one GPU's textfile would have held: when it was written, and its buckets."""

    written: array[float] = field(default_factory=lambda: array("d"))
    columns: dict[Bucket, _Column] = field(default_factory=dict)


@dataclass(slots=True)
class Budget:
    """How much memory all processes of an import may still take, in units of some 16 bytes.

    Files that are packed well can hold millions of processes, communicators and buckets that never were.
    """

    left: int = 20_000_000

    def take(self, units: int) -> None:
        """Use some, or give it back. Raises TooMuch."""
        self.left -= units
        if self.left < 0:
            raise TooMuch("more processes, communicators and buckets than fit; import the files of one job at a time")


_PROCESS, _GPU, _COMMUNICATOR, _COLUMN, _VALUE = 100, 30, 120, 40, 2


class Process:
    """One process: its clock, the communicators of the open window, and the finished dumps of each of its GPUs."""

    def __init__(self, job: str, node: str, pid: int, interval: float, budget: Budget | None = None) -> None:
        """Raises TooMuch, as ``add`` and ``close`` do, when the budget is spent."""
        self.job, self.node, self.pid, self.interval = job, node, pid, interval
        self._budget = budget or Budget()
        self._budget.take(_PROCESS)
        self.gpus: dict[int, _Gpu] = {}
        self.largest: tuple[int, str, int] = (0, "", 0)  # ranks, id and own rank of the largest communicator
        self.disowned = 0  # operations that were added, but whose time stamp turned out to be wrong
        self._communicators: dict[Header, Communicator] = {}
        self._local_ranks: dict[str, list[int]] = {}
        self._opened = self._latest = -math.inf
        self._agreed = 0
        self._doubted: tuple[float, Communicator, bool, Entry] | None = None

    @property
    def life(self) -> tuple[float, float]:
        """When its first and its last dump were written, in seconds since the epoch."""
        return min(min(one.written) for one in self.gpus.values()), max(max(one.written) for one in self.gpus.values())

    def communicator(self, header: Header) -> Communicator:
        """The communicator of a header; raises Damaged when there can be no such communicator."""
        return self._communicators.get(header) or _checked(header, *header)

    def add(self, now: float, communicator: Communicator, p2p: bool, entry: Entry) -> None:
        """Add a finished operation with its record's stamp in seconds, which closes the window when that is over.

        A stamp far away from its predecessor is an error in the file unless the next record agrees with it; then it is
        the predecessor that was wrong, if no other agreed with it.
        """
        if self._agreed and not -JITTER <= now - self._latest <= JUMP:
            doubted, self._doubted = self._doubted, (now, communicator, p2p, entry)
            if doubted is None or not -JITTER <= now - doubted[0] <= JUMP:
                self.disowned += doubted is not None
                return
            if self._agreed == 1:
                self._disown()
            self.close()
            self._agreed = 0
            self._put(*doubted)
        elif self._doubted is not None:
            self.disowned += 1
        self._doubted = None
        self._put(now, communicator, p2p, entry)

    def _put(self, now: float, communicator: Communicator, p2p: bool, entry: Entry) -> None:
        if now >= self._opened + self.interval:
            self.close()
            self._opened = now
        self._latest = max(now, self._latest) if self._agreed else now
        self._agreed += 1
        known = self._communicators.get(communicator.header)
        if known is None:
            self._budget.take(_COMMUNICATOR)
            known = self._communicators[communicator.header] = communicator
        known.rings[p2p].append(entry)

    def _disown(self) -> None:
        for one in self._communicators.values():
            for ring in one.rings:
                self.disowned += len(ring)
                ring.clear()

    def end(self) -> None:
        """No more records come: a stamp that is still in doubt stays so."""
        self.disowned += self._doubted is not None
        self._doubted = None
        self.close()

    def close(self) -> None:
        """End the window: keep what a dump at its last stamp would have written, and forget idle communicators."""
        busy = {key: one for key, one in self._communicators.items() if one.rings[0] or one.rings[1]}
        for one in busy.values():
            ranks = self._local_ranks.setdefault(one.id, [])
            if one.rank not in ranks:
                insort(ranks, one.rank)
            self.largest = max(self.largest, (one.nranks, one.id, one.rank))
        by_gpu: dict[int, list[deque[Entry]]] = {}
        for one in busy.values():
            by_gpu.setdefault(self._local_ranks[one.id].index(one.rank), []).extend(one.rings)
        for number, rings in by_gpu.items():
            if number not in self.gpus:
                self._budget.take(_GPU)
                self.gpus[number] = _Gpu()
            self._dump(self.gpus[number], rings)
        for one in busy.values():
            one.rings[0].clear()
            one.rings[1].clear()
        self._budget.take(_COMMUNICATOR * (len(busy) - len(self._communicators)))
        self._communicators = busy
        self._opened = -math.inf

    def _dump(self, gpu: _Gpu, rings: list[deque[Entry]]) -> None:
        number = len(gpu.written)
        gpu.written.append(self._latest)
        for bucket, (busbw, exec_us) in drain(rings).items():
            column = gpu.columns.get(bucket)
            self._budget.take(_VALUE if column is not None else _COLUMN)
            if column is None:
                column = gpu.columns[bucket] = _Column()
            column.dumps.append(number)
            column.busbw.append(printed(busbw))
            column.exec_us.append(printed(exec_us))


def _checked(header: Header, id: object, rank: object, nranks: object, n_nodes: object, name: object) -> Communicator:
    if type(rank) is not int or type(nranks) is not int or type(n_nodes) is not int or not printable(id, 64):
        raise Damaged("header has wrong types")
    if not (0 <= rank < nranks < 2**31 and 1 <= n_nodes <= nranks):
        raise Damaged("header describes an impossible communicator")
    name = UNKNOWN if name is None or name == "" else name
    if not printable(name, MAX_LABELS):
        raise Damaged("comm_name cannot be a label of a textfile")
    return Communicator(header, str(id), rank, nranks, n_nodes, str(name))


def scraped(processes: Iterable[Process], scrape_interval: int, dump_interval: float) -> tuple[Scrapes, int]:
    """What a scraper would have seen of the processes, and how many dumps were too far from the others to believe."""
    dumping = [one for one in processes if one.gpus]
    written = np.concatenate([np.array(gpu.written) for one in dumping for gpu in one.gpus.values()])
    middle = float(np.median(written))
    first, last = middle - LONGEST_JOB, middle + LONGEST_JOB
    believed = written[(written >= first) & (written <= last)]
    scrapes = Scrapes(float(believed.min()), float(believed.max()) + dump_interval, scrape_interval)
    for process, offset in sorted(_numbered(dumping, dump_interval), key=lambda pair: pair[0].life):
        for number, gpu in process.gpus.items():
            _add(scrapes, process, f"GPU{offset + number}", gpu, (first, last), dump_interval)
    return scrapes, len(written) - len(believed)


def _numbered(processes: list[Process], interval: float) -> Iterator[tuple[Process, int]]:
    """Each process with the number of its first GPU on its node."""
    nodes: dict[str, list[Process]] = {}
    for process in processes:
        nodes.setdefault(process.node, []).append(process)
    for neighbours in nodes.values():
        for generation in _generations(neighbours, interval):
            first = 0
            shared = len({(one.job, one.largest[:2]) for one in generation}) == 1
            for process in sorted(generation, key=lambda one: (one.largest[2] if shared else 0, one.pid, one.job)):
                yield process, first
                first += max(process.gpus) + 1


def _generations(processes: list[Process], interval: float) -> Iterator[list[Process]]:
    """Processes that lived at the same time; a restarted job uses the same GPUs again."""
    generation: list[Process] = []
    end = -math.inf
    for process in sorted(processes, key=lambda one: (one.life, one.pid)):
        born, died = process.life
        if generation and born > end + interval:
            yield generation
            generation = []
        generation.append(process)
        end = max(end, died)
    yield generation


def _add(
    scrapes: Scrapes, process: Process, name: str, gpu: _Gpu, believed: tuple[float, float], interval: float
) -> None:
    written = np.array(gpu.written)
    order = np.argsort(written, kind="stable")
    order = order[(written[order] >= believed[0]) & (written[order] <= believed[1])]
    if not len(order):
        return
    times = written[order]
    held = scrapes.held(times, until_next(times, interval))
    for bucket, column in gpu.columns.items():
        labels = bucket_labels(bucket, node=process.node, gpu=name, job_id=process.job)
        kept = sorted_labels(labels | {"instance": instance_of(process.node), "job": JOB})
        for series, values in zip(series_names(bucket), (column.busbw, column.exec_us), strict=True):
            scrapes.add(series, kept, held, _spread(column.dumps, values, len(written))[order])
    file = textfile_name(str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{process.node}")))
    scrapes.add(MTIME, mtime_labels(process.node, file), held, np.floor(times))


def _spread(dumps: array[int], values: array[float], count: int) -> NDArray[np.float64]:
    full = np.full(count, np.nan)
    full[np.array(dumps, dtype=np.intp)] = np.array(values)
    return full
