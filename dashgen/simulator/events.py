# SPDX-License-Identifier: Apache-2.0
"""What a scenario file says happens: each kind of event, which job or node it concerns, and how strong it is when."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from dashgen.config.site import Collective
from dashgen.durations import Written
from dashgen.recordings.format import Strict
from dashgen.simulator.jobs import Group

Rate = Annotated[float, Field(ge=0, le=1e9)]
"""Increases of a counter in a second; what counts faster than this counts bytes."""


class _Event(Strict):
    """Something that happens between ``start`` and ``end`` (default: the end of the scenario) to a job or a node.

    ``job`` defaults to the first job.
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
    """An event that is at its full strength after ``ramp``."""

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
    """One NIC of one node is slow; ``discards`` packets per second show in its counters.

    ``trained`` says that its link came up with no more than that share of its rate, which its port tells.
    """

    kind: Literal["nic"]
    node: str
    gpu: int = Field(ge=0)
    discards: float = Field(0.0, ge=0)
    trained: bool = False

    @model_validator(mode="after")
    def _rate(self) -> Nic:
        if self.trained and self.bandwidth is None:
            raise ValueError("a link that trained at a lower rate needs bandwidth, not loss")
        return self


class PortErrors(_Event):
    """Counters of one NIC rise by so much a second (names as node_exporter's, without prefix and ``_total``).

    It slows nothing by itself. ``down`` takes the link away while it lasts.
    """

    kind: Literal["port-errors"]
    node: str
    gpu: int = Field(ge=0)
    counters: dict[str, Rate] = Field(default_factory=dict)
    down: bool = False


class SwitchErrors(_Event):
    """Counters of the switch port that faces one NIC rise by so much a second."""

    kind: Literal["switch-errors"]
    node: str
    gpu: int = Field(ge=0)
    counters: dict[str, Rate]


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


class Unwritable(_Event):
    """Files of one node, or of all, may not be opened: Inspector's dump threads end for good, the job goes on."""

    kind: Literal["unwritable"]
    node: str | None = None


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
    | Unwritable
    | Pause
    | Evaluation
    | MessageSize
    | Algorithm,
    Field(discriminator="kind"),
]
