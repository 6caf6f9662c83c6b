# SPDX-License-Identifier: Apache-2.0
"""How fast JSON dumps are imported, and in how much memory: ``python tests/benchmarks/import_json.py [MEGABYTES]``.

Writes dumps of 8 processes in a temporary folder, 1000 operations of two communicators every 30 s, each line as
NCCL 2.30.7 writes it, and imports them. Peak memory must not grow with the size of the input.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from dashgen.recordings.inspector import busbw_gbs
from dashgen.recordings.jsonmode import import_json

START = 1_773_931_200
PROCESSES = 8
OPERATIONS = 500  # per communicator and dump


def _dump(rank: int, moment: int) -> str:
    lines = []
    for communicator, (nranks, n_nodes, function, size) in enumerate(
        [(32, 4, "ReduceScatter", 134 << 20), (8, 1, "AllGather", 8 << 20)]
    ):
        for number in range(OPERATIONS):
            exec_us = 1000 + (number * 37 + rank) % 500
            record = {
                "header": {
                    "id": f"0x7f8c496ae9f66{communicator}",
                    "comm_name": "unknown",
                    "rank": rank,
                    "n_ranks": nranks,
                    "nnodes": n_nodes,
                },
                "metadata": {
                    "inspector_output_format_version": "v4.0",
                    "git_rev": "9019a1912-dirty",
                    "rec_mechanism": "nccl_profiler_interface",
                    "dump_timestamp_us": moment * 1_000_000 + number,
                    "hostname": "node-001",
                    "pid": 4000 + rank,
                },
                "coll_perf": {
                    "coll": function,
                    "coll_sn": number,
                    "coll_msg_size_bytes": size,
                    "coll_exec_time_us": exec_us,
                    "coll_timing_source": "kernel_gpu",
                    "coll_algobw_gbs": 277.210914,
                    "coll_busbw_gbs": round(busbw_gbs(function, size, nranks, exec_us), 6),
                },
            }
            lines.append(json.dumps(record, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def main(megabytes: int) -> None:
    """Write, import, and print MB/s and the peak resident set."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(PROCESSES):
            template = _dump(rank, START)
            with (Path(folder) / f"node-001-pid{4000 + rank}.log").open("w") as file:
                for dump in range(max(2, megabytes * 1_000_000 // PROCESSES // len(template))):
                    file.write(template.replace(f":{START}", f":{START + 30 * dump}"))
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        started, used = time.perf_counter(), time.process_time()
        recording, series, report = import_json(Path(folder))
        elapsed, cpu = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    span = (recording.end - recording.start).total_seconds()
    print(f"{size:.0f} MB, {report.records} records, {report.used} used, {len(series)} series over {span:.0f} s")
    print(f"{size / elapsed:.1f} MB/s by the clock, {size / cpu:.1f} MB per CPU second")
    print(f"peak resident set {peak:.0f} MB, {before:.0f} MB of it before the import")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
