# SPDX-License-Identifier: Apache-2.0
"""Objects of the Grafana operator (grafana.integreatly.org/v1beta1): folder, dashboards, and rule groups.

The rule groups are Grafana-managed and stand in a folder of their own: a site applies them or uses a ruler.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import Switch
from dashgen.grafana.dashboard import text
from dashgen.model import Bundle, RuleGroup
from dashgen.targets.grafana import rules as grafana_rules
from dashgen.targets.grafana.resources import folder_uid
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.packs import Pack, packs
from dashgen.targets.target import Target

_API = "grafana.integreatly.org/v1beta1"
_FOLDER = "nccl-folder"
# With room for the rest of the object below what kubectl keeps in an annotation.
_PLAIN_BYTES = kubernetes.CLIENT_SIDE_BYTES // 2


class GrafanaOperatorKeys(Section):
    """Objects of the Grafana operator."""

    instance_selector: kubernetes.KubernetesLabels = Field(
        default={"dashboards": "grafana"}, min_length=1, description="labels of the Grafana objects to write to"
    )
    resync_period: Annotated[str, Field(pattern=r"^([0-9]+(s|m|h))+$")] = "10m"
    allow_cross_namespace: Switch = Field(True, description="also Grafanas of other namespaces")


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of every object."""
    folder = {"title": bundle.folder, "uid": folder_uid(bundle, site)}
    files = {"grafana-operator/dashboards/folder.yaml": _object("GrafanaFolder", _FOLDER, folder, site)}
    for slug, board in bundle.dashboards.items():
        spec = {"folderRef": kubernetes.object_name(site, _FOLDER), "uid": board["uid"], **_json(text(board))}
        files[f"grafana-operator/dashboards/{slug}.yaml"] = _object("GrafanaDashboard", f"nccl-{slug}", spec, site)
    for pack in packs(bundle, site):
        files[f"grafana-operator/rules/{pack.name}.yaml"] = document(pack, bundle, site)
    return files


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """The rule groups of a pack, one object each."""
    objects = [
        _object("GrafanaAlertRuleGroup", group.name, _group(group, bundle, site), site, pack.about)
        for group in pack.groups
    ]
    return "---\n".join(objects)


def _group(group: RuleGroup, bundle: Bundle, site: Site) -> dict[str, object]:
    return {
        "folderRef": kubernetes.object_name(site, _FOLDER),
        "name": group.name,
        "interval": f"{grafana_rules.interval(group)}s",
        "rules": [_rule(rule) for rule in grafana_rules.rules(group, bundle, site)],
    }


def _rule(rule: Mapping[str, object]) -> dict[str, object]:
    """A rule with the fields that the operator wants in every rule, also where they say nothing."""
    spec = {"condition": "A", "for": "0s", "noDataState": "OK", "execErrState": "Error", **rule}
    if "missing_series_evals_to_resolve" in spec:
        spec["missingSeriesEvalsToResolve"] = spec.pop("missing_series_evals_to_resolve")
    if isinstance(record := spec.get("record"), Mapping):
        # The operator's record has no target; Grafana writes to its default.
        spec["record"] = {key: record[key] for key in ("metric", "from")}
    return spec


def _json(board: str) -> dict[str, str]:
    if len(board.encode()) <= _PLAIN_BYTES:
        return {"json": board}
    return {"gzipJson": base64.b64encode(gzip.compress(board.encode(), mtime=0)).decode()}


def _object(kind: str, name: str, spec: Mapping[str, object], site: Site, about: str = "") -> str:
    wanted = site.targets.of(GrafanaOperatorKeys)
    common = {
        "instanceSelector": {"matchLabels": dict(wanted.instance_selector)},
        "allowCrossNamespaceImport": wanted.allow_cross_namespace,
        "resyncPeriod": wanted.resync_period,
    }
    return kubernetes.document(site, (_API, kind), name, {"spec": {**common, **spec}}, about=about)


_HOW = """\
`grafana-operator/dashboards` and `grafana-operator/rules` are apart: apply the second only where no ruler has the
rules."""

TARGET = Target(
    name="grafana-operator",
    summary="GrafanaFolder, GrafanaDashboard and GrafanaAlertRuleGroup objects",
    readers="the Grafana operator v5",
    how=_HOW,
    render=render,
    document=document,
    late=True,
    keys=GrafanaOperatorKeys,
    shared={**kubernetes.SECTION, "grafana_alerting": grafana_rules.GrafanaAlertingKeys},
)
