# SPDX-License-Identifier: Apache-2.0
"""What Prometheus knows when the demo begins: scrapes of the time before, and what the rules made of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dashgen.engine.evaluated import replay
from dashgen.engine.ruletest import is_timestamp
from dashgen.live.demo.clock import Clock
from dashgen.live.demo.plan import Plan
from dashgen.model import Bundle
from dashgen.recordings.format import Recording, Series
from dashgen.simulator.scrapes.textfiles import DIRECTORY

_EPOCH = 1_700_000_000.0
"""Where the rules are evaluated; what they make of the history is moved to the present afterwards."""

ENDED_DUMPS = 5
"""Dumps without a sample after which a series has ended; the slowest rules are evaluated every four."""


def remembered(plan: Plan, bundle: Bundle) -> list[Series]:
    """All series up to the beginning of a demo, as if it began ``plan.span`` seconds after a fixed moment.

    Raises as ``replay``.
    """
    start = plan.scenario.start.timestamp()
    clock = Clock(plan.speed, _EPOCH - plan.history / plan.speed)
    before = list(_between(plan.series, start + plan.history, start + plan.begin))
    if not before:
        return []
    began = datetime.fromtimestamp(_EPOCH, UTC)
    story = Recording(
        format=1,
        story=plan.scenario.story,
        source="simulated",
        made_by=f"dashgen demo --scenario {plan.scenario.name}",
        start=began,
        end=began + timedelta(seconds=plan.span),
        scrape_interval=plan.scrape,
    )
    made = replay(bundle, story, clock.compressed(plan.scenario, before), [plan.site.sensitivity])
    # Blocks hold no stale markers: what had ended by then would seem to be there when the demo begins.
    latest = _EPOCH + plan.span - ENDED_DUMPS * plan.dump
    return [one for one in made.series if one.times[-1] >= latest]


def moved(plan: Plan, series: Iterable[Series], origin: float, folder: str) -> Iterator[Series]:
    """A history that ends at ``origin``, in seconds since the epoch, with files where the demo has them.

    Inspector's files of a node lie in a folder of its name below ``folder``.
    """
    later = origin - (_EPOCH + plan.span)
    nodes = {instance: node for node, instance in plan.instances.items()}
    for one in series:
        values = one.values + later if is_timestamp(one.name) else one.values
        labels = one.labels
        if "file" in dict(labels):
            named = dict(labels)
            named["file"] = named["file"].replace(DIRECTORY, f"{folder}/{nodes[named['instance']]}", 1)
            labels = tuple(sorted(named.items()))
        yield replace(one, labels=labels, times=one.times + later, values=values)


def _between(series: Iterable[Series], start: float, end: float) -> Iterator[Series]:
    """The samples in [start, end)."""
    for one in series:
        inside = (one.times >= start) & (one.times < end)
        if inside.any():
            yield replace(one, times=one.times[inside], values=one.values[inside])
