# SPDX-License-Identifier: Apache-2.0
"""`dashgen explain`: everything that dashgen knows can be asked for by its name."""

from __future__ import annotations

from pathlib import Path

import promql_parser
import pytest
from command import dashgen

from dashgen import build, catalogue, config
from dashgen.catalogue.metrics import COMPANIONS, METRICS
from dashgen.config import Companions, Site
from dashgen.errors import UserError
from dashgen.explain import explain
from dashgen.model import Sensitivity

EVERYTHING = config.site({"companions": {"slurm": {"enabled": True}, "throughput": {"metric": "mfu"}}}, "test")
KEYS = {*Site.model_fields, *(f"companions.{name}" for name in Companions.model_fields)}
BARE = config.site(
    {"companions": {name: {"enabled": False} for name in COMPANIONS if name not in ("throughput", "slurm")}}, "test"
)


@pytest.mark.parametrize("name", catalogue.SIGNAL_BY_NAME)
def test_a_signal_is_explained_by_its_question_its_healthy_value_its_alerts_and_its_promql(name: str) -> None:
    signal, text = catalogue.SIGNAL_BY_NAME[name], explain(name, EVERYTHING)
    assert text.startswith(f"{name}  [{signal.unit}]")
    assert signal.question in text and signal.healthy in text
    assert all(alert.name in text for alert in catalogue.ALERTS if alert.signal == name)
    for site in (EVERYTHING, BARE):
        promql = explain(name, site).split("\n\n", 1)[1]
        if name in build.signals(site):
            promql_parser.parse(promql)
        else:
            key = promql.removeprefix("(not recorded: ").removesuffix(" is off in dashgen.yaml)")
            assert key in {*KEYS, "every source of it"}


@pytest.mark.parametrize("name", catalogue.ALERT_BY_NAME)
def test_an_alert_is_explained_by_its_question_its_runbook_and_what_each_tier_asks(name: str) -> None:
    alert, text = catalogue.ALERT_BY_NAME[name], explain(name, Site())
    assert text.startswith(f"# {name}\n")
    assert catalogue.SIGNAL_BY_NAME[alert.signal].question in text
    assert alert.runbook.meaning in text and alert.runbook.look_first[0] in text
    for level in Sensitivity:
        tier = alert.tiers.get(level)
        assert (f"| {level} | {tier.threshold:g}" if tier else f"| {level} | not in this tier") in text


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_an_upstream_metric_is_explained_by_its_meaning_its_labels_and_its_source(
    metric: catalogue.metrics.Metric,
) -> None:
    text = explain(metric.name, Site())
    assert metric.meaning in text and metric.source in text
    assert all(label in text for label in metric.labels)


def test_the_site_has_its_own_names_and_its_own_thresholds() -> None:
    site = config.site(
        {
            "labels": {"job": "job_name"},
            "metrics": {"busbw": "nccl_bus_bandwidth_GB_per_second"},
            "alerts": {"NcclJobDegraded": {"low": {"threshold": 0.777}}},
        },
        "test",
    )
    assert "geometric mean" in explain("nccl_bus_bandwidth_GB_per_second", site).lower()
    assert "| low | 0.777" in explain("NcclJobDegraded", site)
    signal = explain("job:nccl_busbw:max", site)
    assert "nccl_bus_bandwidth_GB_per_second" in signal and "job_name" in signal and "slurm_job_id" not in signal


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NcclGpuSlow", "NcclGpuLate"),
        ("job:nccl_degraded", "job:nccl_degraded:bool"),
        ("nccl_bus_bandwidth", "nccl_bus_bandwidth_gbs"),
        ("zzz", "rules/ lists all signals and alerts"),
        ("", "rules/ lists all signals and alerts"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"{name}: no such signal, alert or metric; .*{near}"):
        explain(name, Site())


def test_the_command_prints_it(tmp_path: Path) -> None:
    done = dashgen("explain", "NcclGpuLate", cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", explain("NcclGpuLate", Site()) + "\n")
