# SPDX-License-Identifier: Apache-2.0
"""Numbers as Grafana writes them: 0.12 in ``percentunit`` is 12 %, 40 in ``GBs`` is 40 GB/s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

Ladder = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Scale:
    """What a value is multiplied with before it is written, and what is written behind (or before) it."""

    factor: float
    suffix: str
    prefix: str = ""


def _si(unit: str, prefixes: str = "nµm kMGTP") -> Ladder:
    middle = prefixes.index(" ")
    return tuple((1000.0 ** (place - middle), f" {prefix.strip()}{unit}") for place, prefix in enumerate(prefixes))


def _binary(unit: str) -> Ladder:
    return tuple((1024.0**place, f" {prefix}{unit}") for place, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi")))


_COUNT: Ladder = ((1, ""), (1e3, " K"), (1e6, " Mil"), (1e9, " Bil"), (1e12, " Tri"))
_TIME: Ladder = (
    *((1e-9, " ns"), (1e-6, " µs"), (1e-3, " ms"), (1.0, " s")),
    *((60.0, " min"), (3600.0, " hours"), (86400.0, " days")),
)
_BYTES, _BYTE_RATE = _si("B", " kMGTP"), _si("B/s", " kMGTP")


def _rate(unit: str) -> Ladder:
    return tuple((size, f"{suffix.strip()} {unit}" if suffix else f" {unit}") for size, suffix in _COUNT)


# Unit of Grafana -> what one of it is on the ladder, and the ladder.
_UNITS: dict[str, tuple[float, Ladder]] = {
    "": (1, ((1, ""),)),
    "none": (1, ((1, ""),)),
    "string": (1, ((1, ""),)),
    "short": (1, _COUNT),
    "percent": (1, ((1, " %"),)),
    "percentunit": (1, ((0.01, " %"),)),
    "s": (1, _TIME),
    "ms": (1e-3, _TIME),
    "µs": (1e-6, _TIME),
    "ns": (1e-9, _TIME),
    "m": (60, _TIME),
    "h": (3600, _TIME),
    "bytes": (1, _binary("B")),
    "decbytes": (1, _BYTES),
    "mbytes": (1024.0**2, _binary("B")),
    "Bps": (1, _BYTE_RATE),
    "binBps": (1, _binary("B/s")),
    "KBs": (1e3, _BYTE_RATE),
    "MBs": (1e6, _BYTE_RATE),
    "GBs": (1e9, _BYTE_RATE),
    "bps": (1, _si("b/s", " kMGTP")),
    "ops": (1, _rate("ops/s")),
    "reqps": (1, _rate("req/s")),
    "cps": (1, _rate("c/s")),
    "pps": (1, _rate("p/s")),
    "iops": (1, _rate("io/s")),
    "flops": (1, _si("FLOP/s", " kMGTPE")),
    "hertz": (1, _si("Hz")),
    "watt": (1, _si("W", "m kMG")),
    "joule": (1, _si("J", "m kMG")),
    "celsius": (1, ((1, " °C"),)),
}

_WORDS = {
    "bool": ("False", "True"),
    "bool_on_off": ("Off", "On"),
    "bool_yes_no": ("No", "Yes"),
}

_MOMENT = "dateTimeAsIso"


def known(unit: str) -> bool:
    """Whether a unit is written as Grafana writes it; any other stands behind the number by its name."""
    return unit in _UNITS or unit in _WORDS or unit == _MOMENT or unit.startswith(("suffix:", "prefix:"))


def scale(unit: str, largest: float) -> Scale:
    """The step of a unit's ladder on which a value is best read: 0.002 s is 2 ms.

    A unit that is not known here stands behind the number as it is.
    """
    if unit.startswith(("suffix:", "prefix:")):
        kind, _, text = unit.partition(":")
        return Scale(1, f" {text}") if kind == "suffix" else Scale(1, "", text)
    base, ladder = _UNITS.get(unit, (1.0, ((1.0, f" {unit}"),) if unit not in _WORDS else ((1.0, ""),)))
    size = abs(largest) * base
    if size == 0 or not math.isfinite(size):
        step = next((each for each in ladder if each[0] == base), ladder[0])
    else:
        # A hair more, so that 0.3 * 10 is 3.
        step = ([each for each in ladder if each[0] <= size * (1 + 1e-9)] or [ladder[0]])[-1]
    return Scale(base / step[0], step[1])


def written(value: float, unit: str, decimals: int | None = None) -> str:
    """A value with its unit; three significant digits unless ``decimals`` says how many behind the point."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if unit in _WORDS:
        return _WORDS[unit][value != 0]
    if unit == _MOMENT:
        return _moment(value)
    chosen = scale(unit, value)
    return f"{chosen.prefix}{_digits(value * chosen.factor, decimals)}{chosen.suffix}"


def _moment(milliseconds: float) -> str:
    """A moment in UTC, as a preview shows all of them; a number that is none stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return _digits(milliseconds, None)


def _digits(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{max(0, decimals)}f}"
    if value == 0:
        return "0"
    behind = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(behind, 12)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def short(value: float) -> float | int | None:
    """Six significant digits are more than a screen shows; None stands for what JSON has no number for."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
