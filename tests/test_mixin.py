# SPDX-License-Identifier: Apache-2.0
"""The mixin says what the build says, also after somebody else has changed its _config in jsonnet."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from targets import evaluate, render

import dashgen
from dashgen import build
from dashgen.config import site as config
from dashgen.jsonnet import mixin
from dashgen.model import Bundle, Sensitivity
from dashgen.targets import TARGETS
from dashgen.targets.rulefile import group_data

BARE = {
    "companions": {
        name: {"enabled": False} for name in ("textfile", "exporter_metrics", "host_memory", "counters", "dcgm")
    }
}
THROUGHPUT = {"companions": {"throughput": {"preset": "megatron-nv", "job_label": "slurm_job"}}}

# name: what the mixin is built with, what _config overrides, and the same settings in dashgen.yaml.
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "nothing": ({}, "{}", {}),
    "selector": ({}, """{ selector: 'cluster="a", env!="test"' }""", {"selector": 'cluster="a", env!="test"'}),
    "labels": (
        {},
        "{ jobLabel: 'job_name', nodeLabel: 'host', gpuLabel: 'card', instanceLabel: 'target' }",
        {"labels": {"job": "job_name", "node": "host", "gpu": "card", "instance": "target"}},
    ),
    "cluster": ({}, "{ clusterLabel: 'cluster' }", {"labels": {"cluster": "cluster"}}),
    "no cluster and no selector": (
        {"labels": {"cluster": "cluster"}, "selector": 'a="b"'},
        "{ clusterLabel: '', selector: '' }",
        {},
    ),
    "thresholds": (
        {},
        """{ alerts+: {
          NcclJobDegraded+: { low+: { threshold: 0.123, depth_without_throughput: 0.75 }, medium+: { threshold: 0.1 } },
          NcclJobStalled+: { low+: { threshold: 1e-05 + 11 } },
        } }""",
        {
            "alerts": {
                "NcclJobDegraded": {
                    "low": {"threshold": 0.123, "extra": {"depth_without_throughput": 0.75}},
                    "medium": {"threshold": 0.1},
                },
                "NcclJobStalled": {"low": {"threshold": 11.00001}},
            }
        },
    ),
    "tier low": ({}, "{ sensitivity: 'low' }", {"sensitivity": "low"}),
    "tier high": ({"sensitivity": "low"}, "{ sensitivity: 'high' }", {"sensitivity": "high"}),
    "looks": (
        {},
        """{ tags: ['a', 'b'], uidPrefix: 'my-', titlePrefix: 'GPU: ', fabric: 'xGMI', grafanaURL: 'https://g/',
             folder: 'F' }""",
        {
            "grafana": {
                "tags": ["a", "b"],
                "uid_prefix": "my-",
                "title_prefix": "GPU: ",
                "url": "https://g/",
                "folder": "F",
            },
            "fabric": "xGMI",
        },
    ),
    "runbooks": ({}, "{ runbookURLPattern: 'https://r/{alert}' }", {"runbook_url": "https://r/{alert}"}),
    "runbooks as elsewhere": ({}, "{ runbookURLPattern: 'https://r/%s' }", {"runbook_url": "https://r/{alert}"}),
    "few sources": (BARE, "{ jobLabel: 'job_name' }", {**BARE, "labels": {"job": "job_name"}}),
    "throughput": (
        THROUGHPUT,
        "{ jobLabel: 'job_name', clusterLabel: 'c' }",
        {**THROUGHPUT, "labels": {"job": "job_name", "cluster": "c"}},
    ),
    "everything": (
        {"dump_interval": "60s", "alert_labels": {"team": "hpc"}},
        """{ selector: 'a="b"', jobLabel: 'j', nodeLabel: 'n', clusterLabel: 'c', sensitivity: 'high',
             alerts+: {
               NcclJobQuiet+: { high+: { threshold: 0.75 } },
               NcclTransportDegraded+: { high+: { paged_loss: 0.03 } },
             },
             uidPrefix: 'p-' }""",
        {
            "dump_interval": "60s",
            "alert_labels": {"team": "hpc"},
            "selector": 'a="b"',
            "labels": {"job": "j", "node": "n", "cluster": "c"},
            "sensitivity": "high",
            "alerts": {
                "NcclJobQuiet": {"high": {"threshold": 0.75}},
                "NcclTransportDegraded": {"high": {"extra": {"paged_loss": 0.03}}},
            },
            "grafana": {"uid_prefix": "p-"},
        },
    ),
}

EVERYTHING = """
local mixin = (import 'mixin/mixin.libsonnet') + { _config+:: %s };
{
  alerts: mixin.prometheusAlerts.groups,
  rules: mixin.prometheusRules.groups,
  dashboards: mixin.grafanaDashboards,
  alertmanager: mixin.alertmanager,
  folder: mixin.grafanaDashboardFolder,
}"""


def by_name(groups: list[dict[str, Any]]) -> dict[str, Any]:
    return {group["name"]: group for group in groups}


@pytest.mark.parametrize("case", CASES)
def test_an_overridden_mixin_equals_the_build_with_the_same_settings(case: str) -> None:
    built_with, override, same = CASES[case]
    found = evaluate(render("mixin", config.site(built_with, "test")), EVERYTHING % override)
    site = config.site(same, "test")
    made = build.bundle(site, [site.sensitivity])
    assert by_name(found["rules"]) == by_name(group_data(made.recording))
    assert by_name(found["alerts"]) == by_name(group_data(made.alerts[site.sensitivity]))
    dashboards = {f"{slug}.json": board for slug, board in made.dashboards.items()}
    assert found["dashboards"] == json.loads(json.dumps(dashboards))
    assert found["alertmanager"] == json.loads(json.dumps(made.alertmanager))
    assert found["folder"] == made.folder


def test_a_mixin_is_of_the_build_that_it_is_asked_for() -> None:
    def without_rules(*asked: Any) -> Bundle:
        return replace(build.plain(*asked), recording=())

    site = config.Site()
    without = mixin.single(site, without_rules)
    whole = mixin.single(site, build.plain)
    assert "nccl-usual" in whole and "nccl-usual" not in without


def test_severity_duration_and_hysteresis_are_config_too_and_an_alert_can_be_taken_out() -> None:
    change = """{ sensitivity: 'low', alerts+: {
      NcclJobDegraded+: { low+: { severity: 'warning', 'for': '9m', keep_firing_for: '' } },
      NcclJobStalled: {},
    } }"""
    found = evaluate(render("mixin", config.Site()), EVERYTHING % change)
    rules = {rule["alert"]: rule for group in found["alerts"] for rule in group["rules"]}
    assert rules["NcclJobDegraded"]["labels"]["severity"] == "warning"
    assert rules["NcclJobDegraded"]["for"] == "9m" and "keep_firing_for" not in rules["NcclJobDegraded"]
    assert "NcclJobStalled" not in rules


@pytest.mark.parametrize("key", ["blind", "treshold"])
def test_a_key_that_an_alert_does_not_have_is_an_error_that_names_those_it_has(key: str) -> None:
    change = f"{{ alerts+: {{ NcclJobDegraded+: {{ medium+: {{ {key}: 0.2 }} }} }} }}"
    with pytest.raises(RuntimeError, match=rf"NcclJobDegraded\.medium: no such key {key}; .* depth_without_throughput"):
        evaluate(render("mixin", config.Site()), EVERYTHING % change)


# What kube-prometheus makes of a mixin (its lib/mixin.libsonnet), in short.
CONSUMER = """
local add(params) = {
  local mixin = params.mixin,
  prometheusRule: {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: params.name, labels: { prometheus: 'k8s' } },
    spec: {
      groups: (if std.objectHasAll(mixin, 'prometheusAlerts') then mixin.prometheusAlerts.groups else [])
              + (if std.objectHasAll(mixin, 'prometheusRules') then mixin.prometheusRules.groups else []),
    },
  },
  dashboards: { [params.dashboardFolder]+: mixin.grafanaDashboards },
};
local other = {
  prometheusAlerts+:: { groups+: [{ name: 'other', rules: [] }] },
  grafanaDashboards+:: { 'other.json': {} },
  _config+:: { otherSelector: 'x' },
};
add({
  name: 'nccl',
  dashboardFolder: 'NCCL',
  mixin: other + (import 'mixin/mixin.libsonnet') + { _config+:: { jobLabel: 'job_name' } },
})
"""


def test_it_can_be_added_to_other_mixins_as_kube_prometheus_does() -> None:
    files = render("mixin", config.Site())
    assert json.loads(files["mixin/jsonnetfile.json"])["version"] == 1
    found = evaluate(files, CONSUMER)
    names = [group["name"] for group in found["prometheusRule"]["spec"]["groups"]]
    assert names[0] == "other" and len(set(names)) == len(names) > 4
    assert {"other.json", "job.json"} <= set(found["dashboards"]["NCCL"])
    assert "slurm_job_id" not in json.dumps(found)


def test_the_mixin_of_the_target_page_works_and_a_single_tier_is_the_default_of_its_mixin() -> None:
    page = (Path(dashgen.__file__).parent / "docs" / "targets.md").read_text()
    (code,) = re.findall(r"```jsonnet\n(.*?)```", page, re.DOTALL)
    found = evaluate(render("mixin", config.Site()), code)
    assert {"alerts.json", "rules.json", "job.json"} <= set(found)
    assert "https://example.com/runbooks/NcclJobDegraded" in json.dumps(found["alerts.json"])
    low = TARGETS["mixin"].render(build.bundle(config.Site(), [Sensitivity.LOW]), config.Site())
    assert evaluate(low, "(import 'mixin/mixin.libsonnet')._config.sensitivity") == "low"


def test_no_mark_is_left_in_the_mixin() -> None:
    for path, text in render("mixin", config.Site()).items():
        assert "zz0" not in text and "zz1" not in text, path


def test_every_tier_is_in_one_mixin() -> None:
    files = render("mixin", config.Site())
    packs = {
        level: evaluate(
            files, f"((import 'mixin/mixin.libsonnet') + {{_config+:: {{sensitivity: '{level}'}}}}).prometheusAlerts"
        )
        for level in Sensitivity
    }
    counts = [sum(len(group["rules"]) for group in packs[level]["groups"]) for level in Sensitivity]
    assert counts == sorted(counts) and counts[0] < counts[-1]


@pytest.mark.parametrize("wrong", ["'Low'", "''", "5", "null"])
def test_a_sensitivity_that_there_is_not_is_an_error_that_names_those_that_there_are(wrong: str) -> None:
    with pytest.raises(RuntimeError, match=r"_config\.sensitivity: .* is no tier; give one of low, medium, high"):
        evaluate(render("mixin", config.Site()), EVERYTHING % f"{{ sensitivity: {wrong} }}")
