# SPDX-License-Identifier: Apache-2.0
"""Plain data that overlays have given, looked at piece by piece: each function hands on what it was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dashgen.guard.text import line, listed

LONGEST_NAME = 200
"""Bytes of a name that becomes that of a file, which has at most 255 with what targets add to it."""


class Wrong(Exception):
    """What came out of the overlays is not what a build is made of."""


def mapping(value: object, where: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise Wrong(f"{where}: has to be an object, and is {_short(value)}")
    return value


def items(value: object, where: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise Wrong(f"{where}: has to be a list, and is {_short(value)}")
    return value


def string(value: object, where: str) -> str:
    """A text, which is not empty."""
    if not isinstance(value, str) or not value:
        raise Wrong(f"{where}: has to be a text, and is {_short(value)}")
    return value


def number(value: object, where: str) -> float:
    """A number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Wrong(f"{where}: has to be a number, and is {_short(value)}")
    return value


def texts(value: object, where: str) -> dict[str, str]:
    """An object of texts."""
    return {key: string(text, f"{where}.{line(key, 60)}") for key, text in mapping(value, where).items()}


def known(value: Mapping[str, Any], keys: Iterable[str], where: str, remedy: str = "") -> None:
    """Only keys that exist: any other would do nothing."""
    names = list(keys)
    for key in value:
        if key not in names:
            raise Wrong(f"{where}: unknown key {line(key, 60)}; there are {listed(names, key)}{remedy}")


def file_name(name: str, where: str, what: str) -> str:
    """A name from which a target makes that of one file, in a folder that it has chosen."""
    if not name.isprintable() or "/" in name or name.startswith(".") or not 0 < len(name.encode()) <= LONGEST_NAME:
        rule = f"at most {LONGEST_NAME} bytes without slashes, control characters and a dot in front"
        raise Wrong(f"{where}: {what}: {rule}")
    return name


def _short(value: object) -> str:
    return "missing" if value is None else json.dumps(value)[:60]
