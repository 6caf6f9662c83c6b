# SPDX-License-Identifier: Apache-2.0
"""Real tools for tests: found or the test fails in CI, started on a free port, waited for, and ended."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from dashgen.engine import scheduled as engine
from dashgen.engine.loopback import opener, reserved_ports
from dashgen.engine.programs import run
from dashgen.engine.services import Service

FULL = os.environ.get("DASHGEN_FULL") == "1"  # Whether the largest sizes run.
PATIENCE = 30.0  # seconds
DIRECT = opener()


def lacking(message: str) -> NoReturn:
    """Skip a test that cannot run here; in CI, where everything has to be there, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def tool(*names: str) -> str:
    """The path of the first of these programs that is installed; without any, skip, and in CI fail."""
    for name in names:
        if path := shutil.which(name):
            return path
    lacking(f"{' or '.join(names)} is not installed")


def exact() -> bool:
    """Whether values are those of Prometheus 2: in 3 a range leaves out a sample at its very beginning."""
    return b" version 2." in run("promtool", "--version", timeout=PATIENCE).output


def rule_engine() -> str:
    """The path of the rule engine, which is built where it is not yet there."""
    if engine.engine() is None:
        tool("go")
    return engine.engine() or engine.build()


def wait_until(met: Callable[[], bool], patience: float = PATIENCE, *, said: Callable[[], object] = str) -> None:
    """Wait for a condition; after ``patience`` seconds the test fails, and tells what ``said`` says."""
    deadline = time.monotonic() + patience
    while not met():
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)


@contextmanager
def serving(*command: str, ready: str, log: Path) -> Iterator[str]:
    """Run a server for a while and yield its address; ``PORT`` in the command becomes a free port."""
    with server(*command, ready=ready, log=log) as (_, url):
        yield url


@contextmanager
def server(*command: str, ready: str, log: Path) -> Iterator[tuple[Service, str]]:
    """As ``serving``, with what stops it and starts it again."""
    with reserved_ports(1) as (port,):
        url = f"http://127.0.0.1:{port}"
        asked = [part.replace("PORT", str(port)) for part in command]
        with Service(Path(command[0]).name, asked, url + ready, log) as service:
            service.start()
            yield service, url
