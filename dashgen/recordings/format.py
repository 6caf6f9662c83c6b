# SPDX-License-Identifier: Apache-2.0
"""What a recording is: a folder of ``recording.yaml`` (the story and the truth) and ``series.om.gz`` (the samples).

The samples are gzipped OpenMetrics, one series after the other, on the scrape grid of the recording. A series that
has a sample at one scrape and none at the next was gone at that scrape: Prometheus would have marked it stale.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dashgen.errors import UserError
from dashgen.guard.files import opened, parse_yaml, read_text
from dashgen.guard.models import checked
from dashgen.guard.text import line, quoted
from dashgen.model import Sensitivity, Transport

STORY = "recording.yaml"
SAMPLES = "series.om.gz"

EARLIEST, LATEST = 1420070400.0, 4102444800.0
"""2015 and 2100 in seconds since the epoch: a time outside is damaged, for NCCL 2 came later."""

MOST_SCRAPES = 1_000_000
"""Half a year at 15 s: a longer span is a mistake in the times."""

MOST_STORY_BYTES = 1 << 20
MOST_SAMPLES = 8_000_000
"""Of one recording; each takes 16 bytes while it is read."""

MOST_SERIES = 500_000
_LONGEST_LINE = 1 << 16  # bytes; no series of Inspector or its companions has nearly as many

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Series:
    """One series: its name, its labels without ``__name__`` in sorted order, and its samples.

    ``times`` are seconds since the epoch, strictly rising; ``values`` has the same length.
    """

    name: str
    labels: Labels
    times: NDArray[np.float64]
    values: NDArray[np.float64]


def _written(value: object) -> object:
    if not isinstance(value, datetime | str):
        raise ValueError("is a time, for example 2026-03-19T14:39:47Z")
    return value


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("needs a time zone, for example 2026-03-19T14:39:47Z")
    if not EARLIEST <= moment.timestamp() <= LATEST:
        raise ValueError("is not a moment between the years 2015 and 2100")
    return moment.astimezone(UTC)


def _without_code(site: dict[str, Any]) -> dict[str, Any]:
    if "overlays" in site:
        raise ValueError("overlays are code, which a recording or a scenario does not bring; name them in dashgen.yaml")
    return site


SiteKeys = Annotated[dict[str, Any], AfterValidator(_without_code)]
"""Keys of dashgen.yaml that a file brings which anybody may have made."""

Moment = Annotated[datetime, BeforeValidator(_written, json_schema_input_type=datetime), AfterValidator(_aware)]


def clock(moment: float) -> str:
    """A moment, in seconds since the epoch, as the time of day in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")


class Strict(BaseModel):
    """Data that has no other keys, and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Fault(Strict):
    """What was really wrong, for how long, and what a perfect diagnosis would say."""

    kind: str = Field(description="the fault's family, for example network, late-gpu, hang, none")
    start: Moment
    end: Moment
    job: str
    transport: tuple[Transport, ...] = ()
    suspect: Literal["network", "nvlink", "straggler", "unknown"] | None = None
    node: str | None = None
    gpu: str | None = None
    cluster: str | None = Field(None, description="where one recording holds several clusters")
    throughput_loss: float | None = Field(None, ge=0, le=1, description="loss of job throughput, 0..1")

    @model_validator(mode="after")
    def _ordered(self) -> Fault:
        if self.end <= self.start:
            raise ValueError("end is not after start")
        return self


class Expected(Strict):
    """An alert that must (or, when optional, may) fire. An alert that no entry covers must stay silent."""

    alert: str
    labels: dict[str, str] = Field(
        default_factory=dict, description="label values that the firing alert carries; a label with none it lacks"
    )
    after: Moment | None = Field(None, description="does not fire before this moment")
    before: Moment | None = Field(None, description="fires at or before this moment")
    optional: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Expected:
        if self.after is not None and self.before is not None and self.before <= self.after:
            raise ValueError("before is not later than after")
        return self


class Recording(Strict):
    """The content of ``recording.yaml``."""

    format: Literal[1]
    story: str = Field(min_length=1, description="what happened, in the words of an incident review")
    source: Literal["simulated", "captured", "imported", "recorded"]
    made_by: str = Field(min_length=1, description="the command or the publication that the samples come from")
    start: Moment
    end: Moment
    scrape_interval: int = Field(gt=0, le=3600, description="seconds between two scrapes")
    site: SiteKeys = Field(default_factory=dict, description="keys of dashgen.yaml that describe this site")
    boards: tuple[str, ...] = Field((), description="dashboards of which every panel must return data here")
    faults: tuple[Fault, ...] = ()
    expect: dict[Sensitivity, tuple[Expected, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _ordered(self) -> Recording:
        if self.end <= self.start:
            raise ValueError("end is not after start")
        if (self.end - self.start).total_seconds() > MOST_SCRAPES * self.scrape_interval:
            raise ValueError(f"from start to end are more than {MOST_SCRAPES} scrapes; correct start or end")
        return self


def read_story(folder: Path) -> Recording:
    """The checked ``recording.yaml`` of a recording.

    Raises UserError when the file is missing, is not YAML or does not follow the format.
    """
    path = folder / STORY
    text = read_text(path, MOST_STORY_BYTES, "name the folder of a recording")
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{path}: not readable as a recording: {line(str(error), 200)}; correct it") from error
    return checked(Recording, data, str(path), "`dashgen config schema --of recording` lists the keys")


def write_story(folder: Path, recording: Recording) -> None:
    """Write ``recording.yaml``."""
    data = recording.model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
    (folder / STORY).write_text(text, encoding="utf-8")


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_SERIES = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\\n]|\\.)*)",?')


def number(value: float) -> str:
    """A sample value with the fewest digits that read back as the same float."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def selector(name: str, labels: Labels | Mapping[str, str]) -> str:
    """A series written as Prometheus writes it, label values escaped."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    inside = ",".join(f'{key}="{"".join(_ESCAPES.get(char, char) for char in value)}"' for key, value in pairs)
    return f"{name}{{{inside}}}" if inside else name


def to_openmetrics(series: Iterable[Series]) -> Iterator[str]:
    """OpenMetrics lines that ``promtool tsdb create-blocks-from openmetrics`` accepts, ending with ``# EOF``.

    Families come in the order of the names, series in the order of their labels, so the text is deterministic. Raises
    UserError for a series that could not be read again.
    """
    family = None
    for one in sorted(series, key=lambda each: (each.name, each.labels)):
        if one.name != family:
            family = one.name
            counter = family.endswith("_total")
            yield f"# TYPE {family.removesuffix('_total')} {'counter' if counter else 'gauge'}\n"
        prefix = selector(one.name, one.labels)
        if not _reads_back(one, prefix):
            raise UserError(
                f"{prefix[:60]!r}: a name that Prometheus 2 does not know, or a label twice; leave this series out"
            )
        if len(prefix.encode()) > _LONGEST_LINE - 64:  # a value and a time have fifty at most
            raise UserError(f"{prefix[:60]}…: labels of more than {_LONGEST_LINE - 64} bytes; leave this series out")
        for time, value in zip(one.times.tolist(), one.values.tolist(), strict=True):
            yield f"{prefix} {number(value)} {number(time)}\n"
    yield "# EOF\n"


def _reads_back(one: Series, prefix: str) -> bool:
    match = _SERIES.fullmatch(prefix)
    try:
        read = match and (match["name"], _labels(match["labels"] or ""))
    except ValueError:
        return False
    return read == (one.name, tuple(sorted(one.labels)))


def write_samples(folder: Path, series: Iterable[Series]) -> None:
    """Write ``series.om.gz``: same series, same bytes."""
    with (
        (folder / SAMPLES).open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=9, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        text.writelines(to_openmetrics(series))


def read_samples(folder: Path) -> list[Series]:
    """All series of a recording, in the order of the file.

    Raises UserError, with the line, when the file is missing, damaged or not OpenMetrics with timestamps.
    """
    path = folder / SAMPLES
    found: dict[tuple[str, str], tuple[array[float], array[float]]] = {}
    number = 0
    try:
        with opened(path, "make the recording again") as raw, gzip.GzipFile(fileobj=raw) as packed:
            before = ""
            ended = False
            for number, text in enumerate(_lines(packed), 1):  # noqa: B007 - an error names the line
                if text.startswith("#"):
                    ended = ended or text.rstrip() == "# EOF"
                    continue
                head, *numbers = text.rsplit(" ", 2)
                if len(numbers) < 2:
                    raise ValueError("not a sample with a timestamp")
                # Samples of a series follow each other, so most lines begin as the one before.
                if head != before:
                    times, values = _columns(head, found)
                    before = head
                time = float(numbers[1])
                if not EARLIEST <= time <= LATEST:
                    raise ValueError("the timestamp is not between the years 2015 and 2100")
                if times and time <= times[-1]:
                    raise ValueError("timestamps of a series do not rise")
                times.append(time)
                values.append(float(numbers[0]))
        if not ended:
            raise ValueError("no '# EOF': the file is cut off")
        return [
            Series(name, _labels(labels), np.frombuffer(times), np.frombuffer(values))
            for (name, labels), (times, values) in found.items()
        ]
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UserError(f"{path}: line {number}: {line(str(error), 200)}; make the recording again") from error


def _lines(packed: gzip.GzipFile) -> Iterator[str]:
    """The lines of a file without their ends, as many and as long as a recording may have."""
    buffered = io.BufferedReader(packed, 1 << 20)
    most = MOST_SAMPLES + MOST_SERIES  # beside the samples, a line for each name and the end
    for _ in range(most):
        raw = buffered.readline(_LONGEST_LINE)
        if not raw:
            return
        if not raw.endswith(b"\n") and len(raw) == _LONGEST_LINE:
            raise ValueError(f"longer than {_LONGEST_LINE} bytes")
        yield raw.decode("utf-8").rstrip("\n")
    raise ValueError(f"more than {most} lines")


def _columns(
    head: str, found: dict[tuple[str, str], tuple[array[float], array[float]]]
) -> tuple[array[float], array[float]]:
    """Where the samples of a series go."""
    match = _SERIES.fullmatch(head)
    if match is None:
        raise ValueError("not a sample with a timestamp")
    if len(found) >= MOST_SERIES:
        raise ValueError(f"more than {MOST_SERIES} series")
    return found.setdefault((match["name"], match["labels"] or ""), (array("d"), array("d")))


def _labels(text: str) -> Labels:
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            raise ValueError(f"bad labels: {quoted(text[position : position + 40])}")
        pairs.append((match["name"], re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), match["value"])))
        position = match.end()
    names = {name for name, _ in pairs}
    if len(names) < len(pairs) or "__name__" in names:
        raise ValueError(f"bad labels: one is given twice in {quoted(text)}")
    return tuple(sorted(pairs))
