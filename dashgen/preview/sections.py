# SPDX-License-Identifier: Apache-2.0
"""Drawn boards as HTML: panels in Grafana's grid, row by row. Every text is escaped where it enters."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markdown_it import MarkdownIt

from dashgen.preview.draw import Body, Box, Drawn, Empty, Sheet, Tile, Words
from dashgen.preview.figures import Entry, Figure
from dashgen.recordings.format import clock


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


def text(value: object) -> str:
    """Any text as HTML that shows it as it is, in an attribute too."""
    return html.escape(str(value), quote=True)


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(f"<th>{text(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


def figures(sections: Sequence[Section], first: int = 1) -> dict[str, object]:
    """The figures of boards whose panels are numbered from ``first``."""
    bodies = enumerate((panel.body for section in sections for panel in section.panels), first)
    return {f"p{number}": plotted(body) for number, body in bodies if isinstance(body, Figure)}


def plotted(figure: Figure) -> object:
    """What plotly is told."""
    return {"data": figure.data, "layout": figure.layout}


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
        yield from board(section, count, said)
        yield "</section>"
        count += len(section.panels)


_MOST_MARKS = 12


def board(section: Section, first: int, said: str) -> Iterator[str]:
    """One board, whose panels are numbered from ``first``; ``said`` is HTML that stands below its head."""
    yield f'<h2>{text(section.title)}</h2><p class="chips">{text(section.description)}</p>'
    yield said
    if section.choices:
        chosen = " · ".join(f"{text(name)}: <b>{text(value)}</b>" for name, value in section.choices)
        yield f'<p class="chips">{chosen}</p>'
    for mark in section.marks[:_MOST_MARKS]:
        when = f"{clock(mark.start)} to {clock(mark.end)}"
        yield f'<p class="chips">{swatch(mark.colour)}{when} <b>{text(mark.words)}</b></p>'
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


def swatch(colour: str, dashed: bool = False) -> str:
    """A colour beside a name."""
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
            yield from plot(body, number, label)
        case Sheet():
            yield _sheet(body, label)
        case Words():
            yield f'<div class="words">{_words(body)}</div>'
        case Empty():
            yield f'<div class="empty{" wrong" if body.wrong else ""}">{text(body.text)}</div>'
        case tiles:
            yield f'<div class="tiles">{"".join(map(_tile, tiles))}</div>'


def plot(figure: Figure, number: int, label: str) -> Iterator[str]:
    """The place of a figure, with its legend."""
    yield f'<div class="plot" id="p{number}" role="img" aria-label="{text(label)}"></div>'
    if not figure.entries:
        return
    if not figure.traces:
        states = "".join(f"<span>{swatch(each.colour)}{text(each.name)}</span>" for each in figure.entries)
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
    name = f'<td title="{text(entry.name)}">{swatch(entry.colour, entry.dashed)}{text(entry.name)}</td>'
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
    return f"<td{kind}{style}>{words}</td>"


def _tile(tile: Tile) -> str:
    style = f' style="background:{text(tile.colour)};color:{_ink(tile.colour)}"' if tile.colour else ""
    name = f"<span>{text(tile.name)}</span>" if tile.name else ""
    return f'<div class="tile"{style}><b>{text(tile.text)}</b>{name}</div>'


def _ink(colour: str) -> str:
    """Black or white, whichever can be read on a colour (ITU-R BT.601 luma)."""
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 150 else "#111111"


# Text panels.

# HTML in Markdown stays text, and nothing is loaded.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def _words(words: Words) -> str:
    """Markdown as HTML; markdown-it leaves out links to javascript: and data:. Anything else as it is written."""
    return _MARKDOWN.render(words.text) if words.markdown else f"<pre>{text(words.text)}</pre>"
