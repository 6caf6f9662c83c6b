# SPDX-License-Identifier: Apache-2.0
"""Programs that run beside this one until they are told to end: servers, each with a log of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from dashgen.engine.loopback import answers
from dashgen.engine.programs import inherited
from dashgen.errors import UserError
from dashgen.guard.text import line

_START_SECONDS = 300.0  # a busy machine must not cost a result; a program that ends says so at once
_STOP_SECONDS = 20.0
_SAID = 200  # characters of a log in an error line


@dataclass
class Service:
    """A server that is started when it is needed and stopped at the end of the ``with`` block; it may be started again.

    ``ready`` is the address that answers once it works. What it says is added to ``log``.
    """

    name: str
    command: Sequence[str | Path]
    ready: str
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def died(self) -> bool:
        """Whether it has ended although nobody stopped it."""
        return self._process is not None and self._process.poll() is not None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of its process, 0 where it does not run."""
        return self._process.pid if self._process is not None else 0

    def launch(self) -> None:
        """Start the program without waiting for it. Raises UserError when it cannot be executed."""
        with self.log.open("ab") as log:
            try:
                # A session of its own: an interrupt at the terminal is for this process, which then ends the others.
                self._process = subprocess.Popen(
                    [str(part) for part in self.command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=inherited(self.environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(f"{self.command[0]}: does not run: {error.strerror}; install it again") from error

    def wait(self) -> None:
        """Wait until it answers. Raises UserError, with what it complained of, when it ends or never does."""
        deadline = time.monotonic() + _START_SECONDS
        while self.running and time.monotonic() < deadline:
            if answers(self.ready):
                return
            time.sleep(0.02)
        raise UserError(f"{self.name}: does not start: {self.said()}; see that `{self.command[0]} --version` works")

    def start(self) -> None:
        """Start it and wait until it answers. Raises as ``launch`` and ``wait``."""
        self.launch()
        self.wait()

    def stop(self) -> None:
        """Ask it to end, and make it end when it does not. Nothing happens where it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # Whatever it had started itself, and itself where it did not listen.
            _kill_group(process.pid)
            process.wait()

    def said(self) -> str:
        """What it complained of last, or the last line of its log."""
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        # A panic leaves its stack below the line that says what went wrong.
        return line(last_line("\n".join(each for each in log.splitlines() if "err=" in each) or log), _SAID)


def last_line(text: str) -> str:
    """The last line that says anything."""
    return next((each.strip() for each in reversed(text.splitlines()) if each.strip()), "no message")


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
