# SPDX-License-Identifier: Apache-2.0
"""The HTML around drawn panels: one file that loads nothing, and in which other people's text stays text.

Every text is escaped where it enters the page, and the page's own policy lets no script run but its own two, by their
checksums, and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby

from markdown_it import MarkdownIt
from plotly.offline import get_plotlyjs

from dashgen import __version__
from dashgen.model import Sensitivity
from dashgen.preview.draw import Body, Box, Drawn, Empty, Sheet, Tile, Words
from dashgen.preview.figures import Entry, Figure
from dashgen.preview.story import FAULT, Achieved
from dashgen.prometheus import Firing
from dashgen.recordings.format import Recording, Series, clock

MARK = "<!DOCTYPE html>\n<!-- Written by `dashgen preview`. -->\n"
"""How a preview begins, by which one is known that may be replaced."""


@dataclass(frozen=True)
class Mark:
    """What an annotation marks: from, to (seconds since the epoch), colour and words."""

    start: float
    end: float
    colour: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A board: its chosen variables, what its annotations mark, its panels in order, and the rows Grafana collapses."""

    title: str
    description: str
    choices: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]
    panels: tuple[Drawn, ...]
    collapsed: frozenset[str]
    faults: tuple[str, ...]
    step: int


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that a preview says; ``now`` is the shown moment, and ``situation`` what was wrong and what fired then."""

    name: str
    story: Recording
    tier: Sensitivity
    now: float
    situation: tuple[str, str]
    achieved: Achieved | None
    alerts: tuple[Firing, ...]
    commands: tuple[str, ...]
    sections: tuple[Section, ...]


def text(value: object) -> str:
    """Any text as HTML that shows it as it is, in an attribute too."""
    return html.escape(str(value), quote=True)


def data(value: object) -> str:
    """The same value as JSON, which is not JavaScript and not HTML, whatever texts are in it."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


Figures = Mapping[str, object]
"""What plotly draws, by the element that it is drawn into."""


def page(content: Page) -> str:
    """The whole file."""
    links = [("#top", "Recording"), *board_links(content.sections)]
    body = [
        *_head(content),
        "<noscript><p>The curves need JavaScript; tables and single values do not.</p></noscript>",
        *boards(content.sections, said=_said(content)),
    ]
    return document(f"{content.name}: dashgen preview", links, body, _figures(content), MARK)


def document(title: str, links: Sequence[tuple[str, str]], body: Iterable[str], drawn: Figures, begin: str) -> str:
    """A whole file around HTML in which every text is escaped; ``begin`` is the doctype and who wrote it.

    ``links`` are places of the page and their names, the first what comes before the boards.
    """
    return _file(title, "\n".join([*_around(links), *body, "</main>"]), drawn, begin)


def board_alone(content: Page, section: Section) -> str:
    """A page that has nothing but one board, for a picture of it."""
    alone = replace(content, achieved=None, sections=(section,))
    return _file(f"{content.name}: dashgen preview", _alone(alone), _figures(alone), MARK)


def fingerprint(content: Page, section: Section) -> str:
    """A checksum of what a page that has nothing but one board shows."""
    alone = replace(content, achieved=None, sections=(section,))
    return hashlib.sha256((_alone(alone) + data(_figures(alone))).encode()).hexdigest()


def _alone(content: Page) -> str:
    (section,) = content.sections
    return "\n".join(['<main class="picture"><section>', *_section(section, 1, _said(content)), "</section></main>"])


def _file(title: str, body: str, drawn: Figures, begin: str) -> str:
    # plotly.js is four fifths of a page; browsers unpack it, and the page's policy lets only this text of it run.
    plotly, own = get_plotlyjs(), files("dashgen.preview").joinpath("page.js").read_text(encoding="utf-8")
    style = files("dashgen.preview").joinpath("page.css").read_text(encoding="utf-8")
    hashes = " ".join(f"'sha256-{base64.b64encode(_sha(each)).decode()}'" for each in (plotly, own))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        f'{begin}<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="dashgen {text(__version__)}">\n'
        f"<title>{text(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="text/plain" id="plotly">{packed(plotly)}</script>\n'
        f'<script type="text/plain" id="figures">{packed(data(drawn))}</script>\n<script>{own}</script>\n'
        "</body>\n</html>\n"
    )


def packed(plain: str) -> str:
    """A text as the base64 of its zlib stream, which DecompressionStream calls deflate; nothing in it is HTML."""
    return base64.b64encode(zlib.compress(plain.encode(), 9)).decode()


def figures(sections: Sequence[Section], first: int = 1) -> dict[str, object]:
    """The figures of boards whose panels are numbered from ``first``."""
    bodies = enumerate((panel.body for section in sections for panel in section.panels), first)
    return {f"p{number}": _plotted(body) for number, body in bodies if isinstance(body, Figure)}


def _figures(content: Page) -> Figures:
    # 0 is what the job achieved; panels are numbered from 1 on through all boards.
    achieved = {"p0": _plotted(content.achieved.figure)} if content.achieved else {}
    return achieved | figures(content.sections)


def _plotted(figure: Figure) -> object:
    return {"data": figure.data, "layout": figure.layout}


def _sha(script: str) -> bytes:
    return hashlib.sha256(script.encode()).digest()


def anchor(first: int, number: int) -> str:
    """The place of a board, counted from 0, among those whose panels are numbered from ``first``."""
    return f"#board-{first}-{number}"


def board_links(sections: Sequence[Section], first: int = 1) -> list[tuple[str, str]]:
    """The places of boards, and their names."""
    return [(anchor(first, number), each.title) for number, each in enumerate(sections)]


def boards(sections: Sequence[Section], first: int = 1, said: str = "") -> Iterator[str]:
    """Boards one below the other; panels are numbered from ``first``, no two of a page alike.

    ``said`` is HTML that stands below the head of each.
    """
    count = first
    for (place, _), section in zip(board_links(sections, first), sections, strict=True):
        yield f'<section id="{place[1:]}" aria-label="{text(section.title)}">'
        yield from _section(section, count, said)
        yield "</section>"
        count += len(section.panels)


def _around(links: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What stands above all else: the way to every part, and dark or light."""
    if len(links) > 1:
        yield f'<a class="skip" href="{text(links[1][0])}">To the boards</a>'
    shown = "".join(f'<a href="{text(place)}">{text(name)}</a>' for place, name in links)
    theme = '<button type="button" id="theme" aria-pressed="false">Dark</button>'
    yield f'<nav aria-label="Boards">{shown}{theme}</nav>'
    yield '<main id="top">'


# What the recording is, what was wrong in it, and what fired.


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _head(content: Page) -> Iterator[str]:
    story = content.story
    yield f"<h1>Boards on the recording {text(content.name)}</h1>"
    yield f'<div class="facts"><p>{text(story.story)}</p><dl>'
    steps = sorted({each.step for each in content.sections})
    facts = [
        ("Source", f"{story.source} ({story.made_by})"),
        ("Recorded", f"{_day(story.start)} to {_day(story.end)} UTC, a scrape every {story.scrape_interval} s"),
    ]
    until = datetime.fromtimestamp(content.now, UTC)
    seen = f"as at {_day(until)} UTC, the dotted line: tables and single values show this moment"
    facts += [
        ("Seen", seen + f", one point every {', '.join(map(str, steps))} s" if steps else seen),
        ("Alerts", f"sensitivity {content.tier.value}"),
        ("Made by", f"dashgen {__version__}, with Prometheus' own rule evaluation and query engine"),
    ]
    for title, words in facts:
        yield f"<dt>{title}</dt><dd>{text(words)}</dd>"
    if content.commands:
        lines = text("\n".join(content.commands))
        yield f"<dt>Make it again</dt><dd><pre>{lines}</pre></dd>"
    yield "</dl>"
    yield from _achieved(content.achieved)
    yield from _faults(story)
    yield from _alerts(content.alerts, story.end.timestamp())
    yield "</div>"


def _achieved(achieved: Achieved | None) -> Iterator[str]:
    if achieved is None:
        return
    readings = f": <b>{text(achieved.readings)}</b>" if achieved.readings else ""
    yield f"<h3>What the job achieved{readings}</h3>"
    yield f'<p class="chips">{text(achieved.name)}, as recorded; shaded is what was really wrong.</p>'
    yield '<article class="panel alone">'
    yield from _plot(achieved.figure, 0, f"Throughput of the job {achieved.readings}")
    yield "</article>"


def _faults(story: Recording) -> Iterator[str]:
    yield "<h3>What was really wrong</h3>"
    rows = [
        (
            fault.kind if fault.kind != "none" else "harmless event",
            f"{_day(fault.start)} to {fault.end.astimezone(UTC):%H:%M:%S}",
            fault.job,
            ", ".join(fault.transport),
            fault.suspect or "",
            " ".join(each for each in (fault.node, fault.gpu) if each),
            "" if fault.throughput_loss is None else f"{fault.throughput_loss * 100:.1f}%",
        )
        for fault in story.faults
    ]
    heads = ("Fault", "UTC", "Job", "Transport", "Suspect", "Where", "Throughput lost")
    yield plain_table(heads, rows) if rows else '<p class="chips">The recording tells of no fault.</p>'


def _alerts(alerts: Sequence[Firing], over: float) -> Iterator[str]:
    yield "<h3>What fired</h3>"
    hidden = {"severity", "signal", "sensitivity"}
    rows = [
        (
            one.alert,
            dict(one.labels).get("severity", ""),
            ", ".join(f"{name}={value}" for name, value in one.labels if name not in hidden),
            ", ".join(f"{clock(start)} to {clock(end) if end <= over else 'the end'}" for start, end in one.firing),
        )
        for one in sorted(alerts, key=lambda one: (one.firing[:1], one.alert, one.labels))
        if one.firing
    ]
    yield plain_table(("Alert", "Severity", "Labels", "UTC"), rows) if rows else '<p class="chips">Nothing.</p>'


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(f"<th>{text(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


# Boards.

_MOST_MARKS = 12


def _said(content: Page) -> str:
    """What was wrong and what fired at the shown moment."""
    wrong, firing = content.situation
    moment = datetime.fromtimestamp(content.now, UTC)
    said = f"{_swatch(FAULT)}really <b>{text(wrong)}</b> · <b>{text(firing)}</b>"
    return f'<p class="chips">At {moment:%H:%M:%S} UTC: {said}</p>'


def _section(section: Section, first: int, said: str) -> Iterator[str]:
    yield f'<h2>{text(section.title)}</h2><p class="chips">{text(section.description)}</p>'
    yield said
    if section.choices:
        chosen = " · ".join(f"{text(name)}: <b>{text(value)}</b>" for name, value in section.choices)
        yield f'<p class="chips">{chosen}</p>'
    for mark in section.marks[:_MOST_MARKS]:
        when = f"{clock(mark.start)} to {clock(mark.end)}"
        yield f'<p class="chips">{_swatch(mark.colour)}{when} <b>{text(mark.words)}</b></p>'
    if len(section.marks) > _MOST_MARKS:
        yield f'<p class="chips">and {len(section.marks) - _MOST_MARKS} further annotations, shaded in the graphs</p>'
    for fault in section.faults:
        yield f'<p class="notes">{text(fault)}</p>'
    numbered = list(enumerate(section.panels, first))
    for row, group in groupby(numbered, key=lambda pair: pair[1].row):
        panels = list(group)
        # The panels of a collapsed row overlap with what follows; here every row has a grid of its own.
        top = min((each.place[1] for each in section.panels if each.place and each.row == row), default=0)
        note = " <small>(collapsed in Grafana)</small>" if row in section.collapsed else ""
        yield f"<details open><summary><h3>{text(row)}{note}</h3></summary>" if row else "<div>"
        yield '<div class="grid">'
        for number, panel in panels:
            yield from _panel(panel, number, top)
        yield "</div></details>" if row else "</div></div>"


def _swatch(colour: str, dashed: bool = False) -> str:
    kind = "swatch dashed" if dashed else "swatch"
    return f'<i class="{kind}" style="background:{text(colour)};border-color:{text(colour)}"></i>'


def _panel(panel: Drawn, number: int, top: int) -> Iterator[str]:
    width, height = panel.size
    corner = f"{panel.place[1] - top + 1}/{panel.place[0] + 1}" if panel.place else "auto/auto"
    area = f"grid-area:{corner}/span {height}/span {width}"
    kind = " ".join(["panel", *["low"] * (height < 6), *["wide"] * (width > 12)])
    yield f'<article class="{kind}" style="{area}" title="{text(panel.description)}"><h4>{text(panel.title)}</h4>'
    # A small panel has no room for the question; it is in the tooltip.
    yield f'<p class="question">{text(panel.description)}</p>' if panel.description and height > 4 else ""
    yield from _content(panel.body, number, f"{panel.title}. {panel.description}")
    for note in panel.notes:
        yield f'<p class="notes">{text(note)}</p>'
    yield "</article>"


def _content(body: Body, number: int, label: str) -> Iterator[str]:
    match body:
        case Figure():
            yield from _plot(body, number, label)
        case Sheet():
            yield _sheet(body, label)
        case Words():
            yield f'<div class="words">{_words(body)}</div>'
        case Empty():
            yield f'<div class="empty{" wrong" if body.wrong else ""}">{text(body.text)}</div>'
        case tiles:
            yield f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def _plot(figure: Figure, number: int, label: str) -> Iterator[str]:
    yield f'<div class="plot" id="p{number}" role="img" aria-label="{text(label)}"></div>'
    if not figure.entries:
        return
    if not figure.traces:
        states = "".join(f"<span>{_swatch(each.colour)}{text(each.name)}</span>" for each in figure.entries)
        yield f'<div class="legend states">{states}</div>'
        return
    heads = "".join(f"<th>{text(each)}</th>" for each in ("", *figure.heads))
    rows = "".join(_entry(each, place, figure) for place, each in enumerate(figure.entries))
    yield f'<div class="legend"><table>{f"<tr>{heads}</tr>" if figure.heads else ""}{rows}</table></div>'


def _entry(entry: Entry, place: int, figure: Figure) -> str:
    # A line of the legend is a switch, by mouse and by keyboard.
    switch = 'tabindex="0" role="button" aria-pressed="true"'
    trace = f' data-trace="{place}" {switch}' if place < figure.traces else ""
    values = "".join(f"<td>{text(each)}</td>" for each in entry.values)
    name = f'<td title="{text(entry.name)}">{_swatch(entry.colour, entry.dashed)}{text(entry.name)}</td>'
    return f"<tr{trace}>{name}{values}</tr>"


def _sheet(sheet: Sheet, label: str) -> str:
    numbers = [any(row[place].number for row in sheet.rows) for place in range(len(sheet.columns))]
    kinds = [' class="number"' if each else "" for each in numbers]
    head = "".join(f'<th scope="col"{kind}>{text(each)}</th>' for each, kind in zip(sheet.columns, kinds, strict=True))
    rows = "".join(
        f"<tr>{''.join(_box(box, kind) for box, kind in zip(row, kinds, strict=True))}</tr>" for row in sheet.rows
    )
    return f'<div class="sheet" tabindex="0"><table aria-label="{text(label)}"><tr>{head}</tr>{rows}</table></div>'


def _box(box: Box, kind: str) -> str:
    style = f' style="background:{text(box.colour)};color:{_ink(box.colour)}"' if box.colour else ""
    words = f'<a href="{text(box.link)}">{text(box.text)}</a>' if box.link else text(box.text)
    return f"<td{kind}{style}>{_sparkline(box.curve) if box.curve else ''}{words}</td>"


def _tile(tile: Tile) -> str:
    style = f' style="background:{text(tile.colour)};color:{_ink(tile.colour)}"' if tile.colour else ""
    name = f"<span>{text(tile.name)}</span>" if tile.name else ""
    return f'<div class="tile"{style}><b>{text(tile.text)}</b>{name}</div>'


def _ink(colour: str) -> str:
    """Black or white, whichever can be read on a colour (ITU-R BT.601 luma)."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 150 else "#111111"


_WIDTH, _HEIGHT = 96, 22


def _sparkline(one: Series) -> str:
    """A small curve in a table cell."""
    pairs = zip(one.times.tolist(), one.values.tolist(), strict=True)
    points = [(moment, value) for moment, value in pairs if math.isfinite(value)]
    if not points:
        return ""
    first, across = points[0][0], (points[-1][0] - points[0][0]) or 1
    low = min(value for _, value in points)
    up = (max(value for _, value in points) - low) or 1
    drawn = " ".join(
        f"{(moment - first) / across * (_WIDTH - 4) + 2:.1f},{_HEIGHT - 2 - (value - low) / up * (_HEIGHT - 4):.1f}"
        for moment, value in points
    )
    line = f'<polyline points="{drawn}" fill="none" stroke="#1f60c4" stroke-width="1.2"/>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{line}</svg>'


# Text panels.

# HTML in Markdown stays text, and nothing is loaded.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def _words(words: Words) -> str:
    """Markdown as HTML; markdown-it leaves out links to javascript: and data:. Anything else as it is written."""
    return _MARKDOWN.render(words.text) if words.markdown else f"<pre>{text(words.text)}</pre>"
