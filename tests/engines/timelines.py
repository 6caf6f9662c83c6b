# SPDX-License-Identifier: Apache-2.0
"""The verdicts of jobs as spans of time, and how far two engines are apart about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from dashgen.recordings.format import Series

VERDICT = "job:nccl_verdict:depth"
SAYS = ("state", "suspect", "transport")  # node and GPU of a suspect may become known an evaluation later
NOTHING = "unknown"  # the state before anything has been learned


@dataclass(frozen=True)
class Span:
    """One verdict of a job, from the first evaluation that said it to the first that did not; in evaluations."""

    says: tuple[str, ...]
    start: float
    end: float


Timelines = Mapping[str, tuple[Span, ...]]


def timelines(series: Iterable[Series], start: float, every: float) -> dict[str, tuple[Span, ...]]:
    """Each job's verdicts in the order of time, without those of a job of which nothing is known yet."""
    said: dict[str, dict[int, tuple[str, ...]]] = {}
    for one in series:
        labels = dict(one.labels)
        verdict = tuple(labels.get(name, "") for name in SAYS)
        if one.name == VERDICT and labels.get("state") != NOTHING:
            moments = said.setdefault(labels.get("slurm_job_id", ""), {})
            moments |= {round((moment - start) / every): verdict for moment in one.times.tolist()}
    return {job: tuple(_spans(moments)) for job, moments in sorted(said.items())}


def _spans(moments: Mapping[int, tuple[str, ...]]) -> Iterable[Span]:
    open_at: int | None = None
    before = -1
    for at in sorted(moments):
        if open_at is not None and (moments[at] != moments[open_at] or at > before + 1):
            yield Span(moments[open_at], open_at, before + 1)
            open_at = None
        open_at, before = (at if open_at is None else open_at), at
    if open_at is not None:
        yield Span(moments[open_at], open_at, before + 1)


def joined(said: Timelines) -> Timelines:
    """Without the gaps of an engine that was away, where it says the same after as before."""
    found: dict[str, tuple[Span, ...]] = {}
    for job, spans in said.items():
        for span in spans:
            *before, last = found.get(job, (span,))
            same = last.says == span.says
            found[job] = (*before, Span(last.says, last.start, span.end)) if same else (*before, last, span)
    return found


def lag(first: Timelines, second: Timelines, allowed: float, end: float) -> list[str]:
    """Where two engines say otherwise, or the same more than some evaluations apart.

    What begins within so many evaluations of the end the other may not have come to. When a job is said to be healthy
    after nothing was known of it does not count, nor whether a short one is: it is learned sooner or later.
    """
    wrong = []
    for job in sorted({*first, *second}):
        one, two = first.get(job, ()), second.get(job, ())
        pairs = list(zip(one, two, strict=False))
        alone = [*one[len(two) :], *two[len(one) :]]
        steps = [(a, b) for (before, _), (a, b) in pairwise(pairs) if a.says[0] != "healthy" or before.end == a.start]
        apart = [abs(b.start - a.start) for a, b in steps]
        same = all(a.says == b.says for a, b in pairs) and all(each.start > end - allowed for each in alone)
        same = same or {each.says[0] for each in (*one, *two)} == {"healthy"}
        if not same or max(apart, default=0) > allowed:
            wrong.append(f"job {job}: {_told(one)}; the other says {_told(two)}")
    return wrong


def _told(line: Iterable[Span]) -> str:
    return ", ".join(f"{'/'.join(filter(None, each.says))} from {each.start:g}" for each in line) or "nothing"
