# SPDX-License-Identifier: Apache-2.0
"""What the companions of Inspector expose at each moment: GPUs, network ports, the training job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dashgen.recordings.format import Series, number, selector

NODE = "node"
"""The scrape job of node_exporter in simulated series; all others are exporters of their own."""

_REAL = ("nccl_", "node_textfile_", "promhttp_", "up")
"""Series that the real node_exporter and Prometheus make themselves."""


@dataclass(frozen=True, eq=False)
class Exporter:
    """The series of one scrape target on a grid of moments of the machine, which begins at ``begin``."""

    job: str
    instance: str
    names: tuple[str, ...]
    values: NDArray[np.float64]
    begin: float
    every: float

    def text(self, clock: Callable[[], float] = time.time) -> str:
        """All series that there are now, as an exporter writes them."""
        place = min(max(0, int((clock() - self.begin) / self.every)), self.values.shape[1] - 1)
        now = self.values[:, place]
        rows = zip(self.names, now.tolist(), strict=True)
        return "".join(f"{name} {number(value)}\n" for name, value in rows if value == value)


def exporters(
    series: Iterable[Series], begin: float, every: float, scrapes: int, added: Mapping[str, str]
) -> list[Exporter]:
    """Every target of simulated series on the machine's clock, without what real programs say themselves.

    ``added`` are labels that the scraper adds, so that no exporter says them.
    """
    rows: dict[tuple[str, str], list[tuple[str, NDArray[np.float64]]]] = {}
    for one in series:
        labels = dict(one.labels)
        target = labels.pop("job"), labels.pop("instance")
        labels = {name: value for name, value in labels.items() if name not in added}
        ours = rows.setdefault(target, [])
        if not one.name.startswith(_REAL):
            dense = np.full(scrapes, np.nan)
            places = np.rint((one.times - begin) / every).astype(np.int64)
            inside = (places >= 0) & (places < scrapes)
            dense[places[inside]] = one.values[inside]
            ours.append((selector(one.name, labels), dense))
    return [
        Exporter(
            *target,
            tuple(name for name, _ in found),
            np.array([row for _, row in found]).reshape(len(found), scrapes),
            begin,
            every,
        )
        for target, found in sorted(rows.items())
    ]
