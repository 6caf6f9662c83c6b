# SPDX-License-Identifier: Apache-2.0
"""The boards, one file each, in the order in which somebody walks through them."""

from __future__ import annotations

from dataclasses import replace

from dashgen.catalogue.boards import fabric, fleet, job, outliers, p2p, raw, telemetry
from dashgen.catalogue.boards.parts import cluster_variable, marks
from dashgen.model import Dashboard, Sensitivity

__all__ = ["cluster_variable", "templates"]


def templates(sensitivity: Sensitivity) -> tuple[Dashboard, ...]:
    """All boards, with the thresholds of one tier drawn into their panels, placeholders still in place."""
    boards = (
        fleet.board(sensitivity),
        job.board(sensitivity),
        outliers.board(sensitivity),
        p2p.board(sensitivity),
        fabric.board(sensitivity),
        telemetry.board(sensitivity),
        raw.board(sensitivity),
    )
    return tuple(replace(each, annotations=marks(each.variables)) for each in boards)
