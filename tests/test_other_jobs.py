# SPDX-License-Identifier: Apache-2.0
"""The medium pack on jobs that it was not made for, by simulators that knew no rule (tests/worlds/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import rule_engine

from dashgen.config.site import Site
from dashgen.model import Sensitivity
from dashgen.validation.packs import own
from dashgen.validation.recorded import Engine, Judged, judge_one

OTHERS = Path(__file__).parent / "worlds" / "others"


@pytest.fixture
def judged(request: pytest.FixtureRequest) -> Judged:
    """What the medium pack made of a recording, with scrapes and evaluations at moments of their own."""
    found = judge_one(
        ("others", OTHERS / request.param, Site()), own([Sensitivity.MEDIUM]), Engine(rule_engine(), True)
    )
    assert not found.errors
    return found


@pytest.mark.parametrize("judged", ["phases-nic"], indirect=True)
def test_a_slow_adapter_is_found_although_the_phases_of_the_job_take_turns(judged: Judged) -> None:
    (incident,) = judged.incidents
    assert incident.after is not None
    assert incident.said["suspect"] == "network"
    assert not judged.alarms


@pytest.mark.parametrize("judged", ["generators"], indirect=True)
def test_nodes_that_rest_while_others_of_their_job_work_are_not_dark(judged: Judged) -> None:
    assert judged.healthy_hours > 0.9
    assert (judged.incidents, judged.alarms) == ((), ())


@pytest.mark.parametrize("judged", ["trainers-dead"], indirect=True)
def test_a_job_of_which_some_nodes_spin_is_not_gone_but_stands_still(judged: Judged) -> None:
    (incident,) = judged.incidents
    assert incident.after is not None and incident.after <= 480
    assert not judged.alarms


@pytest.mark.parametrize("judged", ["replicas"], indirect=True)
def test_processes_that_serve_models_call_nobody_late_who_sends_other_sizes(judged: Judged) -> None:
    assert not judged.alarms


@pytest.mark.parametrize("judged", ["one-percent"], indirect=True)
def test_a_node_that_has_always_been_a_little_slower_is_a_ticket_and_wakes_nobody(judged: Judged) -> None:
    assert {each.severity for each in judged.alarms} == {"warning"}
