# SPDX-License-Identifier: Apache-2.0
"""The live page: the boards as Grafana would show them, drawn on the running Prometheus again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dashgen import build
from dashgen.engine.queries import Queries
from dashgen.errors import UserError
from dashgen.live.demo.plan import Plan, happenings
from dashgen.live.demo.server import REFRESH
from dashgen.model import Bundle
from dashgen.preview import make, page, sections, story
from dashgen.preview.sections import text
from dashgen.recordings.format import Fault, Recording

BOARDS = ("fleet", "job")

SPAN = 600.0
"""Seconds that curves show at most."""

_BEGIN = "<!DOCTYPE html>\n<!-- Drawn by `dashgen demo`. -->\n"


@dataclass
class Painter:
    """Draws the page of a plan whose demo began at ``begin`` (seconds since the epoch) whenever it is asked for.

    ``urls`` are the addresses of the programs by name.
    """

    plan: Plan
    bundle: Bundle
    begin: float
    urls: Mapping[str, str]
    clock: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _drawn: tuple[float, str] = (0.0, "")

    def __call__(self) -> str:
        """The page, drawn now or a few seconds ago; those who ask at the same time wait for one drawing."""
        with self._lock:
            if self.clock() - self._drawn[0] > REFRESH / 2:
                self._drawn = self.clock(), self._draw()
            return self._drawn[1]

    def _draw(self) -> str:
        try:
            drawn, said = self._boards(), ""
        except UserError as error:
            drawn, said = (), f'<p class="notes">{text(error)}</p>'
        links = [("#top", "Demo"), *sections.board_links(drawn)]
        body = [*self._head(), said, *sections.boards(drawn)]
        return page.document("dashgen demo", links, body, sections.figures(drawn), _BEGIN)

    def _boards(self) -> tuple[sections.Section, ...]:
        server, now = Queries(self.urls["prometheus"]), self.clock()
        told = self._told(now)
        opened = make.Opened(server, told, self.plan.dump, now, frozenset(server.label_values("__name__")))
        needs = build.panel_needs(self.plan.site)
        return make.sections_of(self.bundle, BOARDS, opened, story.regions(told), needs)

    def _told(self, now: float) -> Recording:
        """The last minutes as a story, so that what is injected is shaded."""
        start = max(self.begin - self.plan.span, now - SPAN)
        faults = (
            Fault(
                kind=name,
                start=_moment(max(start, self.begin + begins)),
                end=_moment(min(now, self.begin + ends)),
                job=job,
            )
            for name, job, begins, ends in happenings(self.plan)
            if self.begin + begins < now - 1 and self.begin + ends > start + 1
        )
        return Recording(
            format=1,
            story=self.plan.scenario.story,
            source="simulated",
            made_by="dashgen demo",
            start=_moment(start),
            end=_moment(now),
            scrape_interval=self.plan.scrape,
            faults=tuple(faults),
        )

    def _head(self) -> Iterator[str]:
        wrong = [name for name, _, begins, ends in happenings(self.plan) if begins <= self.clock() - self.begin < ends]
        yield "<h1>dashgen demo</h1>"
        yield f'<div class="facts"><p>{text(self.plan.scenario.story)}</p>'
        yield f"<p>Injected now: <b>{text(', '.join(wrong) or 'nothing')}</b></p>"
        links = (f'<a href="{text(url)}">{text(name)}</a>' for name, url in self.urls.items())
        yield f"<p>{self.plan.speed:g} times as fast as life · {' · '.join(links)}</p></div>"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
