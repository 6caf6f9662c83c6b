# SPDX-License-Identifier: Apache-2.0
"""VMRule objects (operator.victoriametrics.com/v1beta1) of the VictoriaMetrics operator."""

from __future__ import annotations

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import Switch
from dashgen.model import Bundle
from dashgen.targets.groups import VmGroup
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.packs import Pack, groups, not_filled_in, without_hysteresis
from dashgen.targets.target import Target, documents


class VmRuleKeys(Section):
    """VMRule objects of the VictoriaMetrics operator."""

    labels: kubernetes.KubernetesLabels = Field(default_factory=dict, description="what the VMAlert selects by")
    keep_firing_for: Switch = Field(True, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(VmGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One object a pack. Raises UserError for what vmalert would fill in."""
    wanted = site.targets.of(VmRuleKeys)
    loadable = pack if wanted.keep_firing_for else without_hysteresis(pack)
    text = kubernetes.document(
        site,
        ("operator.victoriametrics.com/v1beta1", "VMRule"),
        pack.name,
        {"spec": {"groups": groups(loadable, wanted.group.data())}},
        labels=wanted.labels,
        about=pack.about,
    )
    return not_filled_in(text)


TARGET = Target(
    name="vmrule",
    summary="two VMRule objects",
    readers="the VictoriaMetrics operator",
    how="What vmalert has to be told stands at [vmalert](#vmalert).",
    render=documents("vmrule", document),
    document=document,
    late=True,
    keys=VmRuleKeys,
    shared=kubernetes.SECTION,
)
