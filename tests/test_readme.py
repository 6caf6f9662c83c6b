# SPDX-License-Identifier: Apache-2.0
"""The documentation is tested: what is derived is fresh, links lead somewhere, and command lines run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml
from readme import BLOCKS, DOCS, MORE, README, ROOT, documents, filled

from dashgen import catalogue
from dashgen.catalogue.metrics import METRICS
from dashgen.cli.main import app
from dashgen.config.site import Site
from dashgen.explain.pages import HEADLINES, anchor
from dashgen.explain.usage import functions
from dashgen.targets import TARGETS

PAGES = [*documents(), *sorted((ROOT / "rules" / "runbooks").glob("*.md"))]
COMMAND = typer.main.get_command(app)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_what_a_page_takes_from_the_code_is_fresh(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert filled(text) == text, "run: python tests/readme.py"


def test_everything_that_is_derived_stands_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in documents())
    assert [name for name in BLOCKS if f"<!-- {name} -->" not in text] == []


def headings(path: Path) -> set[str]:
    text = _CODE.sub("", path.read_text(encoding="utf-8"))
    return {anchor(title.replace("`", "")) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(path: Path) -> None:
    for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", _CODE.sub("", path.read_text(encoding="utf-8"))):
        name, _, heading = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        assert not heading or heading in headings(target), link


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = {README}, [README]
    while ahead:
        path = ahead.pop()
        for link in re.findall(r"\]\((?!https?://)([^)#\s]+)", path.read_text(encoding="utf-8")):
            target = (path.parent / link).resolve()
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                ahead.append(target)
    assert {path.resolve() for path in documents()} <= reached


def command_lines(text: str) -> Iterator[str]:
    """Every line of a shell that calls dashgen, and every call in a sentence."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines() if language in ("sh", "console") else ():
            yield from re.findall(r"(?:^|&& |\$ )(?:\.venv/bin/)?(dashgen [^&|>]+)", line.partition("  #")[0])
    yield from re.findall(r"`(dashgen [^`]+)`", _CODE.sub("", text).replace("\n", " "))


def complaint(line: str) -> str:
    """What the command line says against a call; nothing where it can be typed, or only names a command."""
    words = ["2026-03-19" if word == "TIME" else word for word in shlex.split(line)[1:]]
    command, name = COMMAND, "dashgen"
    while isinstance(command, typer.core.TyperGroup) and words and words[0] in command.commands:
        name, command = f"{name} {words[0]}", command.commands[words.pop(0)]
    # Completion would be installed on the spot.
    if not words or words[0] in ("COMMAND", "--install-completion"):
        return ""
    try:
        command.make_context(name, words)
    except typer.Exit:
        return ""
    except typer.TyperException as error:
        return error.format_message()
    return f"no such command: {words[0]}" if isinstance(command, typer.core.TyperGroup) else ""


def test_a_call_that_cannot_be_typed_is_found() -> None:
    assert "--nope" in complaint("dashgen build --nope")
    assert "nope" in complaint("dashgen nope") and "nope" in complaint("dashgen import nope x")
    assert complaint("dashgen record --since 2h -o DIR")
    assert [each for each in ("dashgen", "dashgen record", "dashgen --version") if complaint(each)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_line_in_the_documentation_can_be_typed(path: Path) -> None:
    found = {line: complaint(line) for line in command_lines(path.read_text(encoding="utf-8"))}
    assert {line: said for line, said in found.items() if said} == {}


def test_the_front_page_is_short_and_shows_an_incident() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert "](dashgen/docs/pictures/" in text and all(name in text for name in HEADLINES)


def test_what_exists_has_its_place_in_the_documentation() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert [each.name for each in catalogue.ALERTS if f"\n### {each.name}\n" not in pages["alerts"]] == []
    assert [each.name for each in catalogue.SIGNALS if f"\n### {each.name}\n" not in pages["signals"]] == []
    assert [each.name for each in METRICS if f"\n### {each.name}\n" not in pages["metrics"]] == []
    assert [name for name in TARGETS if f"`{name}`" not in pages["targets"]] == []
    assert [name for name in functions(app) if f"\n## dashgen {name}\n" not in pages["commands"]] == []
    assert [
        key
        for key in Site.model_fields
        if f"`{key}`" not in pages["configuration"] and f"## {key}" not in pages["configuration"]
    ] == []
    assert {name.split()[0] for name in functions(app)} >= MORE.keys()


def test_the_daily_tasks_are_those_that_contributors_read_of() -> None:
    tasks = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"make ([a-z]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert tasks == told | {"help"}


def test_hooks_of_contributors_run_what_the_tests_run() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = {hook["id"]: hook for repository in config["repos"] for hook in repository["hooks"]}
    assert {"ruff", "ruff-format", "mypy", "packs", "actionlint"} <= hooks.keys()
    commands = (ROOT / ".ci" / "test").read_text()
    for hook in hooks.values():
        assert " ".join(hook.get("entry", "").split()[:2]) in commands, hook
