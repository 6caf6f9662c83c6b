# SPDX-License-Identifier: Apache-2.0
"""What a validation is made of and how its result reads: folders in, a table and sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.guard.text import visible
from dashgen.model import Sensitivity
from dashgen.recordings.format import STORY, read_story
from dashgen.validation.validate import Scoreboard

_STYLES = {"ok": "green", "missed": "red", "noise": "red", "failed": "bold red"}


def folders(path: Path) -> list[Path]:
    """The recordings below a folder, or the folder itself. Raises UserError where there is none."""
    if (path / STORY).exists():
        return [path]
    found = sorted(story.parent for story in path.glob(f"*/{STORY}"))
    if not found:
        raise UserError(f"{path}: no recording (a folder with {STORY}); name their folder with --recordings")
    return found


def sites(found: Sequence[Path], base: config.Site) -> Iterator[tuple[Path, config.Site]]:
    """Each recording with the site that it was made at: the recording's own keys over the given configuration."""
    for folder in found:
        own = read_story(folder).site
        if own:
            given = base.model_dump(mode="json", exclude_unset=True)
            yield folder, config.site(_merged(given, own), str(folder / STORY) + ": site")
        else:
            yield folder, base


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


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
