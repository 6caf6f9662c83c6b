# SPDX-License-Identifier: Apache-2.0
"""Inspector's files as its dump threads write them, and the rest of a host beside them.

A dump empties the file where it stands and writes bucket by bucket, so a reader may see nothing, or a part. A clean end
removes the files, a killed job leaves them (NVIDIA/nccl 2.30.7 inspector_prom.cc).
"""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from dashgen.live.demo.clock import Clock
from dashgen.live.demo.plan import Plan
from dashgen.recordings.inspector import (
    COLLECTIVES_TOTAL,
    DROPPED_TOTAL,
    FILE_PREFIX,
    FORMAT_VERSION,
    Bucket,
    Values,
    exposition,
    parse_message_size,
)
from dashgen.simulator.drift import stream
from dashgen.simulator.dumps import Run
from dashgen.simulator.scrapes.site import gpu_uuids

HOST_FILE = "host.prom"
"""What node_exporter's own collectors would say of a host that is not there."""


@dataclass(frozen=True, eq=False)
class GpuFile:
    """One GPU's file in the life of one job; moments are seconds of the machine since the epoch.

    ``dumps`` are the numbers of the dumps that happened, ``moments`` when.
    """

    path: Path
    run: Run
    gpu: int
    node: str
    p2p_across: bool
    counters: bool
    dumps: tuple[int, ...]
    moments: tuple[float, ...]
    unlinked: float

    def pieces(self, dump: int) -> Iterator[str]:
        """What a dump writes, one ``write`` after the other."""
        job = self.run.job
        labels = {"node": self.node, "gpu": "GPU0" if job.one_visible_gpu else f"GPU{self.gpu % job.gpus_per_node}"}
        content = {}
        for each in self.run.buckets:
            if each.count[dump, self.gpu] > 0 and (self.p2p_across or not _across(dict(each.labels), each.p2p)):
                values = Values(float(each.busbw[dump, self.gpu]), float(each.exec_us[dump, self.gpu]))
                content[_bucket(dict(each.labels))] = values
        lines = exposition(content, **labels, job_id=job.id)
        for bandwidth, seconds in zip(lines, lines, strict=True):
            yield bandwidth + seconds
        if self.counters:
            own = f'version="{FORMAT_VERSION}",slurm_job_id="{job.id}",node="{self.node}",gpu="{labels["gpu"]}"'
            total, dropped = (int(each[dump, self.gpu]) for each in (self.run.total, self.run.dropped))
            yield f"{COLLECTIVES_TOTAL}{{{own}}} {total}\n{DROPPED_TOTAL}{{{own}}} {dropped}\n"

    def write(self, dump: int) -> None:
        """Write a dump in place."""
        with self.path.open("w", encoding="utf-8") as file:
            self.path.chmod(0o777)
            for piece in self.pieces(dump):
                file.write(piece)
                file.flush()


def _across(labels: dict[str, str], p2p: bool) -> bool:
    return p2p and labels["n_nodes"] != "1"


def _bucket(labels: dict[str, str]) -> Bucket:
    size = parse_message_size(labels["message_size"])
    assert size is not None
    function = labels.get("collective") or labels["p2p_operation"]
    shape = int(labels["nranks"]), int(labels["n_nodes"])
    return Bucket(*shape, function, size, labels["comm_name"], labels.get("algo_proto", ""))


def gpu_files(plan: Plan, clock: Clock, folders: Mapping[str, Path]) -> list[GpuFile]:
    """The files of all GPUs that ever have one, in the folders of their nodes."""
    scenario, found = plan.scenario, []
    uuids = gpu_uuids(scenario, stream(scenario.seed, "site"))
    for run in plan.runs:
        for gpu in range(run.job.nodes * run.job.gpus_per_node):
            dumps = np.flatnonzero(run.written[:, gpu])
            if not len(dumps):
                continue
            place, local = divmod(gpu, run.job.gpus_per_node)
            place += run.job.first_node - 1
            node = scenario.nodes[place]
            found.append(
                GpuFile(
                    path=folders[node] / f"{FILE_PREFIX}{uuids[place][local]}.prom",
                    run=run,
                    gpu=gpu,
                    node=node,
                    p2p_across=scenario.companions.p2p_across,
                    counters=scenario.companions.counters,
                    dumps=tuple(dumps.tolist()),
                    moments=tuple(clock.machine(float(each)) for each in run.dumps[dumps, gpu]),
                    unlinked=clock.machine(float(run.unlinked[gpu])),
                )
            )
    return found


Step = tuple[float, int, Callable[[], None]]
"""Something to do at a moment of the machine; the number keeps the order of what is due together."""


class Writer:
    """A thread that writes everything when it is due, for as long as the ``with`` block runs.

    ``failed`` is what went wrong, if anything did; then nothing more is written.
    """

    def __init__(self, files: Sequence[GpuFile], hosts: Sequence[Host], since: float, every: float) -> None:
        steps = [_life(file, number, since) for number, file in enumerate(files)]
        steps += [_ticks(host, len(files) + number, since, every) for number, host in enumerate(hosts)]
        self._steps = heapq.merge(*steps)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="inspector", daemon=True)
        self.failed: OSError | None = None
        for file in files:
            _leave(file, since)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            for moment, _, step in self._steps:
                if self._over.wait(max(0.0, moment - time.time())):
                    return
                step()
        except OSError as error:
            self.failed = error


def _leave(file: GpuFile, since: float) -> None:
    """What the last dump before the beginning has left."""
    before = [place for place, moment in enumerate(file.moments) if moment < since]
    if before and since < file.unlinked:
        file.write(file.dumps[before[-1]])
        os.utime(file.path, (file.moments[before[-1]],) * 2)


def _life(file: GpuFile, number: int, since: float) -> Iterator[Step]:
    for dump, moment in zip(file.dumps, file.moments, strict=True):
        if moment >= since:
            yield moment, number, partial(file.write, dump)
    if since <= file.unlinked < math.inf:
        yield file.unlinked, number, partial(file.path.unlink, missing_ok=True)


def _ticks(host: Host, number: int, since: float, every: float) -> Iterator[Step]:
    for tick in count():
        yield since + tick * every, number, host.write


@dataclass(frozen=True)
class Host:
    """The file of a host's other series, replaced as a whole, as a careful writer does."""

    path: Path
    text: Callable[[], str]

    def write(self) -> None:
        """Say how things are now."""
        work = self.path.with_suffix(".work")
        work.write_text(self.text(), encoding="utf-8")
        work.replace(self.path)
