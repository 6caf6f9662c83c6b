# SPDX-License-Identifier: Apache-2.0
"""Raw samples of many series over a long time: in pieces, several at once, and kept until all are there.

Pieces begin and end at multiples of five minutes, so a later run finds what an earlier one has fetched, also when it
asks for a little more. A piece that may still grow is not kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from dashgen.errors import UserError
from dashgen.live.client.access import TENANT
from dashgen.live.client.api import Key, Prometheus, Samples, join
from dashgen.live.client.connections import hang_up_all
from dashgen.recordings.format import MOST_SAMPLES
from dashgen.recordings.importing import Progress

PIECE = 300.0  # seconds of raw samples in one answer
AT_ONCE = 4  # a quarter of the queries that a Prometheus runs at a time (--query.max-concurrency is 20)
SETTLED = 120.0  # seconds after which a Prometheus behind remote write, too, has what there is


class Fetcher:
    """Fetches selectors over [start, end], in seconds since the epoch, and keeps finished pieces in ``kept``.

    A piece is ``piece`` seconds long.

    Raises UserError as the server, and when there is more than fits into memory.
    """

    def __init__(
        self,
        server: Prometheus,
        start: float,
        end: float,
        kept: Path | None,
        progress: Progress | None,
        piece: float = PIECE,
    ) -> None:
        self._server, self._start, self._end, self._kept, self._progress = server, start, end, kept, progress
        self._length = piece
        self._count, self._lock = 0, threading.Lock()

    def __call__(self, selectors: Sequence[str]) -> dict[Key, Samples]:
        """All samples of the series that match any of the selectors, each once, in the order of time."""
        edges = list(_edges(self._start, self._end, self._length))
        tasks = [(one, begin, stop) for begin, stop in edges for one in selectors]
        found: dict[Key, list[Samples]] = {}
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            waiting = {pool.submit(self._piece, *task) for task in tasks}
            for done, future in enumerate(as_completed(waiting), 1):
                for key, samples in future.result().items():
                    found.setdefault(key, []).append(samples)
                if self._progress:
                    self._progress(done, len(tasks))
                waiting.discard(future)  # with what it holds
        except BaseException:
            hang_up_all()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return {key: join(pieces) for key, pieces in sorted(found.items())}

    def _piece(self, selector: str, begin: float, stop: float) -> dict[Key, Samples]:
        path = self._path(selector, begin, stop)
        found = _load(path) if path else None
        if found is None:
            found = self._server.raw(selector, begin, stop)
            if path and stop < time.time() - SETTLED:
                _keep(path, found)
        with self._lock:
            self._count += sum(len(times) for times, _ in found.values())
            if self._count > MOST_SAMPLES:
                most = f"{MOST_SAMPLES / 1e6:g} million samples"
                raise UserError(f"{self._server.url}: more than {most}; record fewer jobs at a time, or a shorter time")
        return found

    def _path(self, selector: str, begin: float, stop: float) -> Path | None:
        if self._kept is None:
            return None
        # Another tenant is another server; another token is not.
        tenant = self._server.client.access.headers.get(TENANT, "")
        asked = json.dumps([self._server.url, tenant, selector, begin, stop])
        return self._kept / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.piece"


def _edges(start: float, end: float, length: float) -> Iterator[tuple[float, float]]:
    at = start
    while at < end:
        stop = min(end, (math.floor(at / length) + 1) * length)
        yield at, stop
        at = stop


def _keep(path: Path, found: dict[Key, Samples]) -> None:
    """Write a piece, whole or not at all."""
    head = [[name, labels, len(times)] for (name, labels), (times, _) in found.items()]
    columns = [np.concatenate([pair[place] for pair in found.values()] or [np.empty(0)]) for place in (0, 1)]
    body = b"".join([json.dumps(head).encode(), b"\n", *(each.astype("<f8").tobytes() for each in columns)])
    work = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        work.write_bytes(hashlib.sha256(body).digest() + body)
        work.replace(path)
    except OSError as error:
        raise UserError(f"{path.parent}: cannot keep what was fetched: {error.strerror}; make room") from error


def _load(path: Path) -> dict[Key, Samples] | None:
    """A piece that was kept; None where there is none, or a damaged one."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, body = content[:32], content[32:]
    if hashlib.sha256(body).digest() != digest:
        return None
    end = body.index(b"\n") + 1
    head = json.loads(body[:end])
    times, values = np.split(np.frombuffer(body, "<f8", offset=end), 2)
    cuts = np.cumsum([count for *_, count in head])[:-1]
    columns = zip(np.split(times, cuts), np.split(values, cuts), strict=True)
    keys = [(name, tuple((key, value) for key, value in labels)) for name, labels, _ in head]
    return dict(zip(keys, columns, strict=True)) if keys else {}


def forget(kept: Path) -> None:
    """Remove the pieces: the recording is whole."""
    shutil.rmtree(kept, ignore_errors=True)
