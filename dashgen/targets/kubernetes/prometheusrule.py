# SPDX-License-Identifier: Apache-2.0
"""PrometheusRule objects (monitoring.coreos.com/v1) of the Prometheus operator."""

from __future__ import annotations

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.groups import PartialResponse, PrometheusGroup
from dashgen.targets.kubernetes import objects as kubernetes
from dashgen.targets.packs import Pack, groups
from dashgen.targets.target import Target, documents


class OperatorGroup(PrometheusGroup):
    """Keys of a rule group of the Prometheus operator's PrometheusRule."""

    partial_response_strategy: PartialResponse | None = Field(None, description="Thanos Ruler only")


class PrometheusRuleKeys(Section):
    """PrometheusRule objects of the Prometheus operator."""

    labels: kubernetes.KubernetesLabels = Field(
        default={"prometheus": "k8s", "role": "alert-rules"},
        description="what the Prometheus selects by; kube-prometheus-stack wants release: <its Helm release>",
    )
    group: OperatorGroup = Field(OperatorGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One object a pack; the operator finds it by its labels."""
    wanted = site.targets.of(PrometheusRuleKeys)
    return kubernetes.document(
        site,
        ("monitoring.coreos.com/v1", "PrometheusRule"),
        pack.name,
        {"spec": {"groups": groups(pack, wanted.group.data())}},
        labels=wanted.labels,
        about=pack.about,
    )


_HOW = """\
kube-prometheus-stack selects PrometheusRules by its Helm release:
`targets: {prometheusrule: {labels: {release: monitoring}}}`."""

TARGET = Target(
    name="prometheusrule",
    summary="two PrometheusRule objects",
    readers="the Prometheus operator and kube-prometheus-stack",
    how=_HOW,
    render=documents("prometheusrule", document),
    document=document,
    keys=PrometheusRuleKeys,
    shared=kubernetes.SECTION,
)
