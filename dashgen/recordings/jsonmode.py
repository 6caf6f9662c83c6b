# SPDX-License-Identifier: Apache-2.0
"""Import Inspector's JSON dumps as the recording that Prometheus mode would have given.

Every shape of record that NVIDIA/nccl has written is read by its shape, not by its version: v4.0 to v4.2 lines that
carry ``header`` and ``metadata``, and the v4.3 and v4.4 streams in which a ``dump_stats`` line carries them once for
the records that follow (plugins/profiler/inspector/inspector_json.cc and inspector_json_reader.py). A record whose
communicator is in doubt is skipped and counted, never guessed.

JSON records lack three things that a textfile has, so they are derived:

* the GPU: processes of a node that lived at the same time are numbered in the order of their rank in the job's
  largest communicator (of their pid, when they do not share one); in a process with several GPUs, the ranks of a
  communicator are numbered in rising order;
* the job id: an argument, else ``<id>`` of a folder ``nccl-inspector-<id>``, Inspector's own default, else "unknown";
* the GPU's UUID in the file name of the mtime series: one that follows from node and GPU.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dashgen.catalogue.metrics.inspector import MIN_SIZE
from dashgen.errors import UserError
from dashgen.guard.files import opened
from dashgen.guard.text import counted
from dashgen.recordings.format import EARLIEST, LATEST, Recording, Series
from dashgen.recordings.importing import SCRAPE_INTERVAL, Damaged, ImportReport, Progress, TooMuch, imported, printable
from dashgen.recordings.inspector import (
    COLLECTIVES,
    DUMP_INTERVAL,
    GPU_TIMING,
    P2P_OPERATIONS,
    SIZE_T,
    UNKNOWN,
    Bucket,
    busbw_gbs,
    message_size_lower_bound,
)
from dashgen.recordings.windows import Budget, Communicator, Process, scraped

SUFFIXES = (".log", ".jsonl", ".json")
LONGEST_LINE = 8 << 20  # bytes; verbose records have two entries per channel, so real lines are some 20 kB
MOST_USELESS = 1_000_000  # empty or damaged lines of a file beyond those of use: what is packed well may hold 10⁹
BLOCK = 1 << 20  # bytes read at a time
MOST_SHAPES = 8192  # distinct (operation, algorithm, protocol, size) remembered per communicator: a cache only
MOST_GBS = 1e18  # a size that wrapped to 2^64 bytes in 1 µs gives 3.7e16
_COARSE_GBS = 1.0  # bandwidths have six decimals, so below it fewer than the six digits of a textfile
_FOLDER = "nccl-inspector-"  # NCCL_INSPECTOR_DUMP_DIR by default, followed by the job id

Processes = dict[tuple[str, str, int], Process]


def import_json(
    path: Path,
    *,
    job_id: str | None = None,
    scrape_interval: int = SCRAPE_INTERVAL,
    dump_interval: float = DUMP_INTERVAL,
    progress: Progress | None = None,
) -> tuple[Recording, list[Series], ImportReport]:
    """Import a dump file, or all ``.log``, ``.jsonl`` and ``.json`` files (also ``.gz``) under a folder.

    ``dump_interval`` is the interval, in seconds, of the Prometheus mode that is imitated; dumps that came faster are
    averaged over it. Memory grows with the windows and buckets, not with the operations. Raises UserError when
    nothing usable is found.
    """
    files = list(_files(path))
    if not files:
        raise UserError(f"{path}: no Inspector dump (*.log, *.jsonl, *.json, or these with .gz); give its folder")
    if job_id is not None and not printable(job_id, 256):
        raise UserError(f"job id {job_id!r}: not usable as a label; give the scheduler's id")
    report = ImportReport()
    processes: Processes = {}
    budget = Budget()
    done, total = 0, sum(file.stat().st_size for file in files)
    for file in files:
        report.files += 1
        reader = _Reader(job_id or _job_of(file), dump_interval, processes, report, budget)
        try:
            for position in _feed(file, reader, report):
                if progress:
                    progress(done + position, total)
            reader.finish()
        except TooMuch as error:
            raise UserError(f"{file}: {error}") from error
        done += file.stat().st_size
    try:
        return *_recording(path, processes, scrape_interval, dump_interval, report), report
    except TooMuch as error:
        raise UserError(f"{path}: {error}") from error


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for each in sorted(path.rglob("*")):
            if each.name.removesuffix(".gz").endswith(SUFFIXES) and each.is_file():
                yield each
    else:
        raise UserError(f"{path}: no such file or folder; give a folder of Inspector dumps")


def _job_of(file: Path) -> str:
    for part in reversed(file.absolute().parts[:-1]):
        name = part.removeprefix(_FOLDER)
        if name != part and name != "unknown-jobid" and printable(name, 256):
            return name
    return UNKNOWN


def _recording(
    path: Path, processes: Processes, scrape_interval: int, dump_interval: float, report: ImportReport
) -> tuple[Recording, list[Series]]:
    found = [process for process in processes.values() if process.gpus]
    if not found:
        worst = (report.skipped + report.filtered).most_common(2)
        reasons = ", ".join(f"{count} × {reason}" for reason, count in worst) or "the files are empty"
        raise UserError(f"{path}: no usable Inspector record ({reasons}); give a folder of Inspector's JSON dumps")
    scrapes, unbelieved = scraped(found, scrape_interval, dump_interval)
    if unbelieved:
        report.skipped["dump lies months away from the others"] += unbelieved
    if any(len(process.gpus) > 1 for process in found):
        report.notes.append("a process drove several GPUs: which is which is certain only in communicators of them all")
    nodes = {process.node for process in found}
    jobs = ", ".join(sorted({process.job for process in found}))
    where = f"{counted(len(found), 'process', 'processes')} on {counted(len(nodes), 'node')}"
    story = (
        f"Imported from the JSON dumps of {where}, job {jobs}, averaged as "
        f"Inspector's Prometheus mode would have done every {dump_interval:g} s."
    )
    return imported(scrapes, story, f"dashgen import json {path}")


def _feed(file: Path, reader: _Reader, report: ImportReport) -> Iterator[int]:
    """Give the lines of a file to the reader, and say how many bytes of the file are done."""
    try:
        with opened(file, "make it readable, or take it away") as raw:
            stream: io.BufferedIOBase | BinaryIO = gzip.GzipFile(fileobj=raw) if file.suffix == ".gz" else raw
            for lines in _lines(stream):
                reader.read(lines)
                if reader.useless > MOST_USELESS:
                    report.skipped["file holds hardly anything else from here on"] += 1
                    return
                yield raw.tell()
    except (EOFError, zlib.error, gzip.BadGzipFile):
        report.skipped["compressed file is damaged from here on"] += 1


def _lines(stream: io.BufferedIOBase | BinaryIO) -> Iterator[Iterable[str | None]]:
    """The lines of a file, a block at a time; None stands for one that is too long or not UTF-8."""
    rest, overlong = b"", False
    while block := stream.read(BLOCK):
        head, newline, tail = block.rpartition(b"\n")
        if not newline:
            overlong = overlong or len(rest) + len(block) > LONGEST_LINE
            rest = b"" if overlong else rest + block
            continue
        if overlong:
            yield [None]
            head = head.partition(b"\n")[2]
        yield _decoded(rest + head)
        rest, overlong = tail, False
    yield [None] if overlong else _decoded(rest)


def _decoded(data: bytes) -> Iterable[str | None]:
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return map(_decoded_line, data.split(b"\n"))


def _decoded_line(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


class _Reader:
    """Reads the lines of one file; the context of a ``dump_stats`` line never leaves its file."""

    def __init__(self, job: str, interval: float, processes: Processes, report: ImportReport, budget: Budget) -> None:
        self._job, self._interval, self._processes, self._report = job, interval, processes, report
        self._budget = budget
        self._open: dict[tuple[object, object], Process] = {}
        self._context: dict[str, Any] | None = None
        self._left: Counter[str] = Counter()
        self.useless = 0  # empty and damaged lines, less those of use

    def read(self, lines: Iterable[str | None]) -> None:
        """Use the records of some lines; nothing that a line holds stops it."""
        skipped, filtered = self._report.skipped, self._report.filtered
        records = used = fit = empty = 0
        decode = json.JSONDecoder().raw_decode
        for line in lines:
            if line is None:
                records += 1
                skipped["line is too long or not UTF-8"] += 1
                self._lose_context()
                continue
            line = line.strip()
            if not line:
                empty += 1
                continue
            records += 1
            try:
                record, end = decode(line)
                if end != len(line):
                    raise ValueError
            except (ValueError, RecursionError):
                skipped["not JSON"] += 1
                self._lose_context()
                continue
            try:
                reason = self._record(record)
            except Damaged as damage:
                skipped[str(damage)] += 1
            except (TypeError, AttributeError, KeyError):
                skipped["not the shape of an Inspector record"] += 1
            else:
                fit += 1
                if reason:
                    filtered[reason] += 1
                else:
                    used += 1
        self.useless += empty + records - 2 * fit
        self._report.records += records
        self._report.used += used

    def finish(self) -> None:
        """End of the file: nothing more will come for an open dump or an open window."""
        self._end_dump()
        for process in self._open.values():
            process.end()
            if process.disowned:
                self._report.used -= process.disowned
                self._report.skipped["time stamp jumps"] += process.disowned
                process.disowned = 0

    def _lose_context(self) -> None:
        """Forget the last dump_stats line: the lost line may have been the next one."""
        self._context = None
        self._left.clear()

    def _end_dump(self) -> None:
        missing = self._left.total()
        if missing:
            self._report.skipped["announced by a dump_stats line, but missing"] += missing
        self._lose_context()

    def _record(self, record: dict[str, Any]) -> str:
        """Use one record; the reason why Prometheus mode would not show it, or an empty string."""
        if "dump_stats" in record:
            self._marker(record)
            return "dump_stats line"
        payload = next((key for key in _COUNTS if record.get(key) is not None), "")
        source = record
        if "header" not in record:
            if self._context is None:
                raise Damaged("no header, and no dump_stats line before it")
            if self._left[payload] <= 0:
                raise Damaged("more records than its dump_stats line announced")
            source = self._context
        if self._left[payload] > 0:
            self._left[payload] -= 1
        if payload not in _KEYS:
            return "neither a collective nor Send or Recv"
        return self._operation(source["header"], source["metadata"], record[payload], payload == "p2p_perf")

    def _marker(self, record: dict[str, Any]) -> None:
        self._end_dump()
        stats = record["dump_stats"]
        counts = {payload: stats.get(key, 0) for payload, key in _COUNTS.items()}
        if not isinstance(record["header"], dict) or not isinstance(record["metadata"], dict):
            raise Damaged("dump_stats line without header and metadata")
        if any(type(count) is not int or not 0 <= count < SIZE_T for count in counts.values()):
            raise Damaged("dump_stats line with impossible counts")
        self._context = record
        self._left = Counter(counts)

    def _operation(self, header: dict[str, Any], metadata: dict[str, Any], operation: dict[str, Any], p2p: bool) -> str:
        name_key, size_key, time_key, busbw_key, clock_key = _KEYS["p2p_perf" if p2p else "coll_perf"]
        get = operation.get
        size, exec_us, busbw = get(size_key), get(time_key), get(busbw_key)
        stamp = metadata.get("dump_timestamp_us")
        if type(size) is not int or type(exec_us) is not int or type(stamp) is not int:
            raise Damaged("size, time or time stamp is not an integer")
        if not (0 <= size < SIZE_T and 0 <= exec_us < SIZE_T and _EARLIEST_US <= stamp <= _LATEST_US):
            raise Damaged("size, time or time stamp is out of range")
        if busbw is not None and not (type(busbw) in _NUMBERS and 0 <= busbw < MOST_GBS):
            raise Damaged("bandwidth is not a possible number")
        if get(clock_key, GPU_TIMING) != GPU_TIMING:
            return "not timed by the GPU"
        if size < MIN_SIZE:
            return f"smaller than {MIN_SIZE} bytes"
        if exec_us == 0:
            return "shorter than 1 µs"
        process = self._process(metadata.get("hostname"), metadata.get("pid"))
        seen = header.get
        communicator = process.communicator(
            (seen("id"), seen("rank"), seen("n_ranks"), seen("nnodes"), seen("comm_name"))
        )
        shape = (get(name_key), get("coll_algo"), get("coll_proto"), size)
        bucket = communicator.buckets.get(shape) or _new_bucket(communicator, *shape, p2p)
        if busbw is None or busbw < _COARSE_GBS:
            busbw = busbw_gbs(bucket.function, size, bucket.nranks, exec_us)
        process.add(stamp / 1e6, communicator, p2p, (bucket, exec_us, busbw))
        return ""

    def _process(self, node: object, pid: object) -> Process:
        known = self._open.get((node, pid))
        if known is None:
            if not isinstance(node, str) or not printable(node, 255) or type(pid) is not int or pid < 0:
                raise Damaged("metadata without a usable hostname and pid")
            key = (self._job, node, pid)
            if key not in self._processes:
                self._processes[key] = Process(*key, self._interval, self._budget)
            known = self._open[node, pid] = self._processes[key]
        return known


_COUNTS = {"coll_perf": "coll_records", "p2p_perf": "p2p_records", "proxy_trace": "proxy_records"}
_KEYS = {
    f"{name}_perf": (
        name,
        f"{name}_msg_size_bytes",
        f"{name}_exec_time_us",
        f"{name}_busbw_gbs",
        f"{name}_timing_source",
    )
    for name in ("coll", "p2p")
}
_NUMBERS = (float, int)  # by type(), since bool is an int
_EARLIEST_US, _LATEST_US = int(EARLIEST * 1e6), int(LATEST * 1e6)


def _new_bucket(communicator: Communicator, name: object, algo: object, proto: object, size: int, p2p: bool) -> Bucket:
    if not isinstance(name, str) or name not in (P2P_OPERATIONS if p2p else COLLECTIVES):
        raise Damaged("unknown operation")
    algorithm = "" if p2p else f"{_word(algo)}_{_word(proto)}"
    if len(communicator.buckets) >= MOST_SHAPES:
        communicator.buckets.clear()
    bound = message_size_lower_bound(size)
    bucket = Bucket(communicator.nranks, communicator.n_nodes, name, bound, communicator.name, algorithm)
    communicator.buckets[name, algo, proto, size] = bucket
    return bucket


def _word(text: object) -> str:
    if text is None:  # v4.0 records do not say
        return "Unknown"
    if not isinstance(text, str) or not text.isidentifier() or len(text) > 32:
        raise Damaged("algorithm or protocol is not a word")
    return text
