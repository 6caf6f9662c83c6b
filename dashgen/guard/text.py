# SPDX-License-Identifier: Apache-2.0
"""The one place that makes text fit for a terminal and for the log of a CI job.

File names, label values, titles and messages of servers come from anywhere. What is printed of them holds no control
character, no character that turns the direction of writing, and nothing that the log of a CI job takes for a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

LONGEST = 300
"""Characters that an error line has at most, whatever it quotes."""

_QUOTED = 60
_GAP = " … "
# GitHub's runner reads ##[command] anywhere in a line and ::command:: at its start (actions/runner ActionCommand.cs),
# Azure Pipelines reads ##vso[command], TeamCity ##teamcity[command].
_ANYWHERE = re.compile(r"##(?=\w*\[)")
_AT_THE_START = re.compile(r"^(\s*):(?=:)")


def visible(text: str) -> str:
    """A line in which every character can be seen, and which no CI takes for a command."""
    seen = text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)
    return _AT_THE_START.sub(r"\1: ", _ANYWHERE.sub("# #", seen))


def block(text: str) -> str:
    """Text of several lines, each of them visible; only a line feed ends a line, and tabs stay."""
    return "\n".join("\t".join(map(visible, each.split("\t"))) for each in text.split("\n"))


def in_json(text: str) -> str:
    """JSON that means the same and holds no command either."""
    return _ANYWHERE.sub("#\\\\u0023", text)


def line(text: str, longest: int = LONGEST) -> str:
    """Any text as one visible line; what is too long loses its middle, as the place is in front and the remedy last."""
    # What nobody would see anyway need not be looked at.
    shown = " ".join(visible(_cut(text, 16 * longest)).split())
    return _cut(shown, longest)


def quoted(text: object) -> str:
    """A value from outside as an error line quotes it."""
    return repr(line(str(text), _QUOTED))


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    room = longest - len(_GAP)
    head = room * 3 // 5
    return text[:head] + _GAP + text[len(text) - (room - head) :]


def counted(count: int, what: str, many: str = "") -> str:
    """A number of things, with the word in singular or plural: ``1 file``, ``2 files``, ``0 copies``."""
    return f"{count} {what if count == 1 else many or what + 's'}"


def shown(path: Path) -> str:
    """A path as the user would write it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def listed(names: Iterable[object], wrong: str = "", longest: int = 120) -> str:
    """Names one after the other; of many, the first ones and how many more there are.

    Those that resemble a ``wrong`` one come first.
    """
    every = [line(str(name), _QUOTED) for name in names]
    if wrong:
        import difflib

        near = difflib.get_close_matches(line(wrong, _QUOTED), every)
        every = [*near, *(name for name in every if name not in near)]
    shown = ""
    for number, name in enumerate(every):
        longer = f"{shown}, {name}" if shown else name
        if number and len(longer) > longest:
            return f"{shown} and {len(every) - number} more"
        shown = longer
    return shown
