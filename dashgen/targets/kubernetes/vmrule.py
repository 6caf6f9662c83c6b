# SPDX-License-Identifier: Apache-2.0
"""VMRule objects (operator.victoriametrics.com/v1beta1) of the VictoriaMetrics operator."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.packs import Pack, groups, without_hysteresis


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One object a pack."""
    wanted = site.targets.vmrule
    loadable = pack if wanted.keep_firing_for else without_hysteresis(pack)
    return kubernetes.document(
        site,
        ("operator.victoriametrics.com/v1beta1", "VMRule"),
        pack.name,
        {"spec": {"groups": groups(loadable, wanted.group.data())}},
        labels=wanted.labels,
        about=pack.about,
    )
