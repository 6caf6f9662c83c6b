# SPDX-License-Identifier: Apache-2.0
"""promtool, Prometheus and its rule engine as subprocesses: the authority on what a rule means.

Nothing here goes through a shell, and nothing a user wrote reaches a command line except names of files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from dashgen.engine.loopback import free_ports
from dashgen.engine.queries import Queries
from dashgen.engine.ruletest import (
    Evaluation,
    ExpressionError,
    Firing,
    alert_tests,
    expression_tests,
    file_names,
    raise_errors,
    read_annotations,
    read_evaluation,
    recorded_names,
    unit_test,
)
from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Series, to_openmetrics

__all__ = [
    "Evaluation",
    "ExpressionError",
    "Firing",
    "Server",
    "check_rules",
    "evaluate",
    "find",
    "make_blocks",
    "missing",
    "rendered_annotations",
    "run",
]

_TOOLS = {
    "promtool": "DASHGEN_PROMTOOL",
    "prometheus": "DASHGEN_PROMETHEUS",
    "dashgen-replay": "DASHGEN_REPLAY",
    "go": "DASHGEN_GO",
    "chromium": "DASHGEN_CHROMIUM",
}
_PACKAGES = {"go": "golang-go", "chromium": "chromium"}  # Debian's; the others are in prometheus
_CHECK_SECONDS = 60
_EVALUATE_SECONDS = 1800
_START_SECONDS = 300  # a busy machine must not cost a result; a Prometheus that ends says so at once
_STOP_SECONDS = 20


# Tools.


@dataclass(frozen=True)
class Done:
    """A process that has ended: its exit code, its output, and what it said on standard error."""

    code: int
    output: bytes
    said: str


def missing(tool: str) -> bool:
    """Whether a tool is neither named by the environment nor on PATH."""
    return not os.environ.get(_TOOLS[tool]) and shutil.which(tool) is None


def find(tool: str) -> str:
    """The path of a tool such as ``promtool``: the environment first, then PATH.

    Raises UserError with the remedy when it is not there.
    """
    variable = _TOOLS[tool]
    wanted = os.environ.get(variable) or tool
    path = shutil.which(wanted)
    if path is None:
        raise UserError(
            f"{wanted}: not found; install it (Debian, Ubuntu: apt-get install {_PACKAGES.get(tool, 'prometheus')}), "
            f"put it on PATH, or set {variable} to its path"
        )
    return path


def run(
    tool: str,
    *arguments: str | Path,
    timeout: float,
    given: bytes = b"",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Run a tool to its end, ``given`` on its standard input. Its exit code is for the caller to judge.

    ``tool`` is a known name or a path. ``folder`` is where it runs, ``environment`` is added to this process's own.
    Raises UserError when it is missing, does not run, or does not end within ``timeout`` seconds.
    """
    path = find(tool) if tool in _TOOLS else tool
    try:
        done = subprocess.run(
            [path, *map(str, arguments)],
            input=given,
            capture_output=True,
            timeout=timeout,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{tool}: no result after {timeout:g} s; use a shorter recording") from error
    except OSError as error:
        remedy = f"set {_TOOLS[tool]} to a working one" if tool in _TOOLS else "remove it"
        raise UserError(f"{path}: does not run: {error.strerror}; {remedy}") from error
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


# Checking rules.


def check_rules(files: Mapping[str, str], *, lint: bool = True) -> list[str]:
    """What promtool finds wrong with rule files; one line per finding, empty when all is fine.

    ``files`` maps a name, by which findings call the file, to its text; with ``lint`` what is merely unwise is wrong
    too. Raises UserError when promtool is missing.
    """
    with TemporaryDirectory(prefix="dashgen-") as folder:
        path = Path(folder) / "rules.yaml"
        return [finding for name, text in files.items() for finding in _check_one(path, name, text, lint)]


def _check_one(path: Path, name: str, text: str, lint: bool) -> list[str]:
    path.write_text(text, encoding="utf-8")
    flags = ("--lint=all", "--lint-fatal") if lint else ("--lint=none",)
    done = run("promtool", "check", "rules", *flags, path, timeout=_CHECK_SECONDS)
    if done.code == 0:
        return []
    lines = [line for line in done.said.splitlines() if line.strip() and line.strip() != "FAILED:"]
    # A syntax finding is a line that starts with the path; a lint finding is a paragraph that does not name the file.
    own = [f"{name}{line.removeprefix(str(path))}" for line in lines if line.startswith(str(path))]
    rest = one_line(" ".join(line for line in lines if not line.startswith(str(path))))
    return own + ([f"{name}: {rest}"] if rest else []) or [f"{name}: promtool exits with {done.code}"]


# Executing rules.


def evaluate(
    rule_files: Mapping[str, str],
    series: Iterable[Series],
    start: float,
    end: float,
    interval: int,
    scrape_interval: int,
    watch: str | None = None,
) -> Evaluation:
    """Execute rules on recorded samples with Prometheus's own engine, from ``start`` to ``end``.

    ``rule_files`` maps names to Prometheus rule files; groups are evaluated in the order of the files and, inside
    them, of the groups, and need names that are unique over all files. ``interval`` is the evaluation interval,
    ``scrape_interval`` the grid of the samples, both in seconds; ``start`` and ``end`` are seconds since the epoch.
    A sample that is missing after one that was there is a stale marker, as a scrape would have left it. ``watch`` is
    an instant selector of the series that come back; without it, everything that the rules produce does.

    Raises ExpressionError when a rule cannot be parsed or computed, UserError when the data exceed what promtool can
    hold.
    """
    # promtool's time for one answer grows with the square of its length, so every name is asked for on its own.
    watched = [watch] if watch else [*recorded_names(rule_files), "ALERTS"]
    steps = int((end - start) // interval)
    tests = expression_tests(watched, steps, interval)
    report = _test_rules(rule_files, series, start, end, interval, scrape_interval, tests)
    return read_evaluation(report, start, interval, (steps + 1) * len(watched))


def rendered_annotations(
    rule_files: Mapping[str, str],
    series: Iterable[Series],
    start: float,
    interval: int,
    scrape_interval: int,
    moments: Mapping[str, Collection[float]],
) -> dict[str, list[dict[str, str]]]:
    """The annotations of firing alerts as the on-call reads them, templates filled in.

    ``moments`` maps an alert name to seconds since the epoch. The answer holds every distinct set of annotations, in
    the order of the moments; an alert that does not fire at any of them has an empty list. Raises as ``evaluate``.
    """
    end = max((moment for times in moments.values() for moment in times), default=start)
    tests = alert_tests(moments, start)
    report = _test_rules(rule_files, series, start, end, interval, scrape_interval, tests)
    found: dict[str, list[dict[str, str]]] = {alert: [] for alert in moments}
    for alert, texts in read_annotations(report):
        if texts not in found[alert]:
            found[alert].append(texts)
    return found


def _test_rules(
    rule_files: Mapping[str, str],
    series: Iterable[Series],
    start: float,
    end: float,
    interval: int,
    scrape_interval: int,
    tests: Mapping[str, object],
) -> str:
    """Run ``promtool test rules`` with tests that fail on purpose, and return what it reports that it got."""
    content = unit_test(rule_files, series, start, end, interval, scrape_interval, tests)
    written = file_names(rule_files)
    with TemporaryDirectory(prefix="dashgen-") as folder:
        for own, text in zip(written, rule_files.values(), strict=True):
            (Path(folder) / own).write_text(text, encoding="utf-8")
        # JSON is YAML, and is written much faster.
        path = Path(folder) / "test.yaml"
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        done = run("promtool", "test", "rules", path, timeout=_EVALUATE_SECONDS)
        if done.code < 0:
            raise UserError(f"promtool: killed by signal {-done.code}; give it more memory, or fewer GPUs")
        report = done.said
        for own, name in zip(written, rule_files, strict=True):
            report = report.replace(str(Path(folder) / own), name)
    raise_errors(report)
    return report


# A data directory and a server on it.


def make_blocks(folder: Path, series: Iterable[Series]) -> None:
    """Write samples as Prometheus blocks into ``folder``, which becomes the data directory of a ``Server``.

    Blocks made this way hold no stale markers. Raises UserError when promtool refuses the samples.
    """
    with TemporaryDirectory(prefix="dashgen-") as scratch:
        path = Path(scratch) / "series.om"
        with path.open("w", encoding="utf-8", newline="\n") as text:
            text.writelines(to_openmetrics(series))
        arguments = ("tsdb", "create-blocks-from", "openmetrics", "--quiet", path, folder)
        done = run("promtool", *arguments, timeout=_EVALUATE_SECONDS)
    if done.code:
        raise UserError(f"{folder}: promtool makes no blocks: {_last_line(done.said)}; make the recording again")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


class Server(Queries):
    """A Prometheus on a data directory, for as long as the ``with`` block runs; it scrapes nothing.

    ``lookback`` is how long a sample counts, in seconds. Blocks hold no stale markers, so choose a little more than the
    longest interval between two samples: then a series that ended is gone. Times are seconds since the epoch.
    Queries raise ExpressionError when Prometheus refuses them, UserError when it does not run.
    """

    def __init__(self, data: Path, lookback: int = 50, max_samples: int = 100_000_000) -> None:
        self._data = data
        self._flags = (f"--query.lookback-delta={lookback}s", f"--query.max-samples={max_samples}")
        self._stack = ExitStack()
        super().__init__()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="dashgen-")))
            self._log = scratch / "log"
            config = scratch / "prometheus.yml"
            config.write_text("global: {}\n", encoding="utf-8")
            while not self._start(stack, config):
                pass
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack, config: Path) -> bool:
        """Start the process and wait until it answers; False when another process took the port meanwhile."""
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        command = [
            find("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
            *self._flags,
        ]
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except OSError as error:
                raise UserError(f"{command[0]}: does not run: {error.strerror}") from error
        stack.callback(_stop, self._process)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                if "address already in use" in self._log.read_text(errors="replace"):
                    return False
                raise UserError(f"prometheus: did not start: {self._complaint()}")
            if self._ready():
                return True
            time.sleep(0.02)
        raise UserError(f"prometheus: not ready after {_START_SECONDS} s: {self._complaint()}")

    def _ready(self) -> bool:
        try:
            with self._opener.open(f"{self._url}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _complaint(self) -> str:
        log = self._log.read_text(errors="replace")
        # A panic leaves its stack below the line that says what went wrong.
        return _last_line("\n".join(line for line in log.splitlines() if "err=" in line) or log)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
