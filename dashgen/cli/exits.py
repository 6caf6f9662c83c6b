# SPDX-License-Identifier: Apache-2.0
"""From what a command ends with to an exit code and at most one line on standard error.

0 fine, 1 findings, 2 usage, bad configuration or a missing tool, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, NoReturn, TextIO, cast

import typer

from dashgen.errors import UserError, with_extra
from dashgen.guard.text import line

EXTRAS = {"numpy": "recordings", "plotly": "preview"}
"""What a small installation lacks, and the extra of pyproject.toml that brings it."""


def run(app: Callable[..., object]) -> None:
    """Run the command line, which typer made, to its end and leave with its exit code."""
    # Started without them, as some services do, there is nobody to tell.
    sys.stdout, sys.stderr = (
        stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") for stream in (sys.stdout, sys.stderr)
    )
    # Rules and runbooks are UTF-8, whatever the terminal's language.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, _Told(stream)) for stream in (sys.stdout, sys.stderr))
    out = sys.stdout
    # As an interrupt does: what was begun is cleaned up, and processes that were started end.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        # Without standalone mode typer leaves errors, and the exit code, to us.
        code = app(prog_name="dashgen", standalone_mode=False)
        out.flush()
    except UserError as error:
        _fail(str(error))
    except typer.TyperException as error:
        _fail(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        _fail(f"this command needs {module}; {with_extra(EXTRAS[module])}")
    except _Unwritten as error:
        _close(out)
        _fail(f"standard output: {error}; write it elsewhere")
    except MemoryError:
        _fail("not enough memory; give it less input, or the machine more")
    except OSError as error:
        if error.filename is not None:
            _fail(f"{os.fsdecode(error.filename)}: {error.strerror}; name another one, or mend it")
        _fail(f"{_temporary()}: {error.strerror}; free some space there, or set TMPDIR")
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return "temporary files"


class _Unwritten(Exception):
    """A standard stream that takes no more; the message says why."""


class _Told:
    """A standard stream whose reader may go (| head): the command goes on to its end, and leaves with its own code."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _close(self._stream)
            return len(text)
        except OSError as error:
            raise _Unwritten(error.strerror) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            _close(self._stream)
        except OSError as error:
            raise _Unwritten(error.strerror) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _terminated(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def _usage(error: typer.TyperException) -> str:
    """A misspelt command line in one line, with the place that tells more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "dashgen"
    where = command.removeprefix("dashgen").strip()
    message = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".")
    return f"{where}: {message}; see `{command} --help`" if where else f"{message}; see `{command} --help`"


def _fail(message: str) -> NoReturn:
    # One line, whatever a file name or a configuration contains.
    try:
        typer.echo(line(f"dashgen: {message}"), err=True)
    except _Unwritten:
        _close(sys.stderr)
    sys.exit(2)


def _close(stream: TextIO) -> None:
    """Nobody reads it any more; the interpreter must not complain as well when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
