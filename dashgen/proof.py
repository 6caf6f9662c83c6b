# SPDX-License-Identifier: Apache-2.0
"""Proof that what is shipped works: every rule and every panel executed by Prometheus on recorded metrics.

A recording is a closed world: the alerts that it lists must fire, in time and with their labels, and every other alert
must stay silent, in every tier.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from dashgen import promql, queries
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup, Sensitivity
from dashgen.prometheus import (
    Evaluation,
    ExpressionError,
    Firing,
    Server,
    check_rules,
    evaluate,
    make_blocks,
    seconds,
)
from dashgen.recordings.format import Expected, Fault, Recording, Series, read_samples, read_story, selector
from dashgen.targets.rulefile import rule_file

Kind = Literal["rule", "missed", "noise", "early", "panel"]
Verdict = Literal["ok", "missed", "noise", "failed"]

# A panel, as (slug of the dashboard, title), that needs one of these metrics to have anything to show.
PanelNeeds = Mapping[tuple[str, str], Collection[str]]

_MAX_POINTS = 10_000  # Prometheus answers a range query with at most 11 000 points a series
_BUILT_IN = frozenset({"ALERTS", "ALERTS_FOR_STATE"})


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, as one line for people in ``what``.

    ``kind``: a broken ``rule``, an alert that was ``missed``, ``noise`` or ``early``, a ``panel`` that is empty or broken.
    ``when`` is in seconds since the epoch where a moment is concerned.
    """

    kind: Kind
    what: str
    tier: Sensitivity | None = None
    alert: str = ""
    when: float | None = None


@dataclass(frozen=True, kw_only=True)
class Detection:
    """How long after the start of a fault an alert that the recording requires fired for the first time, in seconds."""

    tier: Sensitivity
    fault: str
    alert: str
    after: float


@dataclass(frozen=True, kw_only=True)
class PanelProof:
    """What a panel showed: its queries that ``answered`` and that stayed ``silent``, by letter.

    ``blank`` are labels that its legends name and that a series lacked, ``errors`` what Prometheus refused.
    ``excused`` panels need a source that the recording does not have.
    """

    board: str
    title: str
    answered: tuple[str, ...]
    silent: tuple[str, ...]
    blank: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    excused: bool = False

    @property
    def proven(self) -> bool:
        """Whether any data came, and nothing was refused."""
        return bool(self.answered) and not self.errors


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What one recording proved. ``evaluation_seconds`` is how long Prometheus' engine took for its rules."""

    name: str
    source: str
    tiers: tuple[Sensitivity, ...]
    findings: tuple[Finding, ...]
    alerts: tuple[Firing, ...] = ()
    detections: tuple[Detection, ...] = ()
    panels: tuple[PanelProof, ...] = ()
    evaluation_seconds: float = 0.0

    def verdict(self, tier: Sensitivity) -> Verdict:
        """The worst that happened in a tier."""
        kinds = {finding.kind for finding in self.findings if finding.tier in (tier, None)}
        if "rule" in kinds:
            return "failed"
        return "missed" if "missed" in kinds else "noise" if kinds & {"noise", "early"} else "ok"

    def time_to_detect(self, tier: Sensitivity) -> float | None:
        """Seconds until the first required alert of a tier; None where none was required or none fired."""
        return min((found.after for found in self.detections if found.tier == tier), default=None)


@dataclass(frozen=True, kw_only=True)
class Scoreboard:
    """All that a validation found: the packs as such, each recording, and what no recording could prove."""

    packs: tuple[Finding, ...]
    proofs: tuple[Proof, ...]
    unproven: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong."""
        return (*self.packs, *(finding for proof in self.proofs for finding in proof.findings), *self.unproven)

    def to_json(self) -> str:
        """The scoreboard for machines; the same results give the same bytes except for measured times."""
        data = {
            "ok": not self.findings,
            "packs": [finding.what for finding in self.packs],
            "recordings": [_proof_data(proof) for proof in self.proofs],
            "unproven": [finding.what for finding in self.unproven],
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _proof_data(proof: Proof) -> dict[str, object]:
    return {
        "name": proof.name,
        "source": proof.source,
        "tiers": {
            tier.value: {"verdict": proof.verdict(tier), "time_to_detect_seconds": proof.time_to_detect(tier)}
            for tier in proof.tiers
        },
        "panels": {"proven": sum(panel.proven for panel in proof.panels), "total": len(proof.panels)},
        "evaluation_seconds": round(proof.evaluation_seconds, 2),
        "findings": [finding.what for finding in proof.findings],
    }


# The packs as such.


def check_packs(bundle: Bundle, known: Collection[str]) -> list[Finding]:
    """What is wrong with rules and panels before they see any data.

    ``known`` are the names of the series that the world outside exposes. Every other series that a rule, a panel, an
    annotation or a variable reads has to be recorded. Raises UserError when promtool is missing.
    """
    packs = {"recording.yaml": bundle.recording} | {_pack(tier): groups for tier, groups in bundle.alerts.items()}
    series = {*known, *_BUILT_IN, *(rule.record for rule in _rules(bundle.recording) if isinstance(rule, RecordingRule))}
    findings = [
        Finding(kind="rule", what=finding)
        for finding in check_rules({name: rule_file(groups) for name, groups in packs.items()})
    ]
    for name, groups in packs.items():
        for rule in _rules(groups):
            title = rule.record if isinstance(rule, RecordingRule) else rule.alert
            findings += [Finding(kind="rule", what=what) for what in _unknown(f"{name}: {title}", rule.expr, series)]
    for slug, board in bundle.dashboards.items():
        for where, expr in _board_expressions(board):
            findings += [Finding(kind="panel", what=what) for what in _unknown(f"{slug}: {where}", expr, series)]
    return findings


def _pack(tier: Sensitivity) -> str:
    return f"alerts-{tier.value}.yaml"


def _rules(groups: Iterable[RuleGroup]) -> Iterator[RecordingRule | AlertRule]:
    return (rule for group in groups for rule in group.rules)


def _board_expressions(board: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    yield from ((query.panel, query.expr) for query in queries.panel_queries(board))
    yield from (("annotations", expr) for expr in queries.annotation_queries(board))
    yield from ((f"variable {choice.name}", choice.match) for choice in queries.choices(board) if choice.match)


def _unknown(where: str, expr: str, series: Collection[str]) -> list[str]:
    try:
        read = promql.selectors(promql.parse(expr))
    except ValueError as error:
        return [f"{where}: not PromQL: {error}"]
    names = dict.fromkeys(each.name for each in read if each.name and each.name not in series)
    return [f"{where}: reads {name}, which nothing exposes or records" for name in names]


# One recording.


def prove(
    bundle: Bundle,
    folder: Path,
    sensitivities: Iterable[Sensitivity] = tuple(Sensitivity),
    panel_needs: PanelNeeds | None = None,
) -> Proof:
    """Execute the recording rules, the alert packs and every panel of a bundle on one recording.

    The bundle is built for the recording's site. A rule that Prometheus refuses or cannot compute is a finding. Raises
    UserError when the recording is damaged or too large for promtool, or when a tool is missing.
    """
    story, series = read_story(folder), read_samples(folder)
    tiers = tuple(tier for tier in Sensitivity if tier in set(sensitivities))
    start, end = story.start.timestamp(), story.end.timestamp()
    interval = _interval(bundle)
    blank = Proof(name=folder.name, source=story.source, tiers=tiers, findings=())
    began = time.monotonic()
    try:
        result = evaluate(_rule_files(bundle, tiers), series, start, end, interval, story.scrape_interval)
    except ExpressionError as error:
        return replace(blank, findings=(Finding(kind="rule", what=str(error)),))
    took = time.monotonic() - began
    panels, empty = _prove_panels(bundle, story, interval, [*series, *result.series, *result.alert_series], panel_needs)
    return replace(
        blank,
        findings=(*(finding for tier in tiers for finding in _judge(tier, story, result)), *empty),
        alerts=tuple(result.alerts),
        detections=tuple(found for tier in tiers for found in _detections(tier, story, result)),
        panels=panels,
        evaluation_seconds=took,
    )


def prove_all(
    jobs: Sequence[tuple[Bundle, Path]],
    sensitivities: Iterable[Sensitivity] = tuple(Sensitivity),
    panel_needs: PanelNeeds | None = None,
    progress: Callable[[Proof], None] = lambda proof: None,
) -> list[Proof]:
    """Prove recordings beside each other, one process a core; the answers come in the order of the jobs.

    ``progress`` hears of each proof as soon as it is there. Raises as ``prove``.
    """
    tiers = tuple(sensitivities)
    # A fresh interpreter: the caller may have threads, a progress bar for one, and those do not survive a fork.
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(os.cpu_count() or 1, len(jobs)))
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures: list[Future[Proof]] = []
        for bundle, folder in jobs:
            future = pool.submit(prove, bundle, folder, tiers, panel_needs)
            future.add_done_callback(lambda done: None if done.cancelled() or done.exception() else progress(done.result()))
            futures.append(future)
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _interval(bundle: Bundle) -> int:
    return int(min((seconds(group.interval) for group in bundle.recording if group.interval), default=30.0))


def _rule_files(bundle: Bundle, tiers: Iterable[Sensitivity]) -> dict[str, str]:
    """All packs for one run: packs share names of groups, and alerts tell their tier by a label."""
    files = {"recording.yaml": rule_file(bundle.recording)}
    for tier in tiers:
        groups = bundle.alerts.get(tier, ())
        if groups:
            files[_pack(tier)] = rule_file(_of_tier(group, tier) for group in groups)
    return files


def _of_tier(group: RuleGroup, tier: Sensitivity) -> RuleGroup:
    rules = tuple(
        replace(rule, labels={**rule.labels, "sensitivity": tier.value}) if isinstance(rule, AlertRule) else rule
        for rule in group.rules
    )
    return replace(group, name=f"{tier.value}: {group.name}", rules=rules)


# Alerts.


def _of(tier: Sensitivity, result: Evaluation) -> list[Firing]:
    return [one for one in result.alerts if one.firing and dict(one.labels)["sensitivity"] == tier]


def _covers(entry: Expected, one: Firing) -> bool:
    return entry.alert == one.alert and entry.labels.items() <= dict(one.labels).items()


def _judge(tier: Sensitivity, story: Recording, result: Evaluation) -> Iterator[Finding]:
    entries, fired = story.expect.get(tier, ()), _of(tier, result)
    for entry in entries:
        if not entry.optional:
            yield from _missed(tier, entry, [start for one in fired if _covers(entry, one) for start, _ in one.firing])
    for one in fired:
        yield from _unexpected(tier, [entry for entry in entries if _covers(entry, one)], one)


def _missed(tier: Sensitivity, entry: Expected, starts: list[float]) -> Iterator[Finding]:
    after, before = _moment(entry.after), _moment(entry.before)
    if any((after is None or start >= after) and (before is None or start <= before) for start in starts):
        return
    window = (f" after {_clock(after)}" if after else "") + (f" before {_clock(before)}" if before else "")
    instead = f", but at {', '.join(map(_clock, sorted(set(starts))))}" if starts else ""
    what = f"{selector(entry.alert, entry.labels)} did not fire{window}{instead}"
    yield Finding(kind="missed", tier=tier, alert=entry.alert, when=before, what=f"{tier.value}: {what}")


def _unexpected(tier: Sensitivity, entries: Sequence[Expected], one: Firing) -> Iterator[Finding]:
    start = one.firing[0][0]
    labels = [(key, value) for key, value in one.labels if key not in ("sensitivity", "severity", "signal")]
    name = f"{tier.value}: {selector(one.alert, tuple(labels))}"
    if not entries:
        what = f"{name} fired at {_clock(start)}, which the recording does not list"
        yield Finding(kind="noise", tier=tier, alert=one.alert, when=start, what=what)
    elif all(entry.after is not None and start < entry.after.timestamp() for entry in entries):
        earliest = min(entry.after.timestamp() for entry in entries if entry.after)
        what = f"{name} fired at {_clock(start)}, before {_clock(earliest)}"
        yield Finding(kind="early", tier=tier, alert=one.alert, when=start, what=what)


def _detections(tier: Sensitivity, story: Recording, result: Evaluation) -> Iterator[Detection]:
    required = [entry for entry in story.expect.get(tier, ()) if not entry.optional]
    starts = [
        (start, one.alert)
        for one in _of(tier, result)
        for start, _ in one.firing
        if any(_covers(entry, one) for entry in required)
    ]
    for fault, begin, end in _fault_windows(story):
        first: dict[str, float] = {}
        for start, alert in sorted(starts):
            if begin <= start < end:
                first.setdefault(alert, start - begin)
        for alert, after in first.items():
            yield Detection(tier=tier, fault=fault.kind, alert=alert, after=after)


def _fault_windows(story: Recording) -> Iterator[tuple[Fault, float, float]]:
    """Each fault with the span in which an alert is its own: up to the start of the next one."""
    faults = sorted((fault for fault in story.faults if fault.kind != "none"), key=lambda fault: fault.start)
    ends = [*(fault.start.timestamp() for fault in faults[1:]), float("inf")]
    for fault, end in zip(faults, ends, strict=False):
        yield fault, fault.start.timestamp(), end


def _moment(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")


# Panels.


def _prove_panels(
    bundle: Bundle, story: Recording, interval: int, series: list[Series], needs: PanelNeeds | None
) -> tuple[tuple[PanelProof, ...], list[Finding]]:
    if not bundle.dashboards:
        return (), []
    panels: list[PanelProof] = []
    findings: list[Finding] = []
    present = {one.name for one in series}
    with TemporaryDirectory(prefix="dashgen-") as data:
        make_blocks(Path(data), series)
        # Blocks hold no stale markers: a sample must not outlive the next scrape or evaluation by much.
        with Server(Path(data), lookback=max(story.scrape_interval, interval) + 20) as server:
            for slug, board in bundle.dashboards.items():
                values, empty = _fill_in(server, story, interval, board)
                shown = [
                    replace(panel, excused=not needed.isdisjoint(present) is False)
                    if (needed := set((needs or {}).get((slug, panel.title), ())))
                    else panel
                    for panel in _show(server, story, interval, slug, board, values)
                ]
                panels += shown
                if slug in story.boards:
                    findings += [Finding(kind="panel", what=f"{slug}: variable {name} has no values") for name in empty]
                    findings += [finding for panel in shown if not panel.excused for finding in _complaints(panel)]
                else:
                    findings += [finding for panel in shown for finding in _refusals(panel)]
    return tuple(panels), findings
