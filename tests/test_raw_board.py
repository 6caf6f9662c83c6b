# SPDX-License-Identifier: Apache-2.0
"""The board for those who come from NVIDIA's dashboard: the same questions, and right answers."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from board_answers import ask, moment, shown
from board_answers import panel as panel_of

from dashgen import build
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.grafana.parsed import Board
from dashgen.recordings.format import Series

Json = dict[str, Any]

PAGE = Path(build.__file__).parents[1] / "docs" / "vendor-template.md"
WITHIN, ACROSS = "Collectives within one NVLink domain, now", "Collectives across domains, now"
OPERATIONS = ("Recv", "Send", "ReduceScatter", "AllReduce", "AllGather")
# Ten ranks, of which the last one arrives when all others have waited for half of their time.
TIMES = [*(1000.0 + number for number in range(9)), 500.0]


@pytest.fixture(scope="module")
def raw() -> Json:
    found: Json = json.loads(json.dumps(build.bundle(config.Site(), ()).dashboards["raw"]))
    return found


def ranks(**labels: str) -> list[Series]:
    """Bandwidth and time of ten ranks of one collective."""
    common = {"slurm_job_id": "7", "algo_proto": "RING_SIMPLE", "comm_name": "dp", "version": "v5.1", **labels}
    found = []
    for rank, time in enumerate(TIMES):
        at = {"node": f"n{rank // 8}", "gpu": f"GPU{rank % 8}", **common}
        found.append(moment(upstream("exec"), time, **at))
        found.append(moment(upstream("busbw"), 100_000 / time, **at))
    if common["message_size"][-2:] == "MB":  # as the rule has it
        common.pop("version")
        found.append(moment("peer:nccl_busbw:best", 200.0, **common))
    return found


def test_best_median_and_late_are_told_apart_by_size_and_ranks(raw: Json, tmp_path: Path) -> None:
    data = [
        *ranks(collective="AllReduce", message_size="96-97MB", n_nodes="2", nranks="10"),
        *ranks(collective="AllReduce", message_size="0B", n_nodes="2", nranks="10"),
        *ranks(collective="AllReduce", message_size="16777215-16777216TB", n_nodes="2", nranks="10"),
        *ranks(collective="AllGather", message_size="1-2MB", n_nodes="1", nranks="10"),
        *ranks(collective="AllReduce", message_size="8-9MB", n_nodes="2", nranks="10", slurm_job_id="8"),
    ]
    (row,) = shown(raw, ACROSS, ask(raw, ACROSS, data, tmp_path)).rows
    assert (row["Operation"], row["Message size"], row["Ranks"], row["NVLink domains"]) == (
        *("AllReduce", "96-97MB", "10", "2"),
    )
    median = (1003.0 + 1004.0) / 2
    assert row["Best"] == pytest.approx(200.0)
    assert row["Median"] == pytest.approx((100_000 / 1003 + 100_000 / 1004) / 2)
    assert row["Time, median"] == pytest.approx(median)
    assert row["Waiting"] == pytest.approx(1 - 500 / median)
    assert (row["Shortest time"], row["GPU"]) == ("n1", "GPU1")


def test_nobody_is_named_where_all_arrive_together(raw: Json, tmp_path: Path) -> None:
    together = {"collective": "AllGather", "message_size": "1-2MB", "n_nodes": "1", "nranks": "10"}
    data = [one for one in ranks(**together) if dict(one.labels).get("node") != "n1"]
    table = shown(raw, WITHIN, ask(raw, WITHIN, data, tmp_path))
    assert len(table.rows) == 1
    assert "Shortest time" not in table.columns


def test_nobody_is_named_among_three_ranks_nor_among_pairs(raw: Json, tmp_path: Path) -> None:
    three = ranks(collective="AllGather", message_size="1-2MB", n_nodes="1", nranks="3")
    table = shown(raw, WITHIN, ask(raw, WITHIN, three, tmp_path))
    assert len(table.rows) == 1
    assert "Shortest time" not in table.columns
    pairs = panel_of(raw, "Send and Recv across domains, now")
    assert all("bottomk" not in query.expr for query in pairs.queries)


def test_every_question_of_the_template_has_an_answer_now_and_over_time(raw: Json) -> None:
    asked = [query for panel in Board(raw).panels for query in panel.queries]
    for operation, where, what in itertools.product(OPERATIONS, ('"1"', '!="1"'), ("bus_bandwidth", "exec_time")):
        pipeline = operation in ("Send", "Recv")
        series = f"nccl_{'p2p_' if pipeline else 'collective_' * (what == 'exec_time')}{what}"
        for instant in (True, False):
            # The best bandwidth of a collective is recorded.
            best = not pipeline and what == "bus_bandwidth"
            name = "peer:nccl_busbw:best" if best else series
            chosen = operation if instant or pipeline else '"$operation"'
            found = [
                query
                for query in asked
                if bool(query.target["instant"]) is instant
                and name in query.expr
                and chosen in query.expr
                and f"n_nodes{where if '!' in where else '=' + where}" in query.expr
            ]
            assert found, (operation, where, what, instant)


def test_links_to_the_template_work_here() -> None:
    own = config.site({"labels": {"cluster": "cluster"}}, "test")
    board: Json = json.loads(json.dumps(build.bundle(own, ()).dashboards["raw"]))
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert {"cluster", "jobid"} <= set(names)
    for query in (query for panel in Board(board).panels for query in panel.queries):
        assert 'slurm_job_id="$jobid"' in query.expr and 'cluster=~"$cluster"' in query.expr


def test_the_page_for_those_who_come_from_the_template_names_panels_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    boards = build.bundle(config.Site(), ()).dashboards.values()
    titles = {panel.title for board in boards for panel in Board(board).panels}
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| .*/ (BusBw|Exec)", line)]
    assert len(rows) == 20
    named = {title for _, now, over_time in rows for title in re.findall(r"`([^`]+)`", now + over_time)}
    assert named <= titles
    emphasised = set(re.findall(r"(?<!\*)\*([A-Z][^*]+)\*(?!\*)", text.partition("## What people ask next")[2]))
    assert {title for title in emphasised if title != "Bandwidth"} <= titles
