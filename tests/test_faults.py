# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a process, and whatever stands in its way: old or new is there, whole, and the next run finishes.

Processes are killed at every moment at which they touch the file system, and at random ones: a few by default, 200
with DASHGEN_FULL=1. They meet each other at many such moments, with DASHGEN_FULL=1 at every one.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Done, dashgen, environment, tree
from processes import FULL, tool, wait_until
from test_record import SPAN, START, fleet, prometheus

from dashgen.catalogue.metrics import upstream
from dashgen.errors import UserError
from dashgen.output import writer as output
from dashgen.recordings.format import SAMPLES, STORY, Recording, Series
from dashgen.recordings.importing import save

KILLS = 200 if FULL else 6
SEED = int(os.environ.get("DASHGEN_SEED", str(random.SystemRandom().randrange(1 << 32))))
PATIENCE = 120.0  # seconds
OWNED = ("rules", "dashboards")
RECORDING = Path(__file__).parent / "recordings" / "warm-up"

OLD = {"rules/a.yaml": "a: 1\n", "rules/gone/b.yaml": "b: 1\n", "dashboards/c.json": "{}\n"}
NEW = {"rules/a.yaml": "a: 2\n", "rules/new/d.yaml": "d: 1\n", "dashboards/c.json": "{}\n"}

TOUCHES = ("open", "os.", "shutil.", "tempfile.")


def killed(action: Callable[[], object], moment: int) -> bool:
    """Run an action in a process that is killed when it touches the file system for the n-th time."""
    child = os.fork()
    if child == 0:
        left = [moment]

        def hook(event: str, arguments: object) -> None:
            if event.startswith(TOUCHES):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            action()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def met(first: Callable[[], object], second: Callable[[], object], moment: int) -> bool:
    """Run an action that stands still when it touches the file system for the n-th time, until another one has ended
    or waits for it. Tells whether it got that far. Both have to end well.
    """
    left = [moment]

    def hook(event: str, arguments: object) -> None:
        if event.startswith(TOUCHES):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGSTOP)

    one = started(lambda: (sys.addaudithook(hook), first()))
    if not os.WIFSTOPPED(status(one, os.WUNTRACED)):
        return False
    other = started(second)
    while os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and not waits(other):
        time.sleep(0.001)
    os.kill(one, signal.SIGCONT)
    assert (status(one), status(other)) == (0, 0), moment
    return True


def started(action: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def status(child: int, options: int = 0) -> int:
    found = os.waitpid(child, options)[1]
    assert os.WIFSTOPPED(found) or found == 0
    return found


def waits(process: int) -> bool:
    """Whether a process waits for a lock that another one holds."""
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(words[1] == "->" and words[5] == str(process) for words in locks)


def whole(found: Mapping[str, bytes], *states: Mapping[str, bytes]) -> None:
    """Every file is as it is in one of the states."""
    for path, content in found.items():
        assert path.endswith("/") or any(content == state.get(path) for state in states), path


@pytest.mark.parametrize("first", [{}, OLD], ids=["the first build", "a further build"])
def test_a_build_that_is_killed_at_any_moment_is_finished_by_the_next(tmp_path: Path, first: dict[str, str]) -> None:
    wanted = tmp_path / "wanted"
    output.write(wanted, NEW, OWNED)
    (wanted / "rules/own.md").write_text("ours\n")
    moment, ended = 0, False
    while not ended:
        moment += 1
        root = tmp_path / str(moment)
        root.mkdir()
        if first:
            output.write(root, first, OWNED)
        (root / "rules").mkdir(exist_ok=True)
        (root / "rules/own.md").write_text("ours\n")
        before = tree(root)
        ended = not killed(lambda root=root: output.write(root, NEW, OWNED), moment)  # type: ignore[misc]
        after = {path: text for path, text in tree(root).items() if ".dashgen-" not in path}
        after.pop(output.MANIFEST, None)
        whole(after, before, tree(wanted))
        output.write(root, NEW, OWNED)
        assert tree(root) == tree(wanted)
    assert moment > 30


def test_a_named_file_is_old_or_new_when_its_writer_is_killed_at_any_moment(tmp_path: Path) -> None:
    path = tmp_path / "dashgen.yaml"
    moment, ended = 0, False
    while not ended:
        moment += 1
        path.write_text("old\n")
        ended = not killed(lambda: output.write_file(path, "new\n"), moment)
        assert path.read_text() in ("old\n", "new\n")
        output.write_file(path, "new\n")
        assert tree(tmp_path) == {"dashgen.yaml": b"new\n"}
    assert moment > 5


def recording(story: str) -> tuple[Recording, list[Series]]:
    times = np.arange(1_700_000_000.0, 1_700_000_600.0, 15.0)
    about = Recording.model_validate(
        {
            "format": 1,
            "story": story,
            "source": "imported",
            "made_by": "a test",
            "start": "2023-11-14T22:13:20Z",
            "end": "2023-11-14T22:23:20Z",
            "scrape_interval": 15,
        }
    )
    return about, [Series("up", (("instance", "n"),), times, np.ones(len(times)))]


def test_a_recording_is_old_or_new_when_its_writer_is_killed_at_any_moment(tmp_path: Path) -> None:
    target = tmp_path / "recordings" / "mine"
    save(target, *recording("new"))
    new = tree(target)
    moment, ended = 0, False
    while not ended:
        moment += 1
        save(target, *recording("old"))
        old = tree(target)
        ended = not killed(lambda: save(target, *recording("new")), moment)
        assert tree(target) in (old, new)
        save(target, *recording("new"))
        assert tree(target.parent) == {"mine/": b"", **{f"mine/{name}": text for name, text in new.items()}}
    assert moment > 5


NOTE = "fabric: xGMI  # ours\n"
LOG = (Path(__file__).parent / "ncclperf" / "one-node.txt").read_text()
GIVEN = {
    "a.yaml": "fabric: xGMI\n",
    "b.yaml": "alerts: {NcclGpuLate: {enabled: false}}\n",
    "a.txt": LOG,
    "b.txt": LOG.replace("99.20", "98.20").replace("450.73", "440.73"),
    "snap/1700000000/a.prom": f'{upstream("busbw")}{{node="n",gpu="GPU0"}} 1\n',
    "late/1700000100/a.prom": f'{upstream("busbw")}{{node="n",gpu="GPU0"}} 2\n',
}
RECORD = ["--start", START.isoformat(), "--end", (START + SPAN).isoformat(), "-o", "out/recording"]
COMMANDS = [
    ["build", "-c", "../{}.yaml", "-o", "out"],
    ["rules", "-c", "../{}.yaml", "-o", "out/file"],
    ["import", "textfile", {"a": "../snap", "b": "../late"}, "-o", "out/recording"],
    ["simulate", {"a": "bursts", "b": "batch-size"}, "-o", "out/recording"],
    ["baseline", "../{}.txt", "--update", "out/dashgen.yaml"],
    ["record", "--prometheus", "URL", "--job", {"a": "1670760", "b": "9"}, *RECORD],
]


def test_commands_that_are_killed_at_random_moments_leave_old_or_new_and_the_next_run_repairs(tmp_path: Path) -> None:
    print(f"DASHGEN_SEED={SEED}")
    chance = random.Random(SEED)
    for name, text in GIVEN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    commands = COMMANDS if FULL else chance.sample(COMMANDS, 3)
    (tmp_path / "server").mkdir()
    with prometheus(fleet(), tmp_path / "server") as url:
        for number, command in enumerate(commands):

            def of(word: str, command: list[Any] = command) -> list[str]:
                chosen = (part[word] if isinstance(part, dict) else part.format(word) for part in command)
                return [url if part == "URL" else part for part in chosen]

            moments = math.ceil(KILLS / len(commands) / 2)
            kill_and_repair(tmp_path / f"{number}", of("a"), of("b"), moments, chance)


def kill_and_repair(root: Path, first: list[str], second: list[str], moments: int, chance: random.Random) -> None:
    """Kill each of two commands, which write to one place in turn, at random moments, and run it again."""
    occupied(root)
    run(first, root)
    before = tree(root)
    began = time.monotonic()
    run(second, root)
    took = time.monotonic() - began
    wanted = {"first": before, "second": tree(root)}
    run(first, root)
    assert wanted["first"] == tree(root) != wanted["second"]
    for _ in range(moments):
        for word, command in (("second", second), ("first", first)):
            process = start(command, root)
            try:
                process.wait(chance.uniform(0.3, 1.1) * took)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            # What begins with a point is work that was going on.
            found = {path: text for path, text in tree(root).items() if "/." not in f"/{path}"}
            if command[0] == "build":
                whole(found, *wanted.values())
                assert found.items() >= NOTES, "nobody else's file is touched"
            else:
                assert found in wanted.values(), "old or new as a whole, and nobody else's file is touched"
            run(command, root)
            assert tree(root) == wanted[word]


NOTES = {("notes.txt", b"ours\n"), ("out/rules/own.md", b"ours\n"), ("theirs/secret", b"theirs\n")}


def occupied(root: Path) -> None:
    """A folder in which others keep files, also where a command writes, and links that lead to them."""
    for name, content in NOTES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    (root / "out" / "rules" / "link").symlink_to("../../theirs")
    (root / "made").mkdir()
    (root / "made" / "dashgen.yaml").write_text(NOTE)
    (root / "out" / "dashgen.yaml").symlink_to("../made/dashgen.yaml")


def start(command: list[str], cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dashgen", *command],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run(command: list[str], cwd: Path) -> None:
    assert start(command, cwd).wait(PATIENCE) == 0, command


def test_of_two_builds_at_once_one_is_there_whole(tmp_path: Path) -> None:
    for name, text in (("a", "fabric: xGMI\n"), ("b", "dump_interval: 60s\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
    started = [start(["build", "-c", f"{name}.yaml", "-o", "out"], tmp_path) for name in ("a", "b") * 2]
    assert [each.wait(PATIENCE) for each in started] == [0] * 4
    checks = [dashgen("build", "--check", "-c", f"{name}.yaml", "-o", "out", cwd=tmp_path) for name in ("a", "b")]
    assert sorted(done.returncode for done in checks) == [0, 1]


def at_every_moment(one: Callable[[Path], object], other: Callable[[Path], object], place: Path) -> int:
    """Two actions that meet at every moment leave the result of one, and nothing else. Returns the moments."""
    results = []
    for number, action in enumerate((one, other)):
        (place / f"alone{number}").mkdir()
        action(place / f"alone{number}")
        results.append(tree(place / f"alone{number}"))
    moment, came = 0, True
    while came:
        # Most happens while a build makes its folders and its lock.
        moment += 1 if moment < 20 or FULL else 10
        for old in (False, True):
            root = place / f"{moment}-{old}"
            root.mkdir()
            if old:
                other(root)
            came = met(lambda root=root: one(root), lambda root=root: other(root), moment)  # type: ignore[misc]
            if not came and old:
                break
            assert tree(root) in results, moment
    return moment


OTHER = {"rules/a.yaml": "a: 3\n", "dashboards/deep/e.json": "{}\n"}


def test_two_builds_that_meet_at_any_moment_leave_the_whole_of_one(tmp_path: Path) -> None:
    def build(files: dict[str, str]) -> Callable[[Path], object]:
        return lambda root: output.write(root / "new" / "folder", files, OWNED)

    assert at_every_moment(build(NEW), build(OTHER), tmp_path) > 30


def test_two_writers_of_a_file_that_meet_at_any_moment_leave_the_whole_of_one(tmp_path: Path) -> None:
    def write(text: str) -> Callable[[Path], object]:
        return lambda root: output.write_file(root / "dashgen.yaml", text)

    assert at_every_moment(write("one\n"), write("two\n"), tmp_path) > 5


def test_two_writers_of_a_recording_that_meet_at_any_moment_leave_the_whole_of_one(tmp_path: Path) -> None:
    def write(story: str) -> Callable[[Path], object]:
        return lambda root: save(root / "new" / "mine", *recording(story))

    assert at_every_moment(write("one"), write("two"), tmp_path) > 5


# What stands in the way.

MANIFESTS = [
    "5",
    "[]",
    "{}",
    '{"files": 5}',
    '{"files": {"../x": "0"}}',
    '{"files": {"/etc/x": "0"}}',
    '{"files": {"rules/\\u0000": "0"}}',
    '{"files": {"rules/\\ud800": "0"}}',
    '{"files": {"": "0"}}',
    '{"files": {".": "0"}}',
    '{"files": ["rules/x", 5]}',
    '{"files": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"files": {"rules/x": ' + "9" * 5000 + "}}",
    "\xff",
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=range(len(MANIFESTS)))
def test_a_manifest_that_is_none_is_refused_and_nothing_is_touched(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "x").write_text("ours\n")
    (tmp_path / "root" / "rules").mkdir(parents=True)
    (tmp_path / "root" / output.MANIFEST).write_text(manifest, encoding="latin-1")
    before = tree(tmp_path)
    with pytest.raises(UserError, match="not a manifest of dashgen; remove it"):
        output.write(tmp_path / "root", NEW, OWNED)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("link", ["rules", "rules/new", "dashboards"])
def test_nothing_is_written_or_removed_through_a_link_that_leads_out(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / link).parent.mkdir(parents=True)
    outside.mkdir()
    for name in ("a.yaml", "c.json", "d.yaml", "passwd"):
        (outside / name).write_text("ours\n")
    (root / link).symlink_to(outside)
    files = {f"{link}/passwd": "0", "rules/a.yaml": "0", "dashboards/c.json": "0", "rules/new/d.yaml": "0"}
    (root / output.MANIFEST).write_text(json.dumps({"files": files}))
    before = tree(tmp_path)
    with pytest.raises(UserError, match=r"the link leads out of .*; replace it by a folder"):
        output.write(root, NEW, OWNED)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", [output.MANIFEST, "rules/a.yaml"])
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "rules").mkdir()
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="not a regular file; it is in the way"):
        output.write(tmp_path, NEW, OWNED)


def one_line(done: Done) -> str:
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("dashgen: ") and len(done.stderr) <= 301, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["import", "textfile", "snap", "-o", "new/folder"],
        ["simulate", "bursts", "-o", "new/folder"],
        ["rules", "-o", "file"],
        ["config", "init", "-o", "file"],
    ],
    ids=lambda command: command[0],
)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, command: list[str]) -> None:
    copies = tmp_path / "snap" / "1700000000"
    copies.mkdir(parents=True)
    series = (f'{upstream("busbw")}{{node="n{number}",gpu="GPU0"}} 1\n' for number in range(500))
    (copies / "a.prom").write_text("".join(series))
    before = tree(tmp_path)
    done = dashgen(*command, cwd=tmp_path, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)))
    assert "File too large" in one_line(done)
    assert tree(tmp_path) == before


def test_a_place_that_nobody_may_write_to_is_one_line(tmp_path: Path) -> None:
    for command in (["build"], ["rules"], ["simulate", "bursts"], ["config", "init"]):
        assert "/proc" in one_line(dashgen(*command, "-o", "/proc/dashgen", cwd=tmp_path))


def test_a_name_that_is_not_utf_8_is_written_to_and_told_in_ascii(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    copies = tmp_path / name / "1700000000"
    copies.mkdir(parents=True)
    (copies / "a.prom").write_text(f'{upstream("busbw")}{{node="n",gpu="GPU0"}} 1\n')
    done = dashgen("import", "textfile", name, "-o", f"{name}-out", cwd=tmp_path)
    assert (done.returncode, done.stdout.isascii()) == (0, True)
    assert sorted(path.name for path in (tmp_path / f"{name}-out").iterdir()) == [STORY, SAMPLES]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_missing_home_and_closed_streams_change_nothing(tmp_path: Path) -> None:
    bare = {name: text for name, text in environment().items() if name != "HOME"}
    assert dashgen("rules", cwd=tmp_path, env=bare).returncode == 0
    for command in (["rules"], ["--help"], ["explain", "NcclJobDegraded"], ["build", "-o", "out"]):
        for streams in ("<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
            line = f'"$0" -m dashgen "$@" {streams}'
            done = subprocess.run(
                ["sh", "-c", line, sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), (command, streams)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_validation_that_is_stopped_takes_its_servers_and_its_scratch_with_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    tool("promtool"), tool("prometheus")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "dashgen", "validate", "--recordings", str(RECORDING), "--sensitivity", "low"],
        cwd=tmp_path,
        env=environment(TMPDIR=str(scratch)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: process.poll() is not None or any(scratch.glob("*/test.yaml")), PATIENCE)
    assert process.poll() is None
    # A terminal sends an interrupt to all of them, a service manager tells the first one only.
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "Traceback" in out + err) == (128 + number, False), err
    wait_until(lambda: not any(scratch.iterdir()) and not group(process.pid), PATIENCE)


def group(leader: int) -> list[str]:
    """Programs of a process group."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = each.read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[2]) == leader and rest.split()[0] != "Z":
                found.append(name)
        except (OSError, ValueError):
            continue
    return found
