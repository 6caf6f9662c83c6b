# SPDX-License-Identifier: Apache-2.0
"""A Terraform module in JSON syntax for the provider grafana/grafana: folder, dashboards, and alert rules.

The rules are Grafana-managed; ``rules = false`` leaves them out where a ruler evaluates them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dashgen.config.site import Site
from dashgen.grafana.dashboard import text
from dashgen.model import Bundle, RuleGroup
from dashgen.targets.grafana import rules as grafana_rules
from dashgen.targets.grafana.resources import folder_uid
from dashgen.targets.packs import GENERATED, packs
from dashgen.targets.target import Target

_FOLDER = "${grafana_folder.nccl.uid}"


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of the module."""
    files = {f"terraform/dashboards/{slug}.json": text(board) for slug, board in bundle.dashboards.items()}
    boards = {
        _name(slug): {"folder": _FOLDER, "config_json": f'${{file("${{path.module}}/dashboards/{slug}.json")}}'}
        for slug in bundle.dashboards
    }
    groups = {_name(group.name): _group(group, bundle, site) for pack in packs(bundle, site) for group in pack.groups}
    main = {
        "//": GENERATED,
        "terraform": {"required_providers": {"grafana": {"source": "grafana/grafana"}}},
        "variable": {
            "rules": {"type": "bool", "default": True, "description": "Grafana-managed rules, where no ruler has them"}
        },
        "resource": {
            "grafana_folder": {"nccl": {"title": _literal(bundle.folder), "uid": folder_uid(bundle, site)}},
            "grafana_dashboard": boards,
            "grafana_rule_group": groups,
        },
    }
    files["terraform/main.tf.json"] = json.dumps(main, indent=2, ensure_ascii=False) + "\n"
    return files


def _group(group: RuleGroup, bundle: Bundle, site: Site) -> dict[str, object]:
    return {
        "count": "${var.rules ? 1 : 0}",
        "name": group.name,
        "folder_uid": _FOLDER,
        "interval_seconds": grafana_rules.interval(group),
        "rule": [_rule(rule) for rule in grafana_rules.rules(group, bundle, site)],
    }


def _rule(rule: Mapping[str, Any]) -> dict[str, object]:
    data = [
        {
            "ref_id": node["refId"],
            "datasource_uid": node["datasourceUid"],
            "relative_time_range": [node["relativeTimeRange"]],
            "model": _literal(json.dumps(node["model"], ensure_ascii=False)),
        }
        for node in rule["data"]
    ]
    if "record" in rule:
        record = rule["record"]
        target = {"target_datasource_uid": record["targetDatasourceUid"]} if "targetDatasourceUid" in record else {}
        return {"name": rule["title"], "data": data, "record": [{"metric": record["metric"], "from": "A", **target}]}
    return {
        "name": rule["title"],
        "condition": rule["condition"],
        "data": data,
        "for": rule["for"],
        **({"keep_firing_for": rule["keepFiringFor"]} if "keepFiringFor" in rule else {}),
        "no_data_state": rule["noDataState"],
        "exec_err_state": rule["execErrState"],
        "missing_series_evals_to_resolve": rule["missing_series_evals_to_resolve"],
        "labels": {key: _literal(value) for key, value in rule["labels"].items()},
        "annotations": {key: _literal(value) for key, value in rule["annotations"].items()},
    }


def _literal(value: str) -> str:
    """Text that Terraform does not take for a template."""
    return re.sub(r"([$%])\{", r"\1\1{", value)


def _name(slug: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]+", "_", slug)


TARGET = Target(
    name="terraform",
    summary="a module in JSON syntax",
    readers="Terraform and OpenTofu with the provider grafana/grafana",
    how="`rules = false` leaves the rules out, where a ruler evaluates them.",
    render=render,
    late=True,
    shared={"grafana_alerting": grafana_rules.GrafanaAlertingKeys},
)
