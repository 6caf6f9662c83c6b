# SPDX-License-Identifier: Apache-2.0
"""Engines that no Debian package has, built with Go from pinned modules and kept in the user's cache.

Run: PYTHONPATH=.:tests python tests/engines/build.py [MODULE ...]   (a folder here with a go.mod; by default all)
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dashgen.engine.programs import missing, run

HERE = Path(__file__).parent
MODULES = {
    "prometheus3": {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
    "thanos": {"thanos": "github.com/thanos-io/thanos/cmd/thanos"},
}
# Service discovery is most of what a Prometheus is built of, and no test here discovers anything; Thanos wants
# slicelabels.
ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false -tags=remove_all_sd,slicelabels"}
SECONDS = 3600.0


def place(module: str) -> Path:
    """Where the programs of a module are kept."""
    pinned = b"\0".join((HERE / module / name).read_bytes() for name in ("go.mod", "go.sum"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "dashgen" / f"{module}-{hashlib.sha256(pinned).hexdigest()[:16]}"


def make(module: str) -> Path:
    """Build the programs of a module, unless that was done before."""
    kept = place(module)
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="build-", dir=kept.parent) as scratch:
        out = Path(scratch) / "bin"
        arguments = ("build", "-trimpath", "-o", f"{out}/", *MODULES[module].values())
        done = run("go", *arguments, timeout=SECONDS, folder=HERE / module, environment=ENVIRONMENT)
        assert done.code == 0, done.said[-2000:]
        out.replace(kept)
    return kept


def built(module: str, program: str, *, build: bool) -> str:
    """The path of a program; skips where it was not built, and ``build`` does not allow it or there is no Go."""
    if not place(module).exists() and (not build or missing("go")):
        pytest.skip(f"{module} is not built: PYTHONPATH=.:tests python tests/engines/build.py {module}")
    return str(make(module) / program)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODULES:
        print(make(wanted))
