# SPDX-License-Identifier: Apache-2.0
"""What is asked of Prometheus, or of anything that speaks its HTTP API: Mimir, Thanos, VictoriaMetrics."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from dashgen.errors import UserError
from dashgen.live.client.access import access
from dashgen.live.client.answers import Answer, Matrix, Metric, Sample, Scalar, Values, Vector, read
from dashgen.live.client.http import Client, Limits, Refused, TooLarge
from dashgen.recordings.format import Labels, Series

Key = tuple[str, Labels]
Samples = tuple[NDArray[np.float64], NDArray[np.float64]]
T = TypeVar("T")

_ODD = re.compile(r"[^a-zA-Z0-9_:]|^(?=[0-9])")


def prometheus(url: str, *, tenant: str | None = None, seconds: float = 60.0) -> Prometheus:
    """The server at an address, entered as the environment says. Raises UserError for a bad address or credentials."""
    return Prometheus(Client(url, access("PROMETHEUS", tenant=tenant), Limits(seconds)))


class Prometheus:
    """Questions to one server. Times are seconds since the epoch. All raise UserError, one line with the address.

    May be used by several threads.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def url(self) -> str:
        """The address, without its last slash and without anything secret."""
        return self.client.url

    def raw(self, matchers: str, start: float, end: float) -> dict[Key, Samples]:
        """All samples in [start, end] of the series that match, with their own timestamps.

        Where the server or the client finds that too much at once, halves are asked for.
        """
        try:
            # A range selector of Prometheus 3 leaves out its left end, hence one second more.
            answer = self._query(f"{matchers}[{math.ceil(end - start) + 1}s]", end)
        except (TooLarge, Refused) as refusal:
            if end - start <= 1 or not _too_much(refusal):
                raise
            middle = (start + end) / 2
            return merged([self.raw(matchers, start, middle), self.raw(matchers, middle, end)])
        found: dict[Key, Samples] = {}
        for each in answer.result if isinstance(answer, Matrix) else ():
            times, values = _arrays(each.values)
            inside = (times >= start) & (times <= end)
            if inside.any():
                found[_key(each.metric)] = (times[inside], values[inside])
        return found

    def series(self, matchers: str, start: float, end: float) -> list[Series]:
        """As ``raw``, in the order of names and labels."""
        return [Series(*key, *samples) for key, samples in sorted(self.raw(matchers, start, end).items())]

    def instant(self, expr: str, moment: float) -> list[Series]:
        """The value of an expression at a moment: one sample a series; a scalar is a series without a name."""
        answer = self._query(expr, moment)
        if isinstance(answer, Scalar):
            return [Series("", (), *_arrays([answer.result]))]
        if isinstance(answer, Matrix):
            return [Series(*_key(each.metric), *_arrays(each.values[-1:])) for each in answer.result if each.values]
        times, values = _arrays(each.value for each in answer.result)
        keys = enumerate(_key(each.metric) for each in answer.result)
        return [Series(*key, times[at : at + 1], values[at : at + 1]) for at, key in keys]

    def value(self, expr: str, moment: float) -> float | None:
        """The value of an expression of one series at most; None where there is none."""
        found = self.instant(expr, moment)
        return float(found[0].values[0]) if found else None

    def label_values(self, label: str, match: str, start: float, end: float) -> list[str]:
        """The values of a label over the series that ``match`` selects."""
        asked = {"match[]": match, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        return sorted(self._data(list[str], f"/api/v1/label/{quote(label, safe='')}/values", asked))

    def ask(self, data: type[T], path: str, parameters: dict[str, str] | None = None) -> T:
        """The data of a GET, such as ``/api/v1/rules``, checked by its model."""
        return self._data(data, path, parameters or {})

    def _query(self, query: str, moment: float) -> Vector | Matrix | Scalar:
        return self._data(Values, "/api/v1/query", {"query": query, "time": f"{moment:.3f}"}, post=True).root

    def _data(self, data: type[T], path: str, parameters: dict[str, str], *, post: bool = False) -> T:
        try:
            body = self.client.post(path, parameters) if post else self.client.get(path, parameters)
        except Refused as refusal:
            said = _error(refusal.body)
            if said is None or refusal.status in (401, 403, 429, 503):
                raise
            told = f"{self.url}: HTTP {refusal.status}: {self.client.clean(said)}"
            raise Refused(told, refusal.status, refusal.body) from refusal
        return read(body, data, self.url, self.client.clean)


def _error(body: bytes) -> str | None:
    """What a Prometheus says about its refusal; None where it was somebody else who refused."""
    try:
        return Answer[object].model_validate_json(body).error or None
    except ValueError:
        return None


def _too_much(refusal: UserError) -> bool:
    return isinstance(refusal, TooLarge) or b"too many samples" in getattr(refusal, "body", b"")


def _key(metric: Metric) -> Key:
    labels = {_classic(name): value for name, value in metric.items()}
    name = _classic(labels.pop("__name__", ""))
    return name, tuple(sorted(labels.items()))


def _classic(name: str) -> str:
    """A name as Prometheus 2 knows it; Prometheus 3 and OpenTelemetry allow any character."""
    return _ODD.sub("_", name)


def _arrays(samples: Iterable[Sample]) -> Samples:
    pairs = np.array(list(samples), dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def merged(parts: Iterable[dict[Key, Samples]]) -> dict[Key, Samples]:
    """Chunks joined, each sample once, in the order of time."""
    found: dict[Key, list[Samples]] = {}
    for part in parts:
        for key, samples in part.items():
            found.setdefault(key, []).append(samples)
    return {key: join(pieces) for key, pieces in found.items()}


def join(pieces: list[Samples]) -> Samples:
    """Samples of one series, each once, in the order of time."""
    times, first = np.unique(np.concatenate([piece[0] for piece in pieces]), return_index=True)
    return times, np.concatenate([piece[1] for piece in pieces])[first]
