# SPDX-License-Identifier: Apache-2.0
"""Processes beside each other that end together, with everything that they have started."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of ``count`` processes. Whatever ends the block early, an interrupt for one, ends them at once."""
    # A fresh interpreter: the caller may have threads, a progress bar for one, and those do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_obedient) as made:
        try:
            yield made
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()
            # Waits for the pool's own thread: Python before 3.12 may close its pipe while the interpreter, at its end,
            # wakes it.
            made.shutdown(cancel_futures=True)
            raise


def _obedient() -> None:
    """An interrupt of the terminal reaches every process; only the first one answers, and tells the others to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    # As an exception, so that servers are stopped and scratch folders removed on the way out. A pool that finds a
    # process ended tells the others again, who are on their way by then.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)
