# SPDX-License-Identifier: Apache-2.0
"""What is asked of a Prometheus that the engine has started, and what it answers."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dashgen.engine.loopback import UNANSWERED, opener
from dashgen.engine.ruletest import ExpressionError
from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Series

_QUERY_SECONDS = 130  # Prometheus gives up a query after two minutes


class Queries:
    """Questions to a Prometheus on this machine; times are seconds since the epoch.

    Raise ExpressionError when Prometheus refuses them, UserError when it does not run.
    """

    def __init__(self, url: str = "") -> None:
        self._url = url
        self._opener = opener()

    def _complaint(self) -> str:
        """Why it does not run, as far as anybody knows."""
        return "is it running?"

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
        except UNANSWERED as error:
            raise UserError(f"prometheus: no answer to {one_line(expr)}: {self._complaint()}") from error


def _api_error(error: urllib.error.HTTPError) -> str:
    try:
        return one_line(json.load(error)["error"])
    except (ValueError, KeyError):
        return f"HTTP {error.code}"


def _series(metric: Mapping[str, str], points: Sequence[tuple[float, str]]) -> Series:
    labels = tuple(sorted((key, value) for key, value in metric.items() if key != "__name__"))
    times, values = zip(*points, strict=True)
    return Series(metric.get("__name__", ""), labels, np.array(times, float), np.array(values, float))
