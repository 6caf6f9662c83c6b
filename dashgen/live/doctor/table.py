# SPDX-License-Identifier: Apache-2.0
"""The table of all conditions, each with its cure, and what a site's doctor says of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from dashgen.config.sources import merged
from dashgen.findings import Finding
from dashgen.guard.text import visible
from dashgen.live.doctor import boards, clusters, rules, sources, telemetry
from dashgen.live.doctor.levels import level
from dashgen.live.doctor.origin import origin, source
from dashgen.live.doctor.probe import Diagnosis, Probe


@dataclass(frozen=True)
class Condition:
    """Something that makes packs blind or wrong: its name, how it is found, and what cures it.

    Where a diagnosis has lines for dashgen.yaml, those are the cure, and the packs have to be built again.
    """

    name: str
    finds: Callable[[Probe], Iterator[Diagnosis]]
    cure: str

    @property
    def about(self) -> str:
        """What it is, in a sentence."""
        return (self.finds.__doc__ or self.name).strip()


RAW = (
    Condition(
        "no-inspector",
        telemetry.no_inspector,
        "set NCCL_PROFILER_PLUGIN=/path/to/libnccl-profiler-inspector.so, NCCL_INSPECTOR_ENABLE=1, "
        "NCCL_INSPECTOR_PROM_DUMP=1 and NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=30000000 in jobs, give "
        "node_exporter their folder with --collector.textfile.directory, or look at a moment at which a job ran with "
        "--at",
    ),
    Condition(
        "names", telemetry.other_names, "name the metrics and the selector in dashgen.yaml, and let both metrics arrive"
    ),
    Condition(
        "single-operations",
        telemetry.single_operations,
        "load Inspector's plugin of NCCL 2.30 or newer, whatever the library is, without NCCL_INSPECTOR_OTEL_VERBOSE",
    ),
    Condition("labels", telemetry.other_labels, "name the site's own labels in dashgen.yaml, or relabel the series"),
    Condition(
        "otlp",
        telemetry.otlp,
        "promote the job: otlp.promote_resource_attributes: [slurm.job.id] in prometheus.yml, then name the labels",
    ),
    Condition(
        "job-unknown", telemetry.unknown_jobs, "export SLURM_JOB_ID in the processes of such jobs, or relabel them"
    ),
    Condition(
        "gpu-collision",
        telemetry.collisions,
        "let each process see all GPUs of its node, so that their numbers differ (runbook of NcclGpusHidden)",
    ),
    Condition("duplicate-targets", telemetry.duplicates, "scrape every exporter once: remove a target or a job"),
    Condition(
        "file-age", telemetry.no_file_age, "let node_exporter's textfile collector tell the age of Inspector's files"
    ),
    Condition("dump-interval", telemetry.dump_interval, "tell the rules the real interval"),
    Condition(
        "scrape-interval", telemetry.scrape_interval, "scrape node_exporter at least once a dump: scrape_interval"
    ),
    Condition("garbage-buckets", telemetry.garbage, "nothing has to be done: no rule reads them"),
    Condition("p2p", telemetry.no_p2p, "do not expect them"),
    Condition("clock-skew", telemetry.clock_skew, "synchronise the clocks of these hosts and of the server (NTP)"),
    Condition(
        "cardinality", telemetry.cardinality, "pin message sizes (bucket sizes of DDP and FSDP), or raise the budget"
    ),
    Condition("equal-clusters", clusters.equal_clusters, "tell the rules which label tells clusters apart"),
    Condition(
        "cluster-label",
        clusters.no_cluster,
        "give it to all that the scrape jobs of these sources scrape, by relabel_configs with target_label (rules do "
        "not see external_labels), or leave labels.cluster out where there is one cluster",
    ),
    Condition("missing-source", sources.missing_sources, "install it, or say that the site does without"),
    Condition("unused-source", sources.unused_sources, "use it"),
    Condition("throughput", sources.throughput, "let the job tell its throughput, and name the metric"),
    Condition("dcgm-labels", sources.dcgm_labels, "name dcgm-exporter's labels"),
)
"""Of raw series, which only edges have where rules are on two levels; asked with the source that writes them."""

CONDITIONS = (
    Condition("source", source, "name the source in dashgen.yaml, which sets names, labels and companions"),
    *RAW,
    Condition(
        "rules-not-loaded",
        rules.not_loaded,
        "load rules/recording.yaml and one of rules/alerts into rule_files, or the files of the level",
    ),
    Condition(
        "rules-outdated", rules.outdated, "run `dashgen build` with this dashgen.yaml, load the result, and reload"
    ),
    Condition("rules-twice", rules.twice, "load rules/recording.yaml once, and one of rules/alerts"),
    Condition("rules-order", rules.out_of_order, "load the groups of rules/recording.yaml as they are"),
    Condition("rules-failing", rules.failing, "look at what several targets may expose twice; mend the labels"),
    Condition("rules-slow", rules.slow, "give the server more CPU, or its own server to the rules"),
    Condition("no-alertmanager", rules.nobody_told, "add an Alertmanager under alerting: in prometheus.yml"),
    Condition("alertmanager-deaf", rules.not_taken, "look at its address, whether it runs, and its log"),
    Condition("boards", boards.boards, "provision dashboards/ again; see `dashgen build --target files`"),
)
"""Everything that doctor looks for, in the order in which it is told: what blinds most comes first."""


@dataclass(frozen=True)
class Told:
    """A diagnosis of a condition."""

    condition: Condition
    diagnosis: Diagnosis

    @property
    def finding(self) -> Finding:
        """As every report of dashgen has it."""
        message = f"{visible(self.diagnosis.message)}; cure: {self.condition.cure}"
        return Finding(self.condition.name, visible(self.diagnosis.where), message)


def examine(probe: Probe, step: Callable[[str], None] = lambda name: None) -> list[Told]:
    """Everything that is wrong at a site; ``step`` hears of each condition. Raises UserError as the servers."""
    found = []
    above = level(probe) == "global"
    writing = probe if above else origin(probe)
    for condition in CONDITIONS:
        raw = condition in RAW
        if not above or not raw:
            found += [Told(condition, each) for each in condition.finds(writing if raw else probe)]
        step(condition.name)
    return found


def cure(found: list[Told]) -> str:
    """The lines of dashgen.yaml that cure what can be cured there; empty when nothing can."""
    lines: dict[str, object] = {}
    for each in found:
        lines = merged(lines, each.diagnosis.config)
    return yaml.safe_dump(lines, sort_keys=False, allow_unicode=True) if lines else ""
