# SPDX-License-Identifier: Apache-2.0
"""One ConfigMap a dashboard, for the sidecar of Grafana's Helm chart and of kube-prometheus-stack.

The sidecar writes the data of all ConfigMaps into one folder, so file names are uids, which are unique in Grafana.
"""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.grafana.dashboard import text
from dashgen.model import Bundle
from dashgen.targets.kubernetes import objects as kubernetes


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of every ConfigMap."""
    wanted = site.targets.configmap
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
