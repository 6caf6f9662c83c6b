# SPDX-License-Identifier: Apache-2.0
"""The one way in for files that a user names: regular files of a known size, in UTF-8, as plain data of a known depth.

A named pipe never ends and a device is endless; an alias of YAML doubles with every line, and a number can have more
digits than a computer can hold. What is read here is none of it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from dashgen.errors import UserError, one_line
from dashgen.guard.text import quoted

MOST_BYTES = 8 << 20
"""Of a file that is read whole; a ConfigMap, in which many keep theirs, holds 1 MiB."""

MOST_NODES = 250_000
"""Values in a YAML file, those that aliases repeat counted every time. They need some 150 MB."""

DEEPEST = 64
"""Levels in YAML and JSON; dashgen's own dashboards have fourteen, its configuration four."""

_DIGITS = 40  # of a number: more than a float or a 64-bit integer can tell apart


@contextmanager
def opened(path: Path, remedy: str = "name a readable file") -> Iterator[BinaryIO]:
    """A regular file, open for reading. Raises UserError, which ends with the remedy, for everything else."""
    try:
        # Without O_NONBLOCK a named pipe would wait for a writer before anybody can look what it is.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {remedy}") from error
    except ValueError as error:
        raise UserError(f"{path}: no possible name of a file; {remedy}") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise UserError(f"{path}: {'Is a directory' if stat.S_ISDIR(mode) else 'not a regular file'}; {remedy}")
    with os.fdopen(handle, "rb") as file:
        try:
            yield file
        except OSError as error:
            # What gzip finds wrong has no number, and is for the reader of the content.
            if error.errno is None:
                raise
            raise UserError(f"{path}: {error.strerror}; {remedy}") from error


def read_bytes(path: Path, most: int = MOST_BYTES, remedy: str = "name a readable file") -> bytes:
    """The whole of a regular file. Raises UserError when it is none, larger than ``most`` bytes or not readable."""
    with opened(path, remedy) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UserError(f"{path}: larger than {_size(most)}; {remedy}")
    return data


def read_text(path: Path, most: int = MOST_BYTES, remedy: str = "name a readable file") -> str:
    """The text of a regular file. Raises UserError as ``read_bytes`` does, and when it is not UTF-8."""
    try:
        return read_bytes(path, most, remedy).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; save it as UTF-8") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def parse_json(text: str | bytes) -> Any:
    """JSON as plain data. Raises ValueError for what is none, nests too deep or has numbers that nothing can hold."""
    try:
        data = json.loads(text, parse_int=_integer, parse_constant=_constant)
    except RecursionError as error:
        raise ValueError(f"nests deeper than {DEEPEST} levels") from error
    _check_depth(data)
    return data


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _check_depth(data: object) -> None:
    """Look at level after level, for a recursion would itself nest too deep."""
    level = [data]
    for _ in range(DEEPEST):
        above, level = level, []
        for value in above:
            if type(value) is dict:
                level += [each for each in value.values() if type(each) in (dict, list)]
            elif type(value) is list:
                level += [each for each in value if type(each) in (dict, list)]
        if not level:
            return
    raise ValueError(f"nests deeper than {DEEPEST} levels")


def parse_yaml(text: str) -> Any:
    """One YAML document as plain data. Raises ValueError, with the line, for what is none or exceeds a limit.

    A key that is given twice is refused: PyYAML would silently take the last.
    """
    documents = parse_documents(text)
    if len(documents) > 1:
        raise ValueError("holds several documents, expected one")
    return documents[0] if documents else None


def parse_documents(text: str) -> list[Any]:
    """All YAML documents of a text. Raises ValueError as ``parse_yaml``."""
    try:
        _measure(text)
        return list(yaml.load_all(text, Loader=_Loader))
    except _YAML_ERRORS as error:
        raise ValueError(_problem(error)) from error


Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Plain YAML. libyaml reads ten times faster; PyYAML itself serves where it is missing."""


class _Loader(Loader):  # type: ignore[misc,valid-type]
    """YAML that refuses a key given twice, and scalars of thousands of digits."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[object] = set()
    for place in (key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"):
        key = loader.construct_object(place)
        if isinstance(place, yaml.CollectionNode):
            raise _error("a key is a list or a mapping, which is unhashable", place.start_mark)
        if key in seen:
            raise _error(f"key {quoted(key)} is given twice", place.start_mark)
        seen.add(key)
    found: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return found


def _short(made: Callable[[Any, yaml.ScalarNode], Any]) -> Callable[[_Loader, yaml.ScalarNode], Any]:
    def construct(loader: _Loader, node: yaml.ScalarNode) -> Any:
        if len(str(node.value)) > _DIGITS:
            raise _error(f"a number has {len(str(node.value))} digits", node.start_mark)
        return made(loader, node)

    return construct


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _short(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _short(yaml.SafeLoader.construct_yaml_float))

# What PyYAML raises for text that it cannot make a value of: a date in month 13, "!!bool maybe", a key that is a list.
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _error(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


def _measure(text: str) -> None:
    """Refuse a document that would become too much, before anything is made of it.

    An alias weighs what it repeats. Events come one by one, so this needs no memory.
    """
    weights: dict[str, int] = {}
    above: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            if any(name == anchor for name, _ in above):
                raise _error(f"the recursive alias *{anchor} contains itself", event.start_mark)
            total += weights.get(anchor or "", 1)
        elif isinstance(event, yaml.ScalarEvent):
            # An escape can make half a character, which no file can hold.
            event.value.encode()
            total += 1
            if anchor:
                weights[anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            total += 1
            above.append((anchor, total))
            if len(above) > DEEPEST:
                raise _error(f"nests deeper than {DEEPEST} levels", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            name, before = above.pop()
            if name:
                weights[name] = total - before + 1
        if total > MOST_NODES:
            raise _error(f"holds more than {MOST_NODES} values", event.start_mark)


def _problem(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f"line {mark.line + 1}: {problem}" if mark and problem else f"a value cannot be read: {one_line(error)}"
