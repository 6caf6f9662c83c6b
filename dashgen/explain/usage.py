# SPDX-License-Identifier: Apache-2.0
"""The command line as Markdown: every command with its arguments and options, read from the functions behind it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from dashgen.explain.pages import table

KINDS: Mapping[type, str] = {Path: "PATH", datetime: "TIME", int: "N", float: "N", str: "TEXT"}
"""What stands for a value of each type."""


@dataclass(frozen=True)
class Option:
    """One argument or option: how it is written, what stands for its value, what it does."""

    written: str
    value: str
    default: str
    about: str
    argument: bool
    required: bool


def commands(app: typer.Typer, more: Mapping[str, str]) -> str:
    """Every command; ``more`` names, by command, the page that says more, as a Markdown link."""
    parts = []
    for name, function in functions(app).items():
        parts += [f"## dashgen {name}", inspect.getdoc(function) or "", f"```text\n{_usage(name, function)}\n```"]
        options = list(_options(function))
        if options:
            parts.append(table(("option", "default", "what it does"), map(_row, options)))
        if link := more.get(name.split()[0]):
            parts.append(f"More: {link}.")
    return "\n\n".join(parts)


def functions(app: typer.Typer) -> dict[str, Callable[..., Any]]:
    """The function behind every command that is not hidden, by its words after ``dashgen``."""
    found = {}
    for info in app.registered_commands:
        if info.callback is not None and not info.hidden:
            found[info.name or info.callback.__name__.replace("_", "-")] = info.callback
    for group in app.registered_groups:
        if group.typer_instance is not None and not group.hidden:
            found |= {f"{group.name} {name}": each for name, each in functions(group.typer_instance).items()}
    return dict(sorted(found.items()))


def _usage(name: str, function: Callable[..., Any]) -> str:
    options = list(_options(function))
    words = [each.value if each.required else f"[{each.value}]" for each in options if each.argument]
    needed = [f"{each.written.split(', ')[0]} {each.value}" for each in options if each.required and not each.argument]
    rest = ["[OPTIONS]"] if any(not each.required for each in options) else []
    return " ".join(["dashgen", name, *words, *needed, *rest])


def _options(function: Callable[..., Any]) -> Iterator[Option]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, *notes = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        note = next((each for each in notes if isinstance(each, OptionInfo | ArgumentInfo)), None)
        argument = isinstance(note, ArgumentInfo)
        declared = ", ".join(_names(note)) if note else ""
        required = parameter.default is inspect.Parameter.empty
        yield Option(
            written=name.upper() if argument else declared or f"--{name.replace('_', '-')}",
            value=name.upper() if argument else _value(kind),
            default="" if required else _default(parameter.default),
            about=(note.help or "" if note else "") + (" (required)" if required and not argument else ""),
            argument=argument,
            required=required,
        )


def _names(note: OptionInfo | ArgumentInfo) -> list[str]:
    """How an option may be written; within Annotated typer keeps the first name as the default."""
    first = [note.default] if isinstance(note.default, str) else []
    return [*first, *(note.param_decls or ())]


def _value(kind: Any) -> str:
    """What stands for a value: a path, a time, or the words that are allowed."""
    for part in get_args(kind):
        if part is not NoneType:
            return _value(part)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(each.value) for each in kind)
    return KINDS.get(kind, "")


def _default(value: object) -> str:
    if value is None or value is False or value == []:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`".replace("`True`", "on")


def _row(option: Option) -> tuple[str, str, str]:
    value = "" if option.argument or not option.value else f" {option.value}"
    return f"`{option.written}{value}`", option.default, option.about
