# SPDX-License-Identifier: Apache-2.0
"""Whatever is typed, a command ends in order: its exit code, one line of error, and a folder that is as it was."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
import typer.main
from command import tree
from hostile import NAMES, NUMBERS, PROMQL, TEXTS, WORDS, examples
from hypothesis import given
from hypothesis import strategies as st

from dashgen.cli import exits
from dashgen.cli.main import app
from dashgen.guard.text import LONGEST

FILES = ["dashgen.yaml", "pack", "bad.yaml", "latin.yaml", "pipe", "loop", "board.json", ".", "nowhere", "/dev/zero"]
COMMANDS = [
    ["build", "-o"],
    ["build", "--check", "-o"],
    ["build", "--target"],
    ["rules", "-c"],
    ["rules", "--format"],
    ["rules", "--only"],
    ["rules", "-o"],
    ["explain"],
    ["explain", "NcclJobDegraded", "-c"],
    ["explain", "NcclJobDegraded", "--job"],
    ["explain", "NcclJobDegraded", "--job", "1", "--recording"],
    ["baseline"],
    ["baseline", "--transport"],
    ["baseline", "board.json", "--update"],
    ["validate", "--recordings"],
    ["score", "--rules"],
    ["score", "--recordings"],
    ["lint"],
    ["lint", "--format"],
    ["preview", "--recording"],
    ["preview", "-o"],
    ["simulate"],
    ["simulate", "bursts", "--seed"],
    ["import", "json"],
    ["import", "json", "board.json", "-o"],
    ["import", "textfile"],
    ["import", "textfile", "pack", "-o"],
    ["record", "--job"],
    ["config"],
    ["config", "schema", "--of"],
    ["config", "init", "-o"],
]
TREE = typer.main.get_command(app)
NUL = str.maketrans({"\x00": "0"})
WORD = (
    (TEXTS | WORDS | NAMES | PROMQL | NUMBERS.map(str) | st.sampled_from(["--help", "-o", "--", "-c", "github"]))
    .map(lambda text: text.translate(NUL)[:500])
    .filter(lambda text: not Path(text).is_absolute())
) | st.sampled_from(FILES)


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """The command line in this process, its commands described once: two hundred times faster than a process each."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["dashgen", *arguments])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as end:
            exits.run(TREE)
    told = []
    for stream in (out, err):
        stream.flush()
        told.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return int(end.value.code or 0), told[0], told[1]


def test_any_command_line_ends_in_order_and_an_error_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dashgen.yaml").write_text("fabric: xGMI\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "a.yaml").write_text("groups: 5\n")
    (tmp_path / "pack" / "a.prom").write_text("nccl_x{} 1\n")
    (tmp_path / "bad.yaml").write_text("labels: {job: 'nan'}\n")
    (tmp_path / "latin.yaml").write_bytes(b"fabric: \xff\n")
    (tmp_path / "board.json").write_text('{"title": "\\r::error::x ##[error]", "panels": [{"title": "##[x]"}]}')
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    # A tool that is not there is found missing before any work.
    monkeypatch.setenv("PATH", str(tmp_path))
    before = tree_without_pipes(tmp_path)

    @examples()
    @given(command=st.sampled_from(COMMANDS), words=st.lists(WORD, max_size=3))
    def check(command: list[str], words: list[str]) -> None:
        code, out, err = run([*command, *words], monkeypatch)
        assert code in (0, 1, 2), (code, out, err)
        assert "Traceback" not in out + err
        if code == 2 and err:
            lines = err.splitlines()
            assert len(lines) == 1 and lines[0].startswith("dashgen: ") and len(lines[0]) <= LONGEST, err
        if command[0] == "lint":
            assert all(each.isprintable() and "##[" not in each for each in out.splitlines())
        if code == 2:
            assert tree_without_pipes(tmp_path) == before
        else:
            for path in set(tree_without_pipes(tmp_path)) - set(before):
                remove(tmp_path / path)
            restore(tmp_path, before)

    check()


def tree_without_pipes(folder: Path) -> dict[str, bytes]:
    """What lies in a folder; a named pipe would be waited for."""
    pipe = folder / "pipe"
    pipe.unlink()
    found = tree(folder)
    os.mkfifo(pipe)
    return found


def remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def restore(folder: Path, before: dict[str, bytes]) -> None:
    for name, content in before.items():
        path = folder / name
        if not name.endswith("/") and not path.is_symlink() and path.read_bytes() != content:
            path.write_bytes(content)
