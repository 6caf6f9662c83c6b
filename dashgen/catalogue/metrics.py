# SPDX-License-Identifier: Apache-2.0
"""The upstream contract: every series that the rules and dashboards may read, as its owner exposes it.

Semantics were read in NVIDIA/nccl ``plugins/profiler/inspector`` at v2.30.7-1 and its newer development versions,
ROCm/rocm-systems ``projects/rccl/plugins/profiler/inspector``, prometheus/node_exporter 1.5 to 1.12,
NVIDIA/dcgm-exporter d5e5f510 and nebius/soperator c238d993.
"""

from __future__ import annotations

from dashgen.model import Metric, Unit

INSPECTOR = "NVIDIA/nccl v2.30.7-1 plugins/profiler/inspector/inspector_prom.cc"
COUNTERS = "NVIDIA/nccl development versions of inspector_prom.cc (NCCL_INSPECTOR_PROM_DUMP_STATS=1)"
TEXTFILE = "prometheus/node_exporter collector/textfile.go"
INFINIBAND = "prometheus/node_exporter collector/infiniband_linux.go"
DCGM = "NVIDIA/dcgm-exporter etc/default-counters.csv"

_COMMUNICATOR = ("version", "slurm_job_id", "node", "gpu", "comm_name", "n_nodes", "nranks")
COLLECTIVE_LABELS = (*_COMMUNICATOR, "collective", "message_size", "algo_proto")
P2P_LABELS = (*_COMMUNICATOR, "p2p_operation", "message_size")
COUNTER_LABELS = ("version", "slurm_job_id", "node", "gpu")

# RCCL writes HELP and TYPE lines and a second label; dashgen works with and without it.
RCCL = "RCCL adds the label cluster and TYPE gauge"
OTLP = "OTLP renames by unit (…_GB_per_second) and moves slurm_job_id to the resource: set metrics and labels"
OLD = "NCCL 2.29 wrote the last operation only, with comm_id, coll_sn and timestamp as labels: not usable for rules"

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
    Metric(
        key="mtime",
        name="node_textfile_mtime_seconds",
        unit=Unit.SECONDS,
        meaning="When a textfile was last written; absent for a file that could not be parsed.",
        labels=("file",),
        source=TEXTFILE,
        companion="textfile",
    ),
    Metric(
        key="textfile_error",
        name="node_textfile_scrape_error",
        unit=Unit.BOOL,
        meaning="1 when any textfile of the node could not be read; a single 1 is normal while files are rewritten.",
        labels=(),
        source=TEXTFILE,
        companion="textfile",
    ),
    Metric(
        key="gathering_errors",
        name="promhttp_metric_handler_errors_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning='With cause="gathering": the only sign that duplicate series were dropped.',
        labels=("cause",),
        source="prometheus/client_golang promhttp, as used by node_exporter",
        companion="exporter_metrics",
    ),
    Metric(
        key="ib_transmitted",
        name="node_infiniband_port_data_transmitted_bytes_total",
        unit=Unit.BYTES,
        kind="counter",
        meaning="Bytes that a port sent.",
        labels=("device", "port"),
        source=INFINIBAND,
        companion="infiniband",
    ),
    Metric(
        key="ib_discards",
        name="node_infiniband_port_discards_transmitted_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Packets discarded because the port was down or congested (PortXmitDiscards).",
        labels=("device", "port"),
        source=INFINIBAND,
        companion="infiniband",
    ),
    Metric(
        key="ib_symbol_errors",
        name="node_infiniband_symbol_error_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Minor link errors: signal trouble of cable or transceiver.",
        labels=("device", "port"),
        source=INFINIBAND,
        companion="infiniband",
    ),
    Metric(
        key="ib_receive_errors",
        name="node_infiniband_port_errors_received_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="Packets received with errors (PortRcvErrors): look at the far port.",
        labels=("device", "port"),
        source=INFINIBAND,
        companion="infiniband",
    ),
    Metric(
        key="ib_link_downed",
        name="node_infiniband_link_downed_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning="How often the link went away and came back.",
        labels=("device", "port"),
        source=INFINIBAND,
        companion="infiniband",
    ),
    Metric(
        key="gpu_util",
        name="DCGM_FI_DEV_GPU_UTIL",
        unit=Unit.PERCENT,
        meaning="Share of time in which a kernel ran. A hung collective spins and reads 100.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="tensor_active",
        name="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        unit=Unit.RATIO,
        meaning="Share of cycles in which the tensor cores worked, 0..1.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="sm_clock",
        name="DCGM_FI_DEV_SM_CLOCK",
        unit=Unit.COUNT,
        meaning="SM clock in MHz.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="memory_used",
        name="DCGM_FI_DEV_FB_USED",
        unit=Unit.BYTES,
        meaning="Frame buffer in use, MiB. A dead process gives its memory back, a hung one keeps it.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="job_info",
        name="slurm_job_info",
        unit=Unit.COUNT,
        meaning="1 for each job Slurm knows, with its state as a label.",
        labels=("job_id", "job_state", "user_name", "slurm_partition"),
        source="nebius/soperator exporter",
        companion="slurm",
    ),
)

BY_KEY = {metric.key: metric for metric in METRICS}

# What promises what: the optional sources by name, in words for the documentation and the doctor.
COMPANIONS = {
    "counters": "Inspector's opt-in counters (NCCL_INSPECTOR_PROM_DUMP_STATS=1)",
    "textfile": "node_exporter's textfile collector metrics",
    "exporter_metrics": "node_exporter's own promhttp metrics",
    "infiniband": "node_exporter's infiniband collector",
    "dcgm": "dcgm-exporter",
    "slurm": "a Slurm exporter with one series per job",
    "throughput": "a training throughput metric",
}
