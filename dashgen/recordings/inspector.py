# SPDX-License-Identifier: Apache-2.0
"""What NCCL Inspector means: message sizes, bus bandwidth, transport classes, and what one dump writes.

Pure functions and values, shared by the importers, the simulator and the demo. Constants and formulas are those of
NVIDIA/nccl v2.30.7-1, plugins/profiler/inspector (inspector_prom.cc, inspector.cc, inspector_ring.cc), unless said.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from dashgen.catalogue.metrics import upstream
from dashgen.model import Transport

FORMAT_VERSION = "v5.1"  # label `version`: profiler interface 5, kInspectorPromFormatMinor 1
DUMP_INTERVAL = 30.0  # seconds, inspectorPromValidateInterval: the shortest and usual interval
RING_SIZE = 1024  # NCCL_INSPECTOR_DUMP_COLL_RING_SIZE and ..._P2P_RING_SIZE: operations kept per communicator and kind
GPU_TIMING = "kernel_gpu"  # NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=1 keeps this timing source only
MAX_LABELS = 1023  # characters of one printed label set; a longer one ends the dump (char labels[1024])
FILE_PREFIX = "nccl_inspector_metrics_"  # followed by the GPU's UUID and .prom
UNKNOWN = "unknown"  # what the plugin prints for a job id or a communicator name that nobody set

BUS_BANDWIDTH = upstream("busbw")
EXEC_TIME = upstream("exec")
P2P_BUS_BANDWIDTH = upstream("p2p_busbw")
P2P_EXEC_TIME = upstream("p2p_exec")
COLLECTIVES_TOTAL = upstream("collectives")
DROPPED_TOTAL = upstream("collectives_dropped")

COLLECTIVES = frozenset({"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllGatherV"})
P2P_OPERATIONS = frozenset({"Send", "Recv"})
_PER_RANK_SIZES = frozenset({"AllGather", "ReduceScatter", "AllGatherV"})

_UNITS = ("B", "KB", "MB", "GB", "TB")
_RANGE = re.compile(r"(\d{1,8})-(\d{1,8})(B|KB|MB|GB|TB)")
SIZE_T = 2**64
"""What C counts sizes and times modulo."""


def _scale(size: int) -> tuple[int, int]:
    value, unit = float(size), 0
    while value >= 1024.0 and unit < 4:
        value /= 1024.0
        unit += 1
    return max(1, math.floor(value)), unit


def message_size_lower_bound(size: int) -> int:
    """The lower bound, in bytes, of the range that an operation of ``size`` bytes is counted in.

    It wraps at 2^64 like the plugin's size_t (inspectorPromMessageSizeRangeLowerBound), so that the nonsense sizes of
    byte tensors land in the very ranges that the plugin prints for them.
    """
    if size == 0:
        return 0
    lower, unit = _scale(size)
    return (lower << 10 * unit) % SIZE_T


def message_size_range(size: int) -> str:
    """The ``message_size`` label of an operation of ``size`` bytes, for example ``134-135MB``."""
    bound = message_size_lower_bound(size)
    if bound == 0:
        return "0B"
    lower, unit = _scale(bound)
    return f"{lower}-{lower + 1}{_UNITS[unit]}"


def parse_message_size(text: str) -> int | None:
    """The lower bound in bytes of a ``message_size`` label, or None when the plugin would not print it."""
    if text == "0B":
        return 0
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2]) != int(match[1]) + 1 or match[1] == "0":
        return None
    return int(match[1]) << 10 * _UNITS.index(match[3])


def busbw_gbs(operation: str, size: int, nranks: int, us: float) -> float:
    """Bus bandwidth in decimal GB/s of one operation of ``size`` bytes that took ``us`` microseconds.

    ``size`` is what NCCL counts: the whole buffer for AllReduce, one rank's piece for AllGather and ReduceScatter.
    An operation that the plugin does not know has bandwidth 0 (inspectorComputeOpBw in inspector.cc).
    """
    if us <= 0:
        return 0.0
    if operation == "AllReduce":
        traffic, factor = float(size), 2 * (nranks - 1) / nranks
    elif operation in _PER_RANK_SIZES:
        traffic, factor = float(size * nranks % SIZE_T), (nranks - 1) / nranks
    elif operation in COLLECTIVES or operation in P2P_OPERATIONS:
        traffic, factor = float(size), 1.0
    else:
        return 0.0
    return traffic / 1e9 / (us / 1e6) * factor


def transport(n_nodes: int, nranks: int) -> Transport:
    """The transport class of a communicator, as NVIDIA's exporter/example/perf_summary_exporter.py splits them.

    NCCL counts NVLink domains as nodes, so ``nvlink`` means "within one domain"; ``network`` has one rank per node.
    """
    if n_nodes == 1:
        return "nvlink"
    return "network" if n_nodes == nranks else "mixed"


def printed(value: float) -> float:
    """A value as it arrives in Prometheus: printed with ``%.6g`` and read back."""
    return float(f"{value:.6g}")


class Bucket(NamedTuple):
    """What operations of one dump are averaged over; ``size`` is the lower bound in bytes, P2P has no algorithm.

    Communicators with an equal name and shape share a bucket (inspectorPromCollBucketKey).
    """

    nranks: int
    n_nodes: int
    function: str
    size: int
    comm_name: str
    algo_proto: str


class Values(NamedTuple):
    """What a dump says about a bucket: geometric mean in GB/s, arithmetic mean in µs."""

    busbw: float
    exec_us: float


Entry = tuple[Bucket, int, float]
"""A finished operation in a ring: its bucket, its execution time in µs, its bus bandwidth in GB/s."""


def new_ring() -> deque[Entry]:
    """The newest operations of one communicator and kind since the last dump; older ones are overwritten."""
    return deque(maxlen=RING_SIZE)


def drain(rings: Iterable[Iterable[Entry]]) -> dict[Bucket, Values]:
    """What a dump writes for the rings of one GPU (inspectorPromAggUpdate); bandwidths of zero are not averaged."""
    sums: dict[Bucket, list[float]] = {}
    log = math.log
    for ring in rings:
        for bucket, exec_us, busbw in ring:
            total = sums.get(bucket)
            if total is None:
                total = sums[bucket] = [0, 0.0, 0, 0.0]
            total[0] += 1
            total[1] += exec_us
            if busbw > 0.0:
                total[2] += 1
                total[3] += log(busbw)
    return {
        bucket: Values(math.exp(logs / positive) if positive else 0.0, micros / count)
        for bucket, (count, micros, positive, logs) in sums.items()
    }


def series_names(bucket: Bucket) -> tuple[str, str]:
    """The names of the bandwidth series and the time series of a bucket."""
    return (P2P_BUS_BANDWIDTH, P2P_EXEC_TIME) if bucket.function in P2P_OPERATIONS else (BUS_BANDWIDTH, EXEC_TIME)


def bucket_labels(bucket: Bucket, *, node: str, gpu: str, job_id: str = UNKNOWN) -> dict[str, str]:
    """All labels of a bucket's two series, in the order in which the plugin prints them."""
    labels = {
        "version": FORMAT_VERSION,
        "slurm_job_id": job_id,
        "node": node,
        "gpu": gpu,
        "comm_name": bucket.comm_name,
        "n_nodes": str(bucket.n_nodes),
        "nranks": str(bucket.nranks),
    }
    size = message_size_range(bucket.size)
    if bucket.function in P2P_OPERATIONS:
        return labels | {"p2p_operation": bucket.function, "message_size": size}
    return labels | {"collective": bucket.function, "message_size": size, "algo_proto": bucket.algo_proto}


def exposition(dump: Mapping[Bucket, Values], *, node: str, gpu: str, job_id: str = UNKNOWN) -> Iterator[str]:
    """The lines of one GPU's file: two per bucket, collectives first, no HELP, no TYPE, nothing escaped."""
    for bucket in sorted(dump, key=lambda each: (each.function in P2P_OPERATIONS, each)):
        pairs = bucket_labels(bucket, node=node, gpu=gpu, job_id=job_id).items()
        labels = ",".join(f'{name}="{value}"' for name, value in pairs)
        for name, value in zip(series_names(bucket), dump[bucket], strict=True):
            yield f"{name}{{{labels}}} {value:.6g}\n"
