# SPDX-License-Identifier: Apache-2.0
"""The CI examples, run command by command in a repository that has just been built."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import PATIENCE, dashgen, environment
from processes import tool

import dashgen as package

EXAMPLES = Path(package.__file__).parent / "examples"


ROOT = EXAMPLES.parent.parent
JOB = "50185"  # of network-25
DRY = {f"PIP_{name}": "1" for name in ("NO_INDEX", "NO_DEPS", "DRY_RUN", "FORCE_REINSTALL")}
DRY["PIP_NO_BUILD_ISOLATION"] = "0"  # in pip's words: there is none
SITE = """
labels: {job: job_name, cluster: cluster}
source: nccl-otlp
selector: cluster="a"
dump_interval: 60s
companions:
  throughput: {preset: megatron-otel}
acceptance: {AllReduce: {mixed: {large: 900}}}
alerts:
  NcclJobDegraded: {low: {threshold: 0.15}}
overlays: [own.jsonnet]
"""


@dataclass(frozen=True)
class Example:
    """A CI file: what is to be filled in, the command that installs, all others in order, and what is uploaded."""

    blanks: dict[str, str]
    install: str
    scripts: list[str]
    published: list[str]


def github(data: Any) -> Example:
    steps = data["jobs"]["check"]["steps"]
    (upload,) = [step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", "")]
    tools, *scripts = [step["run"] for step in steps if "run" in step]
    return Example(data["env"], tools.splitlines()[0], scripts, upload.split())


def gitlab(data: Any) -> Example:
    job = data["dashgen"]
    assert job["artifacts"]["expose_as"]
    return Example(data["variables"], job["before_script"][0], job["script"], job["artifacts"]["paths"])


def of(name: str, read: Callable[[Any], Example]) -> Example:
    return read(yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8")))


def ran(script: str, folder: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """A script, run as the service does, with the programs that lie beside the interpreter."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment(PATH=path, **changes),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_both_examples_run_the_same_commands_and_publish_the_same() -> None:
    one = of("github-actions.yaml", github)
    lines = [line.strip() for script in one.scripts for line in script.splitlines()]
    ours = [line.removesuffix(" --format github") for line in lines if line.startswith("dashgen ")]
    assert of("gitlab-ci.yaml", gitlab) == replace(one, scripts=ours)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of dashgen, with a tag v7."""
    folder = tmp_path / "repository"
    for name in ("pyproject.toml", "README.md", "LICENSE", "dashgen/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    git = "git -c user.name=a -c user.email=a@example.org"
    assert ran(f"git init -q && git add . && {git} commit -qm all && git tag v7", folder).returncode == 0
    return folder


def installs_dashgen_alone(done: subprocess.CompletedProcess[str]) -> bool:
    there = f"Would install dashgen-{package.__version__}\n" in done.stdout
    return done.returncode == 0 and there and "does not provide the extra" not in done.stderr


def test_a_ci_example_installs_dashgen_from_the_repository_that_is_filled_in_and_asks_no_index_for_it(
    repository: Path, tmp_path: Path
) -> None:
    example = of("github-actions.yaml", github)
    assert set(example.blanks.values()) == {""}
    refused = ran(example.install, tmp_path, **DRY, **example.blanks)
    assert refused.returncode != 0 and "DASHGEN_REPOSITORY: fill it in" in refused.stderr
    filled = dict(zip(example.blanks, (f"file://localhost{repository}", "v7"), strict=True))
    done = ran(example.install, tmp_path, **DRY, **filled)
    assert installs_dashgen_alone(done), (done.stdout, done.stderr)
    assert "[preview,overlays]" in example.install


def test_the_hooks_install_what_overlays_need(repository: Path) -> None:
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")):
        # In the words of pre-commit, which runs this in its own copy of the repository.
        done = ran(shlex.join(["pip", "install", ".", *hook["additional_dependencies"]]), repository, **DRY)
        assert installs_dashgen_alone(done), (done.stdout, done.stderr)
        assert "[overlays]" in "".join(hook["additional_dependencies"])


def test_the_commands_of_a_ci_example_pass_at_a_site_with_names_of_its_own_and_what_it_publishes_is_there(
    tmp_path: Path,
) -> None:
    tool("promtool"), tool("prometheus")
    example = of("github-actions.yaml", github)
    (tmp_path / "dashgen.yaml").write_text(SITE)
    (tmp_path / "own.jsonnet").write_text("{}")
    assert dashgen("build", cwd=tmp_path).returncode == 0
    for script in example.scripts:
        # What the service itself fills in.
        text = script.replace("${{ steps.upload.outputs.artifact-url }}", "https://example.org/artifact")
        assert "${{" not in text
        done = ran(text, tmp_path, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
        assert done.returncode == 0, (text, done.stdout, done.stderr)
    assert {"preview.html", "scoreboard.json"} == set(example.published)
    judged = json.loads((tmp_path / "scoreboard.json").read_text(encoding="utf-8"))["recordings"]
    assert {each["name"]: each["tiers"]["low"]["time_to_detect_seconds"] is not None for each in judged} == {
        "healthy": False,
        "network-25": True,
    }
    assert min(each["panels"]["proven"] for each in judged) > 50
    assert JOB in (tmp_path / "preview.html").read_text(encoding="utf-8")
