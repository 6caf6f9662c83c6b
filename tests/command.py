# SPDX-License-Identifier: Apache-2.0
"""The command line as a user has it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from forks import Forks

PATIENCE = 300.0  # seconds
FORKS = Forks()

Done = subprocess.CompletedProcess[str]


def environment(**changes: str) -> dict[str, str]:
    """The environment without what makes programs colourful, and with the given changes."""
    loud = {"FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "NO_COLOR", "COLUMNS"}
    return {name: value for name, value in os.environ.items() if name not in loud} | changes


def dashgen(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, before: Callable[[], None] | None = None
) -> Done:
    """Run ``dashgen`` to its end; ``before`` runs in the new process first."""
    command = [sys.executable, "-m", "dashgen", *map(str, arguments)]
    env = environment() if env is None else dict(env)
    if before is None:
        with TemporaryFile() as out, TemporaryFile() as err:
            code = FORKS.run(command[3:], cwd, env, (out, err), PATIENCE)
            if code is not None:
                return Done(command, code, _text(out), _text(err))
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
        preexec_fn=before,
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def tree(folder: Path) -> dict[str, bytes]:
    """Everything below a folder: path to content, folders and links with what they are."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = f"-> {path.readlink()}".encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder)) + ("/" if path.is_dir() else "")] = content
    return found
