# SPDX-License-Identifier: Apache-2.0
"""The ``companions`` section of dashgen.yaml: optional sources, which of them a site has, and their labels."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from dashgen.config.sections import Section
from dashgen.config.values import (
    Expression,
    Label,
    MetricName,
    Regex,
    Switch,
)


class Textfile(Section):
    """node_exporter's textfile collector, which says how old a file is."""

    enabled: Switch = True
    file_regex: Regex = Field(r".*/nccl_inspector_metrics_.+\.prom", description="Inspector's files, by full path")


class Dcgm(Section):
    """dcgm-exporter: are GPUs busy, do tensor cores work."""

    enabled: Switch = True
    host_label: Label = Field("Hostname", description="hostname since dcgm-exporter PR #655 (2026-05)")
    uuid_label: Label = Field("UUID", description="uuid with --use-old-namespace")

    @model_validator(mode="after")
    def _apart(self) -> Dcgm:
        if self.host_label == self.uuid_label:
            raise ValueError(
                f"host_label and uuid_label are the same label, {self.host_label}; a host has several GPUs"
            )
        return self


class HostMemory(Section):
    """node_exporter's meminfo collector: do the processes of a silent job still hold memory."""

    enabled: Switch = True


class Infiniband(Section):
    """node_exporter's infiniband collector."""

    enabled: Switch = True


class HwCounters(Section):
    """RoCE hw_counters of the same collector; node_exporter 1.11 or newer, older ones expose nothing here."""

    enabled: Switch = True


class HostNetwork(Section):
    """node_exporter's netclass and netstat collectors: MTU, carrier, TCP."""

    enabled: Switch = True
    device_regex: Regex = Field("(eth|en|ib|bond|hsn|rdma|roce).*", description="interfaces that a job may talk over")


class SwitchPorts(Section):
    """infiniband_exporter's switch side (treydock/infiniband_exporter)."""

    enabled: Switch = False


class ClockEvents(Section):
    """DCGM_EXP_CLOCK_EVENTS_COUNT of dcgm-exporter, which needs a counters CSV of one's own."""

    enabled: Switch = False


class Counters(Section):
    """Inspector's own counters, NCCL_INSPECTOR_PROM_DUMP_STATS=1."""

    enabled: Switch = True


class ExporterMetrics(Section):
    """node_exporter's promhttp_* series; off where it runs with --web.disable-exporter-metrics."""

    enabled: Switch = True


class P2p(Section):
    """Inspector's Send and Recv; between nodes hardly any operation is read whole, so nothing rests on them."""

    enabled: Switch = False


class Slurm(Section):
    """A series per job that knows its state; soperator's names are the defaults."""

    enabled: Switch = False
    job_id_label: Label = "job_id"
    state_label: Label = "job_state"
    running: Regex = Field("RUNNING", description="states in which the job's processes live")

    @model_validator(mode="after")
    def _apart(self) -> Slurm:
        if self.job_id_label == self.state_label:
            raise ValueError(f"job_id_label and state_label are the same label, {self.state_label}")
        return self


PRESETS = {
    "megatron-otel": "megatron_training_throughput_tflops",
    "megatron-nv": "rate(nv_dl_training_tokens_processed_total[<4 dumps>])",
    "prime-rl": "trainer_throughput_tokens_per_sec",
}


class Throughput(Section):
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


class Companions(Section):
    """Optional sources; without them panels that need them are left out and rules use what remains."""

    textfile: Textfile = Textfile()
    exporter_metrics: ExporterMetrics = ExporterMetrics()
    counters: Counters = Counters()
    dcgm: Dcgm = Dcgm()
    clock_events: ClockEvents = ClockEvents()
    host_memory: HostMemory = HostMemory()
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
