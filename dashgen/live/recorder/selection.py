# SPDX-License-Identifier: Apache-2.0
"""Which series belong to jobs: those of the catalogue, each found by what its owner knows of the job.

Inspector and the scheduler name the job; exporters know only the machine, so theirs are found by where Inspector's
series come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dashgen import build, promql
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.guard.grammar import METRIC, escaped, literal
from dashgen.guard.text import quoted
from dashgen.live.client.api import Key
from dashgen.model import Metric

HOST_LABELS = ("Hostname", "hostname")  # dcgm-exporter renamed its label in 2026 (NVIDIA/dcgm-exporter#655)
UP = "up"  # says of every target whether it was scraped


def of_jobs(jobs: Sequence[str], site: Site) -> str:
    """The selector of Inspector's own series of some jobs."""
    return _of(_names(site, _names_job), _job(site.labels.job, jobs), site.selector)


def further(extra: Iterable[str], jobs: Sequence[str], site: Site) -> list[str]:
    """The selectors of further metrics: a bare name is narrowed to the jobs, a selector is taken as it is.

    Raises UserError for what is neither.
    """
    found = []
    for one in extra:
        if METRIC.fullmatch(one):
            found.append(_of([one], _job(site.labels.job, jobs)))
        elif promql.is_selector(one):
            found.append(one)
        else:
            raise UserError(f'--extra {quoted(one)}: neither a metric nor a selector; write it as up or up{{job="a"}}')
    return found


def beside(keys: Iterable[Key], jobs: Sequence[str], site: Site) -> list[str]:
    """The selectors of everything else that the catalogue knows and that concerns the jobs of these series."""
    found = []
    by_throughput = site.companions.throughput.job_label or site.labels.job
    if throughput := sorted(build.exposed(site) - {site.metric(metric.key) for metric in METRICS}):
        found.append(_of(throughput, _job(by_throughput, jobs)))
    found.append(_of(_names(site, _is("slurm")), _job(site.companions.slurm.job_id_label, jobs)))
    if site.companions.switch_ports.enabled:
        # A switch belongs to nobody.
        found.append(_of(_names(site, _is("switch_ports"))))
    for cluster, labels in _by_cluster(keys, site):
        found += _of_machines(labels, cluster, site)
    return found


def _of_machines(labels: Sequence[Mapping[str, str]], cluster: str, site: Site) -> Iterator[str]:
    """Selectors of what the exporters and GPUs of some machines say."""
    within = f'{site.labels.cluster}="{escaped(cluster)}"' if site.labels.cluster and cluster else ""
    instances = {one[site.labels.instance] for one in labels if site.labels.instance in one}
    nodes = {one[site.labels.node] for one in labels if site.labels.node in one}
    hosts = nodes | {name.partition(".")[0] for name in nodes} | {name.rpartition(":")[0] for name in instances}
    if instances:
        yield _of([*_names(site, _by_target), UP], f"{site.labels.instance}=~{one_of(instances)}", within)
    if hosts := hosts - {""}:
        dcgm = _names(site, _is("dcgm", "clock_events"))
        for label in dict.fromkeys((site.companions.dcgm.host_label, *HOST_LABELS)):
            yield _of(dcgm, f"{label}=~{one_of(hosts)}", within)


def _by_cluster(keys: Iterable[Key], site: Site) -> list[tuple[str, list[Mapping[str, str]]]]:
    found: dict[str, list[Mapping[str, str]]] = {}
    for _, pairs in keys:
        labels = dict(pairs)
        found.setdefault(labels.get(site.labels.cluster or "", ""), []).append(labels)
    return sorted(found.items())


def _names_job(metric: Metric) -> bool:
    return "slurm_job_id" in metric.labels


def _is(*companions: str) -> Callable[[Metric], bool]:
    return lambda metric: metric.companion in companions and not _names_job(metric)


def _by_target(metric: Metric) -> bool:
    return not _names_job(metric) and metric.companion not in ("slurm", "switch_ports", "dcgm", "clock_events")


def _names(site: Site, wanted: Callable[[Metric], bool]) -> list[str]:
    return sorted({site.metric(metric.key) for metric in METRICS if wanted(metric)})


def _job(label: str, jobs: Sequence[str]) -> str:
    return f'{label}="{escaped(jobs[0])}"' if len(jobs) == 1 else f"{label}=~{one_of(set(jobs))}"


def _of(names: Sequence[str], *matchers: str) -> str:
    name = f'__name__=~"{"|".join(names)}"' if len(names) > 1 else f'__name__="{names[0]}"'
    return f"{{{','.join(filter(None, (name, *matchers)))}}}"


def one_of(names: set[str]) -> str:
    """A quoted PromQL regular expression that matches exactly these names."""
    return f'"{escaped("|".join(map(literal, sorted(names))))}"'
