# SPDX-License-Identifier: Apache-2.0
"""What a recording tells of itself: its worst moment, what was wrong at a moment, and what the job achieved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashgen.catalogue.names import VERDICT
from dashgen.config.companions import PRESETS
from dashgen.engine.prometheus import Firing
from dashgen.preview.fields import Field
from dashgen.preview.figures import Figure, Region, Span
from dashgen.preview.frames import Curve
from dashgen.preview.lines import time_series
from dashgen.recordings.format import Fault, Recording, Series

FAULT = "#5B6470"
"""The shade of what was really wrong: a grey that no annotation has."""

_NEAR = 0.9
"""As bad as the worst, nearly: of such moments the last one has seen the most."""


def worst(series: Sequence[Series]) -> float | None:
    """The last moment at which a verdict is nearly as deep as it ever becomes; None where no job is ever hurt.

    In seconds since the epoch. A job that hangs is hurt most at the end.
    """
    hurt = [one for one in series if one.name == VERDICT and dict(one.labels).get("state") in ("degraded", "stalled")]
    deepest = max((float(one.values.max()) for one in hurt if len(one.values)), default=0.0)
    moments = [
        at
        for one in hurt
        for at, depth in zip(one.times.tolist(), one.values.tolist(), strict=True)
        if depth >= _NEAR * deepest
    ]
    return max(moments, default=None)


def faults(story: Recording) -> list[Fault]:
    """What was really wrong; an event that harms nobody is not."""
    return [fault for fault in story.faults if fault.kind != "none"]


def regions(story: Recording) -> tuple[Region, ...]:
    """The stretches in which something was really wrong."""
    return tuple(Region(each.start.timestamp(), each.end.timestamp(), FAULT, truth=True) for each in faults(story))


def dotted(now: float) -> Region:
    """The shown moment, in seconds since the epoch, as a line."""
    return Region(now, now, FAULT, truth=True)


def situation(story: Recording, alerts: Sequence[Firing], now: float) -> tuple[str, str]:
    """What was really wrong at a moment, and which alerts fired, each as a sentence."""
    wrong = [
        " ".join(part for part in (each.kind, "of job", each.job, each.node, each.gpu) if part)
        for each in faults(story)
        if each.start.timestamp() <= now <= each.end.timestamp()
    ]
    firing = [one.alert for one in alerts if any(start <= now < end for start, end in one.firing)]
    return ", ".join(wrong) or "nothing is wrong", ", ".join(sorted(set(firing))) or "no alert fires"


@dataclass(frozen=True, eq=False)
class Achieved:
    """The throughput of a job: its curve, and where a fault hit it the readings before, at worst and after."""

    name: str
    figure: Figure
    readings: str


def achieved(story: Recording, samples: Sequence[Series], span: Span, marks: Sequence[Region]) -> Achieved | None:
    """What the training job reported, where the recording has a throughput series that dashgen knows; else None."""
    found = [one for one in samples if one.name in PRESETS.values() and len(one.values)]
    if not found:
        return None
    curves = [Curve(" ".join([one.name, *(value for _, value in one.labels)]), one) for one in found]
    panel = {"options": {"legend": {"calcs": ["lastNotNull", "min", "max"]}}}
    unit = "suffix:TFLOP/s" if found[0].name.endswith("_tflops") else "suffix:tokens/s"
    field = Field({"unit": unit, "custom": {"lineWidth": 2, "spanNulls": 90_000}})
    figure = time_series(panel, curves, [field] * len(curves), span, marks)
    readings = _readings(story, found[0])
    return Achieved(found[0].name, figure, f"{readings} {unit.partition(':')[2]}" if readings else "")


def _readings(story: Recording, one: Series) -> str:
    """Before the first fault, the first that is about as bad as the worst, and the first that is well again."""
    pairs = [
        (at, value) for at, value in zip(one.times.tolist(), one.values.tolist(), strict=True) if math.isfinite(value)
    ]
    fault = next(iter(faults(story)), None)
    before = [value for at, value in pairs if fault and at <= fault.start.timestamp()][-1:]
    rest = [value for at, value in pairs if fault and at > fault.start.timestamp()]
    if not (before and rest) or min(rest) >= before[0]:
        return ""
    lost = before[0] - min(rest)
    hit = next(place for place, value in enumerate(rest) if before[0] - value >= _NEAR * lost)
    well = [value for value in rest[hit:] if before[0] - value <= lost / 2][:1]
    return " → ".join(f"{value:.0f}" for value in (before[0], rest[hit], *well))
