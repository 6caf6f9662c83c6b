# SPDX-License-Identifier: Apache-2.0
"""Conditions of what stands beside Inspector: exporters that a site expects and lacks, or has and does not use."""

from __future__ import annotations

from collections.abc import Iterator

from dashgen import build
from dashgen.catalogue.metrics import COMPANIONS, METRICS
from dashgen.config.companions import PRESETS
from dashgen.config.site import Site
from dashgen.live.doctor.probe import Diagnosis, Probe, named
from dashgen.live.recorder.selection import HOST_LABELS


def missing_sources(probe: Probe) -> Iterator[Diagnosis]:
    """A source that dashgen.yaml expects is not there; its panels stay empty."""
    if not probe.placed:
        return
    enabled = probe.site.companions.enabled()
    for companion, what in COMPANIONS.items():
        metrics = {probe.site.metric(metric.key) for metric in METRICS if metric.companion == companion}
        if companion not in enabled or metrics & probe.names:
            continue
        panels = {
            f"{board}: {title}"
            for (board, title), needs in build.panel_needs(probe.site).items()
            if metrics & set(needs)
        }
        empty = f"; empty panels: {named(panels)}" if panels else ""
        yield Diagnosis(
            f"companions.{companion}", f"no series of {what}{empty}", {"companions": {companion: {"enabled": False}}}
        )


def unused_sources(probe: Probe) -> Iterator[Diagnosis]:
    """A source is there that dashgen.yaml does not use."""
    if not probe.placed:
        return
    # What the source of the series switches off may be there for others.
    by_default, of_source = (each.companions.enabled() for each in (Site(), Site(source=probe.site.source)))
    known = probe.site.companions.enabled() | (by_default - of_source)
    for companion, what in COMPANIONS.items():
        metrics = {probe.site.metric(metric.key) for metric in METRICS if metric.companion == companion}
        if companion not in known and metrics & probe.names:
            said = f"series of {what} are there and not used"
            yield Diagnosis(f"companions.{companion}", said, {"companions": {companion: {"enabled": True}}})


def throughput(probe: Probe) -> Iterator[Diagnosis]:
    """What the job says of its throughput is configured and missing, or there and not used."""
    if not probe.placed:
        return
    own = build.exposed(probe.site) - {probe.site.metric(metric.key) for metric in METRICS}
    if own:
        if not own & probe.names:
            said = f"no {named(set(own))}: a slow job and a slow network cannot be told apart"
            yield Diagnosis("companions.throughput", said)
        return
    presets = {name: _metric(promql) for name, promql in PRESETS.items()}
    there = {one.name for one in probe.rows(f'count by (__name__) ({{__name__=~"{"|".join(presets.values())}"}})')}
    for preset, metric in presets.items():
        if metric in there:
            said = f"{metric} is there and not used as the job's throughput"
            yield Diagnosis("companions.throughput", said, {"companions": {"throughput": {"preset": preset}}})
            return


def _metric(promql: str) -> str:
    return promql.removeprefix("rate(").partition("[")[0]


def dcgm_labels(probe: Probe) -> Iterator[Diagnosis]:
    """dcgm-exporter calls its host or its GPU otherwise."""
    dcgm = probe.site.companions.dcgm
    keys = [metric.key for metric in METRICS if metric.companion == "dcgm" and probe.has(metric.key)]
    if not dcgm.enabled or not keys or not probe.placed:
        return
    there = {name for one in probe.labels(f"topk(50, <{keys[0]}>)") for name in one}
    for key, wanted, others in (
        ("host_label", dcgm.host_label, HOST_LABELS),
        ("uuid_label", dcgm.uuid_label, ("UUID", "uuid")),
    ):
        near = [name for name in others if name in there]
        if wanted not in there and near:
            said = f"dcgm-exporter's series have {near[0]}, not {wanted}"
            yield Diagnosis(f"companions.dcgm.{key}", said, {"companions": {"dcgm": {key: near[0]}}})
