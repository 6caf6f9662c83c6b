# SPDX-License-Identifier: Apache-2.0
"""What fleets cost a real Prometheus, as measured: the coefficients of every forecast.

``measured.json`` is written by ``tests/engines/fit.py`` from runs of Debian's Prometheus 2.42 on simulated fleets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Size:
    """A fleet that was measured: what a forecast of it is held against.

    ``rule_seconds`` and ``read_seconds`` are seconds of one core a dump, of all rules and of one read of each raw
    sample; ``memory`` and ``memory_with_rules`` are bytes.
    """

    gpus: int
    jobs: int
    nccl_series: int
    companion_series: int
    recorded_series: int
    rule_seconds: float
    read_seconds: float
    memory: float
    memory_with_rules: float


@dataclass(frozen=True)
class Measured:
    """Coefficients.

    ``recorded`` are series a GPU and series a job of each rule, ``shares`` the part of each rule in what all take.
    ``rules`` and ``read`` are seconds a dump of all rules and of one read, ``working`` bytes with the rules: each a
    scale and the exponent of the number of GPUs. ``memory`` are bytes of any server, and a raw series. ``disk`` are
    bytes a sample; ``nccl`` and ``companions`` series a GPU of the fleets that were measured.
    """

    recorded: Mapping[str, tuple[float, float]]
    shares: Mapping[str, float]
    rules: tuple[float, float]
    read: tuple[float, float]
    memory: tuple[float, float]
    working: tuple[float, float]
    disk: float
    nccl: float
    companions: float
    sizes: tuple[Size, ...]


@cache
def measured() -> Measured:
    """The figures that dashgen ships."""
    data = json.loads(files("dashgen.cost").joinpath("measured.json").read_text(encoding="utf-8"))
    lines = {name: (data[name][0], data[name][1]) for name in ("rules", "read", "memory", "working")}
    return Measured(
        **lines,
        recorded={name: (gpu, job) for name, (gpu, job) in data["recorded"].items()},
        shares=data["shares"],
        disk=data["disk"],
        nccl=data["nccl"],
        companions=data["companions"],
        sizes=tuple(Size(**each) for each in data["sizes"]),
    )
