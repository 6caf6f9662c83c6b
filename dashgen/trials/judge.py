# SPDX-License-Identifier: Apache-2.0
"""What alert packs made of a trial: which faults they saw and when, whom they blamed, and what they made up."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dashgen import build, config
from dashgen.model import Sensitivity
from dashgen.prometheus import Firing, evaluate
from dashgen.recordings.format import Fault, Recording
from dashgen.recordings.scenario import Scenario
from dashgen.targets.rulefile import rule_file
from dashgen.trials.draw import Trial, trial

SLOWDOWNS = frozenset({"network", "nic", "nvlink", "late-gpu", "slow-node"})
STANDSTILLS = frozenset({"hang", "dead-rank"})

SIGNALS: Mapping[str, frozenset[str]] = {
    "network": frozenset({"degradation", "fabric"}),
    "nic": frozenset({"degradation", "fabric"}),
    "nvlink": frozenset({"degradation"}),
    "late-gpu": frozenset({"degradation", "outlier"}),
    "slow-node": frozenset({"degradation", "outlier"}),
    "hang": frozenset({"stall"}),
    "dead-rank": frozenset({"stall"}),
    "exporter-gone": frozenset({"telemetry"}),
}
"""The kinds of signal that tell of a fault."""

EXPLAINS: Mapping[str, frozenset[str]] = {
    "degradation": SLOWDOWNS | STANDSTILLS,
    "outlier": SLOWDOWNS | STANDSTILLS,
    "stall": STANDSTILLS,
    "fabric": frozenset({"network", "nic"}),
    "telemetry": STANDSTILLS | {"exporter-gone", "kill"},
}
"""The faults that excuse a signal: whatever else is said during them is judged as blame or as a further page."""

LATE = 60.0
"""Seconds after the end of a fault in which seeing it still counts: a dump of 30 s, read up to 30 s later."""

AFTERMATH = 120.0
"""Seconds after the end of a fault in which an alert is no false alarm: two further dumps."""

PACKS = tuple(tier.value for tier in Sensitivity)


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One fault as one pack saw it.

    ``after`` is the time to detect in seconds, None where it was missed. ``attributed`` says whether the first
    verdict named the right suspect and transport, ``located`` whether the right node or GPU and no other was named;
    both are None where nothing was said. ``blamed`` counts the innocent nodes and GPUs that were named, ``pages`` the
    critical alerts, ``episodes`` those of any severity that asks for a human. ``fell`` says whether throughput was
    better before, ``place`` whether the fault has a place to be named, ``evidence`` whether DCGM shows GPU activity.
    """

    pack: str
    family: str
    lasts: float
    loss: float | None
    percent: float | None
    fell: bool
    evidence: bool
    place: bool
    after: float | None
    attributed: bool | None
    located: bool | None
    blamed: int
    pages: int
    episodes: int


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alert that nothing explains; ``at`` is in seconds since the trial's start."""

    pack: str
    severity: str
    alert: str
    labels: dict[str, str]
    at: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a trial showed. ``healthy_hours`` are hours of jobs without a fault that slows or stops them."""

    seed: int
    family: str
    healthy_hours: float
    seconds: float
    incidents: tuple[Incident, ...]
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True)
class _Episode:
    """One alert from the moment it began to fire; times are in seconds since the epoch."""

    alert: str
    labels: dict[str, str]
    start: float
    end: float

    @property
    def signal(self) -> str:
        return self.labels["signal"]

    @property
    def page(self) -> bool:
        return self.labels["severity"] == "critical"

    @property
    def place(self) -> tuple[str | None, str | None]:
        return self.labels.get("node"), self.labels.get("gpu")


def rule_files(site: config.Site) -> dict[str, str]:
    """The recording rules and the packs of all tiers for one run; groups get names of their own."""
    files = {"recording.yaml": rule_file(build.recording(site))}
    for tier in Sensitivity:
        groups = (replace(group, name=f"{tier}: {group.name}") for group in build.alerts(site, tier))
        files[f"alerts-{tier}.yaml"] = rule_file(groups)
    return files


def run(seed: int, peers: Mapping[str, str] | None = None) -> Result:
    """Simulate the trial of a seed, execute all packs on it, and judge them.

    ``peers`` are further rule files by pack name, whose alerts carry their pack's name as ``sensitivity``.
    """
    began = time.monotonic()
    one = trial(seed)
    site = config.site(one.scenario.site, one.scenario.name)
    firings = execute(one, {**rule_files(site), **(peers or {})})
    result = judge(one, firings, (*PACKS, *(peers or {})))
    return replace(result, seconds=time.monotonic() - began)


def execute(one: Trial, files: Mapping[str, str]) -> list[Firing]:
    """What fired, by Prometheus' own rule evaluation."""
    story = one.recording
    start, end = story.start.timestamp(), story.end.timestamp()
    return evaluate(files, one.series, start, end, one.scenario.dump_interval, story.scrape_interval, "ALERTS").alerts


def judge(one: Trial, firings: Iterable[Firing], packs: Sequence[str] = PACKS) -> Result:
    """Compare what fired with what was wrong."""
    episodes = [
        _Episode(each.alert, dict(each.labels), start, end)
        for each in firings
        for start, end in each.firing
        if dict(each.labels)["severity"] != "info"
    ]
    incidents, alarms = [], []
    for pack in packs:
        own = [each for each in episodes if each.labels["sensitivity"] == pack]
        incidents += [_incident(pack, one, fault, own) for fault in one.recording.faults if fault.kind in SIGNALS]
        alarms += list(_alarms(pack, one.recording, own))
    return Result(
        seed=one.seed,
        family=one.family,
        healthy_hours=healthy_hours(one.scenario, one.recording.faults),
        seconds=0.0,
        incidents=tuple(incidents),
        alarms=tuple(alarms),
    )


def _incident(pack: str, one: Trial, fault: Fault, episodes: Collection[_Episode]) -> Incident:
    begin, end = fault.start.timestamp(), fault.end.timestamp()
    ours = [
        each
        for each in episodes
        if each.labels.get("slurm_job_id") == fault.job and begin <= each.start <= end + AFTERMATH
    ]
    telling = [each for each in ours if each.signal in SIGNALS[fault.kind] and each.start <= end + LATE]
    blamed = {each.place for each in ours if each.signal in ("outlier", "degradation") and _wrong(each, fault)}
    job = next(job for job in one.scenario.jobs if job.id == fault.job)
    births = one.recording.start.timestamp() + (job.start or 0.0)
    return Incident(
        pack=pack,
        family=fault.kind,
        lasts=end - begin,
        loss=fault.throughput_loss,
        percent=max((getattr(event, "percent", 0.0) for event in one.scenario.events), default=0.0) or None,
        fell=begin > births + 1,
        evidence=one.scenario.companions.dcgm,
        place=fault.node is not None and fault.kind in SLOWDOWNS,
        after=min((each.start - begin for each in telling), default=None),
        attributed=_attributed(fault, ours) if fault.kind in SLOWDOWNS else None,
        located=_located(fault, ours, blamed),
        blamed=len(blamed) if fault.kind in SLOWDOWNS else 0,
        pages=sum(each.page for each in ours),
        episodes=len(ours),
    )


def _wrong(episode: _Episode, fault: Fault) -> bool:
    """Whether an alert names a node or a GPU that is innocent."""
    node, gpu = episode.place
    return (node is not None and node != fault.node) or (gpu is not None and fault.gpu is not None and gpu != fault.gpu)


def _attributed(fault: Fault, ours: Collection[_Episode]) -> bool | None:
    """Whether the first verdicts name the right suspect, and a transport that was slow; None without a verdict.

    An alert without a suspect is a verdict only where no other is: an outlier alert says that somebody is late.
    """
    verdicts = [each for each in ours if "suspect" in each.labels] or [
        each for each in ours if each.signal == "outlier"
    ]
    first = min((each.start for each in verdicts), default=None)
    if first is None:
        return None
    return all(
        each.labels.get("suspect", "straggler") == fault.suspect
        and (not fault.transport or each.labels.get("transport", fault.transport[0]) in fault.transport)
        for each in verdicts
        if each.start == first
    )


def _located(fault: Fault, ours: Collection[_Episode], blamed: Collection[object]) -> bool | None:
    """Whether the right place was named and no other; None where no place was named, or there is none to name."""
    if fault.node is None or fault.kind not in SLOWDOWNS:
        return None
    places = {each.place for each in ours if each.signal != "telemetry" and each.place != (None, None)}
    if not places:
        return None
    return not blamed and any(node == fault.node and (fault.gpu is None or gpu == fault.gpu) for node, gpu in places)


def _alarms(pack: str, story: Recording, episodes: Collection[_Episode]) -> Iterator[Alarm]:
    for each in sorted(episodes, key=lambda one: one.start):
        if not any(_explains(fault, each) for fault in story.faults):
            yield Alarm(
                pack=pack,
                severity=each.labels["severity"],
                alert=each.alert,
                labels={key: value for key, value in each.labels.items() if key not in ("sensitivity", "severity")},
                at=each.start - story.start.timestamp(),
            )


def _explains(fault: Fault, episode: _Episode) -> bool:
    return (
        fault.kind in EXPLAINS[episode.signal]
        and episode.labels.get("slurm_job_id") == fault.job
        and fault.start.timestamp() <= episode.start <= fault.end.timestamp() + AFTERMATH
    )


def healthy_hours(scenario: Scenario, faults: Iterable[Fault]) -> float:
    """Hours that jobs lived without a fault that slows or stops them, five minutes of recovery left out."""
    begin = scenario.start.timestamp()
    hours = 0.0
    for job in scenario.jobs:
        start = max(job.start or 0.0, 0.0)
        end = scenario.lasts if job.to is None else min(job.to, scenario.lasts)
        sick = sum(
            min(end, fault.end.timestamp() - begin + 300) - max(start, fault.start.timestamp() - begin)
            for fault in faults
            if fault.job == job.id and fault.kind in SLOWDOWNS | STANDSTILLS
        )
        hours += max(0.0, end - start - sick) / 3600
    return hours
