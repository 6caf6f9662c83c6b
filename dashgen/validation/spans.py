# SPDX-License-Identifier: Apache-2.0
"""Spans of time, as (start, end) in seconds."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time in spans that do not touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def length(spans: Iterable[Span]) -> float:
    """Seconds within at least one of the spans."""
    return sum(end - start for start, end in union(spans))


def overlap(ones: Iterable[Span], others: Iterable[Span]) -> float:
    """Seconds that lie within both."""
    theirs = union(others)
    return sum(length([(max(a, c), min(b, d)) for c, d in theirs]) for a, b in union(ones))
