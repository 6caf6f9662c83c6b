# SPDX-License-Identifier: Apache-2.0
"""``dashgen.yaml`` -> Site: how this site names things and what it wants changed. Everything has a default."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, SerializeAsAny, model_validator

from dashgen import durations, promql
from dashgen.catalogue.metrics import BY_KEY
from dashgen.config.alerts import AlertOverride, overridden
from dashgen.config.companions import Companions
from dashgen.config.grafana import Grafana
from dashgen.config.layout import DEFAULT_LAYOUT, Layout
from dashgen.config.sections import Section
from dashgen.config.sources import PRESETS, Source, completed, without
from dashgen.config.targets import Targets
from dashgen.config.values import (
    MOST_LABELS,
    GpuLabel,
    Label,
    LabelValue,
    Matchers,
    MetricName,
    Number,
    Switch,
    Whole,
    literal,
)
from dashgen.errors import UserError
from dashgen.guard.files import parse_yaml, read_text
from dashgen.guard.models import checked
from dashgen.guard.text import line, listed
from dashgen.model import Alert, Sensitivity, Transport

DEFAULT_FILE = "dashgen.yaml"
MOST_BYTES = 1 << 20
"""Of a dashgen.yaml; the commented one, with every key, has 9 kB."""

MOST_OVERLAYS = 100

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Some = Annotated[dict[_Key, _Value], Field(min_length=1)]


class Labels(Section):
    """How series of this site are labelled."""

    job: Label = Field("slurm_job_id", description="names the job; any scheduler's label, on Kubernetes e.g. job_name")
    node: Label = Field("node", description="the host as Inspector writes it")
    gpu: GpuLabel = Field("gpu", description="the GPU within the node")
    instance: Label = Field("instance", description="the scrape target, shared with node_exporter's own series")
    cluster: Label | None = Field(None, description="set it where one Prometheus holds several clusters")

    @property
    def of_job(self) -> tuple[str, ...]:
        """The labels that tell a job from every other."""
        return (self.cluster, self.job) if self.cluster else (self.job,)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.of_job, self.node, self.gpu, self.instance)

    @model_validator(mode="after")
    def _distinct(self) -> Labels:
        if len(set(self.names)) != len(self.names):
            raise ValueError("two of job, node, gpu, instance and cluster are the same label")
        return self


Collective = Literal["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]
SizeClass = Literal["small", "medium", "large"]
MOST_GBPS = 1e6
"""Beyond any bus bandwidth in GB/s."""
Bandwidth = Annotated[Number, Field(gt=0, lt=MOST_GBPS)]


def _alerts() -> Collection[str]:
    from dashgen.catalogue import ALERT_BY_NAME

    return ALERT_BY_NAME


def _named(names: Callable[[], Collection[str]]) -> Callable[[dict[str, Any]], None]:
    """The keys that there may be, for editors that complete by the schema."""

    def told(schema: dict[str, Any]) -> None:
        schema["propertyNames"] = {"enum": list(names())}

    return told


class Site(Section):
    """A site, as ``dashgen.yaml`` describes it. Raises UserError through ``load`` on any unknown or wrong key."""

    source: Source = Field(
        "nccl", description="who writes the series: sets names, labels and companions that are not set here"
    )
    labels: Labels = Labels()
    metrics: dict[str, MetricName] = Field(
        default_factory=dict,
        description="other names for upstream metrics, by dashgen's key for them",
        json_schema_extra=_named(lambda: BY_KEY),
    )
    fabric: str = Field(
        "NVLink", pattern=r"^[a-zA-Z0-9][a-zA-Z0-9 ._+/()-]{0,19}$", description="the word for the link within a domain"
    )
    selector: Matchers = Field("", description="label matchers added to every NCCL series")
    dump_interval: durations.Seconds = Field(
        30.0, ge=1, le=600, description="Inspector's dump interval; all times follow it"
    )
    late_results: Switch = Field(
        False,
        description="for engines that show results an evaluation later, as vmalert; their targets set it themselves",
    )
    companions: Companions = Companions()
    acceptance: dict[Collective, _Some[Transport, _Some[SizeClass, Bandwidth]]] = Field(
        default_factory=dict,
        description="bus bandwidth in GB/s that sound hardware reaches, from nccl-tests; `dashgen baseline` writes it",
    )
    cardinality_budget: Whole = Field(
        200, ge=1, le=10**9, description="series that a GPU may expose before NcclCardinalityHigh"
    )
    sensitivity: Sensitivity = Field(
        Sensitivity.MEDIUM, description="the tier that thresholds in panels are drawn from"
    )
    alerts: dict[str, AlertOverride] = Field(
        default_factory=dict, description="changes by alert name", json_schema_extra=_named(_alerts)
    )
    alert_labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=MOST_LABELS, description="labels that every alert carries"
    )
    grafana: Grafana = Grafana()
    runbook_url: Annotated[str, AfterValidator(literal)] = Field(
        "rules/runbooks/{alert}.md",
        pattern=r"^\S*\{alert\}\S*$",
        description="where runbooks are published; {alert} becomes the alert's name",
    )
    targets: SerializeAsAny[Targets] = Targets()
    layout: Layout = Field(
        default=DEFAULT_LAYOUT, description="the form of the rules on each of two levels, for the target `layout`"
    )
    overlays: tuple[str, ...] = Field(
        (),
        max_length=MOST_OVERLAYS,
        description="jsonnet files beside or below this one that change what is built, see dashgen/docs/overlays.md",
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, data: object) -> object:
        return completed(data)

    @model_validator(mode="after")
    def _known(self) -> Site:
        for key in self.metrics:
            if key not in BY_KEY:
                raise ValueError(f"metrics.{line(key, 60)}: no such metric; the keys are {listed(sorted(BY_KEY), key)}")
        for where, labels in self._added_labels():
            for name in labels:
                if name in self.labels.names:
                    raise ValueError(f"{where}.{name}: alerts take this label from their series; use another name")
        return self

    @model_validator(mode="after")
    def _throughput_of_jobs(self) -> Site:
        given = self.companions.throughput
        if own := given.metric or given.expr:
            from dashgen.catalogue import SIGNAL_BY_NAME

            where = f"companions.throughput.{'metric' if given.metric else 'expr'}"
            label = given.job_label or self.labels.job
            tree = promql.parse(own)
            if recorded := promql.names(own) & SIGNAL_BY_NAME.keys():
                raise ValueError(f"{where}: {min(recorded)} is recorded by these rules; name what the job itself says")
            if label not in promql.labels(tree):
                keep = f"keep it, as `max by ({label}) (...)` does, or name it in job_label"
                raise ValueError(f"{where}: its result has no label {label}; {keep}")
        return self

    def _added_labels(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        yield "alert_labels", self.alert_labels
        yield from self.targets.group_labels()
        for name, override in self.alerts.items():
            yield f"alerts.{name}.labels", override.labels

    @model_validator(mode="after")
    def _told_apart(self) -> Site:
        picker = self.grafana.datasource.variable
        if "variable" in self.grafana.datasource.model_fields_set:
            from dashgen.catalogue import boards

            chosen = [each for view in boards.templates(self.sensitivity) for each in view.variables]
            if picker in {each.name for each in (*chosen, *boards.cluster_variable(""))}:
                where = "grafana.datasource.variable"
                raise ValueError(f"{where}: boards have a variable {picker} already; name it otherwise")
        return self

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

    def showing_results(self, *, late: bool) -> Site:
        """The same site with an engine that shows results an evaluation later, or at once."""
        return self.model_copy(update={"late_results": late})

    def of_source(self, source: Source) -> Site:
        """The same site with another source. Raises ValueError where what it says itself does not fit to that."""
        own = without(self.model_dump(mode="json", exclude_unset=True), PRESETS[self.source])
        return Site.model_validate({**own, "source": source})

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
        return shipped if override is None else overridden(shipped, override)


def site(data: object, where: str) -> Site:
    """Checked configuration from plain data; ``where`` names the file in the UserError."""
    if data is None:
        return Site()
    return checked(Site, data, where, "`dashgen config schema` lists the keys, `dashgen config init` shows them")


def load(path: Path | None, option: str = "-c") -> Site:
    """The site's configuration: the file that ``option`` gave, else ``dashgen.yaml`` here, else all defaults.

    Raises UserError, naming file, key and remedy, when the file is unreadable or wrong.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if (other := path.with_suffix(".yml")).exists():
            raise UserError(f"{other}: is not read; call it {path}, or name it with {option}")
        if not path.exists() and not path.is_symlink():
            return Site()
    text = read_text(path, MOST_BYTES, f"name a readable file with {option}")
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
