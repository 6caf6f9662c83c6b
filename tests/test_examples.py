# SPDX-License-Identifier: Apache-2.0
"""The CI examples, run command by command in a repository that has just been built."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from command import PATIENCE, dashgen, environment
from processes import tool

import dashgen as package

EXAMPLES = Path(package.__file__).parent / "examples"


def github(data: Any) -> tuple[list[str], list[str]]:
    """The scripts in their order, without the one that installs, and the files that are uploaded."""
    steps = data["jobs"]["check"]["steps"]
    (upload,) = [step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", "")]
    return [step["run"] for step in steps if "run" in step and step.get("name") != "Tools"], upload.split()


def gitlab(data: Any) -> tuple[list[str], list[str]]:
    job = data["dashgen"]
    assert job["artifacts"]["expose_as"]
    return job["script"], job["artifacts"]["paths"]


def of(name: str, read: Callable[[Any], tuple[list[str], list[str]]]) -> tuple[list[str], list[str]]:
    return read(yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8")))


def test_both_examples_run_the_same_commands_and_publish_the_same() -> None:
    scripts, published = of("github-actions.yaml", github)
    lines = [line.strip() for script in scripts for line in script.splitlines()]
    ours = [line.removesuffix(" --format github") for line in lines if line.startswith("dashgen ")]
    assert of("gitlab-ci.yaml", gitlab) == (ours, published)


def test_the_commands_of_a_ci_example_run_in_order_and_what_it_publishes_is_there(tmp_path: Path) -> None:
    tool("promtool"), tool("prometheus")
    scripts, published = of("github-actions.yaml", github)
    assert dashgen("build", cwd=tmp_path).returncode == 0
    # The console script lies beside the interpreter.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = environment(PATH=path, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    for script in scripts:
        # What the service itself fills in.
        text = script.replace("${{ steps.upload.outputs.artifact-url }}", "https://example.org/artifact")
        assert "${{" not in text
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
    assert {"preview.html", "scoreboard.json"} == set(published)
    assert all((tmp_path / each).stat().st_size for each in published)
