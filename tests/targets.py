# SPDX-License-Identifier: Apache-2.0
"""Reads back what targets write: rules in Prometheus' words and dashboards as data, whatever the form."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import _jsonnet
import yaml

from dashgen import build
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets import TARGETS

Json = dict[str, Any]
Files = Mapping[str, str]


_BUILDS: dict[str, Bundle] = {}
_RENDERED: dict[tuple[str, str], dict[str, str]] = {}


def render(name: str, site: Site) -> dict[str, str]:
    """What a target writes; a site is built, and rendered, once."""
    site = TARGETS[name].site(site)
    key = site.model_dump_json()
    if key not in _BUILDS:
        _BUILDS[key] = build.bundle(site)
    if (name, key) not in _RENDERED:
        _RENDERED[name, key] = TARGETS[name].render(_BUILDS[key], site)
    return _RENDERED[name, key]


def loaded(text: str) -> Any:
    """What a YAML file says, ten times as fast as ``yaml.safe_load``."""
    return yaml.load(text, yaml.CSafeLoader)


def documents(files: Files, kind: str = "") -> Iterator[Json]:
    """YAML and JSON documents, of one Kubernetes kind where one is named."""
    for path, text in files.items():
        if path.endswith((".yaml", ".json")):
            found = [json.loads(text)] if path.endswith(".json") else yaml.load_all(text, yaml.CSafeLoader)
            yield from (each for each in found if not kind or each.get("kind") == kind)


def by_name(groups: list[Json], *more: str) -> dict[str, Json]:
    """Groups by name without the keys that only one ruler knows."""
    return {group["name"]: {key: item for key, item in group.items() if key not in more} for group in groups}


def expected_rules(site: Site, target: str = "files") -> dict[str, Json]:
    """The groups of the files target, of the site as another target has it: recording rules and the site's own tier."""
    files = render("files", TARGETS[target].site(site))
    paths = ["rules/recording.yaml", f"rules/alerts/{site.sensitivity}.yaml"]
    return by_name([group for path in paths for group in loaded(files[path])["groups"]])


def prometheus_groups(name: str, site: Site) -> dict[str, Json]:
    """The groups of a target that writes them in Prometheus' own words."""
    found = documents(render(name, site))
    own = ("partial_response_strategy", "params")
    return by_name([group for each in found for group in each.get("spec", each)["groups"]], *own)


def managed_groups(name: str, site: Site) -> dict[str, Json]:
    """The groups of a target that writes Grafana's words, turned back into Prometheus'."""
    files = render(name, site)
    if name == "grafana-alerting":
        groups = [group for each in documents(files) for group in each["groups"]]
    elif name == "grafana-operator":
        groups = [each["spec"] for each in documents(files, "GrafanaAlertRuleGroup")]
    else:
        main = json.loads(files["terraform/main.tf.json"])
        groups = [_from_terraform(group) for group in main["resource"]["grafana_rule_group"].values()]
    return by_name(
        [{"name": g["name"], "interval": g["interval"], "rules": [*map(_unmanaged, g["rules"])]} for g in groups]
    )


def _unmanaged(rule: Json) -> Json:
    expr = rule["data"][0]["model"]["expr"]
    if rule.get("record"):
        return {"record": rule["record"]["metric"], "expr": expr} | {k: rule[k] for k in ("labels",) if k in rule}
    texts = {key: _prometheus(text) for key, text in rule["annotations"].items() if not key.startswith("__")}
    return {
        "alert": rule["title"],
        "expr": expr,
        **({"for": rule["for"]} if rule["for"] != "0s" else {}),
        **({"keep_firing_for": rule["keepFiringFor"]} if "keepFiringFor" in rule else {}),
        "labels": rule["labels"],
        "annotations": texts,
    }


def _prometheus(text: str) -> str:
    return text.replace(".Labels.", "$labels.").replace(".Values.A.Value", "$value").replace('{{ "\\x24" }}', "$")


def _from_terraform(group: Json) -> Json:
    def plain(value: str) -> str:
        return re.sub(r"([$%])\1\{", r"\1{", value)

    def rule(made: Json) -> Json:
        data = [{"model": json.loads(plain(node["model"]))} for node in made["data"]]
        keep = {"keepFiringFor": made["keep_firing_for"]} if "keep_firing_for" in made else {}
        if "record" in made:
            return {"record": made["record"][0], "data": data}
        texts = {key: {k: plain(v) for k, v in made[key].items()} for key in ("labels", "annotations")}
        return {"title": made["name"], "data": data, "for": made["for"], **keep, **texts}

    interval = f"{group['interval_seconds']}s"
    return {"name": group["name"], "interval": interval, "rules": [rule(made) for made in group["rule"]]}


def boards(name: str, site: Site) -> dict[str, Json]:
    """The dashboards of a target, by uid."""
    files = render(name, site)
    if name == "configmap":
        found = [json.loads(text) for each in documents(files) for text in each["data"].values()]
    elif name == "grafana-operator":
        found = [_from_operator(each["spec"]) for each in documents(files, "GrafanaDashboard")]
    elif name == "resources":
        found = [{**each["spec"], "uid": each["metadata"]["name"]} for each in documents(files, "Dashboard")]
    elif name == "mixin":
        found = list(evaluate(files, "(import 'mixin/mixin.libsonnet').grafanaDashboards").values())
    else:
        found = [each for each in documents(files) if "panels" in each]
    return {board["uid"]: board for board in found}


def _from_operator(spec: Json) -> Json:
    text = spec["json"] if "json" in spec else gzip.decompress(base64.b64decode(spec["gzipJson"])).decode()
    board: Json = json.loads(text)
    return board


def evaluate(files: Files, code: str) -> Any:
    """Evaluate jsonnet that imports from the files of a target, with real jsonnet."""

    def found(folder: str, name: str) -> tuple[str, bytes]:
        path = str(Path(folder, name))
        return path, files[path].encode()

    return json.loads(_jsonnet.evaluate_snippet("test", code, import_callback=found))
