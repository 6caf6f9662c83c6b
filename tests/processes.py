# SPDX-License-Identifier: Apache-2.0
"""Real tools for tests: found or the test fails in CI, started on a free port, waited for, and ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashgen.engine import scheduled as engine
from dashgen.engine.loopback import free_ports, opener

PATIENCE = 30.0  # seconds
DIRECT = opener()


def tool(*names: str) -> str:
    """The path of the first of these programs that is installed; without any, skip, and in CI fail."""
    for name in names:
        if path := shutil.which(name):
            return path
    message = f"{' or '.join(names)} is not installed"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


def rule_engine() -> str:
    """The path of the rule engine, which is built where it is not yet there."""
    if engine.engine() is None:
        tool("go")
    return engine.engine() or engine.build()


@contextmanager
def serving(*command: str, ready: str, log: Path) -> Iterator[str]:
    """Run a server for a while and yield its address; ``PORT`` in the command becomes a free port."""
    port = str(*free_ports(1))
    with log.open("wb") as output:
        process = subprocess.Popen([part.replace("PORT", port) for part in command], stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE
        while not _answers(url + ready):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _answers(url: str) -> bool:
    try:
        with DIRECT.open(url, timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
