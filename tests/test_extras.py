# SPDX-License-Identifier: Apache-2.0
"""A small installation: what builds needs no extra, and every other command says which one it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from command import PATIENCE, environment

from dashgen.cli.exits import EXTRAS
from dashgen.cli.main import app
from dashgen.errors import with_extra
from dashgen.explain.usage import functions

NOWHERE = "http://127.0.0.1:9"
BARE = (
    "build",
    "rules",
    "explain NcclJobDegraded",
    "config init",
    "config schema",
    "lint dashboards",
    "baseline one.txt",
    "cost --gpus 64 --jobs 2",
    "doctor --gpus 64 --jobs 2",
)
RECORDINGS = (
    f"explain NcclJobDegraded --job 1 --prometheus {NOWHERE}",
    "validate",
    "score",
    "simulate healthy -o made",
    "import json made -o out",
    "import textfile made -o out",
    "config schema --of recording",
    f"doctor --prometheus {NOWHERE}",
    f"incidents --prometheus {NOWHERE}",
    f"cost --prometheus {NOWHERE}",
    f"record --job 1 --since 1h -o out --prometheus {NOWHERE}",
)
PREVIEW = ("demo", "preview", f"incidents --prometheus {NOWHERE} --format html -o review.html")

# Runs each command line of its arguments without the modules of the extras; prints exit codes and what was said.
RUN = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MODULES else super().find_spec(name, path, target)

sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
from dashgen.cli.main import main

found = []
for line in sys.argv[1:]:
    sys.argv = ["dashgen", *line.split()]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            found.append((end.code, err.getvalue()))
print(json.dumps(found))
"""


def without_extras(
    folder: Path, lines: tuple[str, ...], modules: tuple[str, ...] = tuple(EXTRAS)
) -> dict[str, tuple[int, str]]:
    """Command line -> exit code and standard error, where the modules of the extras are not installed."""
    done = subprocess.run(
        [sys.executable, "-c", f"MODULES = {modules!r}{RUN}", *lines],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=True,
    )
    found = json.loads(done.stdout)
    return {line: (code, said) for line, (code, said) in zip(lines, found, strict=True)}


def test_a_small_installation_builds_and_names_the_extra_that_a_command_lacks(tmp_path: Path) -> None:
    log = Path(__file__).parent / "ncclperf/one-node.txt"
    (tmp_path / "one.txt").write_bytes(log.read_bytes())
    found = without_extras(tmp_path, (*BARE, *RECORDINGS, *PREVIEW))
    for line in BARE:
        assert found[line] == (0, ""), line
    for lines, extra in ((RECORDINGS, "recordings"), (PREVIEW, "preview")):
        for line in lines:
            code, said = found[line]
            assert code == 2, line
            assert said.startswith("dashgen: this command needs ") and said.count("\n") == 1, (line, said)
            assert said.endswith(f"; {with_extra(extra)}\n"), (line, said)
    assert {path.name for path in tmp_path.iterdir()} == {"one.txt", "dashboards", "rules", ".dashgen.json"}


def test_no_command_is_forgotten_here() -> None:
    lines = (*BARE, *RECORDINGS, *PREVIEW)
    assert [name for name in functions(app) if not any(f"{line} ".startswith(f"{name} ") for line in lines)] == []


def test_overlays_name_the_extra_that_they_need(tmp_path: Path) -> None:
    (tmp_path / "dashgen.yaml").write_text("overlays: [own.jsonnet]\n")
    (tmp_path / "own.jsonnet").write_text("{}")
    found = without_extras(tmp_path, ("build",), ("_jsonnet", "_gojsonnet"))
    assert found == {"build": (2, f"dashgen: own.jsonnet: overlays need jsonnet; {with_extra('overlays')}\n")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dashgen.yaml", "own.jsonnet"]
