# SPDX-License-Identifier: Apache-2.0
"""How long a user waits for ``dashgen --help`` and ``dashgen build``: ``python tests/benchmarks/startup.py``.

Prints the median of ten whole processes of each and exits with 1 when one is over its limit.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 10
LIMITS = {"--help": 0.30, "build": 1.0}  # seconds


def _seconds(command: str) -> tuple[float, float]:
    """Wall clock and processor time of one process, in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        before, started = os.times(), time.perf_counter()
        subprocess.run([sys.executable, "-m", "dashgen", command], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        wall, after = time.perf_counter() - started, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure, print, and say whether everything is within its limit."""
    over = False
    for command, limit in LIMITS.items():
        _seconds(command)  # the first one compiles and fills caches
        wall, cpu = (statistics.median(each) for each in zip(*(_seconds(command) for _ in range(RUNS)), strict=True))
        over |= wall > limit
        verdict = "over" if wall > limit else "within"
        print(f"dashgen {command}: {wall:.2f} s ({cpu:.2f} s of processor), {verdict} {limit:.2f} s, median of {RUNS}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
