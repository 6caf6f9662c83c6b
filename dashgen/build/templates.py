# SPDX-License-Identifier: Apache-2.0
"""What Go's templates are made of (pkg.go.dev/text/template), as far as dashgen looks into them."""

from __future__ import annotations

import re

ACTION = re.compile(r"\{\{-?\s*(/\*.*?\*/|(?:\"(?:\\.|[^\"\\])*\"|`[^`]*`|(?!\}\}).)*?)\s*-?\}\}", re.DOTALL)
"""An action; its first group is what it says."""

MOVING = ("with", "range", "define", "block")
"""Within these the dot is another one than outside."""
BLOCKS = ("if", *MOVING)
"""Actions that last until their ``end``."""


def word(action: re.Match[str]) -> str:
    """The word that an action begins with."""
    return re.split(r"\W", action[1], maxsplit=1)[0]
