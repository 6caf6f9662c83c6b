# SPDX-License-Identifier: Apache-2.0
"""The ``targets`` section of ``dashgen.yaml``: what objects are called, which labels select them, where they go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

KubernetesName = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?)?$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KubernetesObjects(_Section):
    """What every Kubernetes object carries."""

    namespace: KubernetesName = Field("", description="empty leaves it to kubectl, kustomize or Helm")
    name_prefix: KubernetesName = Field("dashgen", description="names of objects begin with it")
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(
        default={"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
        description="the default keeps Flux from filling in ${datasource} itself",
    )
    helm: bool = Field(False, description="escape {{ for a place among a Helm chart's templates")


class PrometheusTarget(_Section):
    """Rule files of Prometheus."""

    group: dict[Literal["labels", "limit", "query_offset"], JsonValue] = Field(
        default_factory=dict, description="further keys of every rule group"
    )


class PrometheusRuleTarget(_Section):
    """PrometheusRule objects of the Prometheus operator."""

    labels: dict[str, str] = Field(
        default={"prometheus": "k8s", "role": "alert-rules"},
        description="what the Prometheus selects by; kube-prometheus-stack wants release: <its Helm release>",
    )
    group: dict[Literal["labels", "limit", "query_offset", "partial_response_strategy"], JsonValue] = Field(
        default_factory=dict, description="further keys of every rule group"
    )


VmGroup = dict[
    Literal[
        "concurrency",
        "eval_alignment",
        "eval_delay",
        "eval_offset",
        "headers",
        "labels",
        "limit",
        "notifier_headers",
        "params",
        "tenant",
        "type",
    ],
    JsonValue,
]


class VmRuleTarget(_Section):
    """VMRule objects of the VictoriaMetrics operator."""

    labels: dict[str, str] = Field(default_factory=dict, description="what the VMAlert selects by")
    keep_firing_for: bool = Field(True, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(default_factory=dict, description="further keys of every rule group")


class VmalertTarget(_Section):
    """Rule files that every vmalert loads."""

    keep_firing_for: bool = Field(False, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(default_factory=dict, description="further keys of every rule group")


class MimirTarget(_Section):
    """Namespace files for mimirtool and the rulers of Mimir, Cortex and Grafana Cloud."""

    namespace: str = Field("nccl", pattern=r"^[^/\\\s]+$", description="the ruler's namespace of the groups")
    group: dict[
        Literal["align_evaluation_time_on_interval", "evaluation_delay", "limit", "query_offset", "source_tenants"],
        JsonValue,
    ] = Field(default_factory=dict, description="further keys of every rule group")


class ThanosTarget(_Section):
    """Rule files of Thanos Ruler."""

    group: dict[Literal["labels", "limit", "partial_response_strategy", "query_offset"], JsonValue] = Field(
        default={"partial_response_strategy": "abort"}, description="further keys of every rule group"
    )


class ConfigMapTarget(_Section):
    """Dashboards for the sidecar of Grafana's Helm chart and of kube-prometheus-stack."""

    labels: dict[str, str] = Field(default={"grafana_dashboard": "1"}, description="what the sidecar selects by")
    folder_annotation: str = Field("grafana_folder", description="the sidecar's folderAnnotation; empty for none")


class GrafanaOperatorTarget(_Section):
    """Objects of the Grafana operator."""

    instance_selector: dict[str, str] = Field(
        default={"dashboards": "grafana"}, min_length=1, description="labels of the Grafana objects to write to"
    )
    resync_period: Annotated[str, Field(pattern=r"^([0-9]+(s|m|h))+$")] = "10m"
    allow_cross_namespace: bool = Field(True, description="also Grafanas of other namespaces")


class GrafanaAlertingTarget(_Section):
    """Grafana-managed alert rules, for sites without a ruler; Terraform and the Grafana operator use the same."""

    datasource_uid: str = Field(
        "prometheus", pattern=r"^[a-zA-Z0-9_-]{1,40}$", description="uid of the data source; no variable works here"
    )
    record_to: str = Field(
        "", pattern=r"^[a-zA-Z0-9_-]{0,40}$", description="uid of the data source that recording rules write to"
    )
    org_id: int = Field(1, ge=1)
    delete: tuple[str, ...] = Field((), description="uids of rules that earlier builds made and Grafana shall forget")


class ResourcesTarget(_Section):
    """Resources of Grafana's own API, for Git Sync and gcx."""

    api_version: str = Field(
        "dashboard.grafana.app/v1beta1",
        pattern=r"^dashboard\.grafana\.app/(v0alpha1|v1beta1|v1)$",
        description="dashboard.grafana.app/v1 on Grafana 13",
    )


class Targets(_Section):
    """The forms of `dashgen build --target`; each section says how its objects are named and selected."""

    kubernetes: KubernetesObjects = KubernetesObjects()
    prometheus: PrometheusTarget = PrometheusTarget()
    prometheusrule: PrometheusRuleTarget = PrometheusRuleTarget()
    vmrule: VmRuleTarget = VmRuleTarget()
    vmalert: VmalertTarget = VmalertTarget()
    mimir: MimirTarget = MimirTarget()
    thanos: ThanosTarget = ThanosTarget()
    configmap: ConfigMapTarget = ConfigMapTarget()
    grafana_operator: GrafanaOperatorTarget = GrafanaOperatorTarget()
    grafana_alerting: GrafanaAlertingTarget = GrafanaAlertingTarget()
    resources: ResourcesTarget = ResourcesTarget()
