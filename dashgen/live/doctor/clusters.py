# SPDX-License-Identifier: Apache-2.0
"""Conditions of a server that holds several clusters: their names are told apart, on every source."""

from __future__ import annotations

from collections.abc import Iterator

from dashgen import build
from dashgen.catalogue.metrics import COMPANIONS, METRICS
from dashgen.live.doctor.probe import Diagnosis, Probe, named

# In the order in which they are told.
_SOURCES = {
    "": "Inspector",
    "textfile": "node_exporter's textfile collector",
    **COMPANIONS,
    "throughput": "the job's throughput",
}


def equal_clusters(probe: Probe) -> Iterator[Diagnosis]:
    """Two clusters in one server whose jobs or nodes have equal names."""
    if not probe.placed or probe.site.labels.cluster:
        return
    for label in ("cluster", "exported_cluster", "k8s_cluster", "datacenter", "region"):
        rows = probe.rows(
            f'count by (<job>, <node>, <gpu>) (count by (<job>, <node>, <gpu>, {label}) (<busbw>{{{label}!=""}})) > 1'
        )
        if rows:
            values = {one.get(label, "") for one in probe.labels(f'group by ({label}) (<busbw>{{{label}!=""}})')}
            what = f"{len(rows)} GPUs have equal names in several values of {label} ({named(values)})"
            yield Diagnosis("labels.cluster", what, {"labels": {"cluster": label}})
            return


def no_cluster(probe: Probe) -> Iterator[Diagnosis]:
    """labels.cluster is set, and sources are there whose series lack that label."""
    lacking = without_cluster(probe)
    if lacking:
        said = ", ".join(what for name, what in _SOURCES.items() if name in lacking)
        yield Diagnosis("labels.cluster", f"no label {probe.site.labels.cluster} on the series of {said}")


def without_cluster(probe: Probe) -> frozenset[str]:
    """The sources whose series are there without the label that tells clusters apart; Inspector's name is empty."""
    if not probe.site.labels.cluster:
        return frozenset()
    known = {probe.site.metric(metric.key): metric.companion for metric in METRICS}
    sources: dict[str, set[str]] = {}
    for name in probe.names & build.exposed(probe.site):
        sources.setdefault(known.get(name, "throughput"), set()).add(name)
    used = {"", *probe.site.companions.enabled()}
    labelled = probe.names_with(f'{probe.site.labels.cluster}!=""')
    return frozenset(name for name, there in sources.items() if name in used and not there & labelled)
