# SPDX-License-Identifier: Apache-2.0
"""Durations, as Prometheus and the files that people write have them: the only place that reads or writes ``1m30s``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from dashgen.guard.text import quoted

UNITS = {"y": 31_536_000.0, "w": 604_800.0, "d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
"""Seconds of each unit (prometheus/common model.ParseDuration), which come in this order, each of them once."""

LONGEST = 290 * UNITS["y"]
"""Seconds: what 64 bits of nanoseconds hold, rounded down."""

_FORM = re.compile(
    r"(?=.)(?:(\d{1,3})y)?(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?(?:(\d{1,9})m)?"
    r"(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9})ms)?",
    re.ASCII,
)


def seconds(duration: str) -> float:
    """A duration as a number: ``1m30s`` is 90, and so may people write ``1.5s``. Raises ValueError."""
    match = _FORM.fullmatch(duration)
    if match is None:
        raise ValueError(f"{quoted(duration)} is not a duration such as 30s or 1m30s")
    found = sum(float(count) * size for count, size in zip(match.groups(), UNITS.values(), strict=True) if count)
    if found > LONGEST:
        raise ValueError(f"{quoted(duration)} is longer than Prometheus can wait")
    return found


def text(duration: float) -> str:
    """Seconds as Prometheus reads them, hours at most: 90 is ``1m30s``."""
    milliseconds = round(duration * 1000)
    parts = []
    for unit in ("h", "m", "s", "ms"):
        count, milliseconds = divmod(milliseconds, round(UNITS[unit] * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def checked(duration: str) -> str:
    """The duration, as rulers take it: without a fraction. Raises ValueError."""
    seconds(duration)
    if "." in duration:
        raise ValueError(f"{quoted(duration)} has a fraction; write 1500ms for 1.5s")
    return duration


def _written(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("is no duration, write for example 30s or 1m")
    return seconds(value) if isinstance(value, str) else value


def _only_written(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError(f"{quoted(value)} is not a duration, write for example 90s, 30m or 1h5m30s")
    return seconds(value)


_Text = Annotated[str, Field(pattern=f"^{_FORM.pattern}$")]

Seconds = Annotated[float, BeforeValidator(_written, json_schema_input_type=float | _Text)]
"""Seconds, as a number or written as a duration."""

Written = Annotated[float, BeforeValidator(_only_written, json_schema_input_type=_Text)]
"""Seconds, written as a duration."""

Duration = Annotated[str, AfterValidator(checked)]
"""A duration as rulers write it."""
