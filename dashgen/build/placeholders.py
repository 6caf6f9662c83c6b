# SPDX-License-Identifier: Apache-2.0
"""What ``<job>`` or ``<4 dumps>`` stands for at a site, and texts with it filled in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from dashgen import durations
from dashgen.build.once import once
from dashgen.catalogue.metrics import METRICS
from dashgen.catalogue.metrics.inspector import WAITING
from dashgen.catalogue.runbooks import ROCM
from dashgen.catalogue.signals.freshness import FORGOTTEN
from dashgen.config.site import Site
from dashgen.guard.grammar import escaped

_DUMPS = re.compile(r"<(\d+) dumps( in a row)?>")
_RESULTS = re.compile(r"<(\d+) results>")
_NAME = re.compile(r"<([a-z][a-z0-9_]*)>")
# What an empty <selector> leaves where nothing else was selected.
_BRACES = re.compile(r"(?<=[\w>])\{\}")

GARBAGE = "0B|.*TB"
"""Sizes of buckets of types that NCCL cannot name (uint8), which wrap: never part of any verdict."""
CLEAN = f'message_size!~"{GARBAGE}"'
# From 1 MB on, below which noise points the wrong way; it leaves out what CLEAN leaves out.
LARGE = 'message_size=~"[0-9]+-[0-9]+(MB|GB)"'
# What makes two series comparable beside the job.
PEER = "comm_name, n_nodes, nranks, collective, message_size, algo_proto"

# A job is known while anything is new or its processes live, and for a time after: files that a killed job has left
# behind are nobody's.
_SEEN = """last_over_time(job:nccl_progress:timestamp[{forgotten}])
  or
  last_over_time(job:nccl_quiet:seconds{{evidence=~"working|spinning|idle"}}[{span}])"""


# Seconds that a checkpoint takes at most (companions of DCGM: one to three minutes). A silence that is longer by a dump
# and an evaluation, after which its end is seen, is a stall; PyTorch's heartbeat monitor aborts after eight minutes.
CHECKPOINT = 180.0
PAUSE = 300.0
"""Seconds that other pauses take, such as an evaluation: where no kernel spins, they and a hang look alike."""


STEP = 10
"""Seconds. Grafana schedules in such steps and refuses groups that do not fit ([unified_alerting] min_interval)."""


def number(value: float) -> str:
    """A threshold as PromQL writes it, without a needless fraction."""
    return str(int(value)) if value == int(value) else repr(value)


def evaluated_every(site: Site) -> float:
    """Seconds between two evaluations: a minute at most, for the watchdog of a hung job ends it after ten.

    A part of a dump; whole steps of Grafana, which is one of the engines that show results later, where that is so: an
    engine that evaluates more seldom than windows are made for finds fewer results there than rules ask for.
    """
    part = site.dump_interval / math.ceil(site.dump_interval / 60)
    return part // STEP * STEP if site.late_results and part >= STEP else part


def lag(site: Site) -> float:
    """Seconds between a result and the first evaluation whose rules see it."""
    return evaluated_every(site) if site.late_results else 0.0


def _looked(site: Site) -> float:
    """Seconds within which there is a look at presence, which every fourth dump has one of.

    vmalert rounds the moment of a result down to the interval of its group, so the last one may be two intervals old;
    it comes an evaluation later, and a sample at the very beginning of a range need not count.
    """
    return (8 if site.late_results else 4) * site.dump_interval + 2 * lag(site)


def _believed_after(site: Site) -> float:
    """Seconds until a verdict has come of a sample.

    Where results are stored afterwards, each of the rules on the way is an evaluation late: evidence, suspect, verdict.
    """
    return 2 * site.dump_interval + 3 * lag(site)


def _silence(pause: float, dumps: int, site: Site) -> float:
    """Seconds of silence that no pause takes, with the dump that ends it and the evaluation that sees it.

    Where dumps come often, a pause is a number of ``dumps`` at most.
    """
    return min(pause, dumps * site.dump_interval) + site.dump_interval + evaluated_every(site)


@once
def words(site: Site) -> Mapping[str, str]:
    """What each placeholder stands for at this site."""
    labels, companions = site.labels, site.companions
    # Jobs without an id share one: what is said of such a mixture would be said of nobody.
    known_job = f'{labels.job}!~"unknown|"'
    in_cluster = f'{labels.cluster}=~"$cluster",' if labels.cluster else ""
    return {
        "job": ", ".join(labels.of_job),
        "job_label": labels.job,
        # In texts of alerts: the job that the alert is about, and whether a row of a query is about it as well.
        "this_job": " of ".join(f"{{{{ $labels.{name} }}}}" for name in reversed(labels.of_job)),
        "same_job": "and" + "".join(f" (eq .Labels.{name} $labels.{name})" for name in labels.of_job),
        "node": labels.node,
        "node_label": labels.node,
        "gpu": labels.gpu,
        "gpu_label": labels.gpu,
        "instance": labels.instance,
        "instance_label": labels.instance,
        # Names that several clusters may share: a scrape target and a host are told apart by their cluster as well.
        "in": f"{labels.cluster}, " if labels.cluster else "",
        "target": f"{labels.cluster}, {labels.instance}" if labels.cluster else labels.instance,
        "host": f"{labels.cluster}, {labels.node}" if labels.cluster else labels.node,
        "peer": PEER,
        "clean": CLEAN,
        "garbage": GARBAGE,
        "large": LARGE,
        "waiting": f'collective=~"{WAITING}",{LARGE}',
        "known": known_job,
        "selector": site.selector,
        "of_job": f'{in_cluster}{labels.job}="$job"',
        "in_cluster": in_cluster.removesuffix(","),
        "fabric": site.fabric,
        "textfile_regex": escaped(companions.textfile.file_regex),
        "dcgm_host": companions.dcgm.host_label,
        "dcgm_gpu": "gpu",
        "dcgm_uuid": companions.dcgm.uuid_label,
        "slurm_id": companions.slurm.job_id_label,
        "slurm_state": companions.slurm.state_label,
        "slurm_running": escaped(companions.slurm.running),
        "net_devices": escaped(companions.host_network.device_regex),
        "cardinality_budget": str(site.cardinality_budget),
        "acceptance": _acceptance(site),
        "throughput": throughput(site),
        "throughput_unit": companions.throughput.unit,
        **_times(site),
        **{metric.key: site.metric(metric.key) for metric in METRICS},
    }


def _times(site: Site) -> dict[str, str]:
    """Placeholders that follow the dump interval."""
    long_pause = _silence(PAUSE, 10, site)
    looked = durations.text(_looked(site))
    return {
        "dump": number(site.dump_interval),
        "every": number(evaluated_every(site)),
        "seen": _SEEN.format(forgotten=durations.text(FORGOTTEN), span=durations.text(3 * site.dump_interval)),
        "present": f"last_over_time(node:nccl_gpus:count[{looked}])",
        # A window that holds the last result of a group that is evaluated every four dumps.
        "slow_result": looked,
        # The same for what is learned: where results come late, one such evaluation passes before it is remembered.
        "last_learned": durations.text(_looked(site) + (4 * site.dump_interval if site.late_results else 0)),
        # The moment of the newest result that a rule can see.
        "now": f"(time() - {number(lag(site))})" if site.late_results else "time()",
        # How long before now the result is that came before the newest one that a rule can see, and a window of both.
        "result_ago": durations.text(evaluated_every(site) + lag(site)),
        "this_and_last": durations.text(_holding(2, site)),
        # How old a sample is when it is learned, and how far back anything that happens speaks against it.
        "believed_after": durations.text(_believed_after(site)),
        "objected_within": durations.text(_believed_after(site) + 2 * site.dump_interval),
        # Until what GPUs do is known: a dump, and an evaluation for the scrape and for the rules each.
        "until_known": durations.text(site.dump_interval + 2 * evaluated_every(site)),
        "pause": number(_silence(CHECKPOINT, 6, site)),
        "long_pause": number(long_pause),
        "long_pause_range": durations.text(long_pause),
        # Longer than a stall takes to be told, so that what was freed as it began is remembered for as long again.
        "freed_within": durations.text(2 * long_pause),
        # As long again, so that what was freed is seen in two looks at who is gone.
        "alive_within": durations.text(4 * long_pause),
    }


def _acceptance(site: Site) -> str:
    """What nccl-tests reached, a constant for each collective, transport and size class."""
    return "\nor\n".join(
        f'label_replace(label_replace(label_replace(vector({number(value)}), "collective", "{collective}", "", ""), '
        f'"transport", "{transport}", "", ""), "size_class", "{size}", "", "")'
        for collective, transports in site.acceptance.items()
        for transport, sizes in transports.items()
        for size, value in sizes.items()
    )


def throughput(site: Site) -> str:
    """The job's own throughput under the job label that everything else uses."""
    evidence = site.companions.throughput
    expr = evidence.promql if evidence.expr else _spans(evidence.promql, site)
    if not expr or evidence.job_label is None or evidence.job_label == site.labels.job:
        return expr
    return f'label_replace({expr}, "{site.labels.job}", "$1", "{evidence.job_label}", "(.+)")'


def _results(dumps: int, site: Site) -> int:
    """How many results dumps in a row give, from the first one of the first dump to the first one of the last."""
    # A dump need not be a whole number of evaluations, and a third of one is no binary number.
    return math.ceil(round((dumps - 1) * site.dump_interval / evaluated_every(site), 6)) + 1


def _holding(results: int, site: Site) -> float:
    """Seconds of a window over recorded series that holds so many results.

    It is a second short, so that it does whether its left end counts (Prometheus 2) or not (Prometheus 3).
    """
    return results * evaluated_every(site) + lag(site) - min(1.0, site.dump_interval / 10)


def _spans(template: str, site: Site) -> str:
    """``<4 dumps>`` is a duration, ``<4 dumps in a row>`` a window over recorded series that holds ``<4 results>``."""

    def span(match: re.Match[str]) -> str:
        dumps = int(match[1])
        return durations.text(_holding(_results(dumps, site), site) if match[2] else dumps * site.dump_interval)

    spans = _DUMPS.sub(span, template)
    return _RESULTS.sub(lambda match: number(_results(int(match[1]), site)), spans)


def prose(template: str, site: Site) -> str:
    """A text for people, with placeholders filled in and the tools called as the site's vendor calls them."""
    text = fill(template, site)
    for nvidia, amd in ROCM.items() if site.source == "rccl" else ():
        text = text.replace(nvidia, amd)
    return text


def fill(template: str, site: Site, more: Mapping[str, str] | None = None) -> str:
    """PromQL or text with every placeholder replaced; what a site wrote goes in as it is.

    Raises KeyError for a placeholder that nobody defines: that is a mistake in the catalogue.
    """
    known = {**words(site), **more} if more else words(site)
    text = _nothing(tuple(name for name, value in known.items() if not value)).sub("", template.strip())
    text = _BRACES.sub("", text)
    return _NAME.sub(lambda match: known[match[1]], _spans(text, site))


@lru_cache(maxsize=64)
def _nothing(names: tuple[str, ...]) -> re.Pattern[str]:
    """Placeholders that stand for nothing: an empty <selector> takes its comma with it."""
    empty = f"<(?:{'|'.join(names)})>"
    return re.compile(rf",\s*{empty}|{empty}(?:,\s*)?")
