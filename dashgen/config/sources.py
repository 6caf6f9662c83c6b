# SPDX-License-Identifier: Apache-2.0
"""Where Inspector's series come from: what the key ``source`` sets, below whatever the file says itself.

``nccl`` is NVIDIA's textfile, ``nccl-otlp`` its OTLP export as Prometheus 3 receives it, ``rccl`` AMD's textfile,
``soperator`` the series of nebius/soperator's pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from dashgen.catalogue.metrics import upstream

Source = Literal["nccl", "nccl-otlp", "rccl", "soperator"]

# Where node_exporter does not read the files, nothing tells how old one is, errors of its handler are of other series,
# and its name for a host is not that of Inspector's series.
_NO_FILES = {name: {"enabled": False} for name in ("textfile", "exporter_metrics", "host_memory")}

PRESETS: Mapping[str, Mapping[str, object]] = {
    "nccl": {},
    # The receiver adds the unit GB/s to a name; slurm.job.id, of the resource, is slurm_job_id where it is promoted.
    "nccl-otlp": {
        "metrics": {
            "busbw": f"{upstream('busbw')}_GB_per_second",
            "p2p_busbw": f"{upstream('p2p_busbw')}_GB_per_second",
        },
        "companions": _NO_FILES,
    },
    # A label cluster may be in the file; it is for the site to say whether that tells two clusters apart.
    "rccl": {"fabric": "xGMI", "companions": {"dcgm": {"enabled": False}}},
    # A rank is what tells the GPUs of a host apart; the exporter of Slurm jobs comes with it.
    "soperator": {
        "labels": {"node": "hostname", "gpu": "rank"},
        "companions": {**_NO_FILES, "slurm": {"enabled": True}},
    },
}


def completed(data: object) -> object:
    """A site's plain data with what its source sets and it does not say itself; unchanged where that is not known."""
    if not isinstance(data, Mapping):
        return data
    name = data.get("source")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    return merged(preset, data) if preset else data


def without(data: Mapping[str, object], preset: Mapping[str, object]) -> dict[str, object]:
    """Plain data that a preset has completed, without what is the preset's."""
    found: dict[str, object] = {}
    for key, value in data.items():
        theirs = preset.get(key)
        if isinstance(value, Mapping) and isinstance(theirs, Mapping):
            found[key] = without(value, theirs)
        elif value != theirs:
            found[key] = value
    return found


def merged(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Plain data of two levels; what ``above`` says itself goes before what ``below`` says."""
    found = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            found[key] = merged(cast(Mapping[str, object], below[key]), cast(Mapping[str, object], above[key]))
    return found
