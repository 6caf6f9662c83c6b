# SPDX-License-Identifier: Apache-2.0
"""What a scenario file says: the machines, the jobs on them, and what happens to them and when.

A scenario is data. Moments are durations since the scenario's start, written like ``1h5m30s``.
"""

from __future__ import annotations

import math
from datetime import UTC
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dashgen.durations import Written
from dashgen.errors import UserError
from dashgen.guard.files import parse_yaml, read_text
from dashgen.guard.models import checked
from dashgen.guard.text import line, listed, quoted
from dashgen.model import Sensitivity
from dashgen.recordings.format import MOST_SCRAPES, MOST_STORY_BYTES, Expected, Fault, Moment

LIBRARY = Path(__file__).parent / "scenarios"

TRANSFER_NOISE = 0.025
"""Sigma of the log of a transfer's time; ByteDance-Seed/StragglerAnalysis traces show 0.6 to 4.3 % step to step."""

MOST_WORK = 400_000
"""Of a scenario file: steps of GPUs, or dumps or scrapes where these are more. Each takes some 700 bytes while it is
simulated; two hours of 256 GPUs with a step of five seconds are 370,000."""

MOST_OPERATIONS = 64
"""Kinds of operations that a job does besides its preset's."""

MOST_SAMPLES = 3_000_000
"""Of a scenario file; they are made and written in ten seconds."""

_OF_A_PRESET, _OF_COMPANIONS = 5, 10  # usual operations, and usual series for each GPU

Group = Literal["tp", "cp", "dp", "pp", "embedding", "world"]
"""Which ranks form a communicator: those that differ in this dimension alone, or all."""

Collective = Literal["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Traffic(_Strict):
    """One kind of operation in every step of a job.

    ``size`` counts bytes as NCCL does: the whole buffer for AllReduce, one rank's piece for AllGather and
    ReduceScatter. ``share`` is the part of a healthy step during which such operations are in flight; ``exposed`` is
    the part of that during which nothing is computed. Operations with ``every`` n run in each n-th step only.
    """

    group: Group
    operation: Collective | Literal["Send", "Recv"]
    size: int = Field(ge=8192, le=2**50, description="bytes; Inspector does not track smaller operations by default")
    algorithm: str = Field("RING_SIMPLE", pattern=r"^[A-Z_]+_(LL|LL128|SIMPLE)$")
    share: float = Field(gt=0, lt=1)
    exposed: float = Field(1.0, ge=0, le=1)
    every: int = Field(1, ge=1, le=10**6)
    noise: float | None = Field(None, ge=0, le=1, description="sigma of the log of its time, the job's when unset")


class Job(_Strict):
    """A training job on consecutive nodes.

    Ranks are ordered as Megatron does, tensor parallel fastest, then context, data and pipeline parallel. The data
    parallel size follows from the number of GPUs. ``to`` with ``ends: killed`` leaves the files behind.
    """

    id: str = Field(min_length=1, max_length=200)
    preset: Literal["fsdp", "cp-fsdp", "tp-fsdp", "tp-dp", "tp-pp-dp"]
    nodes: int = Field(gt=0, le=10_000)
    gpus_per_node: int = Field(8, gt=0, le=16)
    first_node: int = Field(1, ge=1, le=10_000)
    tp: int = Field(1, ge=1)
    cp: int = Field(1, ge=1)
    pp: int = Field(1, ge=1)
    domain: int = Field(1, ge=1, description="nodes in one NVLink domain")
    mnnvl: bool = Field(True, description="NCCL uses NVLink between the nodes of a domain")
    step: Written = 5.0
    tflops: float = Field(400.0, gt=0, description="healthy throughput, TFLOP/s per GPU")
    log_every: int = Field(4, ge=1, description="steps between two lines of the training log")
    log_counts: Literal["steps", "pauses"] = Field("steps", description="whether the log's times include pauses")
    readings: tuple[tuple[Written, float], ...] = Field((), description="published throughput readings by moment")
    start: Written | None = None
    to: Written | None = None
    ends: Literal["runs", "clean", "killed"] = "runs"
    warm_up: Written = 0.0
    jitter: float = Field(
        0.005, ge=0, le=0.2, description="mean lateness of a GPU over a whole step, part of its compute"
    )
    imbalance: float = Field(0.0, ge=0, le=2, description="extra work of the unluckiest replica, changing every step")
    dwell: int = Field(1, ge=1, description="steps for which the same replica stays unlucky")
    noise: float = Field(TRANSFER_NOISE, ge=0, le=0.5, description="sigma of the log of a transfer across domains")
    inner_noise: float = Field(TRANSFER_NOISE, ge=0, le=0.5, description="the same within a domain")
    tails: float = Field(0.0, ge=0, le=0.2, description="part of the transfers across domains that take much longer")
    wander: float = Field(0.0, ge=0, le=0.3, description="sigma of the log of the slow level of paths across domains")
    compute_wander: float = Field(0.0, ge=0, le=0.1, description="the same of each GPU's speed")
    uneven: float = Field(0.0, ge=0, le=0.3, description="sigma of the log of what tells paths of one kind apart")
    wander_over: Written = Field(1800.0, description="time in which a level forgets where it was")
    arrival_bias: float = Field(0.0, ge=0, le=0.5, description="largest lasting lateness of a GPU, part of a transfer")
    spread: bool = Field(False, description="operations that a step does many times are done all through it")
    position_bias: float = Field(0.2, ge=0, le=0.5, description="largest lasting deviation of one GPU's times")
    nic_gbs: float = Field(46.0, gt=0, description="bus bandwidth of one NIC, GB/s (NVIDIA/nccl-tests#290: NDR 46-48)")
    nvlink_gbs: float = Field(476.0, gt=0, description="bus bandwidth in a domain, GB/s (NVIDIA/nccl-tests#290)")
    biased: float = Field(0.03, ge=0, le=1, description="part of the GPUs with a large position bias")
    comm_names: dict[Group, str] = Field(default_factory=dict, description="communicator names, 'unknown' when unset")
    traffic: tuple[Traffic, ...] = Field(
        (), max_length=MOST_OPERATIONS, description="operations besides those of the preset"
    )
    only: bool = Field(False, description="leave out the preset's operations")
    poisoned: bool = Field(False, description="also sends bytes, which Inspector counts as about 2^64 bytes")
    one_visible_gpu: bool = Field(False, description="every process sees one GPU and calls it GPU0")

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        ranks = self.nodes * self.gpus_per_node
        if ranks % (self.tp * self.cp * self.pp):
            raise ValueError(f"tp x cp x pp does not divide {ranks} GPUs")
        if self.nodes % self.domain:
            raise ValueError("domain does not divide nodes")
        if (self.ends != "runs") != (self.to is not None):
            raise ValueError("to and ends (clean or killed) belong together")
        if self.only and not self.traffic:
            raise ValueError("only needs traffic")
        return self


class _Event(_Strict):
    """Something that happens between ``start`` and ``end`` (default: the end of the scenario) to a job or a node.

    ``job`` defaults to the first job. ``ramp`` is the time until full strength.
    """

    benign: ClassVar[bool] = False
    start: Written = 0.0
    end: Written | None = None
    job: str | None = None

    @property
    def until(self) -> float:
        """When it ends, infinity when it does not."""
        return math.inf if self.end is None else self.end


class _Slowdown(_Event):
    ramp: Written = 0.0

    def level(self, moment: float) -> float:
        """How strong the event is at a moment, 0 to 1."""
        if not self.start <= moment < self.until:
            return 0.0
        return min(1.0, (moment - self.start) / self.ramp) if self.ramp else 1.0


class _Link(_Slowdown):
    """A slower link, given by the bandwidth that is left or by the throughput that the job loses."""

    loss: float | None = Field(None, gt=0, lt=0.9)
    bandwidth: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _one_measure(self) -> _Link:
        if (self.loss is None) == (self.bandwidth is None):
            raise ValueError("give either loss or bandwidth")
        return self


class Network(_Link):
    """Every path between domains, or only some collectives on it, is constrained."""

    kind: Literal["network"]
    collectives: tuple[Collective, ...] = ()
    noise: float = Field(0.15, ge=0, le=0.5, description="sigma of the log of a transfer's time under contention")
    profile: tuple[tuple[Written, float], ...] = Field((), description="strength by moment, joined by lines")

    def level(self, moment: float) -> float:
        """How strong the constraint is; by the profile where there is one."""
        if not self.profile:
            return super().level(moment)
        before = [point for point in self.profile if point[0] <= moment]
        after = [point for point in self.profile if point[0] > moment]
        if not before or not after:
            return 0.0
        (t0, y0), (t1, y1) = before[-1], after[0]
        return y0 + (y1 - y0) * (moment - t0) / (t1 - t0)


class Burst(Network):
    """A contention of seconds, which is nobody's business."""

    benign = True
    kind: Literal["burst"]  # type: ignore[assignment]


class Nic(_Link):
    """One NIC of one node is slow; ``discards`` packets per second show in its counters."""

    kind: Literal["nic"]
    node: str
    gpu: int = Field(ge=0)
    discards: float = Field(0.0, ge=0)


class PortErrors(_Event):
    """Counters of one NIC rise by so much a second (names as node_exporter's, without prefix and ``_total``).

    It slows nothing by itself. ``down`` takes the link away while it lasts.
    """

    kind: Literal["port-errors"]
    node: str
    gpu: int = Field(ge=0)
    counters: dict[str, float] = Field(default_factory=dict)
    down: bool = False


class SwitchErrors(_Event):
    """Counters of the switch port that faces one NIC rise by so much a second."""

    kind: Literal["switch-errors"]
    node: str
    gpu: int = Field(ge=0)
    counters: dict[str, float]


class Mtu(_Event):
    """An interface of one node has another MTU than that of the others."""

    kind: Literal["mtu"]
    node: str
    bytes: int = Field(gt=0)


class TcpLoss(_Event):
    """A share of the TCP segments of one node is sent again. It slows nothing by itself."""

    kind: Literal["tcp-loss"]
    node: str
    share: float = Field(gt=0, lt=1)


class Nvlink(_Link):
    """The links inside one node are slow."""

    kind: Literal["nvlink"]
    node: str


class LateGpu(_Slowdown):
    """One GPU computes slower, so it arrives late everywhere."""

    kind: Literal["late-gpu"]
    node: str
    gpu: int = Field(ge=0)
    percent: float = Field(gt=0)
    throttled: bool = Field(True, description="a lower clock is the reason, so DCGM shows it")


class SlowNode(_Slowdown):
    """All GPUs of one node compute slower."""

    kind: Literal["slow-node"]
    node: str
    percent: float = Field(gt=0)


class Hiccup(SlowNode):
    """A node is late for a moment, which is nobody's business."""

    benign = True
    kind: Literal["hiccup"]  # type: ignore[assignment]


class Hang(_Event):
    """No collective completes any more, while every process lives."""

    kind: Literal["hang"]


class DeadRank(_Event):
    """One process is killed; all others wait for it for ever."""

    kind: Literal["dead-rank"]
    node: str
    gpu: int = Field(ge=0)


class ExporterGone(_Event):
    """node_exporter of one node does not answer."""

    kind: Literal["exporter-gone"]
    node: str


class ExporterFlap(_Event):
    """node_exporter of one node misses a share of its scrapes."""

    benign = True
    kind: Literal["exporter-flap"]
    node: str
    share: float = Field(gt=0, lt=1)


class PrometheusGone(_Event):
    """Prometheus scrapes nothing at all."""

    benign = True
    kind: Literal["prometheus-gone"]


class Unreadable(_Event):
    """node_exporter may not read one file."""

    kind: Literal["unreadable"]
    node: str
    gpu: int = Field(ge=0)


class Pause(_Event):
    """The job writes a checkpoint: nothing is computed or sent for ``lasts``, once or every so often.

    While it ``spins`` the ranks wait for the writer in a collective, so the GPUs look busy.
    """

    benign = True
    kind: Literal["checkpoint"]
    lasts: Written
    every: Written | None = None
    spins: bool = False


class Evaluation(_Event):
    """Forward passes only: gradients are not exchanged."""

    benign = True
    kind: Literal["evaluation"]


class MessageSize(_Event):
    """Another batch size or bucket size: messages of ``groups`` change by ``factor``."""

    benign = True
    kind: Literal["message-size"]
    factor: float = Field(gt=0)
    groups: tuple[Group, ...]


class Algorithm(_Event):
    """NCCL chooses another algorithm for some communicators, at another bandwidth."""

    kind: Literal["algorithm"]
    groups: tuple[Group, ...]
    to: str
    bandwidth: float = Field(1.0, gt=0, le=2)


Event = Annotated[
    Network
    | Burst
    | Nic
    | PortErrors
    | SwitchErrors
    | Mtu
    | TcpLoss
    | Nvlink
    | LateGpu
    | SlowNode
    | Hiccup
    | Hang
    | DeadRank
    | ExporterGone
    | ExporterFlap
    | PrometheusGone
    | Unreadable
    | Pause
    | Evaluation
    | MessageSize
    | Algorithm,
    Field(discriminator="kind"),
]


class Companions(_Strict):
    """Which series besides Inspector's bandwidths and times exist here."""

    mtime: bool = Field(True, description="node_exporter's node_textfile_mtime_seconds")
    p2p_across: bool = Field(
        False, description="Send and Recv across domains, which Inspector 2.30 hardly ever records"
    )
    infiniband: bool = True
    hw_counters: bool = Field(False, description="RoCE counters, node_exporter 1.11 or newer")
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


class Scenario(_Strict):
    """The content of a scenario file.

    ``torn`` and ``empty`` are the chances that one file is caught half written or just emptied by one scrape,
    ``missed`` that a whole scrape of a node is lost. ``faults`` are truths that no event implies.
    """

    name: str = Field(min_length=1)
    story: str = Field(min_length=1)
    start: Moment
    lasts: Written
    scrape_interval: int = Field(15, gt=0, le=3600)
    dump_interval: int = Field(30, gt=0, le=3600)
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
    site: dict[str, Any] = Field(default_factory=dict)
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
        if self.start.astimezone(UTC).timestamp() % self.scrape_interval:
            raise ValueError("start is not a multiple of scrape_interval since the epoch")
        if not 0 < self.lasts <= MOST_SCRAPES * self.scrape_interval:
            raise ValueError(f"lasts is nothing, or more than {MOST_SCRAPES} scrapes")
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
    known = "dashgen/simulator/scenario.py tells the keys"
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
        raise UserError(f"{quoted(name)}: no built-in scenario; name one of {listed(scenario_names(), name)}")
    return LIBRARY / f"{name}.yaml"
