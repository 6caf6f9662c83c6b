# SPDX-License-Identifier: Apache-2.0
"""What a scenario file says: the machines, the jobs on them, and what happens to them and when.

A scenario is data. Moments are durations since the scenario's start, written like ``1h5m30s``.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from dashgen.durations import Written
from dashgen.errors import UserError
from dashgen.guard.files import parse_yaml, read_text
from dashgen.guard.models import checked
from dashgen.guard.text import line, listed, quoted
from dashgen.model import Sensitivity
from dashgen.recordings.format import LATEST, MOST_SCRAPES, MOST_STORY_BYTES, Expected, Fault, Moment, SiteKeys, Strict
from dashgen.simulator.events import Event
from dashgen.simulator.jobs import Job

LIBRARY = Path(__file__).parent / "scenarios"

MOST_WORK = 400_000
"""Of a scenario file: steps of GPUs, or dumps or scrapes where these are more. Each takes some 700 bytes while it is
simulated; two hours of 256 GPUs with a step of five seconds are 370,000."""

MOST_SAMPLES = 3_000_000
"""Of a scenario file; they are made and written in ten seconds."""

_OF_A_PRESET, _OF_COMPANIONS = 5, 10  # usual operations, and usual series for each GPU


class Companions(Strict):
    """Which series besides Inspector's bandwidths and times exist here."""

    mtime: bool = Field(True, description="node_exporter's node_textfile_mtime_seconds")
    p2p_across: bool = Field(
        False, description="Send and Recv across domains, which Inspector 2.30 hardly ever records"
    )
    infiniband: bool = True
    hw_counters: bool = Field(False, description="RoCE counters, node_exporter 1.11 or newer")
    host_memory: bool = Field(False, description="node_exporter's meminfo")
    host_network: bool = Field(False, description="node_exporter's netclass and netstat")
    switch_ports: bool = Field(False, description="treydock/infiniband_exporter, one switch port for each NIC")
    dcgm: bool = True
    dcgm_tensor: bool = Field(True, description="activity of the tensor cores")
    dcgm_memory: bool = Field(True, description="used memory")
    dcgm_clock: bool = Field(True, description="the clock")
    dcgm_power: bool = Field(False, description="power and temperature")
    dcgm_health: bool = Field(False, description="XID, NVLink traffic and clock events of DCGM")
    counters: bool = Field(False, description="NCCL_INSPECTOR_PROM_DUMP_STATS=1")
    throughput: str | None = Field("megatron_training_throughput_tflops", description="gauge of the training job")


class Scenario(Strict):
    """The content of a scenario file.

    ``torn`` and ``empty`` are the chances that one file is caught half written or just emptied by one scrape,
    ``missed`` that a whole scrape of a node is lost. ``faults`` are truths that no event implies.
    """

    name: str = Field("scenario", min_length=1, description="what messages call it, by default by its file")
    story: str = Field(min_length=1)
    start: Moment
    lasts: Written
    scrape_interval: int = Field(15, gt=0, le=3600)
    dump_interval: int = Field(30, gt=0, le=600)
    seed: int = Field(1, ge=0, lt=2**63)
    flavour: Literal["nvidia", "rccl"] = "nvidia"
    cluster: str = Field("unknown", description="RCCL only")
    node_prefix: str = "node"
    instances: Literal["names", "addresses"] = Field("names", description="what the scraper calls the nodes")
    labels: dict[str, str] = Field(default_factory=dict, description="labels that the scraper adds to every series")
    companions: Companions = Companions.model_validate({})
    torn: float = Field(0.0002, ge=0, le=1)
    empty: float = Field(0.0002, ge=0, le=1)
    missed: float = Field(0.0, ge=0, le=1)
    jobs: tuple[Job, ...] = Field(min_length=1, max_length=200)
    events: tuple[Event, ...] = Field((), max_length=1000)
    faults: tuple[Fault, ...] = ()
    site: SiteKeys = Field(default_factory=dict)
    boards: tuple[str, ...] = ()
    expect: dict[Sensitivity, tuple[Expected, ...]] = Field(default_factory=dict)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""
        last = max(job.first_node + job.nodes - 1 for job in self.jobs)
        width = max(2, len(str(last)))
        return tuple(f"{self.node_prefix}{number:0{width}d}" for number in range(1, last + 1))

    @property
    def gpus_per_node(self) -> int:
        """GPUs in every node."""
        return max(job.gpus_per_node for job in self.jobs)

    @property
    def work(self) -> float:
        """Steps, dumps or scrapes of GPUs, of which there are most, in all jobs together."""
        steps = sum(
            job.nodes * job.gpus_per_node * self.lasts / max(min(job.step, self.dump_interval), 0.001)
            for job in self.jobs
        )
        return max(steps, self._scrapes)

    @property
    def samples(self) -> float:
        """About as many samples as its recording has: two for an operation of a GPU, and those of its companions."""
        operations = max(len(job.traffic) for job in self.jobs) + _OF_A_PRESET
        return self._scrapes * (2 * operations + _OF_COMPANIONS)

    @property
    def _scrapes(self) -> float:
        return len(self.nodes) * self.gpus_per_node * self.lasts / self.scrape_interval

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        if self.start.timestamp() % self.scrape_interval:
            raise ValueError("start is not a multiple of scrape_interval since the epoch")
        if not 0 < self.lasts <= MOST_SCRAPES * self.scrape_interval:
            raise ValueError(f"lasts is nothing, or more than {MOST_SCRAPES} scrapes")
        if self.start.timestamp() + self.lasts > LATEST:
            raise ValueError("start and lasts: the scenario ends after 2099")
        for place, job in enumerate(self.jobs):
            if job.start is not None and job.start >= self.lasts:
                raise ValueError(f"jobs.{place} ({job.id}): start is not before the end of the scenario, lasts")
        ids = {job.id for job in self.jobs}
        for place, event in enumerate(self.events):
            where = f"events.{place} ({event.kind})"
            if event.job is not None and event.job not in ids:
                raise ValueError(f"{where}: job {event.job!r} is not in jobs")
            if event.end is not None and event.end <= event.start:
                raise ValueError(f"{where}: end is not after start")
            node, gpu = getattr(event, "node", None), getattr(event, "gpu", None)
            if node is not None and node not in self.nodes:
                raise ValueError(f"{where}: node {node!r} is not one of {self.nodes[0]} to {self.nodes[-1]}")
            if gpu is not None and gpu >= self.gpus_per_node:
                raise ValueError(f"{where}: gpu {gpu} is not below {self.gpus_per_node}")
        return self

    def events_of(self, job: Job) -> tuple[Event, ...]:
        """The events that concern a job."""
        return tuple(event for event in self.events if (event.job or self.jobs[0].id) == job.id)


def load_scenario(path: Path) -> Scenario:
    """The checked content of a scenario file; its name is the file's.

    Raises UserError when the file is missing, is not YAML, or says something that cannot be.
    """
    text = read_text(path, MOST_STORY_BYTES, "name a scenario file, or a scenario that comes with dashgen")
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{path}: not readable as a scenario: {line(str(error), 200)}; correct it") from error
    if not isinstance(data, dict):
        raise UserError(f"{path}: a scenario is a mapping, for example one that starts with 'story:'")
    known = "`dashgen config schema --of scenario` lists the keys"
    scenario = checked(Scenario, {"name": line(path.stem, 60), **data}, str(path), known)
    # Of a file that anybody may have written; who draws scenarios in code knows what they cost.
    if scenario.work > MOST_WORK:
        raise UserError(
            f"{path}: jobs: more than {MOST_WORK} steps or scrapes of GPUs; shorten lasts, or take fewer nodes"
        )
    if scenario.samples > MOST_SAMPLES:
        raise UserError(f"{path}: jobs: more than {MOST_SAMPLES} samples; shorten lasts, or take fewer nodes")
    return scenario


def scenario_names() -> tuple[str, ...]:
    """The names of the built-in scenarios."""
    return tuple(sorted(path.stem for path in LIBRARY.glob("*.yaml")))


def scenario_path(name: str) -> Path:
    """The file of a built-in scenario.

    Raises UserError with the known names when there is none of that name.
    """
    if name not in scenario_names():
        known = listed(scenario_names(), name)
        raise UserError(f"{quoted(name)}: no built-in scenario; name one of {known}")
    return LIBRARY / f"{name}.yaml"
