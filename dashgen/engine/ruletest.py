# SPDX-License-Identifier: Apache-2.0
"""promtool's unit tests of rules, used to execute rules: how they are written, and how their report is read.

A test that expects something wrong makes promtool report what it got instead, in full precision. promtool's clock
starts at zero, so values that are points in time are moved along with it, there and back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from dashgen import durations
from dashgen.errors import UserError, one_line
from dashgen.guard.files import Loader
from dashgen.recordings.format import Labels, Series, number, selector


class ExpressionError(UserError):
    """Prometheus refused an expression, or failed while it computed one: the rule or the panel is at fault."""


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


_TIMESTAMP = re.compile(
    r"(?:.*[_:])?(?:mtime|timestamp|start_time|boot_time)_seconds(?::(?:min|max|avg|last))?|.*:(?:timestamp|since)"
)


def is_timestamp(name: str) -> bool:
    """Whether the values of a series are seconds since the epoch, judged by its name."""
    return _TIMESTAMP.fullmatch(name) is not None


def file_names(rule_files: Mapping[str, str]) -> list[str]:
    """Names that are fit for any file system, in the order of the files."""
    return [f"rules-{index}.yaml" for index in range(len(rule_files))]


def unit_test(
    rule_files: Mapping[str, str],
    series: Iterable[Series],
    start: float,
    end: float,
    interval: int,
    scrape_interval: int,
    tests: Mapping[str, object],
) -> dict[str, object]:
    """The content of a test file; the rule files lie beside it under their ``file_names``.

    Raises UserError when two groups share a name.
    """
    last = int((end - start) // scrape_interval)
    return {
        "rule_files": file_names(rule_files),
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


def expression_tests(exprs: Sequence[str], steps: int, interval: int) -> dict[str, object]:
    """Tests that make promtool report the value of every expression at every evaluation."""
    wrong = [{"labels": "wrong", "value": 0}]
    return {
        "promql_expr_test": [
            {"expr": expr, "eval_time": f"{step * interval}s", "exp_samples": wrong}
            for step in range(steps + 1)
            for expr in exprs
        ]
    }


def alert_tests(moments: Mapping[str, Collection[float]], start: float) -> dict[str, object]:
    """Tests that make promtool report the annotations of firing alerts at the given moments."""
    wrong = [{"exp_labels": {"wrong": "wrong"}}]
    return {
        "alert_rule_test": [
            {"eval_time": f"{int(moment - start)}s", "alertname": alert, "exp_alerts": wrong}
            for alert, times in moments.items()
            for moment in sorted(times)
        ]
    }


def _groups(name: str, text: str) -> list[dict[str, Any]]:
    try:
        groups = yaml.load(text, Loader)["groups"]
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


def recorded_names(rule_files: Mapping[str, str]) -> list[str]:
    """The names of all series that the rules record, each once."""
    rules = (rule for name, text in rule_files.items() for group in _groups(name, text) for rule in group["rules"])
    return list(dict.fromkeys(rule["record"] for rule in rules if "record" in rule))


JITTER = 0.01
"""The part of a scrape interval by which a scrape may be late; Prometheus aligns what is 2 ms late or less."""


def _values(one: Series, start: float, step: int, last: int) -> str:
    """The samples in promtool's notation: ``2x3`` is four times 2, ``_x3`` three times nothing.

    A target that is scraped between two places is seen at the later one, and never before it was scraped.
    """
    offset = start if is_timestamp(one.name) else 0.0
    begins = np.ceil((one.times[:1] - start) / step - JITTER)
    places = (begins + np.rint((one.times - one.times[:1]) / step)).astype(int)
    inside = (places >= 0) & (places <= last)
    places, samples = places[inside], one.values[inside] - offset
    if not places.size:
        return ""
    # A repetition of Inf would read as a word.
    repeated = (np.diff(places) == 1) & (samples[1:] == samples[:-1]) & np.isfinite(samples[1:])
    breaks = np.flatnonzero(~repeated) + 1
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


def raise_errors(report: str) -> None:
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


def _labels(text: str) -> dict[str, str]:
    # Go and Python agree on the escapes that Go uses here.
    return {
        pair["name"]: ast.literal_eval(pair["value"]) if "\\" in pair["value"] else pair["value"][1:-1]
        for pair in _PAIR.finditer(text)
    }


def read_evaluation(report: str, start: float, interval: int, asked: int) -> Evaluation:
    answers = _GOT.findall(report)
    if len(answers) != asked:
        raise UserError(f"promtool: {len(answers)} of {asked} answers in its report; is it a version before 2.42?")
    samples: dict[str, tuple[list[float], list[float]]] = {}
    for duration, got in answers:
        moment = start + durations.seconds(duration)
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
_ANNOTATIONS = re.compile(r"^ +Annotations:(?P<pairs>\{.*\}),?$", re.M)


def read_annotations(report: str) -> Iterator[tuple[str, dict[str, str]]]:
    heads = list(_ALERT_TEST.finditer(report))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        block = report[head.end() : after.start() if after else len(report)]
        _, _, got = block.partition(" got:")
        for line in _ANNOTATIONS.finditer(got):
            yield head["alert"], _labels(line["pairs"])
