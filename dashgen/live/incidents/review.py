# SPDX-License-Identifier: Apache-2.0
"""Incidents as a page for their review: what happened when, the values behind it, and the boards as they were."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from dashgen import build
from dashgen.catalogue.names import VERDICT
from dashgen.config.site import Site
from dashgen.engine import evaluated as replay
from dashgen.errors import UserError
from dashgen.explain.values import Subject, why
from dashgen.live.incidents import report as words
from dashgen.live.incidents.history import Played
from dashgen.live.incidents.look import Found
from dashgen.live.incidents.windows import Incident
from dashgen.preview import make, page, sections, story
from dashgen.preview.sections import plain_table, text
from dashgen.recordings.format import Fault, selector

MARK = "<!DOCTYPE html>\n<!-- Written by `dashgen incidents`. -->\n"
"""How a review begins, by which one is known that may be replaced."""

MOST = 5
"""Incidents that are told in full, the dearest; each comes with its boards."""

BOARDS = ("job",)
FABRIC = "fabric"


def review(
    found: Found, site: Site, title: str, link: str = "", progress: Callable[[str], None] = lambda step: None
) -> str:
    """The HTML of a review; ``link`` is the address of the Prometheus, empty for a recording.

    Raises UserError as what fetches, replays and draws.
    """
    told = sorted(found.incidents, key=lambda one: -(one.gpu_hours or 0.0))[:MOST]
    body = [f"<h1>{text(title)}</h1>", *_overview(found.incidents, site)]
    links, figures = [("#top", "Incidents")], dict[str, object]()
    panels = 1
    for number, one in enumerate(found.incidents):
        if one not in told:
            continue
        body += _facts(one, number, site, link)
        links.append((f"#incident-{number}", f"{words.name(one)} {words.moment(one.start)}"))
        try:
            chain, drawn = _drawn(one, found.around(one), site, panels)
        except UserError as error:
            # Raw series may be kept for a shorter time than what the rules recorded.
            body.append(f'<p class="notes">The boards cannot be drawn: {text(error)}</p>')
        else:
            body += [chain, *sections.boards(drawn, panels)]
            figures |= sections.figures(drawn, panels)
            panels += sum(len(section.panels) for section in drawn)
        progress(words.name(one))
    return page.document(title, links, body, figures, MARK)


def _overview(found: Sequence[Incident], site: Site) -> Iterator[str]:
    yield f'<div class="facts"><p>{text(words.summary(found))}.</p>'
    heads = ("Job", "Begin (UTC)", "Lasted", "What", "Where", "Depth", "Throughput", "GPU hours")
    rows = [
        (
            words.name(one),
            words.moment(one.start),
            words.length(one),
            words.what(one),
            words.where(one),
            words.depth(one),
            words.throughput(one, site),
            words.cost(one),
        )
        for one in found
    ]
    yield plain_table(heads, rows) if rows else ""
    yield "</div>"


def _facts(one: Incident, number: int, site: Site, link: str) -> Iterator[str]:
    """What happened when, what the ports said, and where to look further."""
    yield f'<h2 id="incident-{number}">Job {text(words.name(one))}, {text(words.moment(one.start))} UTC</h2>'
    yield f'<div class="facts"><p>{text(_sentence(one, site))}</p>'
    yield plain_table(("UTC", "After", "What happened"), list(_timeline(one)))
    if one.fabric:
        yield "<h3>What the ports said</h3>"
        yield plain_table(("Evidence",), [(words.fabric(each),) for each in one.fabric])
    yield from _links(one, site, link)
    yield "</div>"


def _boards(one: Incident) -> tuple[str, ...]:
    return (*BOARDS, *([FABRIC] if one.fabric else []))


def _drawn(one: Incident, made: Played, site: Site, first: int) -> tuple[str, tuple[sections.Section, ...]]:
    """The values behind the verdict at its worst, and the boards as they were then."""
    bundle = build.bundle(site, [site.sensitivity])
    slugs = [slug for slug in _boards(one) if slug in bundle.dashboards]
    # The boards choose the job that the story tells of.
    told = made.replay.story.model_copy(update={"faults": (_fault(one),)})
    played = replace(made.replay, story=told)
    # An incident that has just been seen may be worst at the very end.
    worst = min(max(one.worst, told.start.timestamp() + site.dump_interval), told.end.timestamp())
    with replay.serve(played) as server:
        chain = why(Subject(VERDICT, one.job, worst), site, server.query)
    boards = make.drawn(bundle, slugs, played, worst, story.regions(told), build.panel_needs(site), first=first)
    summary = "The values behind the verdict at its worst"
    head = f"<h3>The boards as at {text(words.moment(worst))} UTC, the dotted line</h3>"
    return f"<details><summary>{summary}</summary><pre>{text(chain)}</pre></details>\n{head}", boards


def _fault(one: Incident) -> Fault:
    moments = (datetime.fromtimestamp(moment, UTC) for moment in (one.start, max(one.end, one.start + 1)))
    return Fault(kind=one.state, start=next(moments), end=next(moments), job=one.job)


def _sentence(one: Incident, site: Site) -> str:
    said = f"{words.what(one)}, {words.where(one)}; lasted {words.length(one)}; depth {words.depth(one)}; "
    return said + f"throughput {words.throughput(one, site)}; {words.cost(one)} GPU hours of {one.gpus} GPUs lost."


def _timeline(one: Incident) -> Iterator[tuple[str, str, str]]:
    """What happened when."""
    events = [
        (one.start, "The first dump that does not look as usual follows."),
        (one.detected, "The rules give their verdict."),
        (one.worst, f"The verdict is deepest: {words.depth(one)}."),
        *((one.start + each.after, f"{each.name} fires ({each.severity}).") for each in one.alerts),
        (
            one.end,
            "Not over yet when this was written." if one.ongoing else "The last dump that does not look as usual.",
        ),
    ]
    for moment, happened in sorted(events, key=lambda event: event[0]):
        yield words.moment(moment), f"{moment - one.start:.0f} s", happened


def _links(one: Incident, site: Site, link: str) -> Iterator[str]:
    """Where to look further."""
    targets = []
    of_job = {site.labels.job: one.job} | ({site.labels.cluster: one.cluster} if site.labels.cluster else {})
    place = {"var-job": one.job} | ({"var-cluster": one.cluster} if site.labels.cluster else {})
    around = {"from": round(1000 * (one.start - 900)), "to": round(1000 * (one.end + 900))}
    if site.grafana.url:
        for slug in _boards(one):
            asked = urllib.parse.urlencode(place | around)
            address = f"{site.grafana.url.rstrip('/')}/d/{site.grafana.uid_prefix}{slug}?{asked}"
            targets.append((address, f"Board {slug} in Grafana"))
    if link:
        range_of = {"g0.range_input": f"{round(one.length) + 1800}s", "g0.end_input": words.moment(one.end + 900)}
        asked = urllib.parse.urlencode({"g0.expr": selector(VERDICT, of_job), "g0.tab": "0", **range_of})
        targets.append((f"{link}/graph?{asked}", "The verdict in Prometheus"))
    for name in dict.fromkeys(each.name for each in one.alerts):
        if site.runbook_url.startswith("http"):
            targets.append((site.runbook_url.replace("{alert}", name), f"Runbook of {name}"))
    if targets:
        links = (f'<a href="{text(url)}">{text(said)}</a>' for url, said in targets)
        yield f"<p>{' · '.join(links)}</p>"
