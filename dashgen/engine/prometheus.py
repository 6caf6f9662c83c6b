# SPDX-License-Identifier: Apache-2.0
"""promtool, Prometheus and its rule engine as subprocesses: the authority on what a rule means."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from dashgen.engine.loopback import reserved_ports
from dashgen.engine.programs import find, run, short_lived
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
from dashgen.engine.services import Service, last_line
from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Series, to_openmetrics

__all__ = [
    "Evaluation",
    "ExpressionError",
    "Firing",
    "Server",
    "check_rules",
    "evaluate",
    "make_blocks",
    "rendered_annotations",
]

_CHECK_SECONDS = 60
_EVALUATE_SECONDS = 1800


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
        done = run("promtool", "test", "rules", path, timeout=_EVALUATE_SECONDS, environment=short_lived())
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
        done = run("promtool", *arguments, timeout=_EVALUATE_SECONDS, environment=short_lived())
    if done.code:
        raise UserError(f"{folder}: promtool makes no blocks: {last_line(done.said)}; make the recording again")


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
            (port,) = stack.enter_context(reserved_ports(1))
            self._url = f"http://127.0.0.1:{port}"
            config = scratch / "prometheus.yml"
            config.write_text("global: {}\n", encoding="utf-8")
            command = [
                find("prometheus"),
                f"--config.file={config}",
                f"--storage.tsdb.path={self._data}",
                "--storage.tsdb.retention.time=100y",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
                *self._flags,
            ]
            self._service = Service("prometheus", command, f"{self._url}/-/ready", scratch / "log")
            stack.enter_context(self._service).start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _complaint(self) -> str:
        return self._service.said()
