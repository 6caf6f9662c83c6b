# SPDX-License-Identifier: Apache-2.0
"""PrometheusRule objects (monitoring.coreos.com/v1) of the Prometheus operator."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.packs import Pack, groups


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One object a pack; the operator finds it by its labels."""
    wanted = site.targets.prometheusrule
    return kubernetes.document(
        site,
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        pack.name,
        {"spec": {"groups": groups(pack, wanted.group.data())}},
        labels=wanted.labels,
        about=pack.about,
    )
