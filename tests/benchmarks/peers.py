# SPDX-License-Identifier: Apache-2.0
"""Two alert packs as one finds them elsewhere, to be judged on the same trials.

``naive`` watches the average bus bandwidth of a job, and blames the GPU that spends most time in collectives.
``zscore`` does both by three standard deviations. Both page for a job and open a ticket for a GPU.
"""

from __future__ import annotations

from dashgen.catalogue.metrics import upstream
from dashgen.targets.rulefile import to_yaml

PEER = "slurm_job_id, comm_name, n_nodes, nranks, collective, message_size, algo_proto"
EXEC = upstream("exec")


def _pack(name: str, recorded: dict[str, str], slow: str, hold: str, late: str) -> str:
    groups = [
        {
            "name": name,
            "interval": "30s",
            "rules": [
                *({"record": record, "expr": expr} for record, expr in recorded.items()),
                _alert("JobBandwidthLow", slow, hold, "degradation", "critical", name),
                _alert("GpuSlow", late, "1m", "outlier", "warning", name),
            ],
        }
    ]
    return to_yaml({"groups": groups})


def _alert(name: str, expr: str, hold: str, signal: str, severity: str, pack: str) -> dict[str, object]:
    labels = {"signal": signal, "severity": severity, "sensitivity": pack}
    return {"alert": name, "expr": expr, "for": hold, "labels": labels}


PEERS = {
    "naive": _pack(
        "naive",
        {"naive:busbw:avg": f"avg by (slurm_job_id) ({upstream('busbw')})"},
        "naive:busbw:avg < 0.8 * avg_over_time(naive:busbw:avg[1h])",
        "5m",
        f"max by (slurm_job_id, node, gpu) ({EXEC} / on ({PEER}) group_left () avg by ({PEER}) ({EXEC})) > 1.5",
    ),
    "zscore": _pack(
        "zscore",
        {"zscore:busbw:avg": f"avg by (slurm_job_id) ({upstream('busbw')})"},
        "(zscore:busbw:avg - avg_over_time(zscore:busbw:avg[1h])) / stddev_over_time(zscore:busbw:avg[1h]) < -3",
        "1m",
        f"max by (slurm_job_id, node, gpu) (({EXEC} - on ({PEER}) group_left () avg by ({PEER}) ({EXEC}))"
        f" / on ({PEER}) group_left () stddev by ({PEER}) ({EXEC})) > 3",
    ),
}
"""Rule files by pack name."""
