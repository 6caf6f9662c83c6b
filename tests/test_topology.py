# SPDX-License-Identifier: Apache-2.0
"""Late GPUs and slow paths, found among a thousand GPUs and named in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from board_answers import ask, moment, panel, shown

from dashgen import build
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.recordings.format import Series

Json = dict[str, Any]

NODES, GPUS = 128, 8
LATE, SLOW = "node077", "node003"
GRID, RAILS, PORTS = "Nodes and GPUs, now", "Rails, now", "Ports and switches, now"


@pytest.fixture(scope="module")
def outliers() -> Json:
    own = config.site({"companions": {"switch_ports": {"enabled": True}}}, "test")
    found: Json = json.loads(json.dumps(build.bundle(own, ()).dashboards["outliers"]))
    return found


def fleet() -> list[Series]:
    """1,024 GPUs: one that is late with its neighbours, and a node whose links are slow."""
    job = {"slurm_job_id": "7"}
    found = []
    for number in range(NODES):
        node = f"node{number:03}"
        found.append(moment("node:nccl_gpus:count", GPUS, node=node, instance=f"{node}:9100", **job))
        drop = 0.3 if node == SLOW else -0.02
        found.append(moment("peer:nccl_busbw_drop:ratio", drop, node=node, transport="nvlink", **job))
        for gpu in range(GPUS):
            at = {"node": node, "gpu": f"GPU{gpu}", **job}
            late = 0.0 if node != LATE else 0.6 if gpu == 5 else 0.2
            found.append(moment("gpu:nccl_lateness:ratio", late + 0.01 * (gpu == 0), **at))
            if late:
                found.append(moment("gpu:nccl_lateness_excess:ratio", late, **at))
    return found


def test_the_worst_of_128_nodes_stand_on_top_with_a_column_for_each_gpu(outliers: Json, tmp_path: Path) -> None:
    table = shown(outliers, GRID, ask(outliers, GRID, fleet(), tmp_path))
    assert table.columns == ("Node", "Worst", "Lost inside", *(f"GPU {number}" for number in range(GPUS)))
    assert len(table.rows) == NODES
    first, second, third = table.rows[:3]
    assert (first["Node"], first["Worst"], first["GPU 5"], first["GPU 4"]) == (LATE, 0.6, 0.6, 0.2)
    assert (second["Node"], second["Worst"], second["Lost inside"], second["GPU 5"]) == (SLOW, 0.3, 0.3, 0.0)
    # Nobody is blamed for being fast.
    assert (third["Worst"], third["Lost inside"]) == (0.0, 0.0)


def test_the_late_gpu_alone_is_named_long_after_anything_was_learned(outliers: Json, tmp_path: Path) -> None:
    noise = moment("peer:nccl_evidence:spread", 0.1, ago=7200, slurm_job_id="7", of="lateness")
    table = shown(outliers, "Late GPUs", ask(outliers, "Late GPUs", [*fleet(), noise], tmp_path))
    assert [(row["Node"], row["GPU"]) for row in table.rows] == [(LATE, "GPU5")]


def test_whom_a_verdict_has_named_was_late_however_noisy_the_job_is(outliers: Json, tmp_path: Path) -> None:
    noise = moment("peer:nccl_evidence:spread", 0.3, ago=7200, slurm_job_id="7", of="lateness")
    named = {"suspect": "straggler", "node": LATE, "gpu": "GPU5", "slurm_job_id": "7"}
    blamed = moment("job:nccl_verdict:depth", 0.6, state="degraded", **named)
    for folder, data, late in (("noise", [], []), ("named", [blamed], [(LATE, "GPU5")])):
        table = shown(outliers, "Late GPUs", ask(outliers, "Late GPUs", [*fleet(), noise, *data], tmp_path / folder))
        assert [(row["Node"], row["GPU"]) for row in table.rows] == late


def test_a_node_leads_to_the_same_board_with_that_node_alone(outliers: Json) -> None:
    rules = panel(outliers, GRID).json["fieldConfig"]["overrides"]
    linked = [item["value"] for each in rules for item in each["properties"] if item["id"] == "links"]
    links = [link["url"] for each in linked for link in each]
    assert any(url.startswith(f"/d/{outliers['uid']}?") and "var-node=${__data.fields.Node}" in url for url in links)


def test_curves_and_rows_show_the_latest_nodes_and_no_thousand_gpus(outliers: Json, tmp_path: Path) -> None:
    (rows,) = ask(outliers, "Lateness by GPU", fleet(), tmp_path)
    names = {dict(one.labels)["node"] for one in rows}
    assert LATE in names and len(names) == 8
    assert len(rows) == 8 * GPUS
    (lines,) = ask(outliers, "Lateness by node", fleet(), tmp_path / "nodes")
    assert len(lines) == 8


def test_a_slow_rail_is_one_cell_of_its_transport(outliers: Json, tmp_path: Path) -> None:
    job = {"slurm_job_id": "7"}
    data = [
        moment("peer:nccl_busbw_drop:ratio", 0.5 * (gpu == 1), transport=transport, gpu=f"GPU{gpu}", **job)
        for transport in ("mixed", "network")
        for gpu in range(GPUS if transport == "mixed" else 1)
    ]
    table = shown(outliers, RAILS, ask(outliers, RAILS, data, tmp_path))
    assert [row["Transport"] for row in table.rows] == ["mixed", "network"]
    assert {name: cell for name, cell in table.rows[0].items() if cell} == {
        "Transport": "mixed",
        "Worst": 0.5,
        "GPU 1": 0.5,
    }


def test_ports_and_switches_are_named_in_words(outliers: Json, tmp_path: Path) -> None:
    here = moment("node:nccl_gpus:count", 8, slurm_job_id="7", node="n3", instance="n3:9100")
    port = {"node": "n3", "device": "mlx5_1", "port": "1"}
    low = {**port, "device": "mlx5_3"}
    data = [
        here,
        moment("node:fabric_suspect:ratio", 3, slurm_job_id="7", instance="n3:9100", counter="symbol_errors", **port),
        moment("node:fabric_port_down:state", 1, slurm_job_id="7", instance="n3:9100", **{**port, "device": "mlx5_2"}),
        moment("node:fabric_rate_low:bits", 200e9, slurm_job_id="7", instance="n3:9100", **low),
        *(
            moment(
                "node:switch_errors:rate",
                2,
                node=node,
                guid="x",
                port="12",
                switch="leaf-02",
                uplink=f"{node} mlx5_1",
                counter="discards",
            )
            for node in ("n3", "elsewhere")
        ),
    ]
    said = [dict(one.labels)["says"] for found in ask(outliers, PORTS, data, tmp_path / "bad") for one in found]
    assert said == [
        "Port mlx5_1 1 of n3: symbol_errors",
        "Port mlx5_2 1 of n3 is away",
        "Port mlx5_3 1 of n3 runs at a lower rate than its like",
        "Switch leaf-02 port 12, at the cable of n3: discards",
    ]
    active = moment(upstream("ib_state"), 4, instance="n3:9100", device="mlx5_1", port="1")
    for folder, watched, words in (
        ("fine", [active], "No port of the job is away, slow or under suspicion"),
        ("blind", [], "No data: no port counters of the job"),
    ):
        (sentence,) = (one for found in ask(outliers, PORTS, [here, *watched], tmp_path / folder) for one in found)
        assert dict(sentence.labels)["says"] == words


def test_temperature_power_and_memory_stand_beside_lateness(outliers: Json, tmp_path: Path) -> None:
    title = "GPUs of the latest nodes, now"
    data = fleet()
    for node in (LATE, "node100", "stranger"):
        for gpu in ("0", "1"):
            at = {"Hostname": node, "gpu": gpu, "UUID": f"{node}-{gpu}", "instance": f"{node}:9400"}
            hot = node == LATE and gpu == "1"
            data += [
                moment(upstream("gpu_util"), 100, **at),
                moment(upstream("gpu_temperature"), 91 if hot else 60, **at),
                moment(upstream("gpu_power"), 400 if hot else 690, **at),
                moment(upstream("memory_used"), 60_000, **at),
            ]
    table = shown(outliers, title, ask(outliers, title, data, tmp_path))
    rows = [row for row in table.rows if row["Node"] == LATE]
    assert table.rows[0]["Node"] == LATE and "stranger" not in {row["Node"] for row in table.rows}
    assert [row["Lateness of the node"] for row in rows] == [0.6, 0.6]
    assert {(row["DCGM GPU"], row["Temperature"], row["Power"], row["Memory"]) for row in rows} == {
        ("0", 60.0, 690.0, 60_000.0),
        ("1", 91.0, 400.0, 60_000.0),
    }
