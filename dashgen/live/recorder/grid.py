# SPDX-License-Identifier: Apache-2.0
"""From the moments of real scrapes to the regular grid of a recording."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashgen.live.client.api import Key, Samples
from dashgen.recordings.importing import SCRAPE_INTERVAL


class Rhythm(NamedTuple):
    """When a target is scraped: one moment, in seconds since the epoch, and the seconds between two scrapes."""

    moment: float
    spacing: float


def rhythm(times: NDArray[np.float64]) -> Rhythm:
    """The rhythm of rising scrape times, whatever their jitter and gaps."""
    spacing = float(np.median(np.diff(times))) if len(times) > 1 else float(SCRAPE_INTERVAL)
    drift = (times - times[0] + spacing / 2) % spacing - spacing / 2
    return Rhythm(float(times[0] + np.median(drift)), spacing)


def rhythms(raw: Mapping[Key, Samples]) -> dict[Key, Rhythm]:
    """The rhythm of each series' target; all series of one scrape have one timestamp."""
    targets: dict[object, list[Key]] = {}
    for key in raw:
        labels = dict(key[1])
        target = (labels["instance"], labels.get("job")) if "instance" in labels else key
        targets.setdefault(target, []).append(key)
    found = {}
    for keys in targets.values():
        found.update(dict.fromkeys(keys, rhythm(np.unique(np.concatenate([raw[key][0] for key in keys])))))
    return found


def on_grid(times: NDArray[np.float64], values: NDArray[np.float64], scraped: Rhythm, step: int) -> Samples:
    """A series on multiples of ``step`` seconds, each sample at or less than a step after it was scraped.

    All scrapes of a target are moved by the same amount, so jitter neither loses a sample nor leaves a gap that would
    look as if the series had gone. What is scraped less often than ``step`` is held up to its next scrape.
    """
    offset = scraped.moment % step
    cells = np.round((times - offset) / step).astype(np.int64) + math.ceil(offset / step - 1e-6)
    cells, newest = np.unique(cells[::-1], return_index=True)
    every = max(1, round(scraped.spacing / step))
    repeats = np.minimum(np.append(np.diff(cells), every), every)
    after = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return (np.repeat(cells, repeats) + after) * float(step), np.repeat(values[::-1][newest], repeats)
