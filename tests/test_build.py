# SPDX-License-Identifier: Apache-2.0
"""What a build promises, whatever the site: complete, ordered, derived from one place, the same to the byte."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from dashgen import build, catalogue, durations, promql
from dashgen.build import spoken
from dashgen.build.placeholders import fill
from dashgen.catalogue.baselines import SPREAD
from dashgen.catalogue.groups import SLOW
from dashgen.catalogue.metrics import METRICS
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.guard.text import counted
from dashgen.model import AlertRule, Sensitivity
from dashgen.promql import names
from dashgen.targets import TARGETS

SITES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "kubernetes": {
        "labels": {"job": "job_name", "node": "kubernetes_node", "cluster": "cluster"},
        "selector": 'namespace="training"',
        "fabric": "xGMI",
        "dump_interval": "60s",
    },
    "bare": {
        "companions": {
            name: {"enabled": False}
            for name in ("textfile", "exporter_metrics", "host_memory", "counters", "dcgm", "infiniband")
        }
    },
    "throughput": {
        "companions": {"throughput": {"preset": "megatron-nv", "job_label": "slurm_job"}, "slurm": {"enabled": True}}
    },
}


def site(name: str) -> config.Site:
    return config.site(SITES[name], "test")


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    flat = itertools.chain.from_iterable([panel, *panel.get("panels", [])] for panel in board["panels"])
    return [panel for panel in flat if panel["type"] != "row"]


def alert_rules(of: config.Site, sensitivity: Sensitivity) -> dict[str, AlertRule]:
    return {rule.alert: rule for group in build.alerts(of, sensitivity) for rule in group.alerts}


@pytest.mark.parametrize("name", SITES)
def test_two_builds_are_the_same_to_the_byte(name: str) -> None:
    first, second = (TARGETS["files"].render(build.bundle(site(name)), site(name)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", SITES)
def test_every_panel_has_a_title_a_description_a_unit_and_a_query(name: str) -> None:
    for slug, board in build.bundle(site(name)).dashboards.items():
        for panel in panels(json.loads(json.dumps(board))):
            where = f"{slug}: {panel.get('title')}"
            assert panel["title"] and panel["description"], where
            assert panel["fieldConfig"]["defaults"]["unit"], where
            assert all(target["expr"] for target in panel["targets"]), where


@pytest.mark.parametrize("name", SITES)
def test_every_alert_has_a_runbook_a_summary_and_the_labels_that_others_route_by(name: str) -> None:
    bundle = build.bundle(site(name))
    for sensitivity, groups in bundle.alerts.items():
        for rule in (rule for group in groups for rule in group.rules):
            assert isinstance(rule, AlertRule)
            assert rule.annotations["summary"] and rule.annotations["description"]
            assert rule.annotations["runbook_url"] == f"rules/runbooks/{rule.alert}.md"
            assert rule.alert in bundle.runbooks
            assert rule.labels["sensitivity"] == sensitivity
            assert {"signal", "severity"} <= set(rule.labels)


@pytest.mark.parametrize("name", SITES)
def test_a_silence_matches_labels_that_the_alert_has(name: str) -> None:
    own = site(name)
    for alert, text in build.bundle(own).runbooks.items():
        (told,) = re.findall(r"`amtool silence add (.*?) --duration", text)
        matched = {matcher.split("=")[0] for matcher in told.split()} - {"alertname"}
        signal = catalogue.SIGNAL_BY_NAME[catalogue.ALERT_BY_NAME[alert].signal]
        known = set(own.labels.of_job) if signal.of_a_job else set(signal.labels)
        assert matched and matched <= known, alert


def test_a_throughput_that_is_selected_by_no_name_adds_none_to_what_a_site_exposes() -> None:
    given = {"companions": {"throughput": {"expr": 'max by (slurm_job_id) ({__name__=~"my_.*_tflops"})'}}}
    assert build.exposed(config.site(given, "test")) == build.exposed(config.Site())


def test_texts_for_amds_gpus_name_no_tool_of_nvidia() -> None:
    bundle = build.bundle(config.site({"source": "rccl"}, "test"))
    alerts = [rule for groups in bundle.alerts.values() for group in groups for rule in group.alerts]
    said = [*bundle.runbooks.items(), *((rule.alert, rule.annotations["description"]) for rule in alerts)]
    for alert, text in said:
        # Racks of NVLink are NVIDIA's alone.
        if alert != "NcclNvlinkDomainLost":
            assert not re.search(r"nvidia-smi|(?i:\bxid)|p2pBandwidthLatencyTest", text), alert


@pytest.mark.parametrize("name", SITES)
def test_rules_and_panels_read_only_series_that_exist(name: str) -> None:
    known = {site(name).metric(metric.key) for metric in METRICS} | set(build.signals(site(name))) | {"ALERTS"}
    known |= {"nv_dl_training_tokens_processed_total"} if name == "throughput" else set()
    every = set(catalogue.SIGNAL_BY_NAME)
    for signal, expr in build.signals(site(name)).items():
        # A rule may mention a signal whose source this site lacks: `or` and `unless` then see nothing.
        assert names(expr) <= known | every, signal
    for board in build.dashboards(site(name)):
        for panel in board.panels:
            for query in panel.queries:
                assert names(query.expr) <= known | every, f"{board.slug}: {panel.title}"


@pytest.mark.parametrize("name", SITES)
def test_no_placeholder_is_left_and_every_matcher_list_is_tidy(name: str) -> None:
    for path, text in TARGETS["files"].render(build.bundle(site(name)), site(name)).items():
        if path.endswith((".yaml", ".json")):
            assert not re.search(r"<[a-z_]+>|<\d+ dumps", text), path
            assert not re.search(r"(?<!\d),\s*\}", text), path  # [0-9]{3,} is a fine regular expression


@pytest.mark.parametrize("name", SITES)
def test_rules_of_several_lines_are_written_as_lines(name: str) -> None:
    """One line that ends in a space, and YAML quotes and escapes the whole rule."""
    for path, text in TARGETS["files"].render(build.bundle(site(name)), site(name)).items():
        if path.endswith(".yaml"):
            assert not re.search(r"^\s*(?:expr|description): \".*\\n", text, re.M), path


def test_no_rule_is_written_twice() -> None:
    exprs = [" ".join(expr.split()) for expr in build.signals(config.Site()).values()]
    assert len(set(exprs)) == len(exprs)
    assert len({alert.name for alert in catalogue.ALERTS}) == len(catalogue.ALERTS)


def test_what_fires_in_a_tier_also_fires_in_the_next_one() -> None:
    low, medium, high = (alert_rules(config.Site(), level) for level in Sensitivity)
    assert set(low) < set(medium) < set(high)
    for calmer, keener in ((low, medium), (medium, high)):
        assert any(calmer[name].expr != keener[name].expr for name in calmer)


def test_a_laxer_threshold_in_a_lower_tier_is_refused_when_the_catalogue_is_loaded() -> None:
    alert = catalogue.ALERT_BY_NAME["NcclJobDegraded"]
    lax = replace(alert.tiers[Sensitivity.LOW], threshold=0.01)
    with pytest.raises(ValueError, match="laxer"):
        replace(alert, tiers={**alert.tiers, Sensitivity.LOW: lax})


@pytest.mark.parametrize("name", SITES)
def test_a_recorded_series_has_the_labels_that_it_is_said_to_have(name: str) -> None:
    own = site(name)

    def spelt(labels: Iterable[str]) -> set[str]:
        return {word for each in labels for word in fill(each, own).replace(" ", "").split(",")}

    known = {signal.name: spelt(signal.labels) for signal in catalogue.SIGNALS}
    of_target = {own.labels.job, own.labels.node, own.labels.gpu, own.labels.instance, own.labels.cluster} - {""}
    known |= {own.metric(metric.key): {*metric.labels, *of_target} for metric in METRICS}
    for signal, expr in build.signals(own).items():
        found = promql.labels(promql.parse(expr), known)
        # Nothing tells that bandwidth, alone of what is used to something, has no source of throughput.
        maybe = {"evidence"} if signal == SPREAD else set()
        assert not found.all_but and found.names <= known[signal] | maybe, signal
        assert name != "defaults" or known[signal] <= found.names, signal
        if not signal.startswith("peer:"):
            assert not {"message_size", "version", "comm_name"} & found.names, signal


def test_every_duration_follows_the_dump_interval() -> None:
    slow = alert_rules(config.site({"dump_interval": "60s"}, "test"), Sensitivity.LOW)["NcclJobDegraded"]
    usual = alert_rules(config.Site(), Sensitivity.LOW)["NcclJobDegraded"]
    assert (usual.for_, slow.for_) == ("1m", "2m")
    assert durations.text(89) == "1m29s"
    for dump, every, slowly in (("1s", 1, 4), ("30s", 30, 120), ("1m", 60, 120), ("10m", 60, 120)):
        for group in build.recording(config.site({"dump_interval": dump}, "test")):
            assert group.interval == durations.text(slowly if group.name in SLOW else every), group.name


def test_a_page_about_the_verdict_is_looked_up_every_five_seconds_or_twice_a_dump() -> None:
    for dump, often, seldom in (("30s", "5s", "15s"), ("10m", "5s", "30s"), ("4s", "2s", "2s")):
        groups = build.alerts(config.site({"dump_interval": dump}, "test"), Sensitivity.MEDIUM)
        interval = {rule.alert: group.interval for group in groups for rule in group.rules}  # type: ignore[union-attr]
        assert (interval["NcclJobDegraded"], interval["NcclJobStalled"]) == (often, often)
        assert interval["NcclFabricSuspect"] == seldom


def test_an_alert_can_be_changed_and_disabled_by_configuration() -> None:
    changed = config.site(
        {
            "alerts": {
                "NcclJobDegraded": {"low": {"threshold": 0.11, "extra": {"depth_without_throughput": 0.31}}},
                "NcclJobQuiet": {"high": {"threshold": 0.9}},
                "NcclGpuLate": {"enabled": False},
            }
        },
        "test",
    )
    page = alert_rules(changed, Sensitivity.LOW)["NcclJobDegraded"].expr
    assert "job:training_throughput_loss:ratio > 0.11" in page
    assert '{state="degraded"} > 0.31' in page
    assert ">= 0.9 * 240" in alert_rules(changed, Sensitivity.HIGH)["NcclJobQuiet"].expr
    assert "NcclGpuLate" not in alert_rules(changed, Sensitivity.HIGH)
    assert "NcclGpuLate" not in build.bundle(changed).runbooks


@pytest.mark.parametrize(
    ("alerts", "says"),
    [
        ({"NcclJobStaled": {}}, "no such alert"),
        ({"NcclStaleFiles": {"low": {"threshold": 1}}}, "not in this tier"),
        ({"NcclJobDegraded": {"low": {"extra": {"deaf": 1}}}}, "no such threshold"),
    ],
)
def test_an_override_that_fits_nothing_is_an_error(alerts: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        build.bundle(config.site({"alerts": alerts}, "test"))


def test_boards_of_a_site_with_several_clusters_ask_for_the_cluster_first() -> None:
    variables = build.bundle(site("kubernetes")).dashboards["job"]["templating"]["list"]  # type: ignore[index]
    assert [variable["name"] for variable in variables][:2] == ["datasource", "cluster"]


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 copies of 0 files"), (1, "1 copy of 1 file"), (2, "2 copies of 2 files")]
)
def test_what_is_counted_is_in_singular_or_plural(count: int, words: str) -> None:
    assert f"{counted(count, 'copy', 'copies')} of {counted(count, 'file')}" == words


@pytest.mark.parametrize(
    ("dumps", "interval", "words"),
    [
        (0, 30, "at once"),
        (1, 30, "30 s (1 dump)"),
        (4, 30, "2 min (4 dumps)"),
        (3, 30, "1 min 30 s (3 dumps)"),
        (120, 30, "1 h (120 dumps)"),
        (5, 0.5, "2.5 s (5 dumps)"),
    ],
)
def test_a_time_in_dumps_is_told_in_both(dumps: int, interval: float, words: str) -> None:
    assert spoken.span(dumps, interval) == words


def test_what_an_alert_fires_at_is_told_with_its_unit_in_every_tier() -> None:
    told = {
        (alert.name, tier): spoken.limit(alert, alert.tiers[tier], 60)
        for alert in catalogue.ALERTS
        for tier in alert.tiers
    }
    assert told["NcclStaleFiles", Sensitivity.HIGH].startswith("files older than 20 min (20 dumps)")
    assert "more than 120 symbol errors an hour" in told["NcclFabricSymbolErrors", Sensitivity.HIGH]
    # Each tier's own value is in it, and nothing is left to fill in.
    assert [name for name, text in told.items() if "<" in text] == []
    for alert in catalogue.ALERTS:
        values = {tier.threshold for tier in alert.tiers.values()}
        if len(values) > 1:
            assert len({told[alert.name, level] for level in alert.tiers}) == len(values), alert.name
