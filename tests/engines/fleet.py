# SPDX-License-Identifier: Apache-2.0
"""Recordings side by side, as the jobs of one fleet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dashgen.recordings.format import Series, read_samples, read_story

RECORDINGS = Path(__file__).parents[1] / "recordings"
PLACES = frozenset({"node", "instance", "Hostname"})


def fleet(names: Iterable[str]) -> tuple[list[Series], float, float]:
    """Recordings at the same time, each on nodes of its own; their samples, beginning and end."""
    found, begin, last = [], 0.0, 0.0
    for name in names:
        story = read_story(RECORDINGS / name)
        start, end = story.start.timestamp(), story.end.timestamp()
        begin = begin or start
        last = max(last, begin + end - start)
        for one in read_samples(RECORDINGS / name):
            moved = begin - start if one.name.endswith("_mtime_seconds") else 0.0
            labels = [(key, f"{name}-{value}" if key in PLACES else value) for key, value in one.labels]
            found.append(Series(one.name, tuple(sorted(labels)), one.times + begin - start, one.values + moved))
    return found, begin, last
