# SPDX-License-Identifier: Apache-2.0
"""What a scenario file says of jobs: how many GPUs, in which parallelism, sending what, and how steadily."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from dashgen.config.site import Collective
from dashgen.durations import Written
from dashgen.recordings.format import Strict

TRANSFER_NOISE = 0.025
"""Sigma of the log of a transfer's time; ByteDance-Seed/StragglerAnalysis traces show 0.6 to 4.3 % step to step."""

MOST_OPERATIONS = 64
"""Kinds of operations that a job does besides its preset's."""

Group = Literal["tp", "cp", "dp", "pp", "embedding", "world"]
"""Which ranks form a communicator: those that differ in this dimension alone, or all."""


class Traffic(Strict):
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


class Job(Strict):
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
    dwell: int = Field(1, ge=1, le=10**6, description="steps for which the same replica stays unlucky")
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
        if self.to is not None and self.to <= (self.start or 0):
            raise ValueError("to comes before start")
        if self.only and not self.traffic:
            raise ValueError("only needs traffic")
        return self
