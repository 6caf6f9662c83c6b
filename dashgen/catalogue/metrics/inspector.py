# SPDX-License-Identifier: Apache-2.0
"""NCCL Inspector's own series, and the counters that it writes on request."""

from __future__ import annotations

from dashgen.model import Metric, Unit

INSPECTOR = "NVIDIA/nccl v2.30.7-1 plugins/profiler/inspector/inspector_prom.cc"
COUNTERS = "NVIDIA/nccl development versions of inspector_prom.cc (NCCL_INSPECTOR_PROM_DUMP_STATS=1)"

_COMMUNICATOR = ("version", "slurm_job_id", "node", "gpu", "comm_name", "n_nodes", "nranks")
COLLECTIVE_LABELS = (*_COMMUNICATOR, "collective", "message_size", "algo_proto")
P2P_LABELS = (*_COMMUNICATOR, "p2p_operation", "message_size")
COUNTER_LABELS = ("version", "slurm_job_id", "node", "gpu")

# RCCL writes HELP and TYPE lines and a second label; dashgen works with and without it.
RCCL = "RCCL adds the label cluster and TYPE gauge"
OTLP = "OTLP renames by unit (…_GB_per_second) and moves slurm_job_id to the resource: set metrics and labels"
OLD_LABEL = "coll_sn"
"""The number of an operation: who writes it as a label makes new series with every dump."""
OLD = "NCCL 2.29 wrote the last operation only, with comm_id, coll_sn and timestamp as labels: not usable for rules"

WAITING = "AllReduce|AllGather|ReduceScatter"
"""Collectives whose ranks all wait for each other."""
MIN_SIZE = 8192
"""Bytes, NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES: smaller operations are not tracked."""

METRICS: tuple[Metric, ...] = (
    Metric(
        key="busbw",
        name="nccl_bus_bandwidth_gbs",
        unit=Unit.GBPS,
        meaning="Geometric mean of the bus bandwidth of a bucket's operations in one dump. Waiting for late peers "
        "is inside the measured time, so a late rank shows the highest bandwidth of its group.",
        labels=COLLECTIVE_LABELS,
        source=INSPECTOR,
        variants=f"{RCCL}. {OTLP}. {OLD}.",
    ),
    Metric(
        key="exec",
        name="nccl_collective_exec_time_microseconds",
        unit=Unit.MICROSECONDS,
        meaning="Arithmetic mean of the execution time over the same operations: transfer plus waiting for the last "
        "arriver, so a late rank shows the shortest time.",
        labels=COLLECTIVE_LABELS,
        source=INSPECTOR,
        variants=f"{RCCL}. {OLD}.",
    ),
    Metric(
        key="p2p_busbw",
        name="nccl_p2p_bus_bandwidth_gbs",
        unit=Unit.GBPS,
        meaning="Geometric mean of the bandwidth of Send or Recv operations; all-to-all is seen only here.",
        labels=P2P_LABELS,
        source=INSPECTOR,
        variants=RCCL,
    ),
    Metric(
        key="p2p_exec",
        name="nccl_p2p_exec_time_microseconds",
        unit=Unit.MICROSECONDS,
        meaning="Arithmetic mean of the execution time of Send or Recv operations, waiting for the peer included.",
        labels=P2P_LABELS,
        source=INSPECTOR,
        variants=RCCL,
    ),
    Metric(
        key="collectives",
        name="nccl_collectives_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Collective operations recorded; falls when a communicator is destroyed, which looks like a reset.",
        labels=COUNTER_LABELS,
        source=COUNTERS,
        companion="counters",
    ),
    Metric(
        key="collectives_dropped",
        name="nccl_collectives_dropped_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Recorded collective operations that were overwritten before a dump.",
        labels=COUNTER_LABELS,
        source=COUNTERS,
        companion="counters",
    ),
    Metric(
        key="p2p",
        name="nccl_p2p_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Send and Recv operations recorded.",
        labels=COUNTER_LABELS,
        source=COUNTERS,
        companion="counters",
    ),
    Metric(
        key="p2p_dropped",
        name="nccl_p2p_dropped_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Recorded Send and Recv operations that were overwritten before a dump.",
        labels=COUNTER_LABELS,
        source=COUNTERS,
        companion="counters",
    ),
)
