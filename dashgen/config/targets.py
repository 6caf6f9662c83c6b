# SPDX-License-Identifier: Apache-2.0
"""The ``targets`` section of ``dashgen.yaml``: what objects are called, which labels select them, where they go."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dashgen.config.sections import Section
from dashgen.config.values import MOST_LABELS, LabelValue, RuleLabel
from dashgen.durations import Duration
from dashgen.guard.text import quoted


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]+: ?[^\r\n]*", text):
        raise ValueError(f"{quoted(text)} is not a header such as Name: value")
    return text


Header = Annotated[str, AfterValidator(_header)]
KubernetesName = Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?)?$")]


class RuleGroupKeys(Section):
    """Keys that every group of a target's rules carries beside its name, its interval and its rules."""

    labels: dict[RuleLabel, LabelValue] | None = Field(
        None, max_length=MOST_LABELS, description="labels of everything the group makes"
    )
    limit: int | None = Field(None, ge=0, le=2**31 - 1, description="most series or alerts of one rule")

    def data(self) -> dict[str, Any]:
        """What is set, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)


class PrometheusGroup(RuleGroupKeys):
    """Keys of a rule group of Prometheus (prometheus.io/docs: Recording rules)."""

    query_offset: Duration | None = Field(None, description="evaluates so far in the past")


PartialResponse = Literal["warn", "abort"]


class OperatorGroup(PrometheusGroup):
    """Keys of a rule group of the Prometheus operator's PrometheusRule."""

    partial_response_strategy: PartialResponse | None = Field(None, description="Thanos Ruler only")


class ThanosGroup(PrometheusGroup):
    """Keys of a rule group of Thanos Ruler (thanos.io/tip/components/rule.md)."""

    partial_response_strategy: PartialResponse = Field("abort", description="what to do when a store is away")


class MimirGroup(Section):
    """Keys of a rule group of Mimir's and Cortex' rulers (Mimir pkg/mimirtool/rules/rwrulefmt)."""

    align_evaluation_time_on_interval: bool | None = None
    evaluation_delay: Duration | None = Field(None, description="the old name of query_offset")
    limit: int | None = Field(None, ge=0, le=2**31 - 1, description="most series or alerts of one rule")
    query_offset: Duration | None = Field(None, description="evaluates so far in the past")
    source_tenants: tuple[str, ...] | None = Field(None, description="tenants that the rules read")

    def data(self) -> dict[str, Any]:
        """What is set, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)


class VmGroup(RuleGroupKeys):
    """Keys of a rule group of vmalert and of a VMRule (docs.victoriametrics.com/vmalert)."""

    concurrency: int | None = Field(None, ge=1, le=10_000, description="rules evaluated at once")
    eval_alignment: bool | None = None
    eval_delay: Duration | None = None
    eval_offset: Duration | None = None
    headers: tuple[Header, ...] | None = Field(None, description="Name: value")
    notifier_headers: tuple[Header, ...] | None = Field(None, description="Name: value")
    params: dict[str, tuple[str, ...]] | None = Field(None, description="arguments of the query's address")
    tenant: str | None = None
    type: Literal["prometheus", "graphite", "vlogs"] | None = None


class KubernetesObjects(Section):
    """What every Kubernetes object carries."""

    namespace: KubernetesName = Field("", description="empty leaves it to kubectl, kustomize or Helm")
    name_prefix: KubernetesName = Field("dashgen", description="names of objects begin with it")
    labels: dict[str, str] = Field(default_factory=dict, max_length=MOST_LABELS)
    annotations: dict[str, str] = Field(
        default={"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
        description="the default keeps Flux from filling in ${datasource} itself",
    )
    helm: bool = Field(False, description="escape {{ for a place among a Helm chart's templates")


class PrometheusTarget(Section):
    """Rule files of Prometheus."""

    group: PrometheusGroup = Field(PrometheusGroup(), description="further keys of every rule group")


class PrometheusRuleTarget(Section):
    """PrometheusRule objects of the Prometheus operator."""

    labels: dict[str, str] = Field(
        default={"prometheus": "k8s", "role": "alert-rules"},
        description="what the Prometheus selects by; kube-prometheus-stack wants release: <its Helm release>",
    )
    group: OperatorGroup = Field(OperatorGroup(), description="further keys of every rule group")


class VmRuleTarget(Section):
    """VMRule objects of the VictoriaMetrics operator."""

    labels: dict[str, str] = Field(default_factory=dict, description="what the VMAlert selects by")
    keep_firing_for: bool = Field(True, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(VmGroup(), description="further keys of every rule group")


class VmalertTarget(Section):
    """Rule files that every vmalert loads."""

    keep_firing_for: bool = Field(False, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(VmGroup(), description="further keys of every rule group")


class MimirTarget(Section):
    """Namespace files for mimirtool and the rulers of Mimir, Cortex and Grafana Cloud."""

    namespace: str = Field("nccl", pattern=r"^[^/\\\s]+$", description="the ruler's namespace of the groups")
    group: MimirGroup = Field(MimirGroup(), description="further keys of every rule group")


class ThanosTarget(Section):
    """Rule files of Thanos Ruler."""

    group: ThanosGroup = Field(ThanosGroup(), description="further keys of every rule group")


class ConfigMapTarget(Section):
    """Dashboards for the sidecar of Grafana's Helm chart and of kube-prometheus-stack."""

    labels: dict[str, str] = Field(default={"grafana_dashboard": "1"}, description="what the sidecar selects by")
    folder_annotation: str = Field("grafana_folder", description="the sidecar's folderAnnotation; empty for none")


class GrafanaOperatorTarget(Section):
    """Objects of the Grafana operator."""

    instance_selector: dict[str, str] = Field(
        default={"dashboards": "grafana"}, min_length=1, description="labels of the Grafana objects to write to"
    )
    resync_period: Annotated[str, Field(pattern=r"^([0-9]+(s|m|h))+$")] = "10m"
    allow_cross_namespace: bool = Field(True, description="also Grafanas of other namespaces")


class GrafanaAlertingTarget(Section):
    """Grafana-managed alert rules, for sites without a ruler; Terraform and the Grafana operator use the same."""

    datasource_uid: str = Field(
        "prometheus", pattern=r"^[a-zA-Z0-9_-]{1,40}$", description="uid of the data source; no variable works here"
    )
    record_to: str = Field(
        "", pattern=r"^[a-zA-Z0-9_-]{0,40}$", description="uid of the data source that recording rules write to"
    )
    org_id: int = Field(1, ge=1)
    delete: tuple[str, ...] = Field((), description="uids of rules that earlier builds made and Grafana shall forget")


class ResourcesTarget(Section):
    """Resources of Grafana's own API, for Git Sync and gcx."""

    api_version: str = Field(
        "dashboard.grafana.app/v1beta1",
        pattern=r"^dashboard\.grafana\.app/(v0alpha1|v1beta1|v1)$",
        description="dashboard.grafana.app/v1 on Grafana 13",
    )


class Targets(Section):
    """The forms of `dashgen build --target NAME`; each section says how its objects are named and selected."""

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


Level = Literal["edge", "global"]
RuleForm = Literal["prometheus", "prometheusrule", "vmrule", "vmalert", "mimir", "thanos", "grafana-alerting"]
DEFAULT_LAYOUT: dict[Level, RuleForm] = {"edge": "prometheus", "global": "prometheus"}
Layout = Annotated[dict[Level, RuleForm], AfterValidator(lambda given: {**DEFAULT_LAYOUT, **given})]
"""Which of the targets writes the rules of the edges, and which those of the level above them."""
