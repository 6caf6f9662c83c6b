# SPDX-License-Identifier: Apache-2.0
"""How the evidence against a suspect looked, dump by dump: bandwidth, paths among their like, or how late GPUs were.

The rules judge two or three dumps at a time, so that one odd dump is no fault. Here each dump stands for itself, and
is compared with what was usual before the fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dashgen import durations
from dashgen.catalogue.baselines import DEVIATIONS, LEAST, LEAST_OF_MANY, MEMORY, POSITION, SPREAD, USUAL, Evidence
from dashgen.config.site import Site
from dashgen.live.incidents.history import History
from dashgen.recordings.format import Labels, Series

BEST, SHAPE = "peer:nccl_busbw:best", "job:nccl_transport:info"
SLOWNESS, LATENESS = "peer:nccl_slowness:ratio", "gpu:nccl_lateness:ratio"
UNUSUAL = 2.0
"""Standard deviations, averaged over all paths that were hit: one of them alone strays as far in one dump of 40."""

_MEMORY = float(durations.seconds(MEMORY))
_OF: Mapping[str, Evidence] = {BEST: "bandwidth", SLOWNESS: "slowness", LATENESS: "lateness"}
_EFFECT = {BEST: LEAST, SLOWNESS: LEAST_OF_MANY, LATENESS: LEAST}
# Spreads that the rules assume at least.
_LEAST = {name: _EFFECT[name] / DEVIATIONS[of] for name, of in _OF.items()}

Values = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Reading:
    """Whether the suspect looked unusual at a moment, in seconds since the epoch, as an evaluation saw it."""

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
    carried = {"transport": transport} if transport else {}
    age = 0.0
    if suspect == "straggler":
        strays = _strays(history, LATENESS, start, end, of_job, place)
    elif suspect == "network" and not transport:
        # A slow communicator is told by GPUs that are slower than their like.
        strays = _strays(history, LATENESS, start, end, of_job, slower=True)
    else:
        strays = _strays(history, SLOWNESS, start, end, of_job, {**carried, **place})
        # Bandwidth is that of the best path, whichever that is. It falls only when the last GPU has dumped what it saw,
        # and dumps are up to one apart.
        if not place:
            age = site.dump_interval / 2
            shapes = {_shape(one.labels) for one in history.series(SHAPE, start, end, {**of_job, **carried})}
            best = _strays(history, BEST, start, end, of_job)
            strays += [(one, stray) for one, stray in best if _shape(one.labels) in shapes]
    hit = _hit([(one.times, stray) for one, stray in strays])
    return [Reading(moment - age, stray > UNUSUAL) for moment, stray in hit]


def _shape(labels: Labels) -> tuple[str, str]:
    found = dict(labels)
    return found.get("n_nodes", ""), found.get("nranks", "")


def last_learned(history: History, name: str, before: float, labels: Mapping[str, str]) -> dict[Labels, float]:
    """What was last learned before a moment, by the labels of what it was learned of."""
    found = history.series(name, before - _MEMORY, before, labels)
    return {tuple(each for each in one.labels if each[0] != "of"): float(one.values[-1]) for one in found}


# A server may have values that leave all bounds here; what is not finite then does not count.
@np.errstate(over="ignore", invalid="ignore")
def _strays(
    history: History,
    name: str,
    start: float,
    end: float,
    of_job: Mapping[str, str],
    more: Mapping[str, str] = MappingProxyType({}),
    slower: bool = False,
) -> list[tuple[Series, Values]]:
    """How many standard deviations worse than usual each sample of the series of a name is; usual is known of them.

    Of lateness, worse is later, or with ``slower`` the contrary: who waits for somebody else. For a GPU that has
    learned nothing, what a fixed position explains is usual, as for the rules.
    """
    learned = {**of_job, "of": _OF[name]}
    usual = last_learned(history, USUAL, start, {**learned, **more})
    spread = last_learned(history, SPREAD, start, learned)  # of lateness one for all GPUs
    of_all = max(spread.values(), default=0.0) if name == LATENESS else 0.0
    found = []
    for one in history.series(name, start, end, {**of_job, **more}):
        wide = max(spread.get(one.labels, of_all), _LEAST[name])
        if slower:
            found.append((one, np.asarray((usual.get(one.labels, np.nan) - one.values) / wide)))
        elif name == BEST and one.labels in usual:
            found.append((one, np.asarray((1 - one.values / (usual[one.labels] or np.nan)) / wide)))
        elif name == LATENESS or one.labels in usual:
            found.append((one, np.asarray((one.values - max(usual.get(one.labels, POSITION), 0.0)) / wide)))
    return found


@np.errstate(over="ignore")
def _hit(
    strays: Sequence[tuple[Values, Values]],
) -> list[tuple[float, float]]:
    """The average over those series that were unusual at the end, moment by moment: the others tell nothing."""
    known = [(times[kept], stray[kept]) for times, stray in strays if (kept := np.isfinite(stray)).any()]
    odd = [(times, stray) for times, stray in known if np.median(stray[-BRIEF:]) > UNUSUAL]
    sums: dict[float, list[float]] = {}
    for times, stray in odd or known:
        for moment, value in zip(times.tolist(), stray.tolist(), strict=True):
            sums.setdefault(moment, []).append(value)
    return [(moment, float(np.mean(values))) for moment, values in sorted(sums.items())]


BRIEF = 4
"""Readings at the end of a window that say which paths were hit."""
