# SPDX-License-Identifier: Apache-2.0
"""One ConfigMap a dashboard, for the sidecar of Grafana's Helm chart and of kube-prometheus-stack.

The sidecar writes the data of all ConfigMaps into one folder, so file names are uids, which are unique in Grafana.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.grafana.dashboard import text
from dashgen.model import Bundle
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.target import Target


class ConfigMapKeys(Section):
    """Dashboards for the sidecar of Grafana's Helm chart and of kube-prometheus-stack."""

    labels: kubernetes.KubernetesLabels = Field(
        default={"grafana_dashboard": "1"}, description="what the sidecar selects by"
    )
    folder_annotation: kubernetes.Key | Literal[""] = Field(
        "grafana_folder", description="the sidecar's folderAnnotation; empty for none"
    )


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of every ConfigMap."""
    wanted = site.targets.of(ConfigMapKeys)
    return {
        f"configmap/{slug}.yaml": kubernetes.document(
            site,
            ("v1", "ConfigMap"),
            f"nccl-{slug}",
            {"data": {f"{board['uid']}.json": text(board)}},
            labels=wanted.labels,
            annotations={wanted.folder_annotation: bundle.folder} if wanted.folder_annotation else {},
        )
        for slug, board in bundle.dashboards.items()
    }


_HOW = """\
The sidecar puts dashboards into the folder of `grafana_folder` only when its values say
`folderAnnotation: grafana_folder` and `provider.foldersFromFilesStructure: true`."""

TARGET = Target(
    name="configmap",
    summary="a ConfigMap for each dashboard",
    readers="the Grafana sidecar",
    how=_HOW,
    render=render,
    keys=ConfigMapKeys,
    shared=kubernetes.SECTION,
)
