# SPDX-License-Identifier: Apache-2.0
"""Which source writes a site's series, told from their names and labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.config.sources import Source
from dashgen.live.doctor.probe import Diagnosis, Probe, named


def source(probe: Probe) -> Iterator[Diagnosis]:
    """Another source writes the series than the one that dashgen.yaml names."""
    site = origin(probe).site
    if site.source != probe.site.source:
        why = _amd(probe) or f"{site.metric('busbw')} with the labels {site.labels.node} and {site.labels.gpu}"
        yield Diagnosis("source", f"the series are those of {site.source}: {why}", {"source": site.source})


def origin(probe: Probe) -> Probe:
    """The server as the site would ask it with the source that writes the series; as it is where that is not clear."""
    own = _identity(probe.site)
    if own <= probe.labelled:
        return probe.of(probe.site.of_source("rccl")) if _amd(probe) else probe
    for name in get_args(Source):
        try:
            other = probe.of(probe.site.of_source(name))
        except ValueError:
            continue  # what the site says itself does not fit to it
        theirs = _identity(other.site)
        if theirs <= other.labelled and not (own - theirs) & other.labelled:
            return other
    return probe


def _identity(site: Site) -> set[str]:
    return {site.labels.node, site.labels.gpu}


def _amd(probe: Probe) -> str:
    """What tells that NVIDIA's textfiles are AMD's; empty where nothing does, or where there are GPUs of NVIDIA."""
    named_otherwise = probe.site.source != "nccl" or "fabric" in probe.site.model_fields_set
    nvidia = any(probe.has(metric.key) for metric in METRICS if metric.companion == "dcgm")
    if named_otherwise or nvidia or not probe.sample:
        return ""
    if gpus := probe.rows('count by (__name__) ({__name__=~"(rocm|amd_gpu|gpu_edge_temperature|amd_smi)_?.*"})'):
        return f"GPUs of AMD ({named({one.name for one in gpus})})"
    for label in ("cluster", "exported_cluster"):
        # What the target or its scrape job says is on all that node_exporter exposes.
        if probe.rows(f'count(<busbw>{{{label}!="", <selector>}} and on (<instance_label>) <mtime>{{{label}=""}})'):
            return f"the files bring the label {label} of their own"
    return ""
