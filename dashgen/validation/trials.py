# SPDX-License-Identifier: Apache-2.0
"""Random trials: drawn by a seed, executed by Prometheus' rule engine with the packs of all tiers, and judged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dashgen.config import site as config
from dashgen.engine import scheduled as engine
from dashgen.engine.ruletest import Firing
from dashgen.model import Sensitivity
from dashgen.validation.cases import SLOWDOWNS, STANDSTILLS, Case, Job
from dashgen.validation.judge import Verdict, verdict
from dashgen.validation.packs import rule_files
from dashgen.validation.spans import Span
from dashgen.worlds.draw import Trial, trial

PACKS = tuple(tier.value for tier in Sensitivity)


@dataclass(frozen=True, kw_only=True)
class Result(Verdict):
    """What a trial showed."""

    seed: int
    family: str
    seconds: float


def run(seed: int, peers: Mapping[str, str] | None = None) -> Result:
    """Simulate the trial of a seed, execute all packs on it, and judge them.

    ``peers`` are further rule files by pack name, whose alerts carry their pack's name as ``sensitivity``.
    """
    began = time.monotonic()
    one = trial(seed)
    site = config.site(one.scenario.site, one.scenario.name)
    firings = execute(one, {**rule_files(site), **(peers or {})})
    result = judge(one, firings, (*PACKS, *(peers or {})))
    return replace(result, seconds=time.monotonic() - began)


def execute(one: Trial, files: Mapping[str, str]) -> list[Firing]:
    """What fired, with scrapes and evaluations at moments of their own. Raises UserError as ``engine.build``."""
    moments = engine.Moments.of(one.recording, one.scenario.dump_interval, offsets=True)
    alerts = engine.replay(engine.engine() or engine.build(), files, one.series, moments).alerts
    return [each for each in alerts if each.firing]


def judge(one: Trial, firings: Iterable[Firing], packs: Sequence[str] = PACKS) -> Result:
    """Compare what fired in a trial with what was wrong."""
    found = verdict(_case(one), firings, packs)
    return Result(
        seed=one.seed,
        family=one.family,
        seconds=0.0,
        healthy_hours=found.healthy_hours,
        incidents=found.incidents,
        alarms=found.alarms,
    )


def _case(one: Trial) -> Case:
    """A trial knows its jobs from its scenario; whoever cannot see a healthy job has a healthy job all the same."""
    scenario = one.scenario
    labels = config.site(scenario.site, scenario.name).labels
    begin = scenario.start.timestamp()
    presence: dict[Job, Sequence[Span]] = {}
    for job in scenario.jobs:
        end = scenario.lasts if job.to is None else min(job.to, scenario.lasts)
        cluster = (scenario.cluster or "") if labels.cluster else ""
        presence[cluster, job.id] = [(begin + max(job.start or 0.0, 0.0), begin + end)]
    percent = max((getattr(event, "percent", 0.0) for event in scenario.events), default=0.0) or None
    sick = SLOWDOWNS | STANDSTILLS
    return Case(one.recording, labels, presence, scenario.companions.dcgm, percent, sick)
