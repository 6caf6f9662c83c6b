# SPDX-License-Identifier: Apache-2.0
"""The medium pack on the traces of real jobs (tests/worlds/README.md): the slowed worker is named, the healthy job is
left alone, whatever else the site offers and whenever it is scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import rule_engine

from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.model import Sensitivity
from dashgen.recordings.format import read_samples, read_story, write_samples, write_story
from dashgen.validation.packs import own
from dashgen.validation.recorded import Engine, Judged, judge_one

TRACES = Path(__file__).parent / "worlds" / "traces"
DUMP = Site().dump_interval

pytestmark = [
    pytest.mark.parametrize("throughput", [True, False], ids=["throughput", "no-throughput"]),
    pytest.mark.parametrize("offsets", [True, False], ids=["offsets", "aligned"]),
]


@pytest.fixture
def judged(request: pytest.FixtureRequest, tmp_path: Path, throughput: bool, offsets: bool) -> Judged:
    """What the medium pack made of a trace; without ``throughput`` neither site nor samples have any."""
    folder = TRACES / request.param
    story = read_story(folder)
    if not throughput:
        metric = config.site(story.site, folder.name).companions.throughput.metric
        write_story(tmp_path, story.model_copy(update={"site": {}}))
        write_samples(tmp_path, [one for one in read_samples(folder) if one.name != metric])
        folder, story = tmp_path, read_story(tmp_path)
    site = config.site(story.site, folder.name)
    return judge_one(("traces", folder, site), own([Sensitivity.MEDIUM]), Engine(rule_engine(), offsets))


@pytest.mark.parametrize("judged", ["trace-AR"], indirect=True)
def test_the_node_of_the_slowed_worker_and_no_other_is_named_within_five_dumps(judged: Judged) -> None:
    assert not judged.errors
    (incident,) = judged.incidents
    assert incident.after is not None and incident.after <= 5 * DUMP
    assert incident.said["node"] == "gpu-00000"
    assert incident.said["suspect"] == "straggler"
    assert incident.located and not incident.blamed
    assert not judged.alarms


@pytest.mark.parametrize("judged", ["trace-SE"], indirect=True)
def test_nobody_is_called_where_ranks_are_late_in_turn(judged: Judged) -> None:
    assert not judged.errors
    assert judged.healthy_hours > 0.3
    assert (judged.incidents, judged.alarms) == ((), ())
