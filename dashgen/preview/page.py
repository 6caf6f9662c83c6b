# SPDX-License-Identifier: Apache-2.0
"""The HTML around drawn panels: one file that loads nothing, and in which other people's text stays text.

Every text is escaped where it enters the page, and the page's own policy lets no script run but its own two, by their
checksums, and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files

from plotly.offline import get_plotlyjs

from dashgen import __version__
from dashgen.engine.prometheus import Firing
from dashgen.model import Sensitivity
from dashgen.preview.sections import (
    Section,
    board,
    board_links,
    boards,
    figures,
    plain_table,
    plot,
    plotted,
    swatch,
    text,
)
from dashgen.preview.story import FAULT, Achieved
from dashgen.recordings.format import Recording, clock

MARK = "<!DOCTYPE html>\n<!-- Written by `dashgen preview`. -->\n"
"""How a preview begins, by which one is known that may be replaced."""


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


def data(value: object) -> str:
    """The same value as JSON, which is not JavaScript and not HTML, whatever texts are in it."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


Figures = Mapping[str, object]
"""What plotly draws, by the element that it is drawn into."""


def page(content: Page) -> str:
    """The whole file."""
    links = [("#top", "Recording"), *board_links(content.sections)]
    body = [*_head(content), *boards(content.sections, said=_said(content))]
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
    return "\n".join(['<main class="picture"><section>', *board(section, 1, _said(content)), "</section></main>"])


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


def _figures(content: Page) -> Figures:
    # 0 is what the job achieved; panels are numbered from 1 on through all boards.
    achieved = {"p0": plotted(content.achieved.figure)} if content.achieved else {}
    return achieved | figures(content.sections)


def _sha(script: str) -> bytes:
    return hashlib.sha256(script.encode()).digest()


def _around(links: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What stands above all else: the way to every part, and dark or light."""
    if len(links) > 1:
        yield f'<a class="skip" href="{text(links[1][0])}">To the boards</a>'
    shown = "".join(f'<a href="{text(place)}">{text(name)}</a>' for place, name in links)
    theme = '<button type="button" id="theme" aria-pressed="false">Dark</button>'
    yield f'<nav aria-label="Boards">{shown}{theme}</nav>'
    yield '<main id="top">'
    yield "<noscript><p>The curves need JavaScript; tables and single values do not.</p></noscript>"


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
    yield from plot(achieved.figure, 0, f"Throughput of the job {achieved.readings}")
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


def _said(content: Page) -> str:
    """What was wrong and what fired at the shown moment."""
    wrong, firing = content.situation
    moment = datetime.fromtimestamp(content.now, UTC)
    said = f"{swatch(FAULT)}really <b>{text(wrong)}</b> · <b>{text(firing)}</b>"
    return f'<p class="chips">At {moment:%H:%M:%S} UTC: {said}</p>'
