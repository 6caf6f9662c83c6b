# SPDX-License-Identifier: Apache-2.0
"""The forms that a build takes, by name. Each module turns a Bundle into {path: text} and touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets import files, mixin
from dashgen.targets.grafana import alerting as grafana_alerting
from dashgen.targets.grafana import resources, terraform
from dashgen.targets.kubernetes import configmap, grafana_operator, prometheusrule, vmrule
from dashgen.targets.packs import Pack, packs
from dashgen.targets.rulers import mimir, prometheus, thanos, vmalert

__all__ = ["FORMATS", "TARGETS", "Pack", "Target"]

Render = Callable[[Bundle, Site], dict[str, str]]
Document = Callable[[Pack, Bundle, Site], str]


@dataclass(frozen=True)
class Target:
    """What a target writes, where, and what for; ``document`` writes one rule pack where the target carries rules.

    ``late`` says that its engine stores a result after the evaluation, so that no rule of the same evaluation sees it.
    """

    summary: str
    render: Render
    owned: tuple[str, ...]
    document: Document | None = None
    late: bool = False

    def site(self, site: Site) -> Site:
        """The site as a bundle for this target is built from it."""
        return site.model_copy(update={"late_results": True}) if self.late else site


def _documents(folder: str, document: Document, bundle: Bundle, site: Site) -> dict[str, str]:
    return {f"{folder}/{pack.name}.yaml": document(pack, bundle, site) for pack in packs(bundle, site)}


def _rules(name: str, summary: str, document: Document, late: bool = False) -> Target:
    """A target that writes one document for each pack."""
    return Target(summary, partial(_documents, name, document), (name,), document, late)


TARGETS: Mapping[str, Target] = {
    "files": Target("plain files for Grafana's file provider, Prometheus and people", files.render, files.OWNED),
    "prometheus": _rules("prometheus", "rule files of one tier, for a rule_files glob", prometheus.document),
    "prometheusrule": _rules("prometheusrule", "PrometheusRule objects", prometheusrule.document),
    "vmrule": _rules("vmrule", "VMRule objects", vmrule.document, late=True),
    "vmalert": _rules("vmalert", "rule files that every vmalert loads", vmalert.document, late=True),
    "mimir": _rules("mimir", "namespace files for mimirtool, Mimir, Cortex and Grafana Cloud", mimir.document),
    "thanos": _rules("thanos", "rule files of Thanos Ruler", thanos.document, late=True),
    "configmap": Target("ConfigMaps of dashboards for the Grafana sidecar", configmap.render, ("configmap",)),
    "grafana-operator": Target(
        "objects of the Grafana operator",
        grafana_operator.render,
        ("grafana-operator",),
        grafana_operator.document,
        late=True,
    ),
    "grafana-alerting": _rules(
        "grafana-alerting", "provisioning files of Grafana-managed rules", grafana_alerting.document, late=True
    ),
    "resources": Target("dashboards as resources for Git Sync and gcx", resources.render, ("resources",)),
    "mixin": Target("a jsonnet mixin in which _config works", mixin.render, ("mixin",)),
    "terraform": Target("a Terraform module in JSON syntax", terraform.render, ("terraform",), late=True),
}

FORMATS: Mapping[str, Document] = {name: target.document for name, target in TARGETS.items() if target.document}
"""The targets whose rules `dashgen rules --format` prints."""
