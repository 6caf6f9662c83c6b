# SPDX-License-Identifier: Apache-2.0
"""``dashgen.yaml`` -> Site: how this site names things and what it wants changed. Everything has a default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dashgen.catalogue.metrics import BY_KEY
from dashgen.errors import UserError, one_line
from dashgen.model import Sensitivity, Severity

DEFAULT_FILE = "dashgen.yaml"

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
# Labels that Prometheus or the rules themselves give a meaning to.
_RESERVED = frozenset(
    {"__name__", "transport", "collective", "size_class", "suspect", "evidence", "severity", "sensitivity", "signal"}
)


def _label(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
        raise ValueError(f"{name!r} is not a Prometheus label name (letters, digits and underscores)")
    if name in _RESERVED or name.startswith("__"):
        raise ValueError(f"{name!r} is used by the rules themselves; choose the site's own label")
    return name


def _metric(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name):
        raise ValueError(f"{name!r} is not a Prometheus metric name")
    return name


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
    if match is None:
        raise ValueError(f"{value!r} is not a duration such as 30s or 1m")
    return float(match[1]) * _UNITS[match[2]]


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


def _matchers(text: str) -> str:
    if text:
        _parse(f"up{{{text}}}", "label matchers such as cluster=\"a\", env!=\"test\"")
    return text.strip().rstrip(",")


def _expression(text: str) -> str:
    if text:
        _parse(text, "PromQL")
    return text.strip()


def _parse(promql: str, what: str) -> None:
    import promql_parser

    try:
        promql_parser.parse(promql)
    except ValueError as error:
        raise ValueError(f"not {what}: {one_line(error)}") from error


Label = Annotated[str, AfterValidator(_label)]
MetricName = Annotated[str, AfterValidator(_metric)]
Duration = Annotated[float, BeforeValidator(_seconds)]
Regex = Annotated[str, AfterValidator(_regex)]
Matchers = Annotated[str, AfterValidator(_matchers)]
Expression = Annotated[str, AfterValidator(_expression)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Counters(_Section):
    """Inspector's own counters, NCCL_INSPECTOR_PROM_DUMP_STATS=1."""

    enabled: bool = True


class ExporterMetrics(_Section):
    """node_exporter's promhttp_* series; off where it runs with --web.disable-exporter-metrics."""

    enabled: bool = True


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
    infiniband: Infiniband = Infiniband()
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

    threshold: float | None = None
    dumps: int | None = Field(None, ge=0, description="duration, counted in dumps")
    hold: int | None = Field(None, ge=0, description="hysteresis after the last bad dump, counted in dumps")
    severity: Severity | None = None
    extra: dict[str, float] = Field(default_factory=dict, description="further thresholds of this alert, by name")
    enabled: bool = True


class AlertOverride(_Section):
    """Changes to one alert; ``enabled: false`` takes it out of every tier."""

    enabled: bool = True
    low: TierOverride = TierOverride()
    medium: TierOverride = TierOverride()
    high: TierOverride = TierOverride()
    labels: dict[Label, str] = Field(default_factory=dict, description="further labels, for routing")

    def tier(self, sensitivity: Sensitivity) -> TierOverride:
        """The changes to one tier."""
        found: TierOverride = getattr(self, sensitivity.value)
        return found


class Datasource(_Section):
    """The dashboard variable that picks the Prometheus."""

    variable: Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")] = "datasource"
    regex: Regex = Field("", description="offers only data sources whose name matches")
    default: str = Field("", description="name or uid of the data source chosen at first")


class Grafana(_Section):
    """How dashboards appear in Grafana."""

    folder: str = Field("NCCL", min_length=1)
    uid_prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{0,20}$")] = "dashgen-nccl-"
    title_prefix: str = "NCCL / "
    tags: tuple[str, ...] = ("nccl", "dashgen")
    datasource: Datasource = Datasource()
    url: str = Field("", pattern=r"^(https?://\S+)?$", description="Grafana's address; alerts then link to boards")
    path: str = Field(
        "/var/lib/grafana/dashboards/nccl", description="where the provisioning file finds the dashboards"
    )


class Site(_Section):
    """A site, as ``dashgen.yaml`` describes it. Raises UserError through ``load`` on any unknown or wrong key."""

    labels: Labels = Labels()
    metrics: dict[str, MetricName] = Field(
        default_factory=dict, description="other names for upstream metrics, by dashgen's key for them"
    )
    fabric: str = Field("NVLink", min_length=1, max_length=20, description="the word for the link within a domain")
    selector: Matchers = Field("", description="label matchers added to every NCCL series")
    dump_interval: Duration = Field(30.0, ge=1, le=600, description="Inspector's dump interval; all times follow it")
    companions: Companions = Companions()
    sensitivity: Sensitivity = Field(Sensitivity.MEDIUM, description="the tier that thresholds in panels are drawn from")
    alerts: dict[str, AlertOverride] = Field(default_factory=dict, description="changes by alert name")
    alert_labels: dict[Label, str] = Field(default_factory=dict, description="labels that every alert carries")
    grafana: Grafana = Grafana()
    runbook_url: str = Field(
        "rules/runbooks/{alert}.md",
        pattern=r"^\S*\{alert\}\S*$",
        description="where runbooks are published; {alert} becomes the alert's name",
    )

    @model_validator(mode="after")
    def _known(self) -> Site:
        for key in self.metrics:
            if key not in BY_KEY:
                raise ValueError(f"metrics.{key}: no such metric; the keys are {', '.join(sorted(BY_KEY))}")
        return self

    def metric(self, key: str) -> str:
        """What this site calls an upstream metric."""
        return self.metrics.get(key, BY_KEY[key].name)


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, which PyYAML would silently take the last of."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]  # type: ignore[no-untyped-call]
    twice = sorted({str(key) for key in keys if keys.count(key) > 1})
    if twice:
        raise yaml.constructor.ConstructorError(None, None, f"key {twice[0]!r} is given twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def site(data: object, where: str) -> Site:
    """Checked configuration from plain data; ``where`` names the file in the UserError."""
    if data is None:
        return Site()
    try:
        return Site.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"] if part != "[key]") or "(top level)"
        if first["type"] == "extra_forbidden":
            message = "no such key; `dashgen config schema` lists the keys"
        else:
            message = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{where}: {key}: {message}") from error


def load(path: Path | None) -> Site:
    """The site's configuration: the given file, else ``dashgen.yaml`` here, else all defaults.

    Raises UserError, naming file, key and remedy, when the file is unreadable or wrong.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return Site()
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a readable file with -c") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; save it as UTF-8") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {one_line(error)}") from error
    return site(data, str(path))
