# SPDX-License-Identifier: Apache-2.0
"""What a target is, and the targets that write each rule pack as one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.grafana import alerting as grafana_alerting
from dashgen.targets.kubernetes import prometheusrule, vmrule
from dashgen.targets.packs import Pack, packs
from dashgen.targets.rulers import mimir, prometheus, thanos, vmalert

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


def _rules(name: str, summary: str, document: Document, late: bool = False) -> tuple[str, Target]:
    return name, Target(summary, partial(_documents, name, document), (name,), document, late)


RULE_FORMS: Mapping[str, Target] = dict(
    (
        _rules("prometheus", "rule files of one tier, for a rule_files glob", prometheus.document),
        _rules("prometheusrule", "PrometheusRule objects", prometheusrule.document),
        _rules("vmrule", "VMRule objects", vmrule.document, late=True),
        _rules("vmalert", "rule files that every vmalert loads", vmalert.document, late=True),
        _rules("mimir", "namespace files for mimirtool, Mimir, Cortex and Grafana Cloud", mimir.document),
        _rules("thanos", "rule files of Thanos Ruler", thanos.document, late=True),
        _rules("grafana-alerting", "provisioning files of Grafana-managed rules", grafana_alerting.document, late=True),
    )
)
