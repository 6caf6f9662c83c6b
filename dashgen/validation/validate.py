# SPDX-License-Identifier: Apache-2.0
"""Proof that what is shipped works: every rule and every panel executed by Prometheus on recorded metrics.

A recording is a closed world: the alerts that it lists must fire, in time and with their labels, and every other alert
must stay silent, in every tier.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from dashgen import promql
from dashgen.config.site import Labels
from dashgen.engine import workers
from dashgen.engine.evaluated import Replay, pack_name, replay, serve
from dashgen.engine.panels import PanelProof, Viewer
from dashgen.engine.programs import find
from dashgen.engine.prometheus import Evaluation, ExpressionError, Firing, check_rules
from dashgen.errors import UserError, one_line
from dashgen.findings import Finding
from dashgen.grafana.parsed import Board
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup, Sensitivity
from dashgen.recordings.format import STORY, Expected, Fault, Recording, clock, read_samples, read_story, selector
from dashgen.targets.rulefile import rule_file

__all__ = [
    "Detection",
    "Deviation",
    "PanelNeeds",
    "PanelProof",
    "Proof",
    "Scoreboard",
    "check_packs",
    "prove",
    "prove_all",
    "unproven",
]

Kind = Literal["rule", "engine", "missed", "noise", "early", "panel"]
Verdict = Literal["ok", "missed", "noise", "failed"]

# A panel, as (slug of the dashboard, title), that needs one of these metrics to have anything to show.
PanelNeeds = Mapping[tuple[str, str], Collection[str]]

_BUILT_IN = frozenset({"ALERTS", "ALERTS_FOR_STATE"})


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """One thing that is not as a recording says it has to be, as one line for people in ``what``.

    ``kind``: a ``rule`` that fails, an ``engine`` that could not finish, an alert that was ``missed``, is ``noise`` or
    too ``early``, a ``panel`` that is empty or broken. ``when`` is in seconds since the epoch where a moment is
    concerned.
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
class Proof:
    """What one recording proved. ``evaluation_seconds`` is how long Prometheus' engine took for its rules."""

    name: str
    source: str
    tiers: tuple[Sensitivity, ...]
    deviations: tuple[Deviation, ...] = ()
    alerts: tuple[Firing, ...] = ()
    detections: tuple[Detection, ...] = ()
    panels: tuple[PanelProof, ...] = ()
    evaluation_seconds: float = 0.0

    def verdict(self, tier: Sensitivity) -> Verdict:
        """The worst that happened in a tier."""
        kinds = {each.kind for each in self.deviations if each.tier in (tier, None)}
        if kinds & {"rule", "engine"}:
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
    unproven: tuple[Deviation, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.packs or self.unproven or any(proof.deviations for proof in self.proofs))

    def to_json(self) -> str:
        """The scoreboard for machines; the same results give the same bytes except for measured times."""
        data = {
            "ok": self.ok,
            "packs": [asdict(finding) for finding in self.packs],
            "recordings": [_proof_data(proof) for proof in self.proofs],
            "unproven": [deviation.what for deviation in self.unproven],
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
        "deviations": [deviation.what for deviation in proof.deviations],
    }


# The packs as such.


def check_packs(bundle: Bundle, known: Collection[str]) -> list[Finding]:
    """What is wrong with rules and panels before they see any data.

    ``known`` are the names of the series that the world outside exposes. Every other series that a rule, a panel, an
    annotation or a variable reads has to be recorded. Raises UserError when promtool is missing.
    """
    packs = {"recording.yaml": bundle.recording} | {pack_name(tier): groups for tier, groups in bundle.alerts.items()}
    recorded = (rule.record for group in bundle.recording for rule in group.recorded)
    series = {*known, *_BUILT_IN, *recorded}
    refused = check_rules({name: rule_file(groups) for name, groups in packs.items()})
    found = [Finding("promtool", *finding.split(": ", 1)) for finding in refused]
    for name, groups in packs.items():
        for rule in _rules(groups):
            title = rule.record if isinstance(rule, RecordingRule) else rule.alert
            found += _unknown(f"{name}: {title}", rule.expr, series)
    for slug, board in bundle.dashboards.items():
        for query in Board(board).queries:
            found += _unknown(f"{slug}: {query.where}", query.expr, series)
    return found


def _rules(groups: Iterable[RuleGroup]) -> Iterator[RecordingRule | AlertRule]:
    return (rule for group in groups for rule in group.rules)


def _unknown(where: str, expr: str, series: Collection[str]) -> list[Finding]:
    try:
        read = promql.selectors(promql.parse(expr))
    except ValueError as error:
        return [Finding("promql", where, f"not PromQL: {one_line(error)}")]
    names = dict.fromkeys(each.name for each in read if each.name and each.name not in series)
    return [Finding("unknown-series", where, f"reads {name}, which nothing exposes or records") for name in names]


# One recording.


def prove(
    bundle: Bundle,
    folder: Path,
    sensitivities: Iterable[Sensitivity] = tuple(Sensitivity),
    panel_needs: PanelNeeds | None = None,
    job: str = Labels().job,
) -> Proof:
    """Execute the recording rules, the alert packs and every panel of a bundle on one recording.

    The bundle is built for the recording's site, whose label ``job`` names the job. A rule that Prometheus refuses or
    cannot compute is a deviation, and so is a recording in which no rule finds a job, which would prove nothing.
    ``panel_needs`` names the metrics without which a panel may stay empty. Raises UserError when the recording is
    damaged or too large for promtool, or when a tool is missing.
    """
    story, samples = read_story(folder), read_samples(folder)
    tiers = tuple(tier for tier in Sensitivity if tier in set(sensitivities))
    proof = Proof(name=folder.name, source=story.source, tiers=tiers)
    try:
        played = replay(bundle, story, samples, tiers)
    except ExpressionError as error:
        return replace(proof, deviations=(Deviation(kind="rule", what=str(error)),))
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    result = played.result
    if not any(one.name.startswith("job:") and dict(one.labels).get(job) for one in result.series):
        what = f"no rule finds a job by the label {job}; say under `site` in its {STORY} how its series are named"
        return replace(proof, deviations=(Deviation(kind="rule", what=what),))
    panels, empty = _prove_panels(bundle, played, panel_needs or {})
    return replace(
        proof,
        deviations=(*(each for tier in tiers for each in _judge(tier, story, result)), *empty),
        alerts=tuple(result.alerts),
        detections=tuple(found for tier in tiers for found in _detections(tier, story, result)),
        panels=panels,
        evaluation_seconds=played.took,
    )


def prove_all(
    recordings: Sequence[tuple[Bundle, Path, str]],
    sensitivities: Iterable[Sensitivity] = tuple(Sensitivity),
    panel_needs: PanelNeeds | None = None,
    progress: Callable[[Proof], None] = lambda proof: None,
) -> list[Proof]:
    """Prove recordings beside each other, one process a core; the answers come in the order of ``recordings``.

    Each comes with the bundle that is built for its site, and with the label that names a job there. ``progress`` hears
    of each proof as soon as it is there. A recording that cannot be proven does not cost the others: it is a deviation,
    and only where none can be proven, its error is raised.
    """
    tiers = tuple(sensitivities)
    for tool in ("promtool", "prometheus"):
        find(tool)
    proofs: dict[int, Proof] = {}
    refused: list[UserError] = []
    with workers.pool(max(1, min(os.cpu_count() or 1, len(recordings)))) as pool:
        numbers = {
            pool.submit(prove, bundle, folder, tiers, panel_needs, job): number
            for number, (bundle, folder, job) in enumerate(recordings)
        }
        for future in as_completed(numbers):
            number = numbers[future]
            try:
                proofs[number] = future.result()
            except UserError as error:
                refused.append(error)
                what = Deviation(kind="engine", what=str(error))
                proofs[number] = Proof(name=recordings[number][1].name, source="", tiers=tiers, deviations=(what,))
            progress(proofs[number])
    if len(refused) == len(recordings):
        raise refused[0]
    return [proofs[number] for number in range(len(recordings))]


# Alerts.


def _of(tier: Sensitivity, result: Evaluation) -> list[Firing]:
    return [one for one in result.alerts if one.firing and dict(one.labels)["sensitivity"] == tier]


def _covers(entry: Expected, one: Firing) -> bool:
    carried = dict(one.labels)
    return entry.alert == one.alert and all(carried.get(name, "") == value for name, value in entry.labels.items())


def _judge(tier: Sensitivity, story: Recording, result: Evaluation) -> Iterator[Deviation]:
    entries, fired = story.expect.get(tier, ()), _of(tier, result)
    for entry in entries:
        if not entry.optional:
            yield from _missed(tier, entry, [start for one in fired if _covers(entry, one) for start, _ in one.firing])
    for one in fired:
        yield from _unexpected(tier, [entry for entry in entries if _covers(entry, one)], one)


def _missed(tier: Sensitivity, entry: Expected, starts: list[float]) -> Iterator[Deviation]:
    after, before = _moment(entry.after), _moment(entry.before)
    if any((after is None or start >= after) and (before is None or start <= before) for start in starts):
        return
    window = (f" after {clock(after)}" if after else "") + (f" before {clock(before)}" if before else "")
    instead = f", but at {', '.join(map(clock, sorted(set(starts))))}" if starts else ""
    what = f"{selector(entry.alert, entry.labels)} did not fire{window}{instead}"
    yield Deviation(kind="missed", tier=tier, alert=entry.alert, when=before, what=f"{tier.value}: {what}")


def _unexpected(tier: Sensitivity, entries: Sequence[Expected], one: Firing) -> Iterator[Deviation]:
    start = one.firing[0][0]
    labels = [(key, value) for key, value in one.labels if key not in ("sensitivity", "severity", "signal")]
    name = f"{tier.value}: {selector(one.alert, tuple(labels))}"
    if not entries:
        what = f"{name} fired at {clock(start)}, which the recording does not list"
        yield Deviation(kind="noise", tier=tier, alert=one.alert, when=start, what=what)
    elif all(entry.after is not None and start < entry.after.timestamp() for entry in entries):
        earliest = min(entry.after.timestamp() for entry in entries if entry.after)
        what = f"{name} fired at {clock(start)}, before {clock(earliest)}"
        yield Deviation(kind="early", tier=tier, alert=one.alert, when=start, what=what)


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


# Panels.


def unproven(proofs: Iterable[Proof]) -> list[Deviation]:
    """The queries of panels that returned no data on any recording."""
    panels = [panel for proof in proofs for panel in proof.panels]
    asked = dict.fromkeys((panel.board, panel.title, ref) for panel in panels for ref in panel.silent + panel.answered)
    answered = {(panel.board, panel.title, ref) for panel in panels for ref in panel.answered}
    return [
        Deviation(kind="panel", what=f"{board}: {title}: query {ref} returns no data on any recording")
        for board, title, ref in asked
        if (board, title, ref) not in answered
    ]


def _prove_panels(bundle: Bundle, played: Replay, needs: PanelNeeds) -> tuple[tuple[PanelProof, ...], list[Deviation]]:
    if not bundle.dashboards:
        return (), []
    panels: list[PanelProof] = []
    deviations: list[Deviation] = []
    present = played.names
    with serve(played) as server:
        for slug, json_data in bundle.dashboards.items():
            viewer = Viewer(server, played.story, played.interval, Board(json_data))
            shown = [viewer.prove(slug, panel, needs.get((slug, panel.title), ()), present) for panel in viewer.panels]
            wanted = slug in played.story.boards
            empty = viewer.without_values if wanted else []
            deviations += [_panel_deviation(slug, f"variable {name}", "has no values") for name in empty]
            deviations += [each for panel in shown for each in _complaints(panel, wanted)]
            panels += shown
    return tuple(panels), deviations


def _complaints(panel: PanelProof, wanted: bool) -> Iterator[Deviation]:
    """What is wrong with a panel: what Prometheus refuses always is, the rest where the recording wants the board."""
    for error in panel.errors:
        yield _panel_deviation(panel.board, panel.title, error)
    if wanted and not panel.excused:
        if not (panel.answered or panel.errors):
            yield _panel_deviation(panel.board, panel.title, "returns no data")
        for label in panel.blank:
            yield _panel_deviation(panel.board, panel.title, f"the legend shows {label}, which a series lacks")


def _panel_deviation(slug: str, where: str, what: str) -> Deviation:
    return Deviation(kind="panel", what=f"{slug}: {where}: {what}")
