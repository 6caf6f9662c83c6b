# SPDX-License-Identifier: Apache-2.0
"""What is judged: a recording with its story and its jobs, and which kind of alert tells of which fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashgen.config import site as config
from dashgen.recordings.format import Fault, Recording
from dashgen.validation.spans import Span, length, overlap

SLOWDOWNS = frozenset({"network", "nic", "nvlink", "late-gpu", "slow-node"})

STANDSTILLS = frozenset({"hang", "dead-rank"})

BLIND = frozenset({"exporter-gone", "unreadable", "unwritable"})

SIGNALS: Mapping[str, frozenset[str]] = {
    "network": frozenset({"degradation", "fabric"}),
    "nic": frozenset({"degradation", "fabric"}),
    "nvlink": frozenset({"degradation"}),
    "late-gpu": frozenset({"degradation", "outlier"}),
    "slow-node": frozenset({"degradation", "outlier"}),
    "hang": frozenset({"stall"}),
    "dead-rank": frozenset({"stall"}),
    "exporter-gone": frozenset({"telemetry"}),
    "unreadable": frozenset({"telemetry"}),
    "unwritable": frozenset({"telemetry"}),
}
"""The kinds of signal that tell of a fault."""

EXPLAINS: Mapping[str, frozenset[str]] = {
    "degradation": SLOWDOWNS | STANDSTILLS,
    "outlier": SLOWDOWNS | STANDSTILLS,
    "stall": STANDSTILLS,
    "fabric": frozenset({"network", "nic"}),
    "telemetry": STANDSTILLS | BLIND | {"kill"},
}
"""The faults that excuse a signal: whatever else is said during them is judged as blame or as a further page."""

ANY = SLOWDOWNS | STANDSTILLS | BLIND | {"kill"}
"""The faults that an alert without a known ``signal`` may mean. A fault of yet another kind, unless it is ``none``,
excuses whatever is said of its job: nobody can say what it looks like."""

RECOVERY = 300.0
"""Seconds after a fault that are not counted as healthy."""

Job = tuple[str, str]
"""A job as (cluster, id); the cluster is empty where the site has one only."""


def job_of(labels: Mapping[str, str], names: config.Labels) -> Job | None:
    """The job that labels name; None where they name none."""
    found = labels.get(names.job)
    return None if found is None else (labels.get(names.cluster, "") if names.cluster else "", found)


@dataclass(frozen=True, eq=False)
class Case:
    """A recording as a judge sees it: its story, how its site calls things, and when which job was there.

    ``presence`` is in seconds since the epoch. ``evidence`` says whether DCGM shows GPU activity, ``percent`` how late
    a late GPU is where that is known; ``sick`` are the kinds of faults during which a job is not healthy.
    """

    story: Recording
    labels: config.Labels
    presence: Mapping[Job, Sequence[Span]]
    evidence: bool
    percent: float | None = None
    sick: frozenset[str] = frozenset(SIGNALS)

    def concerns(self, fault: Fault, job: Job) -> bool:
        """Whether a fault is one of a job."""
        return fault.job == job[1] and fault.cluster in (None, job[0])

    @property
    def healthy_hours(self) -> float:
        """Hours that jobs lived without a fault, five minutes of recovery left out."""
        hours = 0.0
        for job, spans in self.presence.items():
            sick = [
                (fault.start.timestamp(), fault.end.timestamp() + RECOVERY)
                for fault in self.story.faults
                if fault.kind in self.sick and self.concerns(fault, job)
            ]
            hours += (length(spans) - overlap(spans, sick)) / 3600
        return hours
