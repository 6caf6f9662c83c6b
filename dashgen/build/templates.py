# SPDX-License-Identifier: Apache-2.0
"""What Go's templates are made of (pkg.go.dev/text/template), as far as dashgen looks into them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ACTION = re.compile(r"\{\{-?\s*(/\*.*?\*/|(?:\"(?:\\.|[^\"\\])*\"|`[^`]*`|(?!\}\}).)*?)\s*-?\}\}", re.DOTALL)

MOVING = ("with", "range", "define", "block")
"""Within these the dot is another one than outside."""
BLOCKS = ("if", *MOVING)
"""Actions that last until their ``end``."""


def actions(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Every action of a template: the word that it begins with, and the match whose first group is what it says."""
    for match in _ACTION.finditer(text):
        yield re.split(r"\W", match[1], maxsplit=1)[0], match
