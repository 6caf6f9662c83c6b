# SPDX-License-Identifier: Apache-2.0
"""Starts ``dashgen`` in processes of their own that have all modules already: to import takes longer than to build.

A server imports them once, and forks for every command. Standard output and standard error are files, as the folder and
the environment they are those of the command alone.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

LONGEST = 100_000
"""Bytes of arguments and environment that a message of the socket may hold."""
LAZY = ("plotly.graph_objects", "plotly.io", "plotly.subplots")
"""What commands import when they need it."""


class Forks:
    """A server of this process, from its first command on to the end of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._environment: Mapping[str, str] = {}

    def run(
        self,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: Sequence[IO[bytes]],
        patience: float,
    ) -> int | None:
        """The exit code of a command; None where it needs an interpreter of its own, or another one is running."""
        message = json.dumps([arguments, str(cwd), dict(env)]).encode()
        if len(message) > LONGEST or not self._lock.acquire(blocking=False):
            return None
        try:
            if self._server is None:
                self._start(env)
            if _of_interpreter(env) != _of_interpreter(self._environment):
                return None
            socket.send_fds(self._socket, [message], [each.fileno() for each in streams])
            child = int(self._socket.recv(100))
            self._socket.settimeout(patience)
            try:
                return int(self._socket.recv(100))
            except TimeoutError:
                os.kill(child, 9)
                self._socket.settimeout(None)
                self._socket.recv(100)
                raise subprocess.TimeoutExpired(list(arguments), patience) from None
        finally:
            self._lock.release()

    def _start(self, env: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = dict(env)
        self._server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()


def _of_interpreter(env: Mapping[str, str]) -> dict[str, str]:
    """What Python and its libraries read when they start."""
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LC_", "LANG", "TZ"))}


def _serve(own: socket.socket) -> None:
    """Fork for every command until nobody asks any more."""
    import dashgen

    for each in pkgutil.walk_packages(dashgen.__path__, "dashgen."):
        importlib.import_module(each.name)
    for name in LAZY:
        importlib.import_module(name)
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(own, 2 * LONGEST, 2)
        if not message:
            return
        child = os.fork()
        if not child:
            own.close()
            _become(json.loads(message), descriptors)
            return
        for each in descriptors:
            os.close(each)
        own.send(str(child).encode())
        own.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(told: tuple[list[str], str, dict[str, str]], descriptors: Sequence[int]) -> None:
    arguments, cwd, env = told
    for number, each in enumerate(descriptors, start=1):
        os.dup2(each, number)
        os.close(each)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["dashgen", *arguments]
    sys.path[0] = cwd
    tempfile.tempdir = None
    from dashgen.__main__ import main

    main()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
