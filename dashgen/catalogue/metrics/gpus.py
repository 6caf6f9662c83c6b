# SPDX-License-Identifier: Apache-2.0
"""GPUs by dcgm-exporter, and jobs by a Slurm exporter."""

from __future__ import annotations

from dashgen.model import Metric, Unit

DCGM = "NVIDIA/dcgm-exporter etc/default-counters.csv"

METRICS: tuple[Metric, ...] = (
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
        unit=Unit.MEBIBYTES,
        meaning="Frame buffer in use, MiB. A dead process gives its memory back, a hung one keeps it.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="gpu_temperature",
        name="DCGM_FI_DEV_GPU_TEMP",
        unit=Unit.CELSIUS,
        meaning="Temperature of the GPU.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="gpu_power",
        name="DCGM_FI_DEV_POWER_USAGE",
        unit=Unit.WATTS,
        meaning="Power that the GPU draws.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="xid",
        name="DCGM_FI_DEV_XID_ERRORS",
        unit=Unit.COUNT,
        meaning="Code of the last XID error, 0 for none. It stays until the next one: never a rate.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="nvlink_traffic",
        name="DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        unit=Unit.COUNT,
        kind="counter",
        meaning="NVLink traffic over all lanes, in a unit that differs between drivers: compare GPUs with each other.",
        labels=("gpu", "UUID", "Hostname"),
        source=DCGM,
        companion="dcgm",
    ),
    Metric(
        key="clock_events",
        name="DCGM_EXP_CLOCK_EVENTS_COUNT",
        unit=Unit.COUNT,
        meaning="How often clocks were held back within a sliding window, by reason. It falls again: never a rate.",
        labels=("gpu", "UUID", "Hostname", "clock_event"),
        source="NVIDIA/dcgm-exporter, off in its default-counters.csv",
        companion="clock_events",
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
