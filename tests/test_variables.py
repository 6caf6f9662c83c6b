# SPDX-License-Identifier: Apache-2.0
"""Variables are filled in as Grafana does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashgen.grafana.parsed import Board
from dashgen.grafana.variables import Choice, choices, constants, fill, legend_labels, macros, pick, written

JOB = Choice(name="job", label="slurm_job_id", match="", multi=False, everything="")
JOBS = replace(JOB, multi=True)


def board(*variables: dict[str, object]) -> Board:
    return Board({"templating": {"list": list(variables)}})


def test_a_choice_is_read_in_its_old_and_its_new_form() -> None:
    old = {"name": "job", "query": "label_values(slurm_job_id)"}
    new = {"name": "node", "multi": True, "query": {"query": 'label_values(up{job=~"$job", x="a,b"}, node)'}}
    assert choices(board(old, new)) == [
        Choice("job", "slurm_job_id", "", False, ""),
        Choice("node", "node", 'up{job=~"$job", x="a,b"}', True, ""),
    ]


def test_all_is_what_the_board_says_it_is() -> None:
    variable = {"name": "job", "query": "label_values(job)", "allValue": ".*"}
    assert choices(board(variable))[0].everything == ""
    assert choices(board(variable | {"includeAll": True}))[0].everything == ".*"


def test_other_variables_have_the_value_with_which_the_board_opens() -> None:
    window = {"name": "window", "type": "custom", "query": "5m,10m", "current": {"value": "10m"}}
    fresh = {"name": "fresh", "type": "interval", "query": "1m,5m"}
    assert constants(board(window, fresh, {"name": "job", "query": "label_values(job)"})) == {
        "window": "10m",
        "fresh": "1m",
    }


@pytest.mark.parametrize(
    ("choice", "values", "text"),
    [
        (replace(JOBS, everything=".*"), ["1", "2"], ".*"),
        (JOBS, ["1", "2"], "(1|2)"),
        (JOBS, ["a.b+c"], r"a\\.b\\+c"),
        (JOBS, [r"a\b", """it's "c\""""], r"""(a\\\\b|it\\'s \\\"c\\\")"""),
        (JOB, ["1", "2"], "1"),
        (JOB, [r'a\b.c"d'], r"a\\b.c\"d"),
        (JOB, [], ""),
    ],
)
def test_a_choice_is_written_as_grafana_writes_it(choice: Choice, values: list[str], text: str) -> None:
    assert written(choice, values, pick(values)) == text


def test_of_single_values_the_preferred_one_is_taken() -> None:
    assert pick(["1", "2", "3"], {"2"}.__contains__) == "2"


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('x{job="$job"}', 'x{job="7"}'),
        ('x{job="${job}"}', 'x{job="7"}'),
        ('x{job=~"${job:regex}"}', 'x{job=~"7"}'),
        ('x{job="[[job]]"}', 'x{job="7"}'),
        ('label_replace(x, "a", "$1", "b", "(.+)")', 'label_replace(x, "a", "$1", "b", "(.+)")'),
        ("x[$jobs]", "x[$jobs]"),
    ],
)
def test_every_way_of_writing_a_variable_is_filled(text: str, filled: str) -> None:
    assert fill(text, {"job": "7"}) == filled


def test_grafanas_own_variables_follow_the_range_and_the_step() -> None:
    known = macros(1000.0, 4600.0, step=30, scrape_interval=15)
    assert fill("$__interval $__rate_interval ${__range} $__range_s $__range_ms $__from", known) == (
        "30s 60s 3600s 3600 3600000 1000000"
    )


def test_a_legend_names_its_labels() -> None:
    assert legend_labels("{{node}} / {{ gpu }} of {{node}}") == ("node", "gpu")
