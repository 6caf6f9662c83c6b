# SPDX-License-Identifier: Apache-2.0
"""Rules on recordings as a live Prometheus would evaluate them: targets and rule groups each at a moment of their own.

The engine is a small Go program around Prometheus' own rule groups (``tests/engines/replay`` of a checkout). Samples go
in and come out as one line of JSON, which says what follows, and columns of times and values.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashgen.engine.programs import Done, broken, missing, run, short_lived
from dashgen.engine.ruletest import Firing
from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Labels, Recording, Series

SOURCE = Path(__file__).parents[2] / "tests" / "engines" / "replay"
_SECONDS = 3600.0
_BUILD_SECONDS = 1200.0

# Prometheus' value.StaleNaN, as bits: a NaN that arithmetic never yields.
_STALE = np.uint64(0x7FF0000000000002)


@dataclass(frozen=True)
class RuleReport:
    """What became of one rule: seconds of evaluation, how many evaluations failed, and what the last failure said."""

    group: str
    rule: str
    seconds: float
    failures: int
    message: str


@dataclass(frozen=True, eq=False)
class Outcome:
    """What rules made of a recording: when which alert fired, what became of the rules, and the series asked for."""

    alerts: list[Firing]
    rules: list[RuleReport]
    series: list[Series]


@dataclass(frozen=True)
class Moments:
    """When things happen; seconds, and seconds since the epoch.

    ``every`` is the evaluation interval of groups that name none. With ``offsets`` every target is scraped, and every
    group evaluated, at its own moment within the interval; without, all at once. ``late`` is how long after an
    evaluation its results can be read, for engines that store them first; ``reverse`` turns the order of groups around.
    """

    start: float
    end: float
    scrape_interval: float
    every: float
    offsets: bool
    late: float = 0.0
    reverse: bool = False

    @classmethod
    def of(cls, story: Recording, every: float, *, offsets: bool) -> Moments:
        """Those of a recording from its beginning to its end."""
        return cls(story.start.timestamp(), story.end.timestamp(), story.scrape_interval, every, offsets)


# The program.


def engine() -> str | None:
    """The path of the engine: ``dashgen-replay``, or one built before from these sources; None where neither is."""
    if not missing("dashgen-replay"):
        return "dashgen-replay"
    built = _built()
    return str(built) if built and built.exists() else None


def buildable() -> bool:
    """Whether ``build`` has what it needs: the sources of a checkout, and Go."""
    return _built() is not None and not missing("go")


def build() -> str:
    """Build the engine into the user's cache, and return its path. Raises UserError when Go does not build it."""
    built = _built()
    if built is None:
        raise UserError(f"{SOURCE}: not found; build the engine in a checkout and put dashgen-replay on PATH")
    built.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="build-", dir=built.parent) as scratch:
        made = Path(scratch) / built.name
        flags = ("-buildvcs=false", "-trimpath", "-o", made)
        # Without cgo no C compiler is needed; the Go that is there is good enough.
        environment = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        done = run("go", "build", *flags, ".", timeout=_BUILD_SECONDS, folder=SOURCE, environment=environment)
        if done.code:
            raise UserError(f"{SOURCE}: go does not build the engine: {one_line(done.said)[-300:]}")
        made.replace(built)
    return str(built)


def _built() -> Path | None:
    """Where the engine of these sources is kept once built; None without sources."""
    files = sorted([*SOURCE.glob("*.go"), *SOURCE.glob("go.*")])
    if not files:
        return None
    digest = hashlib.sha256(b"\0".join(file.name.encode() + b"\0" + file.read_bytes() for file in files))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "dashgen" / f"replay-{digest.hexdigest()[:16]}"


# Executing rules.


def check(program: str, files: Mapping[str, str]) -> None:
    """Raise UserError with the first thing that Prometheus finds wrong with rule files."""
    replay(program, files, (), Moments(0.0, -1.0, 1.0, 30.0, False))


def replay(
    program: str,
    files: Mapping[str, str],
    series: Iterable[Series],
    moments: Moments,
    keep: str = "",
    since: float = 0.0,
) -> Outcome:
    """Evaluate rules on the samples of a recording.

    ``files`` maps names to Prometheus rule files; groups of the same moment are evaluated in their order. Series whose
    name matches ``keep`` come back from ``since`` (seconds since the epoch) on. Raises UserError when a rule file is
    rejected or the engine fails; a rule that cannot be computed is told by its report.
    """
    with TemporaryDirectory(prefix="dashgen-") as folder:
        paths = []
        for number, text in enumerate(files.values()):
            paths.append(Path(folder) / f"rules-{number}.yaml")
            paths[-1].write_text(text, encoding="utf-8")
        flags = [f"-every={moments.every:g}s", f"-keep={keep}", f"-from={int(since * 1000)}"]
        flags += [f"-late={moments.late:g}s", f"-reverse={str(moments.reverse).lower()}"]
        flags += ["-offsets"] if moments.offsets else []
        given = packed(series, moments)
        done = run(program, *flags, *paths, timeout=_SECONDS, given=given, environment=short_lived())
    if done.code:
        raise _failure(program, done, dict(zip(map(str, paths), files, strict=True)))
    try:
        return _outcome(done.output, moments.every)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise broken(program, "its answer is not that of the rule engine") from error


def _failure(program: str, done: Done, names: Mapping[str, str]) -> UserError:
    """Why there is no outcome: the engine was killed, rejects a rule file (``names`` by path), or is none."""
    if done.code < 0:
        return UserError(f"dashgen-replay: killed by signal {-done.code}; give it more memory, or a smaller recording")
    said = one_line(done.said)
    if done.code != 2 or not any(path in said for path in names):
        return broken(program, said[:300] or f"exits with code {done.code} and says nothing")
    for path, name in names.items():
        said = said.replace(path, name)
    return UserError(f"{said}; mend the rule file")


def shift(instance: str, interval: float) -> float:
    """The moment within the scrape interval at which a target is scraped, in whole milliseconds, as seconds."""
    return zlib.crc32(instance.encode()) % max(1, round(interval * 1000)) / 1000


def packed(series: Iterable[Series], moments: Moments) -> bytes:
    """Samples as the engine reads them; where a series goes, a stale marker says so, as after a scrape."""
    columns: list[dict[str, Any]] = []
    body: list[bytes] = []
    for one in series:
        late = shift(dict(one.labels).get("instance", ""), moments.scrape_interval) if moments.offsets else 0.0
        times, values = _marked(one, moments)
        columns.append({"labels": {"__name__": one.name, **dict(one.labels)}, "samples": times.size})
        body += [np.rint((times + late) * 1000).astype("<i8").tobytes(), values.astype("<u8").tobytes()]
    head = {"start": round(moments.start * 1000), "end": round(moments.end * 1000), "series": columns}
    return b"".join([json.dumps(head).encode(), b"\n", *body])


def _marked(one: Series, moments: Moments) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    """The times of a series and the bits of its values, with a stale marker at every scrape that misses it first."""
    step = moments.scrape_interval
    values = np.ascontiguousarray(one.values, dtype=np.float64).view(np.uint64)
    if not one.times.size:
        return one.times, values
    gone = np.flatnonzero(np.diff(one.times) > 1.5 * step)
    if one.times[-1] + step <= moments.end:
        gone = np.append(gone, one.times.size - 1)
    return np.insert(one.times, gone + 1, one.times[gone] + step), np.insert(values, gone + 1, _STALE)


def _outcome(output: bytes, every: float) -> Outcome:
    end = output.index(b"\n") + 1
    head = json.loads(output[:end])
    alerts: list[tuple[dict[str, str], NDArray[np.float64], NDArray[np.bool_]]] = []
    kept = []
    for column in head["series"]:
        labels, count = column["labels"], column["samples"]
        times = np.frombuffer(output, "<i8", count, end) / 1000
        values = np.frombuffer(output, "<f8", count, end + 8 * count)
        end += 16 * count
        there = values.view("<u8") != _STALE
        name = labels.pop("__name__")
        if name == "ALERTS":
            alerts.append((labels, times, there))
        elif there.any():
            kept.append(Series(name, tuple(sorted(labels.items())), times[there], values[there]))
    return Outcome(list(_firings(alerts, every)), [RuleReport(**each) for each in head["rules"]], kept)


def _firings(
    alerts: Iterable[tuple[dict[str, str], NDArray[np.float64], NDArray[np.bool_]]], every: float
) -> Iterator[Firing]:
    states: dict[tuple[str, Labels], dict[str, tuple[tuple[float, float], ...]]] = {}
    for labels, times, there in alerts:
        alert, state = labels.pop("alertname"), labels.pop("alertstate")
        spans = tuple(_spans(times.tolist(), there.tolist(), every))
        states.setdefault((alert, tuple(sorted(labels.items()))), {})[state] = spans
    for (alert, found), spans_of in sorted(states.items(), key=lambda item: item[0]):
        yield Firing(alert, found, spans_of.get("pending", ()), spans_of.get("firing", ()))


def _spans(times: Sequence[float], there: Sequence[bool], every: float) -> Iterator[tuple[float, float]]:
    """From the first sample to the stale marker that ends it, or to one evaluation after the last sample of all."""
    start: float | None = None
    for moment, present in zip(times, there, strict=True):
        if present and start is None:
            start = moment
        elif not present and start is not None:
            yield start, moment
            start = None
    if start is not None:
        yield start, times[-1] + every
