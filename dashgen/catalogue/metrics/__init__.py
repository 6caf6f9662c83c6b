# SPDX-License-Identifier: Apache-2.0
"""The upstream contract: every series that the rules and dashboards may read, as its owner exposes it.

Semantics were read in NVIDIA/nccl ``plugins/profiler/inspector`` at v2.30.7-1 and its newer development versions,
ROCm/rocm-systems ``projects/rccl/plugins/profiler/inspector``, prometheus/node_exporter 1.5 to 1.12,
NVIDIA/dcgm-exporter d5e5f510 and nebius/soperator c238d993. A name stands here alone; everything else knows the key.
"""

from __future__ import annotations

from dashgen.catalogue.metrics import exporter, fabric, gpus, inspector
from dashgen.model import Metric

METRICS: tuple[Metric, ...] = (*inspector.METRICS, *exporter.METRICS, *fabric.METRICS, *gpus.METRICS)

BY_KEY = {metric.key: metric for metric in METRICS}

# What promises what: the optional sources whose absence has no condition of its own, as doctor says "series of" them.
COMPANIONS = {
    "counters": "Inspector's opt-in counters (NCCL_INSPECTOR_PROM_DUMP_STATS=1)",
    "exporter_metrics": "node_exporter's own promhttp metrics",
    "host_memory": "node_exporter's meminfo collector",
    "infiniband": "node_exporter's infiniband collector",
    "hw_counters": "node_exporter's RoCE hw_counters (1.11 or newer)",
    "host_network": "node_exporter's netclass and netstat collectors",
    "switch_ports": "infiniband_exporter's switch ports",
    "dcgm": "dcgm-exporter",
    "clock_events": "dcgm-exporter's clock events (a custom counters CSV)",
    "slurm": "a Slurm exporter with one series per job",
}


def upstream(key: str) -> str:
    """What the owner of a series calls it, by dashgen's key for it."""
    return BY_KEY[key].name
