# SPDX-License-Identifier: Apache-2.0
"""What dashgen is made of: locked by hash, under licences that may be passed on, listed, and whole in its wheel.

With DASHGEN_FULL=1 the wheel goes into an empty environment, with what pip finds for it, and every command runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
import sbom
import typer
from command import PATIENCE, environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import FULL, tool
from sbom import ROOT, Locked

from dashgen.catalogue.metrics import upstream
from dashgen.cli.main import app

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LARGEST_WHEEL = 3 << 20  # bytes

PERMISSIVE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "PSF-2.0", "Zlib"}
# Of single files, which the tests and the build leave as they are, and do not pass on.
FOR_TESTS = PERMISSIVE | {"MPL-2.0"}


@pytest.fixture(scope="module")
def packages() -> list[Locked]:
    return sbom.locked(sbom.LOCK.read_text(encoding="utf-8"))


def test_the_lock_holds_what_the_project_asks_for_with_hashes_and_no_address(packages: list[Locked]) -> None:
    build = (ROOT / ".ci" / "build.in").read_text(encoding="utf-8").splitlines()
    extras = [need for needs in PROJECT["optional-dependencies"].values() for need in needs]
    for asked in [*PROJECT["dependencies"], *extras, *(line for line in build if not line.startswith("#"))]:
        need = Requirement(asked)
        if canonicalize_name(need.name) == PROJECT["name"]:
            continue
        found = [each for each in packages if each.name == canonicalize_name(need.name)]
        assert found and all(need.specifier.contains(each.version) for each in found), f"{asked}: run .ci/lock"
    assert all(each.hashes for each in packages)
    assert "://" not in sbom.LOCK.read_text(encoding="utf-8")


def test_every_licence_may_be_passed_on_with_dashgen(packages: list[Locked]) -> None:
    for package, scope in sbom.scopes(packages):
        if (expression := sbom.licence(package.name)) is None:
            assert package.marker, f"{package.name}: not installed; run .ci/setup test"
            continue
        allowed = FOR_TESTS if scope == "excluded" else PERMISSIVE
        assert set(re.split(r" AND | OR ", expression)) <= allowed, (package.name, expression)


def test_the_bill_of_materials_lists_all_that_an_installation_has(packages: list[Locked]) -> None:
    bill = sbom.sbom()
    found = {each["name"]: each["scope"] for each in bill["components"]}
    assert len(bill["components"]) == len({each["bom-ref"] for each in bill["components"]}) == len(packages)
    todo, needed = list(PROJECT["dependencies"]), set()
    while todo:
        need = Requirement(todo.pop())
        name = canonicalize_name(need.name)
        if name not in needed and (need.marker is None or need.marker.evaluate({"extra": ""})):
            needed.add(name)
            todo += metadata.requires(name) or []
    assert needed == {name for name in needed if found.get(name) == "required"}
    assert found["pytest"] == found["hatchling"] == "excluded"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
    return folder


def build(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", folder],
        cwd=ROOT,
        env=environment(SOURCE_DATE_EPOCH="1700000000"),
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )


def tracked(folder: str) -> set[str]:
    tool("git")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return {path for path in done.stdout.split("\0") if path and (ROOT / path).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        info = f"dashgen-{metadata.version('dashgen')}.dist-info"
        about = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
        assert set(archive.namelist()) == tracked("dashgen") | about
        assert {"dashgen/py.typed", "dashgen/cli/main.py"} < set(archive.namelist())
        headers = message_from_bytes(archive.read(f"{info}/METADATA"))
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert (headers["Name"], headers["License-Expression"], headers["Requires-Python"]) == (
        "dashgen",
        "Apache-2.0",
        ">=3.11",
    )


def test_the_source_archive_holds_what_makes_the_wheel(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        found = {name.split("/", 1)[1] for name in archive.getnames()}
    extra = {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore", "PKG-INFO"}
    assert found == tracked("dashgen") | extra


def test_a_build_is_the_same_to_the_byte_each_time(built: Path, tmp_path: Path) -> None:
    build(tmp_path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        each.name: each.read_bytes() for each in built.iterdir()
    }


# Each command, with what it needs from those before it, and how it ends.
COMMANDS: list[tuple[str, int]] = [
    ("config init -o dashgen.yaml", 0),
    ("config schema", 0),
    ("build -o out", 0),
    ("rules", 0),
    ("explain NcclJobDegraded", 0),
    ("simulate bursts -o recordings/bursts", 0),
    ("lint out/dashboards", 0),
    ("preview --recording recordings/bursts -o preview.html", 0),
    ("import textfile copies -o imported", 0),
    ("import json dump.log -o dumped", 2),
    ("baseline dump.log", 2),
    ("record --prometheus http://127.0.0.1:1 --job 1 -o recorded", 2),
    ("doctor --prometheus http://127.0.0.1:1", 2),
    ("incidents --prometheus http://127.0.0.1:1", 2),
    ("windows --prometheus http://127.0.0.1:1", 2),
    ("validate --recordings recordings --sensitivity low", 0),
    ("score --recordings recordings", 0),
    ("cost --gpus 8", 0),
    ("demo --scenario nowhere", 2),
]
WITH_DATA = ("build", "simulate", "preview")  # that read files of the package


def run_commands(python: Path | str, wanted: list[tuple[str, int]], cwd: Path, env: dict[str, str]) -> None:
    (cwd / "copies" / "1700000000").mkdir(parents=True)
    (cwd / "copies" / "1700000000" / "a.prom").write_text(f'{upstream("busbw")}{{node="n",gpu="GPU0"}} 1\n')
    (cwd / "dump.log").write_text("nothing\n")
    for words, code in wanted:
        done = subprocess.run(
            [python, "-m", "dashgen", *words.split()],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code and "Traceback" not in done.stderr, (words, done.stderr[-2000:])
        assert code == 0 or done.stderr.startswith("dashgen: "), (words, done.stderr)


def test_what_is_in_the_wheel_is_all_that_commands_need(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    place, cwd = tmp_path / "site", tmp_path / "work"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    cwd.mkdir()
    some = [each for each in COMMANDS if each[0].split()[0] in WITH_DATA]
    env = environment(PYTHONPATH=str(place))
    asked = [sys.executable, "-c", "import dashgen; print(dashgen.__file__)"]
    assert subprocess.check_output(asked, cwd=cwd, env=env, text=True).startswith(str(place))
    run_commands(sys.executable, some, cwd, env)


@pytest.mark.heavy
@pytest.mark.skipif(not FULL, reason="fetches packages; DASHGEN_FULL=1 runs it")
def test_the_wheel_in_an_empty_environment_runs_every_command(built: Path, tmp_path: Path) -> None:
    tool("promtool"), tool("prometheus")
    assert {words.split()[0] for words, _ in COMMANDS} == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    extras = ",".join(name for name in PROJECT["optional-dependencies"] if name != "test")
    wanted = f"{wheel}[{extras}]" if extras else wheel
    subprocess.run([python, "-m", "pip", "install", "--quiet", wanted], env=env, check=True, timeout=900)
    (tmp_path / "work").mkdir()
    run_commands(python, COMMANDS, tmp_path / "work", env)
