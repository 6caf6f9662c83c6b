# SPDX-License-Identifier: Apache-2.0
"""Numbers as Grafana writes them: 0.12 in ``percentunit`` is 12%, 40 in ``GBs`` is 40 GB/s."""

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
    *((60.0, " min"), (3600.0, " hour"), (86400.0, " day"), (604800.0, " week")),
)
_PLURAL = frozenset({" min", " hour", " day", " week"})
_BYTES, _BYTE_RATE = _si("B", " kMGTP"), _si("B/s", " kMGTP")


def _rate(unit: str) -> Ladder:
    return tuple((1000.0**place, f"{letter} {unit}") for place, letter in enumerate(("", "K", "M", "B", "T")))


# Unit of Grafana -> what one of it is on the ladder, and the ladder.
_UNITS: dict[str, tuple[float, Ladder]] = {
    "": (1, ((1, ""),)),
    "none": (1, ((1, ""),)),
    "string": (1, ((1, ""),)),
    "short": (1, _COUNT),
    "percent": (1, ((1, "%"),)),
    "percentunit": (1, ((0.01, "%"),)),
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
    if ladder is _TIME and unit != "s":
        # Grafana goes down from seconds alone: a minute of hours is 0.0167 hour.
        ladder = tuple(each for each in _TIME if each[0] >= base)
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
        return _digits(value, decimals)
    if unit in _WORDS:
        return _WORDS[unit][value != 0]
    if unit == _MOMENT:
        return _moment(value)
    chosen = scale(unit, value)
    number = value * chosen.factor
    # Of its own unit Grafana writes no plural: 5 min of minutes, 5 mins of seconds.
    plural = chosen.suffix in _PLURAL and chosen.factor != 1 and abs(number) > 1
    return f"{chosen.prefix}{_digits(number, decimals)}{chosen.suffix}{'s' * plural}"


def _moment(milliseconds: float) -> str:
    """A moment in UTC, as a preview shows all of them; a number that is none stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return _digits(milliseconds, None)


def _digits(value: float, decimals: int | None) -> str:
    """Three digits, zeros among them, unless the number is whole; a half is rounded up, as browsers do."""
    if math.isinf(value):
        # A finite value may leave all bounds where it is scaled.
        return "∞" if value > 0 else "-∞"
    if decimals is None:
        whole = value == int(value)
        decimals = 0 if whole else min(12, max(0, 2 - math.floor(math.log10(abs(value)))))
    size = 10.0 ** max(0, decimals)
    return f"{math.floor(value * size + 0.5) / size + 0.0:.{max(0, decimals)}f}"


def short(value: float) -> float | int | None:
    """Six significant digits are more than a screen shows; None stands for what JSON has no number for."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
