# SPDX-License-Identifier: Apache-2.0
"""Conditions of Inspector's own series: are they there, whose are they, how old, how often, and are they sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from dashgen import durations
from dashgen.catalogue.metrics.inspector import COLLECTIVE_LABELS, OLD, OLD_LABEL
from dashgen.guard.grammar import literal
from dashgen.guard.text import counted
from dashgen.live.client.api import Samples
from dashgen.live.doctor.clusters import without_cluster
from dashgen.live.doctor.probe import Diagnosis, Probe, named
from dashgen.live.recorder.selection import one_of
from dashgen.recordings.pseudonyms import JOB_LABELS, UUID

_TOLERANCE = 0.25  # of an interval; jitter is a tenth of it, and intervals are multiples
SKEW = 5.0  # seconds; NTP keeps clocks within milliseconds, and a scrape takes up to a second or two

# What Inspector's metrics are called where somebody renames them, for example an OTLP receiver by their unit.
_RENAMED = {
    "p2p_busbw": re.compile(r".*p2p.*bus_?bandwidth.*"),
    "p2p_exec": re.compile(r".*p2p.*exec.*time.*"),
    "busbw": re.compile(r"(?!.*p2p).*bus_?bandwidth.*"),
    "exec": re.compile(r"(?!.*p2p).*exec.*time.*"),
}
_GPU = re.compile(r"GPU\d+")
_TARGET = re.compile(r"\S+:\d+")
_OTHERS = frozenset({*COLLECTIVE_LABELS, "job", "cluster"}) - {"slurm_job_id", "node", "gpu"}


def no_inspector(probe: Probe) -> Iterator[Diagnosis]:
    """Inspector's series are missing."""
    if not probe.has("busbw") and "busbw" not in _renamed(probe):
        yield Diagnosis(probe.site.metric("busbw"), "no series of Inspector at that time")


def other_names(probe: Probe) -> Iterator[Diagnosis]:
    """Inspector's series have other names, or the selector leaves them out."""
    wanted, renamed = probe.site.metric("busbw"), _renamed(probe)
    if renamed and (probe.has("busbw") or "busbw" in renamed):
        said = ", ".join(f"{name} for {probe.site.metric(key)}" for key, name in renamed.items())
        yield Diagnosis("metrics", f"Inspector's series have other names: {said}", {"metrics": renamed})
    elif probe.has("busbw") and not probe.count("count(<busbw>{<selector>})"):
        yield Diagnosis("selector", f"no {wanted} with {probe.site.selector}", {"selector": ""})
    elif probe.sample and not probe.has("exec"):
        gone = probe.site.metric("exec")
        yield Diagnosis(gone, f"{wanted} is there without {gone}: nobody can tell who is late")


def _renamed(probe: Probe) -> dict[str, str]:
    """What Inspector's metrics that are not there seem to be called, by dashgen's keys."""
    if probe.has("busbw") and probe.has("exec"):
        return {}
    found: dict[str, str] = {}
    # The message size is a label of nothing else.
    for one in probe.rows('count by (__name__) ({message_size!=""})'):
        key = next((key for key, pattern in _RENAMED.items() if pattern.fullmatch(one.name)), "")
        if key and ":" not in one.name and not probe.has(key):
            found.setdefault(key, one.name)
    return dict(sorted(found.items()))


def single_operations(probe: Probe) -> Iterator[Diagnosis]:
    """Inspector's series are of single operations, so that each dump makes new ones."""
    if count := probe.count(f'count(<busbw>{{{OLD_LABEL}!="", <selector>}})'):
        yield Diagnosis(OLD_LABEL, f"{count} series are of one operation each: {OLD}")


def other_labels(probe: Probe) -> Iterator[Diagnosis]:
    """Inspector's series lack a label that the rules need, or one of the target has taken its place."""
    sample, labels = probe.sample, probe.site.labels
    if not sample:
        return
    there = set(probe.labelled)
    free = there - _OTHERS - {labels.job, labels.node, labels.gpu, labels.instance}
    values = {name: {one[name] for one in sample if name in one} for name in free}
    hosts = {one.get(labels.instance, "").rpartition(":")[0].partition(".")[0] for one in sample}
    looks: dict[str, Callable[[str], bool]] = {
        "job": lambda name: name in JOB_LABELS or "job" in name,
        "gpu": lambda name: all(map(_GPU.fullmatch, values[name])),
        "instance": lambda name: all(map(_TARGET.fullmatch, values[name])),
        "node": lambda name: {value.partition(".")[0] for value in values[name]} == hosts,
    }
    if labels.job not in there and _on_target_info(probe):
        looks.pop("job")
    for role, like in looks.items():
        wanted = getattr(labels, role)
        if role != "instance" and f"exported_{wanted}" in there:
            said = f"a label of the target has taken the place of Inspector's {wanted}, which is exported_{wanted} now"
            yield Diagnosis(f"labels.{role}", f"{said}: set honor_labels: true, or give the target no such label")
        if wanted in there:
            continue
        near = sorted(name for name in free if like(name))
        said = f"no series of Inspector has the label {wanted}"
        if near:
            yield Diagnosis(f"labels.{role}", f"{said}; {near[0]} looks like it", {"labels": {role: near[0]}})
        else:
            yield Diagnosis(f"labels.{role}", f"{said}; there are {named(there) or 'none'}")


def _on_target_info(probe: Probe) -> bool:
    job = probe.site.labels.job
    return probe.number(f'count(target_info{{{job}!=""}})') > 0


def otlp(probe: Probe) -> Iterator[Diagnosis]:
    """Metrics came by OTLP, and only ``target_info`` knows the job."""
    job = probe.site.labels.job
    if probe.sample and job not in probe.labelled and _on_target_info(probe):
        yield Diagnosis(
            f"labels.{job}", f"{job} is on target_info only: the metrics came by OTLP, and it was not promoted"
        )


def unknown_jobs(probe: Probe) -> Iterator[Diagnosis]:
    """Jobs without an id."""
    if not probe.placed:
        return
    rows = probe.labels('group by (<node>) (<busbw>{<job_label>=~"unknown|", <selector>})')
    nodes = {one.get(probe.site.labels.node, "") for one in rows}
    if rows:
        where = f"{counted(len(nodes), 'node')} ({named(nodes)})"
        yield Diagnosis(probe.site.labels.job, f"jobs without an id on {where}: no verdict on them")


def collisions(probe: Probe) -> Iterator[Diagnosis]:
    """Several GPUs of a node have one name, so that all but one are dropped."""
    if not probe.placed or not probe.has("mtime"):
        return
    rows = probe.labels(
        """
count by (<target>) (<mtime>{file=~"<textfile_regex>"} and on (<target>) <busbw>{<selector>})
> on (<target>)
count by (<target>) (count by (<target>, <gpu>) (<busbw>{<selector>}))
and on (<target>)
sum by (<target>) (rate(<gathering_errors>{cause="gathering"}[10m])) > 0"""
    )
    targets = {one.get(probe.site.labels.instance, "") for one in rows}
    if rows:
        said = f"{counted(len(targets), 'target')} ({named(targets)}) with dropped series: GPUs share a name there"
        yield Diagnosis(probe.site.labels.gpu, said)


def duplicates(probe: Probe) -> Iterator[Diagnosis]:
    """The same GPU of the same job is scraped twice."""
    if not probe.placed:
        return
    rows = probe.rows(
        """
count by (<job>, <node>, <gpu>) (
  group by (<job>, <node>, <gpu>, <instance>, job) (<busbw>{<gpu_label>!="", <known>, <selector>})
) > 1"""
    )
    nodes = {dict(one.labels).get(probe.site.labels.node, "") for one in rows}
    if rows:
        yield Diagnosis("scrape_configs", f"GPUs of {counted(len(nodes), 'node')} ({named(nodes)}) are scraped twice")


def no_file_age(probe: Probe) -> Iterator[Diagnosis]:
    """Nobody tells how old Inspector's files are."""
    if not probe.placed or not probe.site.companions.textfile.enabled:
        return
    if probe.has("mtime") and len(without_cluster(probe) & {"", "textfile"}) == 1:
        return  # a file is not found by the cluster that its series do not tell
    if probe.number('count(<mtime>{file=~"<textfile_regex>"} and on (<target>) <busbw>{<selector>})'):
        return
    files = {one["file"] for one in probe.labels("<mtime> and on (<target>) <busbw>{<selector>}") if "file" in one}
    ours = sorted(file for file in files if "nccl" in file.lower())
    if ours:
        said = f"no file matches {probe.site.companions.textfile.file_regex}, but {ours[0]} looks like Inspector's"
        config = {"companions": {"textfile": {"file_regex": _like(ours[0])}}}
        yield Diagnosis("companions.textfile.file_regex", said, config)
    else:
        said = f"no {probe.site.metric('mtime')} of Inspector's files: a frozen file looks like a healthy one"
        yield Diagnosis("companions.textfile", said)


def _like(file: str) -> str:
    """A regular expression of files that are called like this one, whatever their folder and GPU."""
    name = file.rpartition("/")[2]
    return ".*/" + (".+".join(map(literal, UUID.split(name))) if UUID.search(name) else ".*nccl.*[.]prom")


def dump_interval(probe: Probe) -> Iterator[Diagnosis]:
    """Dumps come more often, or less often, than the rules think."""
    measured, expected = _dumps(probe), probe.site.dump_interval
    # Whoever looks too rarely cannot tell.
    if measured is None or _too_rare(probe) or abs(measured - expected) <= _TOLERANCE * expected:
        return
    found = durations.text(min(600.0, max(1.0, round(measured))))
    said = f"files are written every {measured:.0f} s, the rules expect {expected:g} s"
    yield Diagnosis("dump_interval", said, {"dump_interval": found})


def scrape_interval(probe: Probe) -> Iterator[Diagnosis]:
    """Scrapes are rarer than dumps, so that dumps are never seen."""
    if _too_rare(probe):
        said = f"targets are scraped every {_scrapes(probe):.0f} s, dumps come every {probe.site.dump_interval:g} s"
        yield Diagnosis("scrape_interval", f"{said}: some are never seen")


def _too_rare(probe: Probe) -> bool:
    """Whether targets are scraped more rarely than files are written, as far as anybody can see."""
    scrapes = _scrapes(probe)
    slower = (_dumps(probe) or 0.0) > (1 + _TOLERANCE) * scrapes
    return scrapes > (1 + _TOLERANCE) * probe.site.dump_interval and not slower


def _scrapes(probe: Probe) -> float:
    """Seconds between two scrapes; 0 where there is too little to tell."""
    spacings = [float(np.median(np.diff(times))) for times, _ in _raw(probe) if times.size > 2]
    return float(np.median(spacings)) if spacings else 0.0


def _dumps(probe: Probe) -> float | None:
    """Seconds between two dumps, told from when files change; None where there is too little to tell."""
    spacings = []
    for _, values in _raw(probe):
        written = np.unique(values[np.isfinite(values)])
        if written.size > 3:
            spacings.append(float(np.median(np.diff(written))))
    return float(np.median(spacings)) if spacings else None


def _raw(probe: Probe) -> list[Samples]:
    """Raw samples of when the files of some targets were written."""
    instance = probe.site.labels.instance
    if not probe.placed or not probe.has("mtime"):
        return []
    targets = sorted({one[instance] for one in probe.sample if instance in one})[:3]
    which = '<mtime>{file=~"<textfile_regex>", <instance_label>=~<targets>}'
    return probe.raw(which, {"targets": one_of(set(targets))})


def garbage(probe: Probe) -> Iterator[Diagnosis]:
    """Buckets of types that NCCL cannot name."""
    if probe.sample and (count := probe.number('count(<busbw>{message_size=~"<garbage>", <selector>})')):
        yield Diagnosis(
            "message_size", f"{count:.0f} garbage buckets (0B or …TB): byte-typed collectives; they are left out"
        )


def no_p2p(probe: Probe) -> Iterator[Diagnosis]:
    """Send and Recv are expected, and there are none."""
    if probe.placed and probe.site.companions.p2p.enabled and not probe.has("p2p_busbw"):
        said = "no Send or Recv: Inspector reads hardly any operation whole whose channels do not start at 0"
        yield Diagnosis("companions.p2p", said, {"companions": {"p2p": {"enabled": False}}})


def clock_skew(probe: Probe) -> Iterator[Diagnosis]:
    """Files of the future: a host's clock is ahead of the server's."""
    if not probe.placed or not probe.has("mtime"):
        return
    which = '<mtime>{file=~"<textfile_regex>"}'
    rows = probe.rows(f"max by (<target>) ({which} - timestamp({which})) > {SKEW}")
    targets = {dict(one.labels).get(probe.site.labels.instance, "") for one in rows}
    if rows:
        worst = max(float(one.values[0]) for one in rows)
        said = f"{counted(len(targets), 'target')} ({named(targets)}) with files of the future, up to {worst:.0f} s"
        yield Diagnosis("clock", said)


def cardinality(probe: Probe) -> Iterator[Diagnosis]:
    """More series for each GPU than the site wants to pay for."""
    if not probe.placed:
        return
    names = "|".join(probe.site.metric(key) for key in ("busbw", "exec", "p2p_busbw", "p2p_exec"))
    rows = probe.rows(
        f"""
count by (<job>) ({{__name__=~"{names}", <known>, <selector>}})
/ on (<job>)
count by (<job>) (count by (<job>, <node>, <gpu>) (<busbw>{{<known>, <selector>}}))
> <cardinality_budget>"""
    )
    jobs = {dict(one.labels).get(probe.site.labels.job, "") for one in rows}
    if rows:
        worst = max(float(one.values[0]) for one in rows)
        said = f"up to {worst:.0f} series a GPU in {counted(len(jobs), 'job')} ({named(jobs)})"
        yield Diagnosis("cardinality_budget", f"{said}; the budget is {probe.site.cardinality_budget}")
