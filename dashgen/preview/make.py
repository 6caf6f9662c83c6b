# SPDX-License-Identifier: Apache-2.0
"""Boards opened one after the other on a recording, as sections of a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dashgen.engine.evaluated import Replay, replay, serve, within
from dashgen.engine.panels import Viewer
from dashgen.engine.prometheus import ExpressionError
from dashgen.engine.queries import Queries
from dashgen.errors import UserError
from dashgen.grafana import variables
from dashgen.grafana.parsed import Board, Json, mapping, objects
from dashgen.model import Bundle, Sensitivity
from dashgen.preview import story
from dashgen.preview.draw import Drawn, Surroundings, draw
from dashgen.preview.fields import colour
from dashgen.preview.figures import Region, Span
from dashgen.preview.frames import legend
from dashgen.preview.page import Page
from dashgen.preview.sections import Mark, Section, anchor
from dashgen.recordings.format import Labels, Recording, Series, read_samples, read_story
from dashgen.validation.validate import PanelNeeds

MOST_POINTS = 960
"""Points of a curve: as many as a panel is wide on a large screen."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be previewed: boards by slug (all when empty), at which tier, at which moment of the recording.

    ``moment`` is in seconds since the epoch; None stands for the worst one, or for the end where nothing is ever wrong.
    ``commands`` are the lines with which a reader makes the same page.
    """

    tier: Sensitivity
    boards: tuple[str, ...] = ()
    moment: float | None = None
    commands: tuple[str, ...] = ()


def chosen(bundle: Bundle, names: Sequence[str]) -> tuple[str, ...]:
    """The slugs of boards that are named by slug or uid, in the order of the bundle; all without a name.

    Raises UserError for a name that no board has.
    """
    by_name = {slug: slug for slug in bundle.dashboards}
    by_name |= {str(board.get("uid")): slug for slug, board in bundle.dashboards.items() if mapping(board).get("uid")}
    for name in names:
        if name not in by_name:
            raise UserError(f"--board {name}: no such board; there are {', '.join(bundle.dashboards)}")
    wanted = {by_name[name] for name in names}
    return tuple(slug for slug in bundle.dashboards if slug in wanted or not wanted)


def content(
    bundle: Bundle,
    folder: Path,
    wanted: Wanted,
    panel_needs: PanelNeeds,
    progress: Callable[[str], None] = lambda step: None,
) -> Page:
    """A bundle's boards on one recording; the bundle is built for the recording's site.

    Equal input gives equal content. ``progress`` hears of the rules and of each board when it is done. Raises UserError
    when the recording is damaged or too large, when Prometheus refuses a rule, when a tool is missing, or when there is
    no such board.
    """
    told, samples = read_story(folder), read_samples(folder)
    slugs = chosen(bundle, wanted.boards)
    asked = within(told, wanted.moment, told.end.timestamp())
    try:
        played = replay(bundle, told, samples, [wanted.tier])
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    progress("rules")
    now = (story.worst(played.series) if wanted.moment is None else None) or asked
    truths = story.regions(told)
    sections = drawn(bundle, slugs, played, now, truths, panel_needs, progress)
    alerts = tuple(played.result.alerts)
    span = Span(told.start.timestamp(), told.end.timestamp(), told.scrape_interval, 24)
    return Page(
        name=folder.resolve().name,
        story=told,
        tier=wanted.tier,
        now=now,
        situation=story.situation(told, alerts, now),
        achieved=story.achieved(told, samples, span, (*truths, story.dotted(now))),
        alerts=alerts,
        commands=wanted.commands,
        sections=sections,
    )


def drawn(
    bundle: Bundle,
    slugs: Sequence[str],
    played: Replay,
    now: float,
    truths: Sequence[Region],
    panel_needs: PanelNeeds,
    progress: Callable[[str], None] = lambda step: None,
    first: int = 1,
) -> tuple[Section, ...]:
    """Boards on all of what was replayed, of the jobs that its story's faults name where one is chosen.

    Single values are those of ``now``, in seconds since the epoch; ``truths`` are shaded in every graph. ``first`` is
    the number of the first panel in the page.
    """
    with serve(played) as server:
        opened = Opened(server, played.story, played.interval, now, played.names)
        return sections_of(bundle, slugs, opened, truths, panel_needs, progress, first)


@dataclass(frozen=True)
class Opened:
    """A Prometheus on which boards are opened, and the story of what it holds.

    ``interval`` is that of its rules in seconds, ``now`` the shown moment, ``present`` the names of all its series.
    """

    server: Queries
    story: Recording
    interval: int
    now: float
    present: Collection[str]


def sections_of(
    bundle: Bundle,
    slugs: Sequence[str],
    opened: Opened,
    truths: Sequence[Region],
    panel_needs: PanelNeeds,
    progress: Callable[[str], None] = lambda step: None,
    first: int = 1,
) -> tuple[Section, ...]:
    """Boards as ``drawn`` has them, on a Prometheus that runs already."""
    anchors = {str(bundle.dashboards[slug].get("uid")): anchor(first, number) for number, slug in enumerate(slugs)}
    sections = []
    for slug in slugs:
        board = Board(bundle.dashboards[slug])
        viewer = Viewer(opened.server, opened.story, opened.interval, board, None, MOST_POINTS, opened.now)
        needs = {title: metrics for (where, title), metrics in panel_needs.items() if where == slug}
        marks = (*truths, story.dotted(opened.now))
        sections.append(_section(board, viewer, needs, opened.present, anchors, marks))
        progress(slug)
    return tuple(sections)


def _section(
    board: Board,
    viewer: Viewer,
    needs: Mapping[str, Collection[str]],
    present: Collection[str],
    anchors: Mapping[str, str],
    truths: tuple[Region, ...],
) -> Section:
    marks, regions, faults = _annotations(board, viewer)
    around = Surroundings(viewer, (*truths, *regions), needs, present, anchors)
    names = {str(each.get("name")): str(each.get("label") or each.get("name")) for each in board.variables}
    return Section(
        title=str(board.json.get("title") or board.json.get("uid") or "Dashboard"),
        description=str(board.json.get("description") or ""),
        choices=tuple((names[name], value or "nothing to choose") for name, value in viewer.chosen.items()),
        marks=marks,
        panels=tuple(_titled(draw(panel, around), viewer) for panel in board.panels),
        collapsed=frozenset(
            str(each.get("title") or "")
            for each in objects(board.json.get("panels"))
            if each.get("type") == "row" and each.get("collapsed")
        ),
        faults=faults,
        step=viewer.step,
    )


def _titled(drawn: Drawn, viewer: Viewer) -> Drawn:
    """With the chosen values in its words, as Grafana fills them in."""
    values = viewer.values | viewer.chosen
    title, description = (variables.fill(words, values) for words in (drawn.title, drawn.description))
    return replace(drawn, title=title, description=description)


# Annotations.


def _annotations(board: Board, viewer: Viewer) -> tuple[tuple[Mark, ...], tuple[Region, ...], tuple[str, ...]]:
    """What the board's annotations mark, the regions that they shade, and those that Prometheus refuses."""
    marks: list[Mark] = []
    regions: list[Region] = []
    faults: list[str] = []
    for each in board.annotations:
        expr = str(mapping(each.get("target")).get("expr") or each.get("expr") or "")
        if not expr or each.get("enable") is False:
            continue
        tone = colour(each.get("iconColor"))
        try:
            found, stamps = viewer.ask(expr), viewer.ask(f"timestamp({expr})")
        except ExpressionError as error:
            faults.append(f"{each.get('name')}: Prometheus refuses {error}")
            continue
        fresh = _fresh(stamps, viewer.step)
        own = [mark for one in found for mark in _marks(one, fresh, each, tone, viewer)]
        marks += own
        regions += _joined(own, tone)
    return tuple(marks), tuple(regions), tuple(faults)


Fresh = set[tuple[Labels, float]]


def _fresh(stamps: Sequence[Series], step: int) -> Fresh:
    """The moments at which a series has a sample of its own: an alert that has ended answers for a little longer."""
    return {
        (one.labels, moment)
        for one in stamps
        for moment, stamp in zip(one.times.tolist(), one.values.tolist(), strict=True)
        if moment - stamp < step
    }


def _marks(one: Series, fresh: Fresh, annotation: Json, tone: str, viewer: Viewer) -> list[Mark]:
    """The stretches in which a series is there and not zero: neighbouring points are one."""
    heading, text = (legend(one, str(annotation.get(key) or " ")) for key in ("titleFormat", "textFormat"))
    words = " ".join(part for part in (heading or str(annotation.get("name") or ""), text) if part)
    stretches: list[list[float]] = []
    for moment, value in zip(one.times.tolist(), one.values.tolist(), strict=True):
        if value != value or value == 0 or (one.labels, moment) not in fresh:
            continue
        if stretches and moment - stretches[-1][1] <= 0:
            stretches[-1][1] = moment + viewer.step
        else:
            stretches.append([moment, moment + viewer.step])
    return [Mark(start, min(end, viewer.end), tone, words) for start, end in stretches if start < viewer.end]


def _joined(marks: Sequence[Mark], tone: str) -> list[Region]:
    """Overlapping stretches as one, or the shade would tell how many there are."""
    found: list[Region] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        if found and mark.start <= found[-1].end:
            found[-1] = Region(found[-1].start, max(found[-1].end, mark.end), tone)
        else:
            found.append(Region(mark.start, mark.end, tone))
    return found
