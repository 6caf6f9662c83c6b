# SPDX-License-Identifier: Apache-2.0
"""Programs of others: where they are, and how one is run to its end.

Nothing here goes through a shell, and nothing a user wrote reaches a command line except names of files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dashgen.errors import UserError


@dataclass(frozen=True)
class _Program:
    """The variable of the environment that names a program, its Debian package, and its name there if it is another."""

    variable: str
    package: str
    debian: str = ""


_PROGRAMS = {
    "promtool": _Program("DASHGEN_PROMTOOL", "prometheus"),
    "prometheus": _Program("DASHGEN_PROMETHEUS", "prometheus"),
    "alertmanager": _Program("DASHGEN_ALERTMANAGER", "prometheus-alertmanager", "prometheus-alertmanager"),
    "node_exporter": _Program("DASHGEN_NODE_EXPORTER", "prometheus-node-exporter", "prometheus-node-exporter"),
    "grafana": _Program("DASHGEN_GRAFANA", "grafana"),
    "dashgen-replay": _Program("DASHGEN_REPLAY", "prometheus"),
    "go": _Program("DASHGEN_GO", "golang-go"),
    "chromium": _Program("DASHGEN_CHROMIUM", "chromium"),
}
"""By upstream's names."""


@dataclass(frozen=True)
class Done:
    """A process that has ended: its exit code, its output, and what it said on standard error."""

    code: int
    output: bytes
    said: str


_SHORT_LIVED = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}


def short_lived() -> dict[str, str]:
    """The environment of a Go program that is gone as soon as it has answered; what the user has set stays.

    Up to two gigabytes it may look for garbage a quarter as often. That saves promtool a quarter of its processor time,
    and costs 40 MB on the recordings of the tests.
    """
    return {name: value for name, value in _SHORT_LIVED.items() if name not in os.environ}


def _path(name: str) -> str | None:
    known = _PROGRAMS[name]
    asked = os.environ.get(known.variable)
    names = (asked,) if asked else (name, known.debian)
    return next((path for each in names if each and (path := shutil.which(each))), None)


def missing(name: str) -> bool:
    """Whether a program is neither named by the environment nor on PATH."""
    return not os.environ.get(_PROGRAMS[name].variable) and _path(name) is None


def find(name: str) -> str:
    """The path of a program by upstream's name, such as ``promtool``: the environment first, then PATH.

    Raises UserError with the remedy when it is not there.
    """
    path, known = _path(name), _PROGRAMS[name]
    if path is None:
        raise UserError(
            f"{os.environ.get(known.variable) or name}: not found; install it (Debian, Ubuntu: apt-get install "
            f"{known.package}), put it on PATH, or set {known.variable} to its path"
        )
    return path


def broken(name: str, what: str) -> UserError:
    """The error of a program, a known one or a path, that is there and does not do what it is for."""
    path = find(name) if name in _PROGRAMS else name
    remedy = f"set {_PROGRAMS[name].variable} to a working one" if name in _PROGRAMS else "remove it"
    return UserError(f"{path}: {what}; {remedy}")


def inherited(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: this process's own with the temporary folder that Python found usable, and more."""
    return {**os.environ, "TMPDIR": tempfile.gettempdir(), **more}


def run(
    name: str,
    *arguments: str | Path,
    timeout: float,
    given: bytes = b"",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Run a program to its end, ``given`` on its standard input. Its exit code is for the caller to judge.

    ``name`` is a known one or a path. ``folder`` is where it runs, ``environment`` is added to this process's own.
    Raises UserError when it is missing, does not run, or does not end within ``timeout`` seconds.
    """
    path = find(name) if name in _PROGRAMS else name
    try:
        done = subprocess.run(
            [path, *map(str, arguments)],
            input=given,
            capture_output=True,
            timeout=timeout,
            cwd=folder,
            env=inherited(environment or {}),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{name}: no result after {timeout:g} s; use a shorter recording") from error
    except OSError as error:
        raise broken(name, f"does not run: {error.strerror}") from error
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))
