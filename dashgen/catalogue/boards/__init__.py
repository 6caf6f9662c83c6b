# SPDX-License-Identifier: Apache-2.0
"""The boards, one file each: a module below this package that has a function ``board`` is one."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from dashgen.catalogue.boards.parts import cluster_variable, marks
from dashgen.model import Dashboard, Sensitivity

__all__ = ["cluster_variable", "templates"]

_MODULES = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
_BOARDS: list[Callable[[Sensitivity], Dashboard]] = [module.board for module in _MODULES if hasattr(module, "board")]


def templates(sensitivity: Sensitivity) -> tuple[Dashboard, ...]:
    """All boards in the order of their places, with the thresholds of one tier drawn into their panels.

    Placeholders are still in place.
    """
    boards = sorted((board(sensitivity) for board in _BOARDS), key=lambda each: each.place)
    return tuple(replace(each, annotations=marks(each.variables)) for each in boards)
