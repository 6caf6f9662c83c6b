# SPDX-License-Identifier: Apache-2.0
"""promtool and Prometheus as subprocesses: the authority on what a rule means.

Nothing here goes through a shell, and nothing a user wrote reaches a command line except names of files.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
import yaml

from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Labels, Series, number, selector, to_openmetrics

_TOOLS = {"promtool": "DASHGEN_PROMTOOL", "prometheus": "DASHGEN_PROMETHEUS"}
_CHECK_SECONDS = 60
_EVALUATE_SECONDS = 1800
_START_SECONDS = 60
_STOP_SECONDS = 20
_QUERY_SECONDS = 130  # Prometheus gives up a query after two minutes


class ExpressionError(UserError):
    """Prometheus refused an expression, or failed while it computed one: the rule or the panel is at fault."""


# Tools.


def find(tool: str) -> str:
    """The path of ``promtool`` or ``prometheus``: the environment first, then PATH.

    Raises UserError with the remedy when it is not there.
    """
    variable = _TOOLS[tool]
    wanted = os.environ.get(variable) or tool
    path = shutil.which(wanted)
    if path is None:
        raise UserError(
            f"{wanted}: not found; install it (Debian, Ubuntu: apt-get install prometheus), "
            f"put it on PATH, or set {variable} to its path"
        )
    return path


def _run(tool: str, *arguments: str | Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end. Its exit code is for the caller to judge; UserError when it does not run or not end."""
    command = [find(tool), *map(str, arguments)]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{tool} {arguments[0]}: no result after {timeout:g} s; use a shorter recording") from error
    except OSError as error:
        raise UserError(f"{command[0]}: does not run: {error.strerror}; set {_TOOLS[tool]} to a working one") from error


# Checking rules.


def check_rules(files: Mapping[str, str]) -> list[str]:
    """What promtool finds wrong with rule files, lint included; one line per finding, empty when all is fine.

    ``files`` maps a name, by which findings call the file, to its text. Raises UserError when promtool is missing.
    """
    with TemporaryDirectory(prefix="dashgen-") as folder:
        path = Path(folder) / "rules.yaml"
        return [finding for name, text in files.items() for finding in _check_one(path, name, text)]


def _check_one(path: Path, name: str, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    done = _run("promtool", "check", "rules", "--lint=all", "--lint-fatal", path, timeout=_CHECK_SECONDS)
    if done.returncode == 0:
        return []
    lines = [line for line in done.stderr.splitlines() if line.strip() and line.strip() != "FAILED:"]
    # A syntax finding is a line that starts with the path; a lint finding is a paragraph that does not name the file.
    own = [f"{name}{line.removeprefix(str(path))}" for line in lines if line.startswith(str(path))]
    rest = one_line(" ".join(line for line in lines if not line.startswith(str(path))))
    return own + ([f"{name}: {rest}"] if rest else []) or [f"{name}: promtool exits with {done.returncode}"]


# Executing rules.

Interval = tuple[float, float]


@dataclass(frozen=True)
class Firing:
    """One alert instance and when it was active.

    ``labels`` are sorted, without ``alertname`` and ``alertstate``. Intervals are half open, in seconds since the
    epoch: from the first evaluation in the state to the first evaluation that no longer is.
    """

    alert: str
    labels: Labels
    pending: tuple[Interval, ...]
    firing: tuple[Interval, ...]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What rules made of a recording, as Prometheus itself computes it.

    ``series`` are the recorded series, ``alerts`` when which alert was active, and ``alert_series`` the same as the
    ``ALERTS`` series that panels query.
    """

    series: list[Series]
    alerts: list[Firing]
    alert_series: list[Series]


# promtool's clock starts at zero, so values that are points in time have to move along with it.
_TIMESTAMP = re.compile(r"(?:.*[_:])?(?:mtime|timestamp|start_time|boot_time)_seconds(?::(?:min|max|avg|last))?")


def is_timestamp(name: str) -> bool:
    """Whether the values of a series are seconds since the epoch, judged by its name."""
    return _TIMESTAMP.fullmatch(name) is not None


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
    watched = [watch] if watch else [*_recorded_names(rule_files), "ALERTS"]
    wrong = [{"labels": "wrong", "value": 0}]
    tests = [
        {"expr": expr, "eval_time": f"{step * interval}s", "exp_samples": wrong}
        for step in range(int((end - start) // interval) + 1)
        for expr in watched
    ]
    report = _test_rules(rule_files, series, start, end, interval, scrape_interval, {"promql_expr_test": tests})
    return _evaluation(report, start, interval, len(tests))


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
    wrong = [{"exp_labels": {"wrong": "wrong"}}]
    tests = [
        {"eval_time": f"{int(moment - start)}s", "alertname": alert, "exp_alerts": wrong}
        for alert, times in moments.items()
        for moment in sorted(times)
    ]
    end = max((moment for times in moments.values() for moment in times), default=start)
    report = _test_rules(rule_files, series, start, end, interval, scrape_interval, {"alert_rule_test": tests})
    found: dict[str, list[dict[str, str]]] = {alert: [] for alert in moments}
    for alert, texts in _rendered(report):
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
    names = {name: f"rules-{index}.yaml" for index, name in enumerate(rule_files)}
    last = int((end - start) // scrape_interval)
    unit_test = {
        "rule_files": list(names.values()),
        "evaluation_interval": f"{interval}s",
        "group_eval_order": _group_names(rule_files),
        "tests": [
            {
                "interval": f"{scrape_interval}s",
                "input_series": [
                    {"series": selector(one.name, one.labels), "values": values}
                    for one in series
                    if (values := _values(one, start, scrape_interval, last))
                ],
                **tests,
            }
        ],
    }
    with TemporaryDirectory(prefix="dashgen-") as folder:
        for name, text in rule_files.items():
            (Path(folder) / names[name]).write_text(text, encoding="utf-8")
        # JSON is YAML, and is written much faster.
        path = Path(folder) / "test.yaml"
        path.write_text(json.dumps(unit_test, ensure_ascii=False), encoding="utf-8")
        report = _run("promtool", "test", "rules", path, timeout=_EVALUATE_SECONDS).stderr
        for name, written in names.items():
            report = report.replace(str(Path(folder) / written), name)
    _raise_errors(report)
    return report


def _groups(name: str, text: str) -> list[dict[str, Any]]:
    try:
        groups = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["groups"]
        return [{"name": group["name"], "rules": list(group["rules"])} for group in groups]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise UserError(f"{name}: groups: not a rule file: {one_line(error)}") from error


def _group_names(rule_files: Mapping[str, str]) -> list[str]:
    """All groups in the order of the files. Raises UserError when two share a name: their order would be open."""
    names = [group["name"] for name, text in rule_files.items() for group in _groups(name, text)]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UserError(f"{', '.join(rule_files)}: group {min(twice)}: used twice; rename one of them")
    return names


def _recorded_names(rule_files: Mapping[str, str]) -> list[str]:
    rules = (rule for name, text in rule_files.items() for group in _groups(name, text) for rule in group["rules"])
    return list(dict.fromkeys(rule["record"] for rule in rules if "record" in rule))


def _values(one: Series, start: float, step: int, last: int) -> str:
    """The samples in promtool's notation: ``2x3`` is four times 2, ``_x3`` three times nothing."""
    offset = start if is_timestamp(one.name) else 0.0
    places = np.rint((one.times - start) / step).astype(int)
    inside = (places >= 0) & (places <= last)
    places, samples = places[inside], one.values[inside] - offset
    if not places.size:
        return ""
    breaks = np.flatnonzero((np.diff(places) != 1) | (samples[1:] != samples[:-1])) + 1
    firsts = [0, *breaks.tolist()]
    words: list[str] = []
    free = 0
    for first, end in zip(firsts, [*firsts[1:], places.size], strict=True):
        words += _gap(int(places[first]) - free, present=bool(words))
        words.append(number(samples[first]) + (f"x{end - first - 1}" if end - first > 1 else ""))
        free = int(places[end - 1]) + 1
    return " ".join(words + (["stale"] if free <= last else []))


def _gap(width: int, present: bool) -> list[str]:
    """Nothing for ``width`` scrapes; the first of them marks the series stale if it was there before."""
    marker = ["stale"] if present and width > 0 else []
    blanks = width - len(marker)
    return marker + ([f"_x{blanks}"] if blanks > 0 else [])


_TOO_MANY = "too many samples"
_FAILED = re.compile(r"^ +(?:rule: (?P<rule>.+?)|expr: (?P<expr>.+)), time: (?P<time>\S+), err: (?P<error>.*)$", re.M)


def _raise_errors(report: str) -> None:
    """Tell a failure of promtool or of a rule from the failures that were asked for."""
    failed = _FAILED.search(report)
    if failed is None:
        if " got:" in report or not report.strip():
            return
        raise ExpressionError(f"promtool: {one_line(report.replace('FAILED:', ''))}")
    what = failed["rule"] or failed["expr"]
    if _TOO_MANY in failed["error"]:
        raise UserError(
            f"{what}: more samples than promtool evaluates at once; use a recording of fewer GPUs, one job at a time"
        )
    raise ExpressionError(f"{what}: fails {failed['time']} after the start: {one_line(failed['error'])}")


_GOT = re.compile(r"^    expr: .*, time: (?P<time>\S+),\s*\n +exp: .*\n +got: (?P<got>.*)$", re.M)
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_SAMPLE = re.compile(rf"(?P<labels>\{{(?:[^{{}}\"]|{_QUOTED})*\}}) (?P<value>[^ ,]+)")
_PAIR = re.compile(rf"(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)=(?P<value>{_QUOTED})")
_DURATION = re.compile(r"(\d+)(ms|[ydhmsw])")
_SECONDS = {"y": 31536000.0, "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(duration: str) -> float:
    """A Prometheus duration in seconds: ``1m30s`` is 90."""
    return sum(int(count) * _SECONDS[unit] for count, unit in _DURATION.findall(duration))


def _labels(text: str) -> dict[str, str]:
    # Go and Python agree on the escapes that Go uses here.
    return {
        pair["name"]: ast.literal_eval(pair["value"]) if "\\" in pair["value"] else pair["value"][1:-1]
        for pair in _PAIR.finditer(text)
    }


def _evaluation(report: str, start: float, interval: int, asked: int) -> Evaluation:
    answers = _GOT.findall(report)
    if len(answers) != asked:
        raise UserError(f"promtool: {len(answers)} of {asked} answers in its report; is it a version before 2.42?")
    samples: dict[str, tuple[list[float], list[float]]] = {}
    for duration, got in answers:
        moment = start + seconds(duration)
        for labels, value in _SAMPLE.findall(got):
            times, values = samples.setdefault(labels, ([], []))
            times.append(moment)
            values.append(float(value))
    found = sorted(
        (_answer(labels, times, values, start) for labels, (times, values) in samples.items()),
        key=lambda one: (one.name, one.labels),
    )
    active = [one for one in found if one.name == "ALERTS"]
    return Evaluation([one for one in found if one.name != "ALERTS"], _firings(active, interval), active)


def _answer(labels: str, times: list[float], values: list[float], start: float) -> Series:
    pairs = _labels(labels)
    name = pairs.pop("__name__", "")
    offset = start if is_timestamp(name) else 0.0
    return Series(name, tuple(sorted(pairs.items())), np.array(times), np.array(values) + offset)


def _firings(active: Iterable[Series], interval: int) -> list[Firing]:
    states: dict[tuple[str, Labels], dict[str, tuple[Interval, ...]]] = {}
    for one in active:
        pairs = dict(one.labels)
        alert, state = pairs.pop("alertname"), pairs.pop("alertstate")
        states.setdefault((alert, tuple(pairs.items())), {})[state] = _intervals(one.times.tolist(), interval)
    return [
        Firing(alert, labels, found.get("pending", ()), found.get("firing", ()))
        for (alert, labels), found in sorted(states.items(), key=lambda item: item[0])
    ]


def _intervals(times: Sequence[float], step: int) -> tuple[Interval, ...]:
    """Neighbouring evaluations joined: 0, 30, 60, 150 at a step of 30 are (0, 90) and (150, 180)."""
    joined: list[Interval] = []
    for moment in times:
        if joined and moment == joined[-1][1]:
            joined[-1] = (joined[-1][0], moment + step)
        else:
            joined.append((moment, moment + step))
    return tuple(joined)


_ALERT_TEST = re.compile(r"^    alertname: (?P<alert>.+), time: \S+, *\n +exp:", re.M)
_ANNOTATIONS = re.compile(r"^ +Annotations:(?P<pairs>\{.*\})$", re.M)


def _rendered(report: str) -> Iterator[tuple[str, dict[str, str]]]:
    heads = list(_ALERT_TEST.finditer(report))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        block = report[head.end() : after.start() if after else len(report)]
        _, _, got = block.partition(" got:")
        for line in _ANNOTATIONS.finditer(got):
            yield head["alert"], _labels(line["pairs"])


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
        done = _run("promtool", *arguments, timeout=_EVALUATE_SECONDS)
    if done.returncode:
        raise UserError(f"{folder}: promtool makes no blocks: {_last_line(done.stderr)}; make the recording again")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


class Server:
    """A Prometheus on a data directory, for as long as the ``with`` block runs; it scrapes nothing.

    ``lookback`` is how long a sample counts, in seconds. Blocks hold no stale markers, so choose a little more than the
    longest interval between two samples: then a series that ended is gone. Times are seconds since the epoch.
    Queries raise ExpressionError when Prometheus refuses them, UserError when it does not run.
    """

    def __init__(self, data: Path, lookback: int = 50, max_samples: int = 100_000_000) -> None:
        self._data = data
        self._flags = (f"--query.lookback-delta={lookback}s", f"--query.max-samples={max_samples}")
        self._stack = ExitStack()
        # A proxy of the environment is not for the loopback interface.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

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
        port = _free_port()
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
        return _last_line(self._log.read_text(errors="replace"))

    def query(self, expr: str, moment: float) -> list[Series]:
        """The value of an expression at a moment: one sample a series; a scalar is a series without a name."""
        data = self._ask("query", expr, query=expr, time=f"{moment:.3f}")
        result = data["result"]
        if data["resultType"] == "matrix":
            return [_series(one["metric"], one["values"]) for one in result]
        if data["resultType"] in ("scalar", "string"):
            return [_series({}, [result])] if data["resultType"] == "scalar" else []
        return [_series(one["metric"], [one["value"]]) for one in result]

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        """The values of an expression at ``start``, ``start + step``, … up to ``end``."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        data = self._ask("query_range", expr, query=expr, **times)
        return [_series(one["metric"], one["values"]) for one in data["result"]]

    def label_values(self, label: str, match: str | None = None) -> list[str]:
        """The sorted values of a label, over the series that ``match`` selects."""
        parameters = {"match[]": match} if match else {}
        answer = self._get(f"label/{urllib.parse.quote(label, safe='')}/values", match or label, parameters)
        return [str(value) for value in answer]

    def series(self, match: str) -> list[dict[str, str]]:
        """The labels, ``__name__`` included, of all series that ``match`` selects."""
        return [dict(one) for one in self._get("series", match, {"match[]": match})]

    def _ask(self, path: str, expr: str, **parameters: str) -> Any:
        return self._open(path, expr, urllib.parse.urlencode(parameters).encode())

    def _get(self, path: str, expr: str, parameters: Mapping[str, str]) -> Any:
        return self._open(f"{path}?{urllib.parse.urlencode(parameters)}", expr, None)

    def _open(self, path: str, expr: str, body: bytes | None) -> Any:
        try:
            with self._opener.open(f"{self._url}/api/v1/{path}", body, timeout=_QUERY_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise ExpressionError(f"{one_line(expr)}: {_api_error(error)}") from error
        except OSError as error:
            raise UserError(f"prometheus: no answer to {one_line(expr)}: {self._complaint()}") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _api_error(error: urllib.error.HTTPError) -> str:
    try:
        return one_line(json.load(error)["error"])
    except (ValueError, KeyError):
        return f"HTTP {error.code}"


def _series(metric: Mapping[str, str], points: Sequence[tuple[float, str]]) -> Series:
    labels = tuple(sorted((key, value) for key, value in metric.items() if key != "__name__"))
    times, values = zip(*points, strict=True)
    return Series(metric.get("__name__", ""), labels, np.array(times, float), np.array(values, float))
