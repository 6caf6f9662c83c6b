# SPDX-License-Identifier: Apache-2.0
"""What a contributor does most often takes one file each: six changes in a copy of the package, and what they build.

CONTRIBUTING.md walks through the same six.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest
import yaml
from command import dashgen, environment

import dashgen as package
from dashgen.catalogue.metrics import upstream

SIGNAL = """SIGNALS = (
    Signal(
        name="job:scratch:count",
        question="How many GPUs does each job have?",
        healthy="as many as the job asked for",
        expr="count by (<job>) (group by (<job>, <node>, <gpu>) (<busbw>{<selector>}))",
        unit=Unit.COUNT,
        labels=("<job>",),
        group="nccl-scratch",
    ),
"""

ALERT = """ALERTS = (
    Alert(
        name="NcclScratchSmall",
        kind="telemetry",
        signal="job:nccl_dump_age:seconds",
        expr="job:nccl_dump_age:seconds > <threshold>",
        limit="more than <threshold> s",
        summary="Job {{ $labels.<job_label> }} is quiet.",
        description="Look at it.",
        explained_by={"NcclJobStalled": "job"},
        tiers={Sensitivity.HIGH: Tier(threshold=9000, dumps=4, severity=Severity.INFO)},
        runbook=Runbook(meaning="Nothing was written for hours.", look_first=("The job.",)),
        dashboard="scratch",
        sources="Chosen for a test.",
    ),
"""

BOARD = '''# SPDX-License-Identifier: Apache-2.0
"""Which jobs are quiet?"""

from __future__ import annotations

from dashgen.catalogue.boards.parts import JOB, answers
from dashgen.model import Dashboard, Row, Sensitivity

_AGE = answers("job:nccl_dump_age:seconds", title="Quiet for", bad="a line that climbs")


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of quiet jobs."""
    del sensitivity
    rows = (Row(title="Now", panels=(_AGE,)),)
    return Dashboard(
        slug="scratch", place=15, title="Scratch", question="Which jobs are quiet?", variables=(JOB,), rows=rows
    )
'''

TARGET = '''# SPDX-License-Identifier: Apache-2.0
"""The names of all recorded series, a line each."""

from dashgen.config.sections import Section
from dashgen.targets.target import Target


class ScratchKeys(Section):
    """A list of series."""

    first_line: str = ""


def render(bundle, site):
    names = [rule.record for group in bundle.recording for rule in group.rules]
    return {"scratch/series.txt": "".join(f"{line}\\n" for line in [site.targets.of(ScratchKeys).first_line, *names])}


TARGET = Target(name="scratch", summary="a list", readers="nobody", how="Read it.", render=render, keys=ScratchKeys)
'''

SCENARIO = """
story: Two nodes, ten minutes, and nothing happens.
start: 2026-05-07T10:00:00Z
lasts: 10m
jobs:
  - {id: "1", preset: fsdp, nodes: 2, gpus_per_node: 2}
expect:
  high:
    - {alert: NcclScratchSmall, optional: true}
"""

OLD_NAME, NEW_NAME = upstream("busbw"), "nccl_scratch_bandwidth_gbs"

Change = tuple[str, str, str]
"""A file below the package, what stands in it, and what takes its place; a new file has nothing in it."""

CHANGES: dict[str, Change] = {
    "signal": ("catalogue/signals/telemetry.py", "SIGNALS = (\n", SIGNAL),
    "alert": ("catalogue/signals/telemetry.py", "ALERTS = (\n", ALERT),
    "board": ("catalogue/boards/scratch.py", "", BOARD),
    "target": ("targets/scratch.py", "", TARGET),
    "rename": ("catalogue/metrics/inspector.py", f'name="{OLD_NAME}"', f'name="{NEW_NAME}"'),
    "scenario": ("simulator/scenarios/scratch.yaml", "", SCENARIO),
}
"""One file for each task: there is no place for a second one."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package in which all six were done, what it builds, and a recording that it makes."""
    folder = tmp_path_factory.mktemp("scratch")
    copy = folder / "dashgen"
    shutil.copytree(Path(package.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "pictures"))
    for path, before, after in CHANGES.values():
        text = (copy / path).read_text(encoding="utf-8") if before else ""
        assert text.count(before) == 1 or not before, path
        (copy / path).write_text(text.replace(before, after) if before else after, encoding="utf-8")
    (folder / "dashgen.yaml").write_text("targets: {scratch: {first_line: all series}}\n", encoding="utf-8")
    for command in (
        "build --target files --target scratch",
        "simulate scratch -o made",
        "config schema -o schema.json",
    ):
        done = dashgen(*command.split(), cwd=folder, env=environment(PYTHONPATH=str(folder)))
        assert done.returncode == 0, done.stderr
    return folder


def test_a_signal_is_one_place_in_one_file(built: Path) -> None:
    groups = yaml.safe_load((built / "rules/recording.yaml").read_text(encoding="utf-8"))["groups"]
    (group,) = [each for each in groups if each["name"] == "nccl-scratch"]
    assert [rule["record"] for rule in group["rules"]] == ["job:scratch:count"]


def test_an_alert_brings_its_runbook_and_what_speaks_for_it(built: Path) -> None:
    packs = {path.stem: path.read_text(encoding="utf-8") for path in (built / "rules/alerts").glob("*.yaml")}
    assert [name for name, text in packs.items() if "alert: NcclScratchSmall\n" in text] == ["high"]
    assert "Nothing was written for hours." in (built / "rules/runbooks/NcclScratchSmall.md").read_text(
        encoding="utf-8"
    )
    inhibition = yaml.safe_load((built / "rules/alertmanager.yaml").read_text(encoding="utf-8"))["inhibit_rules"]
    (rule,) = [each for each in inhibition if "NcclScratchSmall" in each["target_matchers"][0]]
    assert rule["source_matchers"] == ['alertname="NcclJobStalled"'] and rule["equal"] == ["slurm_job_id"]


def test_a_board_finds_its_place_among_the_others(built: Path) -> None:
    board = json.loads((built / "dashboards/scratch.json").read_text(encoding="utf-8"))
    assert [panel["title"] for panel in board["panels"] if panel["type"] == "timeseries"] == ["Quiet for"]


def test_a_target_brings_its_keys_and_its_place_on_the_command_line(built: Path) -> None:
    written = (built / "scratch/series.txt").read_text(encoding="utf-8").splitlines()
    assert written[0] == "all series" and "job:scratch:count" in written
    schema = json.loads((built / "schema.json").read_text(encoding="utf-8"))
    assert "first_line" in schema["$defs"]["ScratchKeys"]["properties"]


def test_an_upstream_rename_reaches_rules_boards_and_recordings(built: Path) -> None:
    written = [path for folder in ("rules", "dashboards") for path in (built / folder).rglob("*.*")]
    texts = [path.read_text(encoding="utf-8") for path in written]
    assert any(NEW_NAME in text for text in texts)
    assert [path for path, text in zip(written, texts, strict=True) if OLD_NAME in text] == []
    samples = b"".join(unpacked(path) for path in (built / "made").iterdir())
    assert NEW_NAME.encode() in samples and OLD_NAME.encode() not in samples


def test_a_scenario_becomes_a_recording_with_what_it_expects(built: Path) -> None:
    story = yaml.safe_load((built / "made/recording.yaml").read_text(encoding="utf-8"))
    assert story["expect"]["high"] == [{"alert": "NcclScratchSmall", "optional": True}]
    assert story["source"] == "simulated"


def unpacked(path: Path) -> bytes:
    """A file's content, unpacked where it is packed."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data
