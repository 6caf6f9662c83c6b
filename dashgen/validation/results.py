# SPDX-License-Identifier: Apache-2.0
"""How the result of a validation reads: a table and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from dashgen.guard.text import visible
from dashgen.model import Sensitivity
from dashgen.validation.validate import Scoreboard

_STYLES = {"ok": "green", "missed": "red", "noise": "red", "failed": "bold red"}


def table(board: Scoreboard, tiers: Sequence[Sensitivity]) -> Table:
    """One row a recording: the verdict of each tier with the time to detect, and the panels that showed data."""
    drawn = Table(box=None, pad_edge=False)
    drawn.add_column("recording")
    for tier in tiers:
        drawn.add_column(tier.value)
    drawn.add_column("panels", justify="right")
    drawn.add_column("engine", justify="right")
    for proof in board.proofs:
        cells = []
        for tier in tiers:
            verdict, after = proof.verdict(tier), proof.time_to_detect(tier)
            cells.append(Text(verdict if after is None else f"{verdict} {after:.0f} s", style=_STYLES[verdict]))
        shown = sum(panel.proven for panel in proof.panels)
        drawn.add_row(visible(proof.name), *cells, f"{shown}/{len(proof.panels)}", f"{proof.evaluation_seconds:.1f} s")
    return drawn


def findings(board: Scoreboard) -> Iterator[str]:
    """Everything that is wrong, a line each."""
    for finding in board.packs:
        yield f"{finding.where}: {finding.message}"
    for proof in board.proofs:
        for deviation in proof.deviations:
            yield f"{proof.name}: {deviation.what}"
    for deviation in board.unproven:
        yield deviation.what


def summary(board: Scoreboard) -> str:
    """The result in one line."""
    total = len(board.proofs)
    fine = sum(not proof.deviations for proof in board.proofs)
    panels = {(panel.board, panel.title) for proof in board.proofs for panel in proof.panels}
    proven = {(panel.board, panel.title) for proof in board.proofs for panel in proof.panels if panel.proven}
    packs = "packs accepted" if not board.packs else f"{len(board.packs)} findings in the packs"
    return f"{fine} of {total} recordings as they should be, {len(proven)} of {len(panels)} panels show data, {packs}"
