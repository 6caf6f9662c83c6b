# SPDX-License-Identifier: Apache-2.0
"""A file opened in a real browser, and what became of it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from processes import tool

PATIENCE = 240.0  # seconds
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Document(HTMLParser):
    """Every element with its attributes, and every text that is not part of a script or a style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.scripts: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside, attributes = self._open[-1] if self._open else ("", {})
        if inside == "script":
            self.scripts[attributes.get("id", "")] = data
        elif inside != "style" and data.strip():
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@dataclass(frozen=True)
class Seen:
    """The page after all of its scripts have run, and what the browser's console says of it."""

    document: Document
    console: list[str] = field(default_factory=list)

    @property
    def root(self) -> dict[str, str]:
        return next(attributes for tag, attributes in self.document.elements if tag == "html")


def browse(page: Path, profile: Path) -> Seen:
    """Open a file from disk. In virtual time the page's own timers run out, however slow the machine."""
    command = [
        tool("chromium", "google-chrome", "google-chrome-stable"),
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *(f"--user-data-dir={profile}", "--virtual-time-budget=120000", "--window-size=1400,1000"),
        *("--enable-logging=stderr", "--v=0", "--dump-dom", page.absolute().as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=PATIENCE, check=True)
    console = re.findall(r"CONSOLE.*", done.stderr)
    return Seen(Document(done.stdout), console)
