# SPDX-License-Identifier: Apache-2.0
"""The one way to compare a series with its own past: what it is used to, and how far it usually strays from that.

A sample is believed only when two minutes later nobody objects: nothing is learned around a verdict or a pause, so
a fault teaches nothing however long it lasts, and nothing while the job does something else, as in an evaluation. What
was learned last is remembered for half a day.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.model import Signal, Unit

MEMORY = "12h"
"""How long what was learned is remembered without a healthy sample."""

UNFAMILIAR = "<= 0.75"
"""A part of its usual communication that says that a job does something else, as in an evaluation."""

POSITION = 0.2
"""What a fixed position explains before anything is learned: healthy Megatron runs, where rank 0 was first in 12 of 13 communicators."""


def learned(
    name: str,
    *,
    judged: str,
    what: str,
    unit: Unit,
    labels: tuple[str, ...],
    floor: float = 0.0,
    shared: bool = False,
) -> tuple[Signal, Signal, Signal]:
    """The three series that remember ``what``: its healthy samples, their median, and their spread.

    ``name`` is the level and the metric of the series, ``judged`` the PromQL of the value that verdicts are made from,
    four dumps ago: what is learned is what is judged. With a ``floor`` the spread is relative to the median, and no less.
    ``shared`` gives a job one spread, that of its noisiest quarter.
    """
    healthy, usual = f"{name}:healthy", f"{name}:usual"
    spread = f"job:{name.partition(':')[2]}:spread" if shared else f"{name}:spread"
    median, deviation = _middle_and_spread(healthy, usual, floor, shared)
    return (
        Signal(
            name=healthy,
            question=f"Which samples may teach {what}?",
            healthy="a value for every dump, with gaps around verdicts and pauses",
            expr=f"""
{judged}
unless on (<job>) last_over_time(job:nccl_verdict:depth{{state!~"healthy|unknown"}}[<6 dumps>])
unless on (<job>) max_over_time(job:nccl_dump_age:seconds[<6 dumps>]) > 4 * <dump>
unless on (<job>) min_over_time(job:nccl_familiar:ratio[<6 dumps>]) {UNFAMILIAR}""",
            unit=unit,
            labels=labels,
            sources="Four dumps, two minutes: the time that a verdict takes, and two more around it; four dumps of age "
            "are one missed dump, one scrape and one evaluation.",
            group=groups.HEALTHY,
        ),
        Signal(
            name=usual,
            question=f"What is {what}?",
            healthy="a slow line in the middle of the samples",
            expr=median,
            unit=unit,
            labels=labels,
            sources="Two hours hold a checkpoint of any habit; six samples, three minutes, come before any verdict.",
            group=groups.USUAL,
        ),
        Signal(
            name=spread,
            question=f"How far does the value stray from {what}?",
            healthy="small, and steady",
            expr=deviation,
            unit=Unit.RATIO if floor else unit,
            labels=("<job>",) if shared else labels,
            sources="Between the 16th and the 84th percentile lie two standard deviations of normal noise, and no outlier counts; ten samples tell half of what many do.",
            group=groups.USUAL,
        ),
    )


def _middle_and_spread(healthy: str, usual: str, floor: float, shared: bool) -> tuple[str, str]:
    """PromQL of what ``healthy`` samples are around, and how far they stray."""
    # The fewer samples there are, the less they know. While nothing is learned, nothing is forgotten either.
    enough = f"(count_over_time({healthy}[2h]) >= <6 results> and last_over_time({healthy}[<4 dumps>]))"
    median = f"quantile_over_time(0.5, {healthy}[2h]) and {enough}"
    deviation = f"(quantile_over_time(0.84, {healthy}[2h]) - quantile_over_time(0.16, {healthy}[2h])) / 2"
    deviation += f"\n* (1 + <10 results> / {enough})"
    if floor:
        deviation = f"clamp_min(({deviation}) / {usual}, {floor})"
    if shared:
        deviation = f"quantile by (<job>) (0.75,\n{deviation}\n)"
    return median, deviation


def remembered(series: str) -> str:
    """What was last learned."""
    return f"last_over_time({series}[{MEMORY}])"


def for_long(series: str) -> str:
    """What six dumps have: where three say less than they seem to, as before anything is learned."""
    return f"min_over_time({series}[<6 dumps in a row>])"


def without_past(series: str) -> str:
    """How far beyond what a fixed position explains ``series`` has been in six dumps: what is judged before anything is learned."""
    return f"{for_long(series)} - {POSITION:g}"
