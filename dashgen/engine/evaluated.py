# SPDX-License-Identifier: Apache-2.0
"""A recording played again: all rules evaluated on it, and a Prometheus that holds the result.

Who proves and who draws ask the same Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dashgen import durations
from dashgen.engine.prometheus import Evaluation, Server, evaluate, make_blocks
from dashgen.errors import UserError
from dashgen.model import AlertRule, Bundle, RuleGroup, Sensitivity
from dashgen.recordings.format import Recording, Series
from dashgen.targets.rulefile import rule_file

MOST_EVALUATIONS = 10_000
"""Three and a half days at 30 s; promtool is asked about every recorded series at each of them."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A recording and what the rules made of it.

    ``interval`` is the evaluation interval in seconds, ``took`` how long Prometheus' engine needed, in seconds.
    """

    story: Recording
    interval: int
    result: Evaluation
    series: tuple[Series, ...]
    took: float

    @property
    def names(self) -> frozenset[str]:
        """The names of all series there are: recorded ones, those of the rules, and ``ALERTS``."""
        return frozenset(one.name for one in self.series)


def replay(bundle: Bundle, story: Recording, samples: Sequence[Series], tiers: Iterable[Sensitivity]) -> Replay:
    """Evaluate the recording rules of a bundle and the alert packs of some tiers on the samples of a recording.

    The bundle is built for the recording's site. Raises ExpressionError when Prometheus cannot parse or compute a rule,
    UserError when the recording is too large for promtool, or when promtool is missing.
    """
    start, end = story.start.timestamp(), story.end.timestamp()
    interval = int(
        min((durations.seconds(group.interval) for group in bundle.recording if group.interval), default=30.0)
    )
    if (end - start) / interval > MOST_EVALUATIONS:
        raise UserError(
            f"{(end - start) / 86400:.0f} days are more than {MOST_EVALUATIONS} evaluations; use a shorter recording"
        )
    samples = tuple(within_span(samples, start, end))
    began = time.monotonic()
    packs = {tier: groups for tier in tiers if (groups := bundle.alerts.get(tier, ()))}
    result = evaluate(rule_files(bundle.recording, packs), samples, start, end, interval, story.scrape_interval)
    took = time.monotonic() - began
    return Replay(story, interval, result, (*samples, *result.series, *result.alert_series), took)


def within_span(samples: Iterable[Series], start: float, end: float) -> Iterator[Series]:
    """What lies in a span. promtool makes a block for every two hours from the first sample of all to the last."""
    for one in samples:
        first, last = np.searchsorted(one.times, [start, end + 1])
        if first < last:
            yield replace(one, times=one.times[first:last], values=one.values[first:last])


@contextmanager
def serve(played: Replay) -> Iterator[Server]:
    """A Prometheus with all series of a replay, for as long as the ``with`` block runs. Raises as ``Server``."""
    with TemporaryDirectory(prefix="dashgen-") as data:
        make_blocks(Path(data), played.series)
        # Blocks hold no stale markers: at the next scrape or evaluation a sample is gone, as in a live Prometheus.
        # One second less, as Prometheus 2 counts the far end of the window.
        with Server(Path(data), lookback=max(played.story.scrape_interval, played.interval) - 1) as server:
            yield server


def within(story: Recording, asked: float | None, otherwise: float) -> float:
    """The moment in a recording that ``--at`` asks for, in seconds since the epoch. Raises UserError outside of it."""
    start, end = story.start.timestamp(), story.end.timestamp()
    if asked is None:
        return otherwise
    if not start < asked <= end:
        span = " to ".join(f"{moment:%Y-%m-%dT%H:%M:%S}" for moment in (story.start, story.end))
        raise UserError(f"--at: not within the recording, {span}; name a moment in it")
    return asked


def pack_name(tier: Sensitivity) -> str:
    """The file of a tier's alert pack, by which findings call it."""
    return f"alerts-{tier.value}.yaml"


def rule_files(recording: Iterable[RuleGroup], packs: Mapping[Sensitivity, Iterable[RuleGroup]]) -> dict[str, str]:
    """The rules of several packs for one run: packs share names of groups, and alerts tell their tier by a label."""
    files = {"recording.yaml": rule_file(recording)}
    return files | {pack_name(tier): rule_file(_of_tier(each, tier) for each in packs[tier]) for tier in packs}


def _of_tier(group: RuleGroup, tier: Sensitivity) -> RuleGroup:
    rules = tuple(
        replace(rule, labels={**rule.labels, "sensitivity": tier.value}) if isinstance(rule, AlertRule) else rule
        for rule in group.rules
    )
    return replace(group, name=f"{tier.value}: {group.name}", rules=rules)
