# SPDX-License-Identifier: Apache-2.0
"""A fleet and a site's rules -> the bill: series, samples, rule seconds, memory and disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

from dashgen import build, promql
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.cost.measured import Measured, measured
from dashgen.durations import seconds
from dashgen.model import RecordingRule, RuleGroup

DAY = 86_400.0


@dataclass(frozen=True)
class Fleet:
    """What is watched. ``nccl`` and ``companions`` are raw series a GPU: Inspector's, and all others that rules read.

    ``scrape`` is seconds between scrapes, ``days`` how long samples are kept.
    """

    gpus: int
    jobs: int
    nccl: float
    companions: float
    scrape: float = 15.0
    days: float = 15.0


@dataclass(frozen=True)
class Bill:
    """What it costs. A figure is None where nobody has said it.

    ``rule_seconds`` are seconds of one core a dump, ``reads`` the same in reads of every raw sample.
    """

    raw_series: float | None
    recorded_series: float | None
    samples_per_second: float | None
    rule_seconds: float | None
    reads: float | None
    memory_bytes: float | None
    disk_bytes: float | None


def usual(gpus: int, jobs: int, scrape: float = 15.0, days: float = 15.0) -> Fleet:
    """A fleet whose GPUs expose what those of the measured fleets do."""
    known = measured()
    return Fleet(gpus, jobs, known.nccl, known.companions, scrape, days)


def forecast(fleet: Fleet, site: Site, known: Measured | None = None) -> Bill:
    """The bill of a fleet with the rules that this site builds, alerts of its tier among them."""
    known = known or measured()
    recording = build.recording(site)
    raw = fleet.gpus * (fleet.nccl + fleet.companions)
    made = {rule.record: _recorded(rule, fleet, known) for group in recording for rule in group.recorded}
    written = sum(made[rule.record] / seconds(group.interval) for group in recording for rule in group.recorded)
    samples = raw / fleet.scrape + written
    taken = _seconds([*recording, *build.alerts(site, site.sensitivity)], site, fleet, known)
    # A fleet with more series a GPU than those that were measured: each costs what one of theirs does.
    more = raw - fleet.gpus * (known.nccl + known.companions)
    return Bill(
        raw_series=raw,
        recorded_series=sum(made.values()),
        samples_per_second=samples,
        rule_seconds=taken,
        reads=taken / (_grown(known.read, fleet.gpus) * fleet.nccl / known.nccl),
        memory_bytes=_grown(known.working, fleet.gpus) + known.memory[1] * more,
        disk_bytes=samples * DAY * fleet.days * known.disk,
    )


def _grown(coefficient: tuple[float, float], gpus: int) -> float:
    """What a figure is at a size: its scale times a power of the GPUs."""
    return float(coefficient[0] * gpus ** coefficient[1])


def _recorded(rule: RecordingRule, fleet: Fleet, known: Measured) -> float:
    """Series of a rule; one that was not measured has a series a job, or a GPU where its level says so."""
    gpu, job = known.recorded.get(rule.record, (1.0, 0.0) if rule.record.startswith("gpu:") else (0.0, 1.0))
    return gpu * fleet.gpus + job * fleet.jobs


def _seconds(groups: Iterable[RuleGroup], site: Site, fleet: Fleet, known: Measured) -> float:
    """Seconds a dump; a rule that reads raw series of Inspector takes as long as there are many."""
    as_measured = site.model_copy(update={"dump_interval": Site().dump_interval})
    measured_groups = (*build.recording(as_measured), *build.alerts(as_measured, site.sensitivity))
    inspector = {site.metric(metric.key) for metric in METRICS if metric.name.startswith("nccl_")}
    often = {group.name: _evaluations(group, as_measured) for group in measured_groups}
    total = 0.0
    for group in groups:
        more = _evaluations(group, site) / often[group.name]
        for rule in group.rules:
            raw = fleet.nccl / known.nccl if promql.names(rule.expr) & inspector else 1.0
            share = known.shares.get(rule.record if isinstance(rule, RecordingRule) else rule.alert, 0.0)
            total += more * raw * share
    return total * _grown(known.rules, fleet.gpus)


def _evaluations(group: RuleGroup, site: Site) -> float:
    """How often a group is evaluated in a dump."""
    return site.dump_interval / seconds(group.interval)


def exponent(sizes: Iterable[tuple[float, float]]) -> float:
    """How a figure grows with the fleet, from the smallest to the largest: 1 is in proportion."""
    (small, low), *_, (large, high) = sorted(sizes)
    return log(high / low) / log(large / small)
