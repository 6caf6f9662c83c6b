# SPDX-License-Identifier: Apache-2.0
"""What alert packs made of a case: which faults they saw and when, whom they blamed, and what they made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dashgen.config import site as config
from dashgen.engine.prometheus import Firing
from dashgen.model import Sensitivity, Severity
from dashgen.recordings.format import Fault
from dashgen.validation.cases import ANY, EXPLAINS, SIGNALS, SLOWDOWNS, Case, Job, job_of
from dashgen.validation.spans import overlap

LATE = 60.0
"""Seconds after the end of a fault in which seeing it still counts: a dump of 30 s, read up to 30 s later."""

AFTERMATH = 120.0
"""Seconds after the end of a fault in which an alert is no false alarm: two further dumps."""

CORE_LOSS = 0.08
"""The loss of throughput from which on every slowdown of links or nodes has to be seen."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One fault as one pack saw it.

    ``after`` is the time to detect in seconds, None where it was missed. ``attributed`` says whether the first
    verdict named the right suspect and transport, ``located`` whether the right node or GPU and no other was named;
    both are None where nothing was said. ``blamed`` counts the innocent nodes and GPUs that were named, ``pages`` the
    critical alerts, ``episodes`` those of any severity that asks for a human. ``fell`` says whether throughput was
    better before, ``place`` whether the fault has a place to be named, ``evidence`` whether DCGM shows GPU activity.

    ``said`` is the suspect, transport, node and gpu of the first alert that names one, ``right`` whether that is so;
    it has only what the truth knows. ``known`` says of a fault without a detection of its own that it came back while
    the alert of an earlier time still fired, and until it was over: nobody has to be called twice. ``coverage`` is
    the part of the time from detection to the fault's end in which a page, or an alert like the one that detected it,
    fires. ``core`` are the faults that every pack has to see.
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
    job: str = ""
    at: float = 0.0
    core: bool = False
    known: bool = False
    coverage: float | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alert that nothing explains; ``at`` is in seconds since the start of the case."""

    pack: str
    severity: str
    alert: str
    labels: dict[str, str]
    at: float


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What packs made of a case. ``healthy_hours`` are hours of jobs without a fault."""

    healthy_hours: float
    incidents: tuple[Incident, ...]
    alarms: tuple[Alarm, ...]


@dataclass(frozen=True)
class _Episode:
    """One alert from the moment it began to fire; times are in seconds since the epoch."""

    alert: str
    labels: Mapping[str, str]
    names: config.Labels
    start: float
    end: float

    @property
    def signal(self) -> str:
        return self.labels.get("signal", "")

    @property
    def severity(self) -> str:
        return self.labels.get("severity", "warning")

    @property
    def page(self) -> bool:
        return self.severity == "critical"

    @cached_property
    def job(self) -> Job | None:
        """The job that the alert names; None where it names none."""
        return job_of(self.labels, self.names)

    @property
    def place(self) -> tuple[str | None, str | None]:
        return self.labels.get(self.names.node), self.labels.get(self.names.gpu)

    def tells(self, kind: str) -> bool:
        """Whether such an alert can mean such a fault."""
        return self.signal not in EXPLAINS or self.signal in SIGNALS[kind]


def verdict(case: Case, firings: Iterable[Firing], packs: Sequence[str], unnamed: str = "") -> Verdict:
    """Compare what fired with what was wrong. Alerts without the label ``sensitivity`` are of the pack ``unnamed``."""
    episodes = [
        _Episode(each.alert, dict(each.labels), case.labels, start, end)
        for each in firings
        for start, end in each.firing
    ]
    episodes.sort(key=lambda each: (each.start, not each.page))
    incidents, alarms = [], []
    for pack in packs:
        own = [
            each
            for each in episodes
            if each.labels.get("sensitivity", unnamed) == pack and each.severity != Severity.INFO
        ]
        incidents += [_incident(pack, case, fault, own) for fault in case.story.faults if fault.kind in SIGNALS]
        alarms += list(_alarms(pack, case, own))
    return Verdict(healthy_hours=case.healthy_hours, incidents=tuple(incidents), alarms=tuple(alarms))


def _incident(pack: str, case: Case, fault: Fault, episodes: Collection[_Episode]) -> Incident:
    begin, end = fault.start.timestamp(), fault.end.timestamp()
    of_job = [each for each in episodes if each.job is not None and case.concerns(fault, each.job)]
    ours = [each for each in of_job if begin <= each.start <= end + AFTERMATH]
    heard = _heard(pack, ours)
    telling = [each for each in heard if each.tells(fault.kind) and each.start <= end + LATE]
    blamed = {each.place for each in ours if each.signal in ("outlier", "degradation") and _wrong(each, fault)}
    births = [spans[0][0] for job, spans in case.presence.items() if spans and case.concerns(fault, job)]
    said = dict(_said(heard))
    return Incident(
        pack=pack,
        family=fault.kind,
        lasts=end - begin,
        loss=fault.throughput_loss,
        percent=case.percent,
        fell=begin > min(births, default=begin) + 1,
        evidence=case.evidence,
        place=fault.node is not None and fault.kind in SLOWDOWNS,
        after=telling[0].start - begin if telling else None,
        attributed=_attributed(fault, ours) if fault.kind in SLOWDOWNS else None,
        located=_located(fault, ours, blamed),
        blamed=len(blamed) if fault.kind in SLOWDOWNS else 0,
        pages=sum(each.page for each in ours),
        episodes=len(ours),
        job=fault.job,
        at=begin - case.story.start.timestamp(),
        core=_core(fault),
        known=not telling and _known(case, fault, _heard(pack, of_job)),
        coverage=_coverage(end, telling[0], of_job) if telling else None,
        said=said,
        right=dict(_right(fault, said)),
    )


def _heard(pack: str, episodes: Collection[_Episode]) -> list[_Episode]:
    """The alerts that detect: the lowest tier is for pages, and a ticket that nobody reads at night detects nothing."""
    return [each for each in episodes if each.page or pack != Sensitivity.LOW]


def _core(fault: Fault) -> bool:
    return (
        fault.kind not in SLOWDOWNS - {"late-gpu"}
        or fault.throughput_loss is None
        or fault.throughput_loss >= CORE_LOSS
    )


def _known(case: Case, fault: Fault, episodes: Collection[_Episode]) -> bool:
    """Whether an alert that began in an earlier time of the same fault fires from before this one until it is over."""
    begin, end = fault.start.timestamp(), fault.end.timestamp()
    nature = _nature(fault)
    times = [
        (each.start.timestamp(), each.end.timestamp() + LATE)
        for each in case.story.faults
        if each.start < fault.start and _nature(each) == nature
    ]
    return any(
        each.tells(fault.kind)
        and each.start < begin
        and end <= each.end
        and any(first <= each.start <= last for first, last in times)
        for each in episodes
    )


def _nature(fault: Fault) -> dict[str, object]:
    """What two times of the same fault have in common."""
    return fault.model_dump(exclude={"start", "end", "throughput_loss"})


def _said(episodes: Collection[_Episode]) -> Iterator[tuple[str, str]]:
    """What the first alert that names a suspect, a transport, a node or a GPU names; a page before a ticket."""
    wanted: Mapping[str, Callable[[_Episode], str | None]] = {
        # An outlier alert says by itself that somebody is late.
        "suspect": lambda one: one.labels.get("suspect") or ("straggler" if one.signal == "outlier" else None),
        "transport": lambda one: one.labels.get("transport"),
        "node": lambda one: one.place[0],
        "gpu": lambda one: one.place[1] and " ".join(filter(None, one.place)),
    }
    for what, read in wanted.items():
        found = next(filter(None, map(read, episodes)), None)
        if found:
            yield what, found


def _right(fault: Fault, said: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Whether what was said is so, for everything that the truth knows; silence is not right."""
    if fault.suspect is not None:
        yield "suspect", said.get("suspect") == fault.suspect
    if fault.transport:
        yield "transport", said.get("transport") in fault.transport
    if fault.node is not None:
        yield "node", said.get("node") == fault.node
        if fault.gpu is not None:
            # Of a rail only the number is known; which node of it, another alert may say.
            rail = said.get("node") == fault.node and said.get("gpu") == fault.gpu
            yield "gpu", rail or said.get("gpu") == f"{fault.node} {fault.gpu}"
        elif " " in said.get("gpu", ""):  # any GPU of the node is right; a rail is on all nodes
            yield "gpu", said["gpu"].split(" ")[0] == fault.node


def _coverage(end: float, first: _Episode, episodes: Collection[_Episode]) -> float | None:
    """The part of the time from the first alert to a fault's end in which a page or one like it fires."""
    if first.start >= end:
        return None
    alike = [each for each in episodes if each.page or (not first.page and each.signal == first.signal)]
    return overlap([(first.start, end)], [(each.start, each.end) for each in alike]) / (end - first.start)


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


def _alarms(pack: str, case: Case, episodes: Collection[_Episode]) -> Iterator[Alarm]:
    for each in episodes:
        if not any(_explains(case, fault, each) for fault in case.story.faults):
            yield Alarm(
                pack=pack,
                severity=each.severity,
                alert=each.alert,
                labels={key: value for key, value in each.labels.items() if key not in ("sensitivity", "severity")},
                at=each.start - case.story.start.timestamp(),
            )


def _explains(case: Case, fault: Fault, episode: _Episode) -> bool:
    return (
        (fault.kind in EXPLAINS.get(episode.signal, ANY) or fault.kind not in ANY | {"none"})
        and episode.job is not None
        and case.concerns(fault, episode.job)
        and fault.start.timestamp() <= episode.start <= fault.end.timestamp() + AFTERMATH
    )
