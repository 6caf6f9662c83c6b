# SPDX-License-Identifier: Apache-2.0
"""What somebody sees who opens a dashboard on a recording: every query of every panel, run by Prometheus."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dashgen.engine.prometheus import ExpressionError
from dashgen.engine.queries import Queries
from dashgen.grafana import variables
from dashgen.grafana.parsed import Board, PanelView
from dashgen.recordings.format import Recording, Series

_MAX_POINTS = 10_000  # Prometheus answers a range query with at most 11 000 points a series


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


class Viewer:
    """Somebody who opens a dashboard on the whole recording, and opens every row.

    ``panels`` are those that ask Prometheus, ``without_values`` the variables that have nothing to choose from,
    ``values`` what all variables stand for, and ``chosen`` what a reader sees of those that can be chosen. The time
    range goes from ``start`` to ``end``, by default all of the recording, in seconds since the epoch; single values are
    those of ``now``, by default the end; a curve has a point every ``step`` seconds, ``most_points`` at most.
    """

    def __init__(
        self,
        server: Queries,
        story: Recording,
        interval: int,
        board: Board,
        end: float | None = None,
        most_points: int = _MAX_POINTS,
        now: float | None = None,
    ) -> None:
        self._server = server
        self.start, self.end = story.start.timestamp(), story.end.timestamp() if end is None else end
        self.now = self.end if now is None else now
        self.step = max(interval, int((self.end - self.start) / most_points) + 1)
        self.values = variables.constants(board)
        self.values |= variables.macros(self.start, self.end, self.step, story.scrape_interval)
        self.panels = [panel for panel in board.asking if panel.queries]
        self.without_values: list[str] = []
        self.chosen: dict[str, str] = {}
        jobs = {fault.job for fault in story.faults}
        for choice in variables.choices(board):
            values = server.label_values(choice.label, variables.fill(choice.match, self.values) or None)
            one = variables.pick(values, jobs.__contains__)
            self.values[choice.name] = variables.written(choice, values, one)
            self.without_values += [] if values else [choice.name]
            everything = choice.everything or (choice.multi and len(values) != 1)
            self.chosen[choice.name] = "All" if everything else one

    def prove(self, slug: str, panel: PanelView, needs: Collection[str], present: Collection[str]) -> PanelProof:
        """Ask every query of a panel; it is excused when none of the metrics it ``needs`` is ``present``."""
        answered: list[str] = []
        silent: list[str] = []
        errors: list[str] = []
        blank: dict[str, None] = {}
        for query in panel.queries:
            ref = str(query.target.get("refId") or "A")
            try:
                found = self.ask(query.expr)
            except ExpressionError as error:
                errors.append(f"query {ref}: {error}")
                continue
            (answered if found else silent).append(ref)
            shown = variables.legend_labels(str(query.target.get("legendFormat") or ""))
            blank |= {label: None for label in shown if any(not _label(one, label) for one in found)}
        return PanelProof(
            board=slug,
            title=panel.title,
            answered=tuple(answered),
            silent=tuple(silent),
            blank=tuple(blank),
            errors=tuple(errors),
            excused=bool(needs) and not any(name in present for name in needs),
        )

    def ask(self, expr: str, until: float | None = None) -> list[Series]:
        """The curves of an expression: series that have anything to show, by default until the end of the time range.

        The instant query of a table is asked like this as well where it matters whether it ever has an answer. Raises
        ExpressionError when Prometheus refuses it.
        """
        found = self._server.query_range(
            variables.fill(expr, self.values), self.start, self.end if until is None else until, self.step
        )
        return [one for one in found if not np.isnan(one.values).all()]

    def ask_now(self, expr: str) -> list[Series]:
        """The values of an expression at the shown moment, NaN among them. Raises as ``ask``."""
        return self._server.query(variables.fill(expr, self.values), self.now)


def _label(one: Series, label: str) -> str:
    return one.name if label == "__name__" else dict(one.labels).get(label, "")
