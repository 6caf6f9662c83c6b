# SPDX-License-Identifier: Apache-2.0
"""``dashgen.yaml`` -> Site: how this site names things and what it wants changed. Everything has a default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dashgen.catalogue.metrics import BY_KEY
from dashgen.config.targets import Targets
from dashgen.config.values import (
    LONGEST_TEXT,
    MOST_LABELS,
    Duration,
    Expression,
    Label,
    LabelValue,
    Matchers,
    MetricName,
    Number,
    Pattern,
    Regex,
    literal,
)
from dashgen.errors import UserError
from dashgen.guard.files import parse_yaml, read_text
from dashgen.guard.models import checked
from dashgen.guard.text import line, listed
from dashgen.model import Alert, Sensitivity, Severity, Tier

DEFAULT_FILE = "dashgen.yaml"
MOST_BYTES = 1 << 20
"""Of a dashgen.yaml; the commented one, with every key, has 9 kB."""

MOST_OVERLAYS = 100
MOST_DUMPS = 100_000
"""Dumps that an alert may wait; two months at the longest interval. Prometheus' durations end at 292 years."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=LONGEST_TEXT)


class Labels(_Section):
    """How series of this site are labelled."""

    job: Label = Field("slurm_job_id", description="names the job; any scheduler's label, on Kubernetes e.g. job_name")
    node: Label = Field("node", description="the host as Inspector writes it")
    gpu: Label = Field("gpu", description="the GPU within the node")
    instance: Label = Field("instance", description="the scrape target, shared with node_exporter's own series")
    cluster: Label | None = Field(None, description="set it where one Prometheus holds several clusters")

    @model_validator(mode="after")
    def _distinct(self) -> Labels:
        names = [self.job, self.node, self.gpu, self.instance, *([self.cluster] if self.cluster else [])]
        if len(set(names)) != len(names):
            raise ValueError("two of job, node, gpu, instance and cluster are the same label")
        return self


class Textfile(_Section):
    """node_exporter's textfile collector, which says how old a file is."""

    enabled: bool = True
    file_regex: Regex = Field(r".*/nccl_inspector_metrics_.+\.prom", description="Inspector's files, by full path")


class Dcgm(_Section):
    """dcgm-exporter: are GPUs busy, do tensor cores work."""

    enabled: bool = True
    host_label: Label = Field("Hostname", description="hostname since dcgm-exporter PR #655 (2026-05)")
    uuid_label: Label = Field("UUID", description="uuid with --use-old-namespace")


class Infiniband(_Section):
    """node_exporter's infiniband collector."""

    enabled: bool = True


class HwCounters(_Section):
    """RoCE hw_counters of the same collector; node_exporter 1.11 or newer, older ones expose nothing here."""

    enabled: bool = True


class HostNetwork(_Section):
    """node_exporter's netclass and netstat collectors: MTU, carrier, TCP."""

    enabled: bool = True
    device_regex: Regex = Field("(eth|en|ib|bond|hsn|rdma|roce).*", description="interfaces that a job may talk over")


class SwitchPorts(_Section):
    """infiniband_exporter's switch side (treydock/infiniband_exporter)."""

    enabled: bool = False


class ClockEvents(_Section):
    """DCGM_EXP_CLOCK_EVENTS_COUNT of dcgm-exporter, which needs a counters CSV of one's own."""

    enabled: bool = False


class Counters(_Section):
    """Inspector's own counters, NCCL_INSPECTOR_PROM_DUMP_STATS=1."""

    enabled: bool = True


class ExporterMetrics(_Section):
    """node_exporter's promhttp_* series; off where it runs with --web.disable-exporter-metrics."""

    enabled: bool = True


class P2p(_Section):
    """Inspector's Send and Recv; between nodes hardly any operation is read whole, so nothing rests on them."""

    enabled: bool = False


class Slurm(_Section):
    """A series per job that knows its state; soperator's names are the defaults."""

    enabled: bool = False
    job_id_label: Label = "job_id"
    state_label: Label = "job_state"
    running: Regex = Field("RUNNING", description="states in which the job's processes live")


PRESETS = {
    "megatron-otel": "megatron_training_throughput_tflops",
    "megatron-nv": "rate(nv_dl_training_tokens_processed_total[<4 dumps>])",
    "prime-rl": "trainer_throughput_tokens_per_sec",
}


class Throughput(_Section):
    """What the job itself says it achieves; the best evidence that slow communication hurts."""

    preset: Literal["none", "megatron-otel", "megatron-nv", "prime-rl"] = "none"
    metric: MetricName | None = Field(None, description="a gauge, higher is better")
    expr: Expression = Field("", description="any PromQL, higher is better; instead of metric")
    job_label: Label | None = Field(None, description="where the metric calls the job's label otherwise")
    unit: str = Field("short", description="Grafana unit id of the value")

    @model_validator(mode="after")
    def _one(self) -> Throughput:
        if sum((self.preset != "none", self.metric is not None, bool(self.expr))) > 1:
            raise ValueError("set only one of preset, metric and expr")
        return self

    @property
    def promql(self) -> str:
        """The expression, with placeholders, or empty when the site has no throughput."""
        return self.expr or self.metric or PRESETS.get(self.preset, "")


class Companions(_Section):
    """Optional sources; without them panels that need them are left out and rules use what remains."""

    textfile: Textfile = Textfile()
    exporter_metrics: ExporterMetrics = ExporterMetrics()
    counters: Counters = Counters()
    dcgm: Dcgm = Dcgm()
    clock_events: ClockEvents = ClockEvents()
    infiniband: Infiniband = Infiniband()
    hw_counters: HwCounters = HwCounters()
    host_network: HostNetwork = HostNetwork()
    switch_ports: SwitchPorts = SwitchPorts()
    p2p: P2p = P2p()
    slurm: Slurm = Slurm()
    throughput: Throughput = Throughput()

    def enabled(self) -> frozenset[str]:
        """Names of the companions that this site has."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return frozenset(
            name
            for name, section in sections.items()
            if (bool(section.promql) if isinstance(section, Throughput) else section.enabled)
        )


class TierOverride(_Section):
    """Values of one alert in one tier; what is left out stays as dashgen ships it."""

    threshold: Number | None = None
    dumps: int | None = Field(None, ge=0, le=MOST_DUMPS, description="duration, counted in dumps")
    hold: int | None = Field(
        None, ge=0, le=MOST_DUMPS, description="hysteresis after the last bad dump, counted in dumps"
    )
    severity: Severity | None = None
    extra: dict[str, Number] = Field(default_factory=dict, description="further thresholds of this alert, by name")
    enabled: bool = True


class AlertOverride(_Section):
    """Changes to one alert; ``enabled: false`` takes it out of every tier."""

    enabled: bool = True
    low: TierOverride = TierOverride()
    medium: TierOverride = TierOverride()
    high: TierOverride = TierOverride()
    labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=MOST_LABELS, description="further labels, for routing"
    )

    def tier(self, sensitivity: Sensitivity) -> TierOverride:
        """The changes to one tier."""
        found: TierOverride = getattr(self, sensitivity.value)
        return found


class Datasource(_Section):
    """The dashboard variable that picks the Prometheus."""

    variable: Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")] = "datasource"
    regex: Pattern = Field("", description="offers only data sources whose name matches")
    default: str = Field("", description="name or uid of the data source chosen at first")


class Grafana(_Section):
    """How dashboards appear in Grafana."""

    folder: str = Field("NCCL", min_length=1)
    uid_prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{0,20}$")] = "dashgen-nccl-"
    title_prefix: str = "NCCL / "
    tags: tuple[str, ...] = Field(("nccl", "dashgen"), max_length=MOST_LABELS)
    datasource: Datasource = Datasource()
    url: Annotated[str, AfterValidator(literal)] = Field(
        "", pattern=r"^(https?://\S+)?$", description="Grafana's address; alerts then link to boards"
    )
    path: str = Field(
        "/var/lib/grafana/dashboards/nccl", description="where the provisioning file finds the dashboards"
    )


Collective = Literal["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]
Transport = Literal["nvlink", "network", "mixed"]
SizeClass = Literal["small", "medium", "large"]
Bandwidth = Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]


def _carried(site: Site) -> set[str]:
    """Labels that some alert takes from its series, whatever the site calls its own."""
    if not site.alert_labels and not any(override.labels for override in site.alerts.values()):
        return set()
    from dashgen.catalogue import ALERTS, SIGNAL_BY_NAME

    return {label for alert in ALERTS for label in SIGNAL_BY_NAME[alert.signal].labels if not label.startswith("<")}


class Site(_Section):
    """A site, as ``dashgen.yaml`` describes it. Raises UserError through ``load`` on any unknown or wrong key."""

    labels: Labels = Labels()
    metrics: dict[str, MetricName] = Field(
        default_factory=dict, description="other names for upstream metrics, by dashgen's key for them"
    )
    fabric: str = Field(
        "NVLink", pattern=r"^[a-zA-Z0-9][a-zA-Z0-9 ._+/()-]{0,19}$", description="the word for the link within a domain"
    )
    selector: Matchers = Field("", description="label matchers added to every NCCL series")
    dump_interval: Duration = Field(30.0, ge=1, le=600, description="Inspector's dump interval; all times follow it")
    companions: Companions = Companions()
    acceptance: dict[Collective, dict[Transport, dict[SizeClass, Bandwidth]]] = Field(
        default_factory=dict,
        description="bus bandwidth in GB/s that sound hardware reaches, from nccl-tests; `dashgen baseline` writes it",
    )
    cardinality_budget: int = Field(
        200, ge=1, le=10**9, description="series that a GPU may expose before NcclCardinalityHigh"
    )
    sensitivity: Sensitivity = Field(
        Sensitivity.MEDIUM, description="the tier that thresholds in panels are drawn from"
    )
    alerts: dict[str, AlertOverride] = Field(default_factory=dict, description="changes by alert name")
    alert_labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=MOST_LABELS, description="labels that every alert carries"
    )
    grafana: Grafana = Grafana()
    runbook_url: Annotated[str, AfterValidator(literal)] = Field(
        "rules/runbooks/{alert}.md",
        pattern=r"^\S*\{alert\}\S*$",
        description="where runbooks are published; {alert} becomes the alert's name",
    )
    targets: Targets = Targets()
    overlays: tuple[str, ...] = Field(
        (),
        max_length=MOST_OVERLAYS,
        description="jsonnet files beside or below this one that change what is built, see dashgen/docs/overlays.md",
    )

    @model_validator(mode="after")
    def _known(self) -> Site:
        for key in self.metrics:
            if key not in BY_KEY:
                raise ValueError(f"metrics.{line(key, 60)}: no such metric; the keys are {listed(sorted(BY_KEY), key)}")
        own = {self.labels.job, self.labels.node, self.labels.gpu, self.labels.cluster} | _carried(self)
        for where, labels in self._added_labels():
            for name in labels:
                if name in own:
                    raise ValueError(f"{where}.{name}: every alert takes this label from its series; use another name")
        return self

    def _added_labels(self) -> Iterator[tuple[str, dict[str, str]]]:
        yield "alert_labels", self.alert_labels
        for name, override in self.alerts.items():
            yield f"alerts.{name}.labels", override.labels

    @model_validator(mode="after")
    def _ordered(self) -> Site:
        if self.alerts:
            from dashgen.catalogue import ALERT_BY_NAME

            for name in self.alerts:
                if name not in ALERT_BY_NAME:
                    raise ValueError(
                        f"alerts.{line(name, 60)}: no such alert; the alerts are {listed(ALERT_BY_NAME, name)}"
                    )
                self.alert(ALERT_BY_NAME[name])
        return self

    def sources(self) -> frozenset[str]:
        """Names of all that rules may use here: the companions, and acceptance values where there are any."""
        return self.companions.enabled() | ({"acceptance"} if self.acceptance else set())

    def metric(self, key: str) -> str:
        """What this site calls an upstream metric."""
        return self.metrics.get(key, BY_KEY[key].name)

    def alert(self, shipped: Alert) -> Alert:
        """An alert with the tiers that this site wants; none where it is switched off.

        Raises ValueError, which a Site that was loaded never does, when an override does not fit or turns the order
        of the tiers around.
        """
        override = self.alerts.get(shipped.name)
        if override is None:
            return shipped
        tiers = {}
        for sensitivity in Sensitivity:
            tier = _tier(f"alerts.{shipped.name}.{sensitivity}", shipped, sensitivity, override)
            if tier is not None:
                tiers[sensitivity] = tier
        try:
            return replace(shipped, tiers=tiers)
        except ValueError as error:
            rule = "what fires in low fires in medium, and what fires in medium in high"
            raise ValueError(f"alerts.{error}; {rule}") from error


def _tier(where: str, alert: Alert, sensitivity: Sensitivity, override: AlertOverride) -> Tier | None:
    """What a tier asks of an alert after an override; None where the alert is not in the tier."""
    shipped, change = alert.tiers.get(sensitivity), override.tier(sensitivity)
    if not (override.enabled and change.enabled):
        return None
    if shipped is None:
        if change.model_fields_set:
            raise ValueError(f"{where}: the alert is not in this tier; it is in {', '.join(alert.tiers)}")
        return None
    for name in change.extra:
        if name not in shipped.extra:
            known = listed(shipped.extra) or "none"
            raise ValueError(f"{where}.extra.{line(name, 60)}: no such threshold; this alert has: {known}")
    given = {key: value for key, value in change.model_dump(exclude={"enabled", "extra"}).items() if value is not None}
    return replace(shipped, **given, extra={**shipped.extra, **change.extra})


def site(data: object, where: str) -> Site:
    """Checked configuration from plain data; ``where`` names the file in the UserError."""
    if data is None:
        return Site()
    return checked(Site, data, where, "`dashgen config schema` lists the keys, `dashgen config init` shows them")


def load(path: Path | None) -> Site:
    """The site's configuration: the given file, else ``dashgen.yaml`` here, else all defaults.

    Raises UserError, naming file, key and remedy, when the file is unreadable or wrong.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return Site()
    text = read_text(path, MOST_BYTES, "name a readable file with -c")
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{path}: not YAML: {line(str(error), 200)}; correct it") from error
    return _located(site(data, str(path)), path)


def _located(found: Site, path: Path) -> Site:
    """The site with its overlays by their full path, wherever the command runs. Raises UserError."""
    folder = path.parent
    full = []
    for name in found.overlays:
        where = f"{path}: overlays: {line(name, 100)}"
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise UserError(f"{where}: an overlay lies beside or below {path.name}; give its path from there")
        if not _is_file(folder / name):
            raise UserError(f"{where}: no such file; overlays are found from the folder of {path.name}")
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise UserError(f"{where}: the link leads out of the folder of {path.name}; copy the file there")
        full.append(str(folder.absolute() / name))
    return found.model_copy(update={"overlays": tuple(full)}) if full else found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # Too long for a name, or with a character that no name can have.
        return False
