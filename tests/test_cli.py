# SPDX-License-Identifier: Apache-2.0
"""The command line as users and pipelines see it: exit codes, one line for an error, the same bytes every time."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from command import Done, dashgen, environment, tree
from jsonschema import Draft202012Validator
from processes import tool

from dashgen import __version__
from dashgen.cli.main import app
from dashgen.engine.prometheus import check_rules
from dashgen.model import Sensitivity
from dashgen.output.writer import MANIFEST
from dashgen.recordings.format import SAMPLES, STORY

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "tests/recordings/killed"
TIERS = [level.value for level in Sensitivity]


def is_one_clear_line(done: Done) -> str:
    """The error of a command that did nothing else; fails when there is more to it."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("dashgen: "), done.stderr
    return lines[0].removeprefix("dashgen: ")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a build of the defaults; tests copy it."""
    folder = tmp_path_factory.mktemp("built")
    done = dashgen("build", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture
def site(built: Path, tmp_path: Path) -> Path:
    """A copy of the build."""
    return Path(shutil.copytree(built, tmp_path / "site"))


# Errors.


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (b"lables: {job: a}\n", "dashgen.yaml: lables: no such key; `dashgen config schema` lists the keys"),
        (b"labels: {job: a-b}\n", "dashgen.yaml: labels.job: 'a-b' is not a Prometheus label name"),
        (b"labels: {job: a, job: b}\n", "dashgen.yaml: not YAML: line 1: key 'job' is given twice; correct it"),
        (b"fabric: \xff\xfe\n", "dashgen.yaml: not UTF-8 text; save it as UTF-8"),
        (b"alerts: {NcclJobSlow: {}}\n", "dashgen.yaml: alerts.NcclJobSlow: no such alert; the alerts are "),
        (b'"a\\nb\\e[31m": 1\n', "dashgen.yaml: a b [31m: no such key"),
        (None, "dashgen.yaml: Is a directory; name a readable file with -c"),
    ],
)
@pytest.mark.parametrize("command", ["build", "rules"])
def test_a_bad_configuration_is_one_line_and_nothing_is_written(
    tmp_path: Path, command: str, config: bytes | None, says: str
) -> None:
    path = tmp_path / "dashgen.yaml"
    path.mkdir() if config is None else path.write_bytes(config)
    before = tree(tmp_path)
    assert is_one_clear_line(dashgen(command, "-o", "out", cwd=tmp_path)).startswith(says)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing command; see `dashgen --help`"),
        (["config"], "config: Missing command; see `dashgen config --help`"),
        (["import"], "import: Missing command; see `dashgen import --help`"),
        (["cost", "--gpus", "8", "--jobs", "9"], "--jobs 9: more jobs than GPUs; give 8 at most"),
        (["doctor", "--gpus", "8", "--grafana", "http://g"], "--grafana: --gpus asks no server; leave one of them out"),
        (["bulid"], "No such command 'bulid'. Did you mean 'build'?; see `dashgen --help`"),
        (["build", "--chekc"], "build: No such option: --chekc"),
        (["build", "--target", "flies"], "--target flies: no such target; there are files"),
        (["build", "-c", "missing.yaml"], "missing.yaml: No such file or directory; name a readable file with -c"),
        (["build", "-o", "file"], "file: "),
        (["build", "-o", "/proc"], "/proc/"),
        (
            ["rules", "--sensitivity", "lowest"],
            "rules: Invalid value for '--sensitivity': 'lowest' is not one of 'low', ",
        ),
        (["rules", "-o", "missing/rules.yaml"], "missing/rules.yaml: No such file or directory; name a place"),
        (["rules", "-o", "folder"], "folder: Is a directory; name a place that can be written"),
        (["explain"], "explain: Missing argument"),
        (["explain", "NcclGpuSlow"], "NcclGpuSlow: no such signal, alert or metric; did you mean NcclGpuLate"),
        (["config", "init", "-o", "file"], "file: exists already"),
        (["config", "int"], "config: No such command 'int'. Did you mean 'init'?"),
        (["validate"], "tests/recordings: no recording"),
        (["validate", "--recordings", "folder"], "folder: no recording (a folder with recording.yaml)"),
        (["validate", "--recordings", str(RECORDING), "--report", "missing/report.json"], "missing/report.json: "),
        (["lint", "file"], "file: not readable as JSON"),
        (["lint", "folder"], "folder: no dashboard"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_nothing_is_written(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("ours\n")
    before = tree(tmp_path)
    assert is_one_clear_line(dashgen(*arguments, cwd=tmp_path)).startswith(says)
    assert tree(tmp_path) == before


def test_a_file_that_may_not_be_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text("fabric: xGMI\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything, but not the memory of a process that is not there
        path = Path("/proc/self/mem")
    line = is_one_clear_line(dashgen("rules", "-c", path, cwd=tmp_path))
    assert line.startswith(f"{path}: ") and line.endswith("; name a readable file with -c")


def test_a_command_without_arguments_shows_help_and_is_a_usage_error(tmp_path: Path) -> None:
    for command in ([], ["config"], ["import"]):
        done = dashgen(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert "--help" in done.stdout + done.stderr


@pytest.mark.parametrize("missing", ["promtool", "prometheus"])
def test_a_missing_tool_is_one_line_that_says_how_to_get_it(tmp_path: Path, missing: str) -> None:
    other = {"promtool": "prometheus", "prometheus": "promtool"}[missing]
    (tmp_path / other).symlink_to(tool(other))
    env = environment(PATH=str(tmp_path))
    line = is_one_clear_line(dashgen("validate", "--recordings", RECORDING, cwd=tmp_path, env=env))
    assert line.startswith(f"{missing}: not found; install it (Debian, Ubuntu: apt-get install prometheus)")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("cut", rf"{SAMPLES}: line \d+: .*; make the recording again"),
        ("absent", rf"{SAMPLES}: No such file or directory; make the recording again"),
        ("key", rf"{STORY}: stroy: "),
        ("yaml", rf"{STORY}: not readable as a recording"),
        ("site", rf"{STORY}: site: lables: no such key"),
        ("code", rf"{STORY}: site: overlays are code, which .* name them in dashgen.yaml"),
    ],
)
def test_a_damaged_recording_is_one_line(tmp_path: Path, damage: str, says: str) -> None:
    tool("promtool"), tool("prometheus")
    copy = Path(shutil.copytree(RECORDING, tmp_path / "copy"))
    samples, story = copy / SAMPLES, copy / STORY
    if damage == "cut":
        samples.write_bytes(samples.read_bytes()[:-100])
    elif damage == "absent":
        samples.unlink()
    else:
        more = {
            "key": "stroy: x\n",
            "yaml": "a: b: c\n",
            "site": "site: {lables: {job: a}}\n",
            "code": "site: {overlays: [mine.libsonnet]}\n",
        }[damage]
        text = re.sub(r"^site:.*\n(?: .*\n)*", "", story.read_text(), flags=re.MULTILINE)
        story.write_text(text + more)
    line = is_one_clear_line(dashgen("validate", "--recordings", copy, "--sensitivity", "low", cwd=tmp_path))
    assert re.search(says, line), line


def test_a_full_disk_leaves_the_earlier_build_as_it_was(site: Path) -> None:
    (site / "dashgen.yaml").write_text("fabric: xGMI\ngrafana: {title_prefix: 'Other / '}\n")
    before = tree(site)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    line = is_one_clear_line(dashgen("build", cwd=site, before=small_files))
    assert ": File too large; nothing was written; " in line
    assert tree(site) == before
    (site / "empty").mkdir()
    is_one_clear_line(dashgen("build", "-c", "dashgen.yaml", "-o", "empty/below", cwd=site, before=small_files))
    assert tree(site / "empty") == {}


def test_standard_output_that_is_full_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dashgen", "rules"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "dashgen: standard output: No space left on device; write it elsewhere\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [("rules", 0, ""), ("--help", 0, ""), ("cost --gpus 4", 0, ""), ("build --check -o none", 1, "files are stale")],
)
def test_standard_output_that_is_closed_early_changes_nothing_but_what_is_read(
    tmp_path: Path, arguments: str, code: int, said: str
) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "dashgen", *arguments.split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    os.close(write)
    assert done.returncode == code and said in done.stderr and len(done.stderr.splitlines()) == bool(said), done


@pytest.mark.parametrize(
    ("asked", "closed", "code"),
    [
        ("cost --gpus 4", ">&-", 0),
        ("cost --gpus 4", "2>&-", 0),
        ("build --check", ">&-", 1),
        ("nope", "2>/dev/full", 2),
    ],
)
def test_started_without_a_stream_a_command_does_what_it_does_and_leaves_with_its_code(
    tmp_path: Path, asked: str, closed: str, code: int
) -> None:
    command = ["sh", "-c", f'exec "$0" -m dashgen {asked} {closed}', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == code and "Traceback" not in done.stderr, done


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("simulate", "healthy", "-o", "x", "--seed", "-5"), "--seed"),
        (("record", "--job", "1", "-o", "x", "--start", "0001-01-01T00:00:00+14:00"), "between 2015 and 2100"),
        (
            ("doctor", "--at", "9999-12-31T23:59:59-14:00", "--prometheus", "http://127.0.0.1:9"),
            "between 2015 and 2100",
        ),
        (("validate", "--report", "sealed/x.json", "--recordings", str(RECORDING)), "sealed: cannot be written; name"),
        (
            ("incidents", "--recording", str(RECORDING), "--format", "csv", "-o", "none/x.csv"),
            "its folder does not exist",
        ),
        (("baseline", "log", "--update", "sealed"), "name a readable file with --update"),
        (("build", "-o", "log"), "name another folder with -o"),
        (("doctor", "--gpus", "4", "--format", "github"), "--format github: tells findings, and a forecast has none"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_what_cannot_be_is_said_before_the_work(tmp_path: Path, asked: tuple[str, ...], says: str) -> None:
    log = ROOT / "tests/ncclperf/one-node.txt"
    (tmp_path / "log").write_text(log.read_text())
    (tmp_path / "sealed").mkdir(mode=0o555)
    if "sealed/x.json" in asked and os.access(tmp_path / "sealed", os.W_OK):
        pytest.skip("whoever runs this may write everywhere")
    assert says in is_one_clear_line(dashgen(*asked, cwd=tmp_path))


def test_a_choice_of_the_data_source_takes_no_name_that_a_board_uses(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("grafana: {datasource: {variable: job}}\n")
    (tmp_path / "here").mkdir()
    line = is_one_clear_line(dashgen("build", "-c", "../site.yaml", cwd=tmp_path / "here"))
    assert line.startswith("../site.yaml: grafana.datasource.variable: boards have a variable job already; ")


# Building and checking.


def test_what_was_just_built_is_up_to_date(site: Path) -> None:
    done = dashgen("build", "--check", cwd=site)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"(\d+) files in \.: 0 would change, \1 as they were\n", done.stdout)


@pytest.mark.parametrize(
    "path",
    ["rules/recording.yaml", "rules/alerts/low.yaml", "rules/runbooks/NcclGpuLate.md", "dashboards/job.json", MANIFEST],
)
def test_a_touched_pack_is_drift_with_a_diff_that_undoes_it(site: Path, path: str) -> None:
    touched = site / path
    lines = touched.read_text().splitlines(keepends=True)
    touched.write_text("".join([*lines[:5], "# touched by hand\n", *lines[5:]]))
    before = tree(site)
    done = dashgen("build", "--check", cwd=site)
    if path == MANIFEST:
        assert done.returncode == 2, done
        assert "restore it from version control" in is_one_clear_line(done)
        return
    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [f"--- a/{path}", f"+++ b/{path}", "@@ -3,7 +3,6 @@"]
    assert "\n-# touched by hand\n" in done.stdout
    assert "run `dashgen build`" in done.stderr
    assert tree(site) == before
    diff = dashgen("build", "--diff", cwd=site)
    assert (diff.returncode, diff.stdout) == (0, done.stdout)
    assert tree(site) == before
    subprocess.run(["git", "apply", "--unsafe-paths", "-p1"], input=diff.stdout, text=True, cwd=site, check=True)
    assert dashgen("build", "--check", cwd=site).returncode == 0


def test_a_changed_configuration_is_drift_until_it_is_built_and_a_lost_pack_too(site: Path) -> None:
    (site / "dashgen.yaml").write_text("dump_interval: 60s\n")
    done = dashgen("build", "--check", cwd=site)
    assert done.returncode == 1 and "\n-  interval: 30s\n+  interval: 1m\n" in done.stdout
    assert dashgen("build", cwd=site).returncode == 0
    assert dashgen("build", "--check", cwd=site).returncode == 0
    (site / "rules/alerts/high.yaml").unlink()
    assert dashgen("build", "--check", cwd=site).returncode == 1


def test_a_disabled_alert_takes_its_runbook_with_it_and_foreign_files_stay(site: Path) -> None:
    own = site / "rules/runbooks/own.md"
    own.write_text("ours\n")
    (site / "dashgen.yaml").write_text("alerts: {NcclGpuLate: {enabled: false}}\n")
    done = dashgen("build", cwd=site)
    assert done.returncode == 0 and "removed  rules/runbooks/NcclGpuLate.md" in done.stdout
    assert not (site / "rules/runbooks/NcclGpuLate.md").exists()
    assert own.read_text() == "ours\n"


def test_a_build_of_one_tier_writes_its_pack_only(tmp_path: Path) -> None:
    assert dashgen("build", "--sensitivity", "low", "-o", "out", cwd=tmp_path).returncode == 0
    assert [path.name for path in (tmp_path / "out/rules/alerts").iterdir()] == ["low.yaml"]


def test_builds_are_identical_whatever_the_hash_seed_the_time_zone_and_the_language(
    built: Path, tmp_path: Path
) -> None:
    expected = tree(built)
    for number, changes in enumerate(
        [
            {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"},
            {"PYTHONHASHSEED": "2", "TZ": "UTC", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ]
    ):
        done = dashgen("build", "-o", str(number), cwd=tmp_path, env=environment(**changes))
        assert done.returncode == 0, done
        assert tree(tmp_path / str(number)) == expected


def test_a_pack_on_standard_output_is_utf_8_in_every_language(tmp_path: Path) -> None:
    plain = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    for arguments in (["rules"], ["explain", "NcclGpuLate"]):
        there, here = dashgen(*arguments, cwd=tmp_path, env=plain), dashgen(*arguments, cwd=tmp_path)
        assert (there.returncode, there.stdout) == (0, here.stdout)


# Rule packs.


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("packs")
    return {tier: dashgen("rules", "--sensitivity", tier, cwd=folder).stdout for tier in TIERS}


def rules(text: str) -> dict[str, dict[str, Any]]:
    every = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    return {rule.get("alert") or rule["record"]: rule for rule in every}


def test_promtool_accepts_the_pack_of_every_tier(packs: dict[str, str]) -> None:
    tool("promtool")
    assert check_rules(packs) == []


def test_a_calmer_tier_has_fewer_or_stricter_alerts(packs: dict[str, str]) -> None:
    alerts = {
        tier: {name: rule for name, rule in rules(text).items() if "alert" in rule} for tier, text in packs.items()
    }
    assert set(alerts["low"]) < set(alerts["medium"]) < set(alerts["high"])
    for calm, keen in (("low", "medium"), ("medium", "high")):
        for name, rule in alerts[calm].items():
            assert seconds(rule.get("for", "0s")) >= seconds(alerts[keen][name].get("for", "0s")), name
    recorded = [{name: rule for name, rule in rules(text).items() if "record" in rule} for text in packs.values()]
    assert recorded[0] == recorded[1] == recorded[2]
    pages = {name for name, rule in alerts["low"].items() if rule["labels"]["severity"] == "critical"}
    assert pages == {"NcclJobDegraded", "NcclJobStalled"}


def seconds(duration: str) -> int:
    return sum(int(count) * {"h": 3600, "m": 60, "s": 1}[unit] for count, unit in re.findall(r"(\d+)([hms])", duration))


def test_half_a_pack_is_half_of_the_whole_and_a_file_holds_the_same(tmp_path: Path, packs: dict[str, str]) -> None:
    whole = rules(packs["medium"])
    assert dashgen("rules", "--only", "recording", "-o", "recording.yaml", cwd=tmp_path).stdout == ""
    assert dashgen("rules", "--only", "alerts", "-o", "alerts.yaml", cwd=tmp_path).stdout == ""
    recording, alerts = (rules((tmp_path / name).read_text()) for name in ("recording.yaml", "alerts.yaml"))
    assert recording | alerts == whole
    assert all("record" in rule for rule in recording.values()) and all("alert" in rule for rule in alerts.values())
    dashgen("rules", "-o", "whole.yaml", cwd=tmp_path)
    assert (tmp_path / "whole.yaml").read_text() == packs["medium"]


# Configuration.


def test_the_commented_configuration_builds_the_same_packs_and_is_never_overwritten(site: Path) -> None:
    assert dashgen("config", "init", "-o", "dashgen.yaml", cwd=site).returncode == 0
    assert dashgen("build", "--check", cwd=site).returncode == 0
    text = (site / "dashgen.yaml").read_text()
    assert dashgen("config", "init", cwd=site).stdout == text
    assert "exists already" in is_one_clear_line(dashgen("config", "init", "-o", "dashgen.yaml", cwd=site))


def test_the_schema_is_json_that_names_its_own_dialect(tmp_path: Path) -> None:
    schema = json.loads(dashgen("config", "schema", cwd=tmp_path).stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False


# How it looks.


def screen(*arguments: str, cwd: Path, env: dict[str, str]) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dashgen", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            shown += more
    os.close(ours)
    return shown.decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m")


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"], ["bulid"], ["build", "--diff"]])
def test_there_is_no_escape_code_without_a_terminal_and_no_colour_with_no_color(
    tmp_path: Path, arguments: list[str]
) -> None:
    done = dashgen(*arguments, cwd=tmp_path)
    assert "\x1b" not in done.stdout + done.stderr
    shown = screen(*arguments, cwd=tmp_path, env=environment(NO_COLOR="1", TERM="xterm-256color"))
    assert shown and not COLOUR.search(shown)


def test_version_is_printed_and_help_is_fine(tmp_path: Path) -> None:
    assert dashgen("--version", cwd=tmp_path).stdout == f"dashgen {__version__}\n"
    assert [dashgen(flag, cwd=tmp_path).returncode for flag in ("-h", "--help")] == [0, 0]


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    env = environment(_DASHGEN_COMPLETE="complete_bash", COMP_WORDS="dashgen ex", COMP_CWORD="1")
    assert dashgen(cwd=tmp_path, env=env).stdout.split() == ["explain"]


# Documentation.


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield (*path, name), below
        yield from commands(below, (*path, name))


# A hidden command is another name of one that is not.
COMMANDS = {path: command for path, command in commands(typer.main.get_command(app)) if not command.hidden}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_is_in_the_documentation_under_its_heading(path: tuple[str, ...]) -> None:
    text = (ROOT / "dashgen" / "docs" / "commands.md").read_text(encoding="utf-8")
    if hasattr(COMMANDS[path], "commands"):
        assert f"\n## dashgen {' '.join(path)} " in text
        return
    _, _, found = text.partition(f"\n## dashgen {' '.join(path)}\n")
    found = found.partition("\n## ")[0]
    assert COMMANDS[path].help in found
    for parameter in COMMANDS[path].params:
        names = {name for name in parameter.opts if name.startswith("-")} - {"-h", "--help"}
        assert all(re.search(rf"`[^`]*(?<!-){name}\b", found) for name in names), f"{names} of dashgen {' '.join(path)}"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_every_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    assert COMMANDS[path].help
    assert all(parameter.help for parameter in COMMANDS[path].params)


@pytest.mark.parametrize(
    ("kind", "files"),
    [("recording", "tests/recordings/*/recording.yaml"), ("scenario", "dashgen/simulator/scenarios/*.yaml")],
)
def test_the_schema_of_a_recording_or_a_scenario_accepts_every_one_there_is(
    tmp_path: Path, kind: str, files: str
) -> None:
    schema = json.loads(dashgen("config", "schema", "--of", kind, cwd=tmp_path).stdout)
    validator = Draft202012Validator(schema)
    found = sorted(ROOT.glob(files))
    assert found
    for path in found:
        story = json.loads(json.dumps(yaml.safe_load(path.read_text()), default=str))
        assert list(validator.iter_errors(story)) == [], path
    assert list(validator.iter_errors(story | {"storry": "x"}))
