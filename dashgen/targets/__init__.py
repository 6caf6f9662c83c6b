# SPDX-License-Identifier: Apache-2.0
"""The forms that a build takes, by name. Each module turns a Bundle into {path: text} and touches nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dashgen.targets import files, layout, mixin
from dashgen.targets.grafana import resources, terraform
from dashgen.targets.kubernetes import configmap, grafana_operator
from dashgen.targets.packs import Pack
from dashgen.targets.rule_forms import RULE_FORMS, Document, Target

__all__ = ["FORMATS", "TARGETS", "Pack", "Target"]

TARGETS: Mapping[str, Target] = {
    "files": Target("plain files for Grafana's file provider, Prometheus and people", files.render, files.OWNED),
    **RULE_FORMS,
    "layout": Target("rules on two levels, edges and one above them", layout.render, ("layout",)),
    "configmap": Target("ConfigMaps of dashboards for the Grafana sidecar", configmap.render, ("configmap",)),
    "grafana-operator": Target(
        "objects of the Grafana operator",
        grafana_operator.render,
        ("grafana-operator",),
        grafana_operator.document,
        late=True,
    ),
    "resources": Target("dashboards as resources for Git Sync and gcx", resources.render, ("resources",)),
    "mixin": Target("a jsonnet mixin in which _config works", mixin.render, ("mixin",)),
    "terraform": Target("a Terraform module in JSON syntax", terraform.render, ("terraform",), late=True),
}

FORMATS: Mapping[str, Document] = {name: target.document for name, target in TARGETS.items() if target.document}
"""The targets whose rules `dashgen rules --format` prints."""
