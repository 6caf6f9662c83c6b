# SPDX-License-Identifier: Apache-2.0
"""Files that a user names are regular, of a known size, and hold data of a known depth."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import dashgen
from dashgen import promql
from dashgen.config import site as config
from dashgen.config import values as config_values
from dashgen.engine import evaluated as replay
from dashgen.errors import UserError
from dashgen.guard import files as reading
from dashgen.guard.files import parse_json, parse_yaml, read_bytes, read_text
from dashgen.guard.text import LONGEST, block, in_json, line, listed, visible
from dashgen.jsonnet import sandbox as jsonnet
from dashgen.lint import foreign
from dashgen.recordings import format, textfile
from dashgen.simulator import scenario


def test_only_a_regular_file_is_read_and_none_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "file").write_text("text")
    for name, says in {
        "pipe": "not a regular file",
        "/dev/zero": "not a regular file",
        ".": "Is a directory",
        "nowhere": "No such file or directory",
        "loop": "Too many levels of symbolic links",
        "a\0b": "no possible name of a file",
        "x" * 5000: "File name too long",
    }.items():
        with pytest.raises(UserError, match=rf"{says}; name it right$"):
            read_bytes(tmp_path / name, remedy="name it right")
    assert read_text(tmp_path / "link") == "text"


def test_a_file_has_a_size_and_is_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2048)
    assert len(read_bytes(path, 2048)) == 2048
    with pytest.raises(UserError, match=r"file: larger than 1 KiB; "):
        read_bytes(path, 1024)
    path.write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match=r"file: not UTF-8 text; save it as UTF-8"):
        read_text(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nests deeper than 64 levels"),
        ("[" * 65 + "]" * 65, "nests deeper than 64 levels"),
        ('{"a":' * 65 + "1" + "}" * 65, "nests deeper than 64 levels"),
        ("9" * 5000, "a number has 5000 digits"),
        ("NaN", "NaN is not JSON"),
        ("[1,]", "Expecting value|Illegal trailing comma"),
        ("\ufeff1", "BOM"),
    ],
)
def test_json_that_nothing_can_hold_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_json(text)


def test_json_and_yaml_of_usual_depth_are_read() -> None:
    assert parse_json("[" * 60 + "]" * 60)
    assert parse_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, e: 2026-01-01}") is not None
    assert parse_yaml("- 0x1F\n- 1.5e+3\n- -7\n- .inf") == [31, 1500.0, -7, float("inf")]


@pytest.mark.parametrize(
    "text",
    [
        '{"panels": [' + "{}," * 100_001 + "{}]}",
        '{"panels": [{"panels": [' + "{}," * 1_999 + "{}]}, {}]}",
        '{"templating": {"list": [' + "{}," * 300 + "{}]}}",
        '{"panels": [' + f'{{"targets": [{{"expr": "a{" + a" * 119}"}}]}},' * 40 + "{}]}",
    ],
    ids=["objects", "panels", "variables", "queries"],
)
def test_a_dashboard_that_would_take_minutes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "board.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"; split the dashboard$"):
        list(foreign.dashboards([path]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lasts": "30h"}, "more than 400000 steps or scrapes of GPUs"),
        ({"lasts": "5h", "scrape_interval": 1, "dump_interval": 15, "step": "9s"}, "more than 400000 steps or scrapes"),
        ({"lasts": "9h", "traffic": 60}, "more than 3000000 samples"),
    ],
    ids=["steps", "scrapes", "samples"],
)
def test_a_scenario_that_would_take_minutes_is_refused(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    data = yaml.safe_load(scenario.scenario_path("bursts").read_text(encoding="utf-8"))
    job = data["jobs"][0] | {"nodes": 4, "gpus_per_node": 8, "step": changes.pop("step", "5s")}
    operation = {"group": "dp", "operation": "AllGather", "size": 1 << 24, "share": 0.001, "exposed": 0.2}
    job["traffic"] = [operation] * changes.pop("traffic", 0)
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump({**data, "jobs": [job], **changes}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"jobs: {says}.*; shorten lasts, or take fewer nodes$"):
        scenario.load_scenario(path)


# What is printed.


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 🙂", "plain é 🙂"),
        ("a\r::error::b", "a ::error::b"),
        ("::error::b", ": :error::b"),
        ("  ::add-mask::b", "  : :add-mask::b"),
        ("\r::error::b", " : :error::b"),
        ("x ##[error]y", "x # #[error]y"),
        ("##vso[task.setvariable]", "# #vso[task.setvariable]"),
        ("###[error]", "## #[error]"),
        ("## Heading", "## Heading"),
        ("\x1b[2Ja\u202eb\u2028c\ud800d", " [2Ja b c d"),
        ("std::string", "std::string"),
    ],
)
def test_what_is_printed_can_be_seen_and_is_no_command(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown, "once is enough"


def test_lines_and_tabs_stay_and_no_line_becomes_a_command() -> None:
    assert block("a\tb\n\t::error::x\n") == "a\tb\n\t: :error::x\n"


def test_an_error_line_keeps_its_place_and_its_remedy() -> None:
    said = line("file.yaml: key: " + "x" * 10_000_000 + "; correct the key")
    assert len(said) == LONGEST and said.startswith("file.yaml: key: x") and said.endswith("x; correct the key")
    assert line(" a \n\n b\t") == "a b"


def test_of_many_names_the_nearest_come_first() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed([f"name{number}" for number in range(1000)], "name777").startswith("name777, ")
    assert re.fullmatch(r"name0, .* and \d+ more", listed(f"name{number}" for number in range(1000)))
    assert len(listed(["x" * 5000] * 1000)) < LONGEST


def test_json_means_the_same_without_a_command() -> None:
    text = in_json('{"a": "##[error]b"}')
    assert "##[" not in text and parse_json(text) == {"a": "##[error]b"}


def test_the_security_page_tells_the_limits_that_there_are() -> None:
    page = (Path(dashgen.__file__).parent / "docs" / "security.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+)(?: MiB)? \|$", page, re.MULTILINE))
    limits = {
        "dashgen.yaml, recording.yaml, a scenario": config.MOST_BYTES >> 20,
        "a dashboard, a rule file, a log of nccl-tests": reading.MOST_BYTES >> 20,
        "an overlay and what it imports, a copy of a textfile": jsonnet.SOURCE_BYTES >> 20,
        "values in a YAML file, with what aliases repeat": reading.MOST_NODES,
        "levels in YAML and JSON": reading.DEEPEST,
        "objects and lists in a dashboard": foreign.MOST_OBJECTS,
        "panels of a dashboard": foreign.MOST_PANELS,
        "steps of GPUs in a scenario": scenario.MOST_WORK,
        "samples of a scenario": scenario.MOST_SAMPLES,
        "levels in a PromQL expression": promql.DEEPEST,
        "characters of a value in dashgen.yaml": config_values.LONGEST_TEXT,
        "samples of a recording": format.MOST_SAMPLES,
        "scrapes from start to end of a recording": format.MOST_SCRAPES,
        "evaluations of a recording by promtool": replay.MOST_EVALUATIONS,
    }
    assert {name: int(number.replace(",", "")) for name, number in told.items()} == limits
    assert config.MOST_BYTES == format.MOST_STORY_BYTES and textfile.LARGEST_FILE == jsonnet.SOURCE_BYTES
    assert f"at most {LONGEST} characters" in page
