# SPDX-License-Identifier: Apache-2.0
"""Recordings as another site would have made them of the same jobs: nothing is invented, and the truth stays true."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks.variants import Made, longer, rarer, repeated, scraped, slower, without
from processes import rule_engine
from test_simulate import scenario
from test_traces import TRACES

from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.model import Sensitivity
from dashgen.recordings.format import Labels, read_samples, read_story, write_samples, write_story
from dashgen.simulator.simulate import simulate
from dashgen.validation.packs import own
from dashgen.validation.recorded import Engine, judge_one

MTIME = upstream("mtime")
SLOW = {"kind": "network", "loss": 0.2, "start": "30m", "end": "40m"}


@pytest.fixture(scope="module")
def made() -> Made:
    """Four nodes whose network is slow for ten minutes; each file has a moment of its own, and some are torn."""
    told = scenario(lasts="60m", events=[SLOW], companions={"counters": True}, torn=0.002)
    return Made(*simulate(told))


def changes(one: Made, prefix: str) -> float:
    """How often a series changes, in the mean."""
    return float(np.mean([np.count_nonzero(np.diff(s.values)) for s in one.series if s.name.startswith(prefix)]))


def values(one: Made) -> dict[tuple[str, Labels], set[float]]:
    return {(series.name, series.labels): set(series.values.tolist()) for series in one.series}


@pytest.mark.parametrize("each", [2, 4])
def test_rarer_dumps_say_what_some_of_the_dumps_said_and_keep_it_longer(made: Made, each: int) -> None:
    other = rarer(made, each)
    assert config.site(other.story.site, "test").dump_interval == each * 30
    for name in (upstream("busbw"), upstream("exec"), MTIME):
        assert changes(other, name) == pytest.approx(changes(made, name) / each, rel=0.1)
    before = values(made)
    assert all(said <= before[series] for series, said in values(other).items())
    assert (other.story.faults, other.story.end) == (made.story.faults, made.story.end)


def test_where_everything_takes_twice_as_long_files_are_as_old_in_dumps_as_before(made: Made) -> None:
    other = slower(made, 2)
    assert config.site(other.story.site, "test").dump_interval == 60
    assert other.story.scrape_interval == 2 * made.story.scrape_interval
    [fault], [longer_fault] = made.story.faults, other.story.faults
    assert longer_fault.end - longer_fault.start == 2 * (fault.end - fault.start)
    ages = [[one.times - one.values for one in each.series if one.name == MTIME] for each in (made, other)]
    for old, new in zip(*ages, strict=True):
        assert new == pytest.approx(2 * old, abs=1e-3)


def test_a_longer_job_is_healthy_longer_and_then_sick_longer_and_its_counters_rise_on(made: Made) -> None:
    other = longer(made, 3)
    [fault], [later] = made.story.faults, other.story.faults
    shift = (later.start - fault.start).total_seconds()
    assert shift == pytest.approx(2 * (30 * 60 - 60 - 600), abs=60)
    assert (later.end - later.start).total_seconds() == pytest.approx(600 + 2 * (600 - 120 - 60), abs=60)
    assert (other.story.end - later.end) == made.story.end - fault.end
    check_that_it_goes_on(made, other)


def test_what_is_repeated_happens_to_a_job_that_goes_on(made: Made) -> None:
    other = repeated(made, 3)
    [fault], faults = made.story.faults, other.story.faults
    again = other.story.end - made.story.end
    lasts = (faults[1].start - faults[0].start).total_seconds()
    assert again.total_seconds() == pytest.approx(2 * lasts - 60, abs=30)
    for turn, each in enumerate(faults):
        assert (each.start - fault.start).total_seconds() == turn * lasts
        assert each.end - each.start == fault.end - fault.start
    check_that_it_goes_on(made, other)


def check_that_it_goes_on(made: Made, other: Made) -> None:
    """Scrapes, counters and the ages of files do not jump at a seam."""
    step = made.story.scrape_interval
    for one in other.series:
        assert np.all(np.diff(one.times) >= step - 1e-6)
        if one.name.endswith("_total"):
            assert np.all(np.diff(one.values) >= 0)
        if one.name == MTIME:
            assert np.max(one.times - one.values) <= 2 * 30 + step


def test_fewer_scrapes_and_metrics_are_left_as_they_were(made: Made) -> None:
    thin = scraped(made, 2)
    assert thin.story.scrape_interval == 30
    assert sum(one.times.size for one in thin.series) == pytest.approx(
        sum(one.times.size for one in made.series) / 2, rel=0.01
    )
    assert (
        {one.name for one in made.series} - {one.name for one in without(made, ("DCGM_",)).series}
        == {one.name for one in made.series if one.name.startswith("DCGM_")}
        != set()
    )


@pytest.mark.parametrize(
    "change",
    [partial(rarer, each=2), partial(rarer, each=4), partial(slower, factor=4), partial(longer, times=4)],
    ids=["dumps of a minute", "dumps of two minutes", "all four times as slow", "four times as long"],
)
@pytest.mark.parametrize("name", ["trace-AR", "trace-SE"])
def test_of_the_traces_the_slowed_worker_alone_is_named_within_five_dumps(
    name: str, change: Callable[[Made], Made], tmp_path: Path
) -> None:
    story, series = change(Made(read_story(TRACES / name), read_samples(TRACES / name)))
    write_story(tmp_path, story)
    write_samples(tmp_path, series)
    site = config.site(story.site, name)
    judged = judge_one(("variant", tmp_path, site), own([Sensitivity.MEDIUM]), Engine(rule_engine(), True))
    assert not judged.errors and not judged.alarms
    assert [one.said["node"] for one in judged.incidents] == [fault.node for fault in story.faults]
    assert all(one.after is not None and one.after <= 5 * site.dump_interval for one in judged.incidents)
