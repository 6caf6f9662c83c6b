# SPDX-License-Identifier: Apache-2.0
"""Ports, interfaces and shapes of jobs: what accuses whom, judged by Prometheus' own rule evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from processes import tool

from dashgen import build, catalogue, promql
from dashgen.catalogue.metrics import upstream
from dashgen.catalogue.runbooks import COUNTERS
from dashgen.catalogue.signals.fabric import counters
from dashgen.config import site as config
from dashgen.engine.prometheus import evaluate
from dashgen.model import AlertRule, Sensitivity, Severity
from dashgen.recordings.format import Series
from dashgen.targets.rulefile import rule_file

START = 1_773_930_000.0
STEP = 15
SCRAPES = 80  # twenty minutes
OFFSETS = STEP * np.arange(SCRAPES + 1.0)
TIMES = START + OFFSETS

SYMBOLS = upstream("ib_symbol_errors")
DOWNED = upstream("ib_link_downed")
STATE = upstream("ib_state")
RATE = upstream("ib_rate")
NDR, HDR = 50e9, 25e9  # 400 and 200 Gbit/s


@pytest.fixture(autouse=True)
def _installed() -> None:
    tool("promtool")


def series(name: str, values: Any, **labels: str) -> Series:
    return Series(name, tuple(sorted(labels.items())), TIMES, np.zeros(SCRAPES + 1) + values)


def job(name: str, nodes: Sequence[str], gpus: int = 4, **labels: str) -> list[Series]:
    """Collectives of a job: enough for the rules to know where it runs."""
    shape = {"version": "v5.1", "n_nodes": "2", "nranks": "8", "comm_name": "unknown", "collective": "AllReduce"}
    bucket = {**shape, "message_size": "256-257MB", "algo_proto": "RING_SIMPLE", **labels}
    wobble = 1 + 0.001 * (np.arange(SCRAPES + 1) // 2 % 7)
    return [
        series(metric, value * wobble, slurm_job_id=name, node=node, gpu=f"GPU{gpu}", **target(node), **bucket)
        for node in nodes
        for gpu in range(gpus)
        for metric, value in ((upstream("busbw"), 46.0), (upstream("exec"), 1e4))
    ]


def target(node: str) -> dict[str, str]:
    return {"job": "node", "instance": f"{node}:9100"}


def port(name: str, values: Any, node: str, device: str = "mlx5_0") -> Series:
    return series(name, values, **target(node), device=device, port="1")


def rising(rate: float, after: int = 300) -> Any:
    return np.cumsum(np.where(after < OFFSETS, rate * STEP, 0.0))


def judged(found: list[Series], **site: Any) -> tuple[list[Series], set[tuple[str, str, str]]]:
    """The recorded series, and (alert, job, node) of everything that fires in the most sensitive tier."""
    chosen = config.site(site, "test")
    packs = {
        "recording.yaml": rule_file(build.recording(chosen)),
        "alerts.yaml": rule_file(build.alerts(chosen, Sensitivity.HIGH)),
    }
    result = evaluate(packs, found, START, TIMES[-1], 30, STEP)
    fired = [(one.alert, dict(one.labels)) for one in result.alerts if one.firing]
    return list(result.series), {(name, of.get("slurm_job_id", ""), of.get("node", "")) for name, of in fired}


def only(found: list[Series], when: Any) -> list[Series]:
    """The samples of some moments."""
    return [Series(one.name, one.labels, one.times[when], one.values[when]) for one in found]


def recorded(found: list[Series], name: str) -> list[dict[str, str]]:
    return [dict(one.labels) for one in found if one.name == name]


def test_a_counter_over_its_limit_names_the_job_the_node_and_the_port() -> None:
    ports = [port(SYMBOLS, rising(1.0), "n2", "mlx5_3"), port(SYMBOLS, 5, "n1")]
    everything, fired = judged([*job("7", ["n1", "n2"]), *ports])
    assert fired == {("NcclFabricSymbolErrors", "7", "n2")}
    assert recorded(everything, "node:fabric_errors:rate") == [
        {
            "counter": "symbol_errors",
            "device": "mlx5_3",
            "instance": "n2:9100",
            "node": "n2",
            "port": "1",
            "slurm_job_id": "7",
        }
    ]


@pytest.mark.parametrize("missing", [0, 1, 4])
def test_a_file_that_cannot_be_read_is_told_only_while_a_gpu_is_missing(missing: int) -> None:
    """One value tells of all files of a node: the broken one may be that of another writer."""
    broken = series(upstream("textfile_error"), OFFSETS > 300, **target("n2"))
    gpus = job("7", ["n1", "n2"])
    lost = {f"GPU{number}" for number in range(missing)}
    there = [one for one in gpus if dict(one.labels)["node"] == "n1" or dict(one.labels)["gpu"] not in lost]
    torn = only([one for one in gpus if one not in there], OFFSETS <= 300)
    _, fired = judged([*there, *torn, broken])
    assert (("NcclTextfileUnreadable", "7", "n2") in fired) is (missing > 0)


def test_counters_of_a_node_without_a_job_are_nobodys_business() -> None:
    everything, fired = judged([*job("7", ["n1", "n2"]), port(SYMBOLS, rising(1.0), "n9")])
    assert fired == set()
    assert recorded(everything, "node:fabric_errors:rate") == []


def test_the_ports_of_a_node_with_two_jobs_are_told_to_the_one_with_more_gpus_there() -> None:
    _, fired = judged([*job("7", ["n1", "n2"]), *job("8", ["n2"], gpus=2), port(DOWNED, rising(0.1), "n2")])
    assert fired == {("NcclFabricLinkDown", "7", "n2")}


def test_counters_that_rest_high_or_start_anew_are_silent() -> None:
    rebooted = np.where(OFFSETS > 600, 0.0, 90_000.0)
    _, fired = judged([*job("7", ["n1", "n2"]), port(SYMBOLS, 90_000, "n1"), port(SYMBOLS, rebooted, "n2")])
    assert fired == set()


def test_a_port_that_was_never_up_is_not_down() -> None:
    _, fired = judged([*job("7", ["n1", "n2"]), port(STATE, 1, "n1"), port(DOWNED, 0, "n1")])
    assert fired == set()


def test_a_port_that_is_down_where_most_nodes_of_the_job_have_it_up_is_told() -> None:
    nodes = ["n1", "n2", "n3"]
    unused = [port(STATE, 1, node, "mlx5_9") for node in nodes]
    found = [*job("7", nodes), *unused, *(port(STATE, 1 if node == "n2" else 4, node) for node in nodes)]
    everything, fired = judged(found)
    assert fired == {("NcclFabricPortDown", "7", "n2")}
    assert {one["device"] for one in recorded(everything, "node:fabric_port_down:state")} == {"mlx5_0"}


def test_a_port_that_went_away_stays_reported_until_it_comes_back() -> None:
    gone = (OFFSETS > 300) & (OFFSETS <= 900)
    everything, fired = judged(
        [*job("7", ["n1", "n2"]), port(STATE, np.where(gone, 1, 4), "n1"), port(DOWNED, OFFSETS > 300, "n1")]
    )
    assert fired == {("NcclFabricLinkDown", "7", "n1"), ("NcclFabricPortDown", "7", "n1")}
    (down,) = [one for one in everything if one.name == "node:fabric_port_down:state"]
    assert (down.times[0] - START, down.times[-1] - START) == (330, 900)


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ({"n1": NDR, "n2": HDR, "n3": NDR}, {"n2"}),
        ({"n1": NDR, "n2": HDR}, {"n2"}),
        ({"n1": HDR, "n2": HDR, "n3": HDR}, set()),
        ({"n1": HDR, "n2": HDR, "n3": NDR}, set()),
        ({"n1": NDR, "n2": NDR, "n9": HDR}, set()),
    ],
    ids=["one-of-three", "one-of-two", "all-alike", "one-is-faster", "of-no-job"],
)
def test_a_link_at_a_lower_rate_than_the_same_port_elsewhere_in_the_job_is_named(
    rates: dict[str, float], slow: set[str]
) -> None:
    storage = [port(RATE, HDR, node, "mlx5_9") for node in rates]
    found = [*job("7", [node for node in rates if node != "n9"]), *storage]
    _, fired = judged([*found, *(port(RATE, rate, node) for node, rate in rates.items())])
    assert fired == {("NcclFabricLinkSlow", "7", node) for node in slow}


def test_a_link_that_is_away_is_not_called_slow_and_one_that_comes_back_slower_is() -> None:
    gone, back = (OFFSETS > 300) & (OFFSETS <= 600), OFFSETS > 600
    rates = (port(RATE, np.where(gone, NDR / 40, np.where(back, HDR, NDR)), "n1"), port(RATE, NDR, "n2"))
    links = (port(STATE, np.where(gone, 1, 4), "n1"), port(DOWNED, OFFSETS > 300, "n1"))
    everything, fired = judged([*job("7", ["n1", "n2"]), *rates, *links])
    assert fired == {(name, "7", "n1") for name in ("NcclFabricLinkDown", "NcclFabricPortDown", "NcclFabricLinkSlow")}
    (low,) = [one for one in everything if one.name == "node:fabric_rate_low:bits"]
    assert (low.times[0] - START, set(low.values)) == (630, {200e9})


def test_an_interface_with_another_mtu_is_named_and_management_interfaces_are_not_looked_at() -> None:
    mtus = {"n1": 9000, "n2": 9000, "n3": 1500}
    interfaces = [
        series(name, value, **target(node), device=device)
        for node, mtu in mtus.items()
        for device, size in (("eth0", mtu), ("docker0", 1500 if node == "n1" else 1450))
        for name, value in ((upstream("net_mtu"), size), (upstream("net_up"), 1))
    ]
    _, fired = judged([*job("7", ["n1", "n2", "n3"]), *interfaces])
    assert fired == {("NcclFabricMtuMismatch", "7", "n3")}


def test_an_older_exporter_without_hw_counters_raises_no_alarm() -> None:
    everything, fired = judged([*job("7", ["n1", "n2"]), port(SYMBOLS, 0, "n1")])
    assert fired == set()
    assert recorded(everything, "node:fabric_suspect:ratio") == []


def test_switch_ports_are_read_only_where_the_site_has_them() -> None:
    at = {"job": "infiniband", "instance": "fabric:9315", "guid": "0x1", "port": "7"}
    switch = [
        series(upstream("switch_link_downed"), rising(0.1), **at),
        series(upstream("switch_uplink"), 1, **at, switch="leaf01", uplink="n2 mlx5_0", uplink_type="CA"),
    ]
    _, without = judged([*job("7", ["n1", "n2"]), *switch])
    _, fired = judged([*job("7", ["n1", "n2"]), *switch], companions={"switch_ports": {"enabled": True}})
    assert (without, fired) == (set(), {("NcclSwitchPortErrors", "", "n2")})


def test_a_site_without_the_exporters_has_neither_their_alerts_nor_their_panels() -> None:
    names = ("infiniband", "hw_counters", "host_network", "dcgm")
    bare = config.site({"companions": {name: {"enabled": False} for name in names}}, "test")
    packs = [rule for group in build.alerts(bare, Sensitivity.HIGH) for rule in group.rules]
    assert not [rule.alert for rule in packs if isinstance(rule, AlertRule) and rule.labels["signal"] == "fabric"]
    assert not [name for name in build.signals(bare) if name.startswith("node:fabric")]
    assert not [panel.title for board in build.dashboards(bare) if board.slug == "fabric" for panel in board.panels]


def test_no_fabric_alert_is_a_page_and_only_a_suspect_is_in_the_lowest_tier() -> None:
    for alert in catalogue.ALERTS:
        if alert.kind == "fabric":
            assert Severity.CRITICAL not in {tier.severity for tier in alert.tiers.values()}, alert.name
            assert (Sensitivity.LOW in alert.tiers) == (alert.name == "NcclFabricSuspect"), alert.name


def test_a_suspect_speaks_for_the_counters_of_its_node_and_never_for_itself() -> None:
    rules: Any = build.alertmanager(config.Site())["inhibit_rules"]
    (rule,) = [each for each in rules if each["source_matchers"] == ['alertname="NcclFabricSuspect"']]
    assert rule["equal"] == ["slurm_job_id", "node"]
    (targets,) = rule["target_matchers"]
    spoken_for = set(targets.removeprefix('alertname=~"').removesuffix('"').split("|"))
    # A dead port, an odd MTU: what the suspect does not look at may be what is wrong.
    recorded = {rule.record: rule.expr for group in build.recording(config.Site()) for rule in group.rules}
    reads = promql.names(recorded["node:fabric_suspect:ratio"])
    assert spoken_for == {each.name for each in catalogue.ALERTS if each.signal in reads and each.kind == "fabric"}


def test_every_counter_has_a_line_in_the_runbooks_table() -> None:
    assert {each.name for each in counters.COUNTERS_OF_PORTS} == set(COUNTERS)


def test_every_panel_of_the_fabric_board_names_the_source_it_needs() -> None:
    (board,) = [each for each in build.dashboards(config.Site()) if each.slug == "fabric"]
    assert len(board.panels) <= 30
    assert {panel.title for panel in board.panels if not panel.companion} == set()


@pytest.mark.parametrize(
    ("before", "after", "fires"), [("1", "2", True), ("2", "16", True), ("9", "8", False), ("16", "2", False)]
)
def test_communicators_that_are_wider_than_before_have_lost_a_domain(before: str, after: str, fires: bool) -> None:
    first, second = (job("7", ["n1", "n2"], n_nodes=domains, nranks="64") for domains in (before, after))
    _, fired = judged([*only(first, OFFSETS <= 600), *only(second, OFFSETS > 600)])
    # Communicators of another shape have no past, so nobody but the shape itself tells of it.
    assert fired == ({("NcclNvlinkDomainLost", "7", "")} if fires else set())


def test_communicators_of_one_size_that_come_and_go_have_lost_no_domain() -> None:
    inner = only(job("7", ["n1", "n2"], n_nodes="1"), (OFFSETS < 480) | (OFFSETS > 840))
    _, fired = judged([*inner, *job("7", ["n1", "n2"], n_nodes="8")])
    assert "NcclNvlinkDomainLost" not in {name for name, _, _ in fired}


def test_two_algorithms_side_by_side_are_no_change_and_one_instead_of_the_other_is() -> None:
    ring, tree = (job("7", ["n1", "n2"], algo_proto=name) for name in ("RING_SIMPLE", "TREE_SIMPLE"))
    _, together = judged([*ring, *only(tree, OFFSETS > 600)])
    _, instead = judged([*only(ring, OFFSETS <= 600), *only(tree, OFFSETS > 600)])
    assert "NcclAlgorithmChanged" not in {name for name, _, _ in together}
    assert "NcclAlgorithmChanged" in {name for name, _, _ in instead}
