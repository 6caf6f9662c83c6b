# SPDX-License-Identifier: Apache-2.0
"""What all commands share at the terminal: options, progress, and where text goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.errors import UserError
from dashgen.guard.text import block
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from rich.console import Console

    from dashgen.config.site import Site

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="dashgen.yaml of the site; by default the one in this folder")
]
RecordingFolder = Annotated[Path, typer.Option("--output", "-o", help="folder of the recording")]
OutFile = Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of standard output")]
Level = Annotated[Sensitivity, typer.Option("--sensitivity", help="how much the on-call wants to hear")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="tenant of a Mimir or Cortex: X-Scope-OrgID")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, max=3600, help="seconds for one answer")]


class Report(StrEnum):
    """Forms of a list of findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def site_of(config: Path | None) -> Site:
    from dashgen.config.site import load

    return load(config)


def needs(module: str) -> None:
    """Look for a module of an extra before anything is done. Raises ModuleNotFoundError, which exits.py words."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(name=module)


def utc(moment: datetime) -> datetime:
    """A moment that an option gives, in UTC. Raises UserError outside the years that metrics can be of."""
    if not 2015 <= moment.year < 2100:
        raise UserError(f"{moment.isoformat()}: no time that metrics are of; name one between 2015 and 2100")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def say(text: str, err: bool = False) -> None:
    """Tell a person something, whoever wrote the words in it."""
    typer.echo(block(text), err=err)


def console() -> Console:
    """Plain text where nobody watches; rich honours NO_COLOR by itself."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A bar on a terminal, nothing elsewhere; each call is one thing done."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda name: bar.update(task, advance=1, description=f"{what} {escape(block(name))}")


@contextmanager
def bytes_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how much is done of how much."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def write(text: str, path: Path | None) -> None:
    if path is None:
        typer.echo(text, nl=False)
    else:
        from dashgen.output.writer import write_file

        write_file(path, text)
