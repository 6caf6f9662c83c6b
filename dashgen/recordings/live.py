# SPDX-License-Identifier: Apache-2.0
"""Record a job from a live Prometheus, or anything that speaks its HTTP API.

Only what the job needs is fetched: its ``nccl_*`` series, and of its exporters and GPUs the companions that the
dashboards correlate. Raw samples come from instant queries of range selectors, chunk by chunk, so that their own
timestamps are known; then every series is put on the recording's scrape grid.
"""

from __future__ import annotations

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dashgen.errors import UserError, one_line
from dashgen.recordings.format import Labels, Recording, Series, selector
from dashgen.recordings.importing import SCRAPE_INTERVAL, ImportReport, Progress, check_writable, save
from dashgen.recordings.pseudonyms import Pseudonyms

CHUNK = 300.0  # seconds of raw samples in one answer; halved where the server's --query.max-samples refuses
MOST_STEPS = 1_000_000  # half a year at 15 s
BY_INSTANCE = "up|node_textfile_.*|node_infiniband_.*|promhttp_metric_handler_errors_total"
BY_HOST = "DCGM_.*"
HOST_LABELS = ("Hostname", "hostname")  # dcgm-exporter renamed its label in 2026 (NVIDIA/dcgm-exporter#655)

Key = tuple[str, Labels]
Samples = tuple[NDArray[np.float64], NDArray[np.float64]]

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class _TooMuch(Exception):
    """The server refused to load so many samples at once."""


class Prometheus:
    """What is asked of a Prometheus HTTP API: raw samples, and values at a moment."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> None:
        """``url`` is what a browser would open, with a path prefix if there is one; ``timeout`` is in seconds."""
        parts = urllib.parse.urlsplit(url)
        if "@" in parts.netloc:
            raise UserError("the address of the Prometheus holds a user name; give credentials as a header instead")
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UserError(f"{url}: not an http:// or https:// address; give the address of a Prometheus")
        self._url, self._headers, self._timeout = url.rstrip("/"), dict(headers or {}), timeout

    def raw(self, matchers: str, start: float, end: float) -> dict[Key, Samples]:
        """All samples in [start, end] of the series that match, with their own timestamps."""
        try:
            # A range selector of Prometheus 3 leaves out its left end, hence one second more.
            answer = self._query(f"{matchers}[{math.ceil(end - start) + 1}s]", end)
        except _TooMuch as refusal:
            middle = (start + end) / 2
            if end - start <= 1:
                raise UserError(f"{self._url}: {refusal}; ask for fewer metrics") from refusal
            return merged([self.raw(matchers, start, middle), self.raw(matchers, middle, end)])
        found = {}
        for each in answer:
            times = np.array([float(time) for time, _ in each["values"]])
            values = np.array([float(value) for _, value in each["values"]])
            inside = (times >= start) & (times <= end)
            labels = {_classic(name): str(value) for name, value in each["metric"].items()}
            name = _classic(labels.pop("__name__"))
            if inside.any():
                found[name, tuple(sorted(labels.items()))] = (times[inside], values[inside])
        return found

    def instant(self, expr: str, moment: float) -> list[Series]:
        """The value of an expression at a moment, in seconds since the epoch: one sample a series."""
        try:
            return [_at_moment(each["metric"], *each["value"]) for each in self._query(expr, moment, "vector")]
        except _TooMuch as refusal:
            raise UserError(f"{self._url}: {refusal}; ask for a smaller job") from refusal
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._strange(error) from error

    def _query(self, query: str, time: float, kind: str = "matrix") -> list[dict[str, Any]]:
        form = urllib.parse.urlencode({"query": query, "time": f"{time:.3f}"}).encode()
        request = urllib.request.Request(f"{self._url}/api/v1/query", data=form, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                data = json.load(answer)
            if data["status"] != "success" or data["data"]["resultType"] != kind:
                raise ValueError(data.get("error", "no samples in the answer"))
            result: list[dict[str, Any]] = data["data"]["result"]
            return result
        except urllib.error.HTTPError as error:
            reason = _reason(error)
            if "too many samples" in reason:
                raise _TooMuch(reason) from error
            raise UserError(f"{self._url}: HTTP {error.code}: {reason}; is this a Prometheus?") from error
        except (OSError, HTTPException) as error:
            reason = one_line(getattr(error, "reason", error)) or type(error).__name__
            raise UserError(f"{self._url}: not reachable: {reason}; check the address") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._strange(error) from error

    def _strange(self, error: Exception) -> UserError:
        return UserError(f"{self._url}: not the answer of a Prometheus: {one_line(error)[:200]}")


def _at_moment(metric: dict[str, str], moment: float, value: str) -> Series:
    labels = tuple(sorted((key, str(each)) for key, each in metric.items() if key != "__name__"))
    return Series(metric.get("__name__", ""), labels, np.array([float(moment)]), np.array([float(value)]))


def _classic(name: str) -> str:
    """A name as Prometheus 2 knows it; Prometheus 3 and OpenTelemetry allow any character."""
    return re.sub(r"[^a-zA-Z0-9_:]", "_", name)


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        body = error.read(10_000)
        return one_line(json.loads(body)["error"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return one_line(error.reason)


def merged(parts: Iterable[dict[Key, Samples]]) -> dict[Key, Samples]:
    """Chunks joined, each sample once, in the order of time."""
    found: dict[Key, list[Samples]] = {}
    for part in parts:
        for key, samples in part.items():
            found.setdefault(key, []).append(samples)
    joined = {}
    for key, pieces in found.items():
        times, first = np.unique(np.concatenate([piece[0] for piece in pieces]), return_index=True)
        joined[key] = (times, np.concatenate([piece[1] for piece in pieces])[first])
    return joined


def record(
    url: str,
    job: str,
    start: datetime,
    end: datetime,
    *,
    out: Path,
    step: int | None = None,
    job_label: str = "slurm_job_id",
    pseudonyms: bool = False,
    extra: Iterable[str] = (),
    host_labels: tuple[str, ...] = HOST_LABELS,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    progress: Progress | None = None,
) -> tuple[Recording, list[Series], ImportReport]:
    """Record a job's series in [start, end] into the folder ``out``.

    ``step`` is the recording's scrape interval in seconds, by default the one of the job's own series. ``extra`` are
    further metrics, such as the job's throughput: a bare name is narrowed to the job, a selector is taken as it is.
    With ``pseudonyms`` no host, job, GPU or communicator keeps its name. Raises UserError when the server cannot be
    used, has nothing of the job, or ``out`` holds something else than a recording.
    """
    first, last = start.timestamp(), end.timestamp()
    if last <= first:
        raise UserError(f"end {end.isoformat()} is not after start {start.isoformat()}")
    check_writable(out)
    fetch = _Fetcher(Prometheus(url, headers=headers, timeout=timeout), first, last, progress)
    of_job = {job_label: job}
    raw = fetch(['{__name__=~"nccl_.*",' + selector("x", of_job)[2:]])
    if not raw:
        raise UserError(f"{url}: no nccl_* series with {job_label}={job!r} in that time; check job, label and time")
    raw = merged([raw, fetch([*_companions(raw, host_labels), *(_extra(one, of_job) for one in extra)])])
    rhythms = _rhythms(raw)
    if step is None:
        spacings = [rhythms[key].spacing for key in raw if key[0].startswith("nccl_")]
        step = max(1, round(float(np.median(spacings))))
    if (last - first) / step > MOST_STEPS:
        raise UserError(f"{(last - first) / step:.0f} scrapes of {step} s are too many; record a shorter time")
    report = ImportReport(records=sum(len(times) for times, _ in raw.values()))
    series = [Series(*key, *on_grid(*samples, rhythms[key], step)) for key, samples in sorted(raw.items())]
    report.used = sum(len(one.times) for one in series)
    made_by = f"dashgen record --job {job} {url}"
    if pseudonyms:
        alias = Pseudonyms(job_label)
        series, job = alias.series(series), alias.job(job)
        made_by = f"dashgen record --pseudonyms --job {job}"
    recording = Recording(
        format=1,
        story=f"Job {job} as a live Prometheus recorded it.",
        source="recorded",
        made_by=made_by,
        start=datetime.fromtimestamp(math.floor(first / step) * step, UTC),
        end=datetime.fromtimestamp(math.ceil(last / step) * step + step, UTC),
        scrape_interval=step,
    )
    save(out, recording, series)
    return recording, series, report


class _Fetcher:
    """Fetches selectors chunk by chunk, and tells how many queries of all are done."""

    def __init__(self, server: Prometheus, first: float, last: float, progress: Progress | None) -> None:
        self._server, self._first, self._last, self._progress = server, first, last, progress

    def __call__(self, selectors: list[str]) -> dict[Key, Samples]:
        count = max(1, math.ceil((self._last - self._first) / CHUNK))
        edges = [min(self._last, self._first + CHUNK * part) for part in range(count + 1)]
        parts = []
        for at, (begin, stop) in enumerate(pairwise(edges)):
            parts += [self._server.raw(one, begin, stop) for one in selectors]
            if self._progress:
                self._progress(at + 1, count)
        return merged(parts)


def _companions(raw: Mapping[Key, Samples], host_labels: tuple[str, ...]) -> list[str]:
    """Selectors of what the exporters and GPUs of the job's hosts say."""
    labels = [dict(key[1]) for key in raw]
    instances = {one["instance"] for one in labels if "instance" in one}
    nodes = {one["node"] for one in labels if "node" in one}
    hosts = nodes | {name.partition(".")[0] for name in nodes} | {name.rpartition(":")[0] for name in instances}
    found = [f'{{__name__=~"{BY_INSTANCE}",instance=~{_one_of(instances)}}}'] if instances else []
    if hosts - {""}:
        found += [f'{{__name__=~"{BY_HOST}",{label}=~{_one_of(hosts - {""})}}}' for label in host_labels]
    return found


def _one_of(names: set[str]) -> str:
    """A quoted PromQL regular expression that matches exactly these names."""
    pattern = "|".join(re.sub(r"([.+*?()|\[\]{}^$\\])", r"\\\1", name) for name in sorted(names))
    return selector("", {"x": pattern})[3:-1]


def _extra(metric: str, of_job: Mapping[str, str]) -> str:
    return selector(metric, of_job) if _METRIC.fullmatch(metric) else metric


class Rhythm(NamedTuple):
    """When a target is scraped: one moment, in seconds since the epoch, and the seconds between two scrapes."""

    moment: float
    spacing: float


def rhythm(times: NDArray[np.float64]) -> Rhythm:
    """The rhythm of rising scrape times, whatever their jitter and gaps."""
    spacing = float(np.median(np.diff(times))) if len(times) > 1 else float(SCRAPE_INTERVAL)
    drift = (times - times[0] + spacing / 2) % spacing - spacing / 2
    return Rhythm(float(times[0] + np.median(drift)), spacing)


def _rhythms(raw: Mapping[Key, Samples]) -> dict[Key, Rhythm]:
    """The rhythm of each series' target; all series of one scrape have one timestamp."""
    targets: dict[object, list[Key]] = {}
    for key in raw:
        labels = dict(key[1])
        target = (labels["instance"], labels.get("job")) if "instance" in labels else key
        targets.setdefault(target, []).append(key)
    found = {}
    for keys in targets.values():
        found.update(dict.fromkeys(keys, rhythm(np.unique(np.concatenate([raw[key][0] for key in keys])))))
    return found


def on_grid(times: NDArray[np.float64], values: NDArray[np.float64], scraped: Rhythm, step: int) -> Samples:
    """A series on multiples of ``step`` seconds, each sample at or less than a step after it was scraped.

    All scrapes of a target are moved by the same amount, so jitter neither loses a sample nor leaves a gap that would
    look as if the series had gone. What is scraped less often than ``step`` is held up to its next scrape.
    """
    offset = scraped.moment % step
    cells = np.round((times - offset) / step).astype(np.int64) + math.ceil(offset / step - 1e-6)
    cells, newest = np.unique(cells[::-1], return_index=True)
    every = max(1, round(scraped.spacing / step))
    repeats = np.minimum(np.append(np.diff(cells), every), every)
    after = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return (np.repeat(cells, repeats) + after) * float(step), np.repeat(values[::-1][newest], repeats)
