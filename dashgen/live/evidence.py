# SPDX-License-Identifier: Apache-2.0
"""How the evidence against a suspect looked, dump by dump: the bandwidth of its paths, or how late its GPUs were.

The rules judge two or three dumps at a time, so that one odd dump is no fault. Here each dump stands for itself, and
is compared with what was usual before the fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dashgen.config import Site
from dashgen.live.history import History
from dashgen.recordings.format import Labels, Series

BEST, LATENESS, SHAPE = "peer:nccl_busbw:best", "gpu:nccl_lateness:ratio", "job:nccl_transport:info"
UNUSUAL = 2.0
"""Standard deviations, averaged over all paths that were hit: one of them alone strays as far in one dump of 40."""

_MEMORY = 4 * 3600.0  # seconds; how far back what is usual is looked for, as the rules do
_LEAST = {BEST: 0.02, LATENESS: 0.025}  # spreads that the rules assume at least


@dataclass(frozen=True)
class Reading:
    """Whether the suspect looked unusual at an evaluation, in seconds since the epoch."""

    moment: float
    unusual: bool


def readings(
    history: History,
    site: Site,
    suspect: str,
    transport: str,
    node: str,
    gpu: str,
    of_job: Mapping[str, str],
    start: float,
    end: float,
) -> list[Reading]:
    """One reading for every evaluation in [start, end] at which there was evidence of the suspect's."""
    place = {**({site.labels.node: node} if node else {}), **({site.labels.gpu: gpu} if gpu else {})}
    name = LATENESS if suspect == "straggler" else BEST
    seen = history.series(name, start, end, {**of_job, **place})
    if name == BEST:
        shapes = {
            _shape(one.labels)
            for one in history.series(SHAPE, start, end, {**of_job, **({"transport": transport} if transport else {})})
        }
        seen = [one for one in seen if _shape(one.labels) in shapes]
    level = name.rpartition(":")[0]
    usual, spread = (_last(history, f"{level}:{what}", start, {**of_job, **place}) for what in ("usual", "spread"))
    strays = [
        (one, _strays(one, usual.get(one.labels), spread.get(one.labels, 0.0), name))
        for one in seen
        if one.labels in usual or name == LATENESS
    ]
    hit = _hit([(one.times, stray) for one, stray in strays])
    return [Reading(moment, stray > UNUSUAL) for moment, stray in hit]


def _shape(labels: Labels) -> tuple[str, str]:
    found = dict(labels)
    return found.get("n_nodes", ""), found.get("nranks", "")


def _last(history: History, name: str, before: float, labels: Mapping[str, str]) -> dict[Labels, float]:
    """What was last learned before a moment, by labels."""
    return {one.labels: float(one.values[-1]) for one in history.series(name, before - _MEMORY, before, labels)}


def _strays(one: Series, usual: float | None, spread: float, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How many standard deviations worse than usual each sample is."""
    spread = max(spread, _LEAST[name])
    if name == BEST:
        return np.asarray((1 - one.values / (usual or np.nan)) / spread)
    return np.asarray((one.values - max(usual or 0.0, 0.0)) / spread)


def _hit(
    strays: Sequence[tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]],
) -> list[tuple[float, float]]:
    """The average over those series that were unusual at the end, moment by moment: the others tell nothing."""
    odd = [(times, stray) for times, stray in strays if stray.size and np.nanmedian(stray[-BRIEF:]) > UNUSUAL]
    sums: dict[float, list[float]] = {}
    for times, stray in odd or strays:
        for moment, value in zip(times.tolist(), stray.tolist(), strict=True):
            if np.isfinite(value):
                sums.setdefault(moment, []).append(value)
    return [(moment, float(np.mean(values))) for moment, values in sorted(sums.items())]


BRIEF = 4
"""Readings at the end of a window that say which paths were hit."""
