# SPDX-License-Identifier: Apache-2.0
"""Jsonnet in a process of its own: limited in time, memory and output, and confined to the folders of the overlays.

Jsonnet has no way to the outside but imports, so the import callback is the boundary. It has no time limit either,
which is why the worker is a process that can be killed. The worker is this module:
``python -m dashgen.jsonnet.sandbox``.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from dashgen.errors import UserError, one_line, with_extra
from dashgen.guard.files import read_text
from dashgen.guard.text import listed, shown

SECONDS = 5
"""Of CPU time: a busy machine must not change what a build says."""
PATIENCE = 300
"""Seconds on the clock, for a machine that has no time at all."""
MEMORY_BYTES = 320 << 20
"""Of the worker's data. dashgen's own build takes a third of it; the process that waits takes another 100 MB."""
OUTPUT_BYTES = 8 << 20
"""Of JSON, which takes 25 times as much as plain data; all of dashgen's boards and rules have 1 MB."""
SOURCE_BYTES = 4 << 20
# Jsonnet's own limit; it needs a small part of the stack that a process has.
STACK_FRAMES = 500

# The same interface twice; the second one has wheels for ARM.
IMPLEMENTATIONS = ("_jsonnet", "_gojsonnet")

PROGRAM = "dashgen"
"""What messages call the program itself."""
OVERLAY = "overlay:/"
"""By which, and its number, an overlay is imported."""
HELPERS = "dashgen.libsonnet"
"""What an overlay imports from wherever it is."""


@dataclass(frozen=True)
class Evaluation:
    """The result as plain data, and every source that took part, by its path below the overlay's number."""

    value: Any
    sources: Mapping[str, str]


def evaluate(program: str, helpers: str, overlays: Sequence[Path]) -> Evaluation:
    """Evaluate a program that may import ``overlay:/N/NAME``, and from there on what lies beside or below an overlay,
    and ``helpers``, a text of jsonnet.

    Raises UserError, naming file and line, when the overlays are wrong, and when they exceed a limit.
    """
    if not any(map(find_spec, IMPLEMENTATIONS)):
        names = listed(map(shown, overlays))
        raise UserError(f"{names}: overlays need jsonnet; {with_extra('overlays')}")
    answer = _asked(program, helpers, overlays)
    if "error" in answer:
        raise UserError(_message(str(answer["error"]), overlays))
    return Evaluation(json.loads(answer["value"]), answer["sources"])


def _asked(program: str, helpers: str, overlays: Sequence[Path]) -> dict[str, Any]:
    """The answer of a worker."""
    names = listed(map(shown, overlays))
    request = json.dumps({"program": program, "helpers": helpers, "overlays": [str(path) for path in overlays]})
    # -P keeps a folder called dashgen in the current directory from being taken for this package.
    command = [sys.executable, "-P", "-m", "dashgen.jsonnet.sandbox"]
    try:
        done = subprocess.run(
            command, input=request.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{names}: not finished after {PATIENCE} s; give the machine less to do") from error
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        raise UserError(f"{names}: not finished after {SECONDS} s; look for a recursion that does not end")
    if done.returncode != 0:
        limit = f"{MEMORY_BYTES >> 20} MiB of memory"
        raise UserError(f"{names}: needs more than {limit} or nests too deep; look for what grows without end")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


_PLACE = re.compile(rf"{OVERLAY}(\d+)/(\S+?):\(?(\d+):(\d+)")
# What dashgen itself has to say: of the result, of an import, or in its own jsonnet, which the trace then begins with.
_OWN_WORDS = re.compile(
    r"(?!RUNTIME ERROR|STATIC ERROR)"
    r"|RUNTIME ERROR: couldn't open import "
    rf"|RUNTIME ERROR: [^\t]*\n\t({PROGRAM}:|{OVERLAY}\d+/{re.escape(HELPERS)}:)"
)


def _message(text: str, overlays: Sequence[Path]) -> str:
    """``file:line:column: what is wrong`` from Jsonnet's message and trace."""
    what = re.split(r"\n\t", text, maxsplit=1)[0][:2000]
    what = re.sub(r"^(RUNTIME|STATIC) ERROR: ", "", what)
    # A semicolon begins a remedy in dashgen's own words; in all others it stands in what is quoted.
    remedy = "" if _OWN_WORDS.match(text) and ";" in what else "; correct it there"
    place = next((found for found in _PLACE.finditer(text) if found[2] != HELPERS), None)
    if place is None:
        what = re.sub(rf"^{OVERLAY}\S+\s*", "", what)
        return f"{listed(map(shown, overlays))}: {one_line(what)}{remedy}"
    number, name, line, column = place.groups()
    what = re.sub(rf"^{re.escape(place[0])}\S*\s*", "", what)
    return f"{shown(overlays[int(number)].parent / name)}:{line}:{column}: {one_line(what)}{remedy}"


# The worker.


class _Imports:
    """Finds what a program imports, and remembers it."""

    def __init__(self, helpers: str, overlays: Sequence[Path]) -> None:
        self.helpers = helpers
        self.roots = [path.parent for path in overlays]
        self.sources: dict[str, str] = {}

    def __call__(self, folder: str, name: str) -> tuple[str, bytes]:
        """Jsonnet's import callback. Raises ValueError, of which Jsonnet passes on the message."""
        if name.startswith(OVERLAY):
            found = name
        elif PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            wrong = "an overlay imports only what lies beside or below it, without .. and absolute paths"
            raise ValueError(f"{wrong}; copy the file there")
        else:
            found = folder + name
        path = found.removeprefix(OVERLAY)
        if path not in self.sources:
            self.sources[path] = self.helpers if PurePosixPath(path).name == HELPERS else self._read(path)
        return found, self.sources[path].encode()

    def _read(self, path: str) -> str:
        number, _, name = path.partition("/")
        root = self.roots[int(number)]
        real = (root / name).resolve()
        if not real.is_relative_to(root.resolve()):
            raise ValueError("the link leads out of the overlay's folder; copy the file there")
        if not real.is_file():
            raise ValueError(f"no such file beside or below the overlay; {HELPERS} is there without a file")
        try:
            return read_text(real, SOURCE_BYTES)
        except UserError as error:
            raise ValueError(str(error)) from error


def _work() -> None:
    """Read a request from standard input, answer on standard output."""
    import resource

    request = json.loads(sys.stdin.buffer.read())
    # Not the address space, of which Go, in which one of the implementations is written, reserves gigabytes.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    imports = _Imports(request["helpers"], [Path(path) for path in request["overlays"]])
    sys.stdout.buffer.write(json.dumps(_answer(request["program"], imports)).encode())


def _answer(program: str, imports: _Imports) -> dict[str, Any]:
    jsonnet = import_module(next(name for name in IMPLEMENTATIONS if find_spec(name)))
    try:
        value = jsonnet.evaluate_snippet(PROGRAM, program, import_callback=imports, max_stack=STACK_FRAMES)
    except RuntimeError as error:
        return {"error": str(error)}
    if len(value) > OUTPUT_BYTES:
        return {"error": f"the result is larger than {OUTPUT_BYTES >> 20} MiB; make less of it"}
    return {"value": value, "sources": imports.sources}


if __name__ == "__main__":
    _work()
