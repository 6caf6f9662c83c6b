# SPDX-License-Identifier: Apache-2.0
"""catalogue + Site -> Bundle. Pure but for a site's overlays: no file, no process, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from dashgen import catalogue, promql
from dashgen.build import accepted
from dashgen.build.runbook import runbook
from dashgen.catalogue import boards
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import AlertOverride, Site
from dashgen.config.values import escaped
from dashgen.errors import UserError
from dashgen.guard.text import listed
from dashgen.model import Alert, AlertRule, Bundle, Dashboard, Panel, RecordingRule, RuleGroup, Sensitivity, Signal

_DUMPS = re.compile(r"<(\d+) dumps( - 1s)?>")
_NAME = re.compile(r"<([a-z][a-z0-9_]*)>")

# Buckets of types that NCCL cannot name (uint8) wrap to sizes of 0B or millions of TB: never part of any verdict.
CLEAN = 'message_size!~"0B|.*TB"'
# Collectives whose ranks all wait for each other.
WAITING = 'collective=~"AllReduce|AllGather|ReduceScatter"'
ROOTED = 'collective!~"AllReduce|AllGather|ReduceScatter"'
# From 1 MB on, below which noise points the wrong way, and the rest; both leave out what CLEAN leaves out.
LARGE = 'message_size=~"[0-9]+-[0-9]+(MB|GB)"'
SMALL = 'message_size=~"[0-9]+-[0-9]+(B|KB)"'
# What makes two series comparable beside the job.
PEER = "comm_name, n_nodes, nranks, collective, message_size, algo_proto"


def duration(seconds: float) -> str:
    """A Prometheus duration: 90 -> 1m30s."""
    milliseconds = round(seconds * 1000)
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def number(value: float) -> str:
    """A threshold as PromQL writes it, without a needless fraction."""
    return str(int(value)) if value == int(value) else repr(value)


# A job is known while anything is new or its processes live, and for no more than two hours after: files that a killed
# job has left behind are nobody's.
_SEEN = """last_over_time(job:nccl_progress:timestamp[110m])
  or
  last_over_time(job:nccl_quiet:seconds{{evidence=~"working|spinning|idle"}}[{span}])"""


# Seconds of silence, after the last news that can have been seen, that are a stall: checkpoints take one to three
# minutes (companions of DCGM), and PyTorch's heartbeat monitor aborts after eight.
PAUSE = 240.0


def words(site: Site) -> dict[str, str]:
    """What each placeholder stands for at this site."""
    labels, companions = site.labels, site.companions
    # Jobs without an id share one: what is said of such a mixture would be said of nobody.
    known_job = f'{labels.job}!~"unknown|"'
    in_cluster = f'{labels.cluster}=~"$cluster",' if labels.cluster else ""
    dump = site.dump_interval
    job = f"{labels.cluster}, {labels.job}" if labels.cluster else labels.job
    return {
        "job": job,
        "job_label": labels.job,
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
        "seen": _SEEN.format(span=duration(3 * site.dump_interval)),
        "pause": number(min(PAUSE, 8 * dump)),
        "peer": PEER,
        "clean": CLEAN,
        "large": LARGE,
        "small": SMALL,
        "waiting": f"{WAITING},{LARGE}",
        "rooted": ROOTED,
        "known": known_job,
        "selector": site.selector,
        "of_job": f'{in_cluster}{labels.job}="$job"',
        "in_cluster": in_cluster.removesuffix(","),
        "dump": number(site.dump_interval),
        "fabric": site.fabric,
        "textfile_regex": escaped(companions.textfile.file_regex),
        "dcgm_host": companions.dcgm.host_label,
        "dcgm_uuid": companions.dcgm.uuid_label,
        "slurm_id": companions.slurm.job_id_label,
        "slurm_state": companions.slurm.state_label,
        "slurm_running": escaped(companions.slurm.running),
        "net_devices": escaped(companions.host_network.device_regex),
        "cardinality_budget": str(site.cardinality_budget),
        "acceptance": _acceptance(site),
        "throughput": _throughput(site),
        "throughput_unit": companions.throughput.unit,
        **{metric.key: site.metric(metric.key) for metric in METRICS},
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


def _throughput(site: Site) -> str:
    """The job's own throughput under the job label that everything else uses."""
    evidence = site.companions.throughput
    expr = evidence.promql if evidence.expr else _spans(evidence.promql, site)
    if not expr or evidence.job_label is None or evidence.job_label == site.labels.job:
        return expr
    return f'label_replace({expr}, "{site.labels.job}", "$1", "{evidence.job_label}", "(.+)")'


def _spans(template: str, site: Site) -> str:
    """``<4 dumps>`` as a duration."""

    def span(match: re.Match[str]) -> str:
        seconds = int(match[1]) * site.dump_interval
        # A window one second short of N dumps holds exactly N evaluations whether its left end counts
        # (Prometheus 2) or not (Prometheus 3).
        return duration(seconds - min(1.0, site.dump_interval / 10) if match[2] else seconds)

    return _DUMPS.sub(span, template)


def fill(template: str, site: Site, more: Mapping[str, str] | None = None) -> str:
    """PromQL or text with every placeholder replaced; what a site wrote goes in as it is.

    Raises KeyError for a placeholder that nobody defines: that is a mistake in the catalogue.
    """
    known = words(site) | dict(more or {})
    # An empty <selector> takes its comma with it, and braces that would hold nothing else.
    empty = f"<(?:{'|'.join(name for name, value in known.items() if not value)})>"
    text = re.sub(rf",\s*{empty}|{empty}(?:,\s*)?", "", template.strip())
    text = re.sub(r"(?<=[\w>])\{\}", "", text)
    return _NAME.sub(lambda match: known[match[1]], _spans(text, site))


def signal_expr(signal: Signal, site: Site) -> str:
    """The PromQL of a signal at this site; empty when the site has none of its sources."""
    enabled = site.sources()
    if signal.companion and signal.companion not in enabled:
        return ""
    if not signal.branches:
        return fill(signal.expr, site)
    parts = [expr.strip() for companion, expr in signal.branches if not companion or companion in enabled]
    if not parts:
        return ""
    before = signal.expr.partition("<branches>")[0]
    indent = before[before.rfind("\n") + 1 :]
    joined = f"\n{signal.join}\n".join(parts).replace("\n", f"\n{indent}")
    return fill(signal.expr.replace("<branches>", joined), site)


def signals(site: Site) -> dict[str, str]:
    """Every signal that the site can have, with its PromQL, in the order of evaluation."""
    found = {signal.name: signal_expr(signal, site) for signal in catalogue.SIGNALS}
    return {name: expr for name, expr in found.items() if expr}


def _evaluated_every(site: Site) -> float:
    """Seconds between two evaluations: a dump, but Prometheus looks back for five minutes, so two minutes at most."""
    return min(site.dump_interval, 120.0)


def recording(site: Site) -> tuple[RuleGroup, ...]:
    """The recording rules, evaluated once a dump, or more slowly."""
    groups: dict[str, list[RecordingRule]] = {}
    for name, expr in signals(site).items():
        rule = RecordingRule(record=name, expr=expr)
        groups.setdefault(catalogue.SIGNAL_BY_NAME[name].group, []).append(rule)
    every = _evaluated_every(site)
    slowly = min(4 * every, 120.0)
    return tuple(
        RuleGroup(name=name, interval=duration(slowly if name in catalogue.SLOW else every), rules=tuple(rules))
        for name, rules in groups.items()
    )


def alert_links(site: Site) -> dict[str, dict[str, str]]:
    """Annotations that lead from an alert to its board, and to the panel there that draws its signal."""
    if not site.grafana.url:
        return {}
    from dashgen.grafana.dashboard import panel_ids

    labels = {"job": site.labels.job, **({"cluster": site.labels.cluster} if site.labels.cluster else {})}
    chosen = "&".join(f"var-{name}={{{{ $labels.{label} | urlquery }}}}" for name, label in labels.items())
    views = {view.slug: view for view in dashboards(site)}
    found = {}
    for alert in (alert for alert in catalogue.ALERTS if alert.dashboard in views):
        view = views[alert.dashboard]
        url = f"{site.grafana.url.rstrip('/')}/d/{site.grafana.uid_prefix}{view.slug}?{chosen}"
        found[alert.name] = {"dashboard_url": url}
        if title := _drawn(alert.signal, view, site):
            found[alert.name]["panel_url"] = f"{url}&viewPanel={panel_ids(view)[title]}"
    return found


def _drawn(signal: str, view: Dashboard, site: Site) -> str:
    """The first panel that draws a signal, or else what the signal is made of; none where the board has neither."""
    parts = promql.names(signal_expr(catalogue.SIGNAL_BY_NAME[signal], site) or signal)
    for wanted in ({signal}, parts):
        for panel in view.panels:
            if any(wanted & promql.names(query.expr) for query in panel.queries):
                return panel.title
    return ""


def alert_rule(
    alert: Alert, sensitivity: Sensitivity, site: Site, links: Mapping[str, str] = MappingProxyType({})
) -> AlertRule | None:
    """One alert of one pack, or None where it is not part of it; ``links`` are further annotations."""
    asked = site.alert(alert).tiers.get(sensitivity)
    if asked is None or (alert.companion and alert.companion not in site.sources()):
        return None
    if not signal_expr(catalogue.SIGNAL_BY_NAME[alert.signal], site):
        return None
    thresholds = {"threshold": number(asked.threshold)} | {key: number(value) for key, value in asked.extra.items()}
    annotations = {
        "summary": fill(alert.summary, site),
        "description": fill(alert.description.replace("\\\n", ""), site),
        "runbook_url": site.runbook_url.replace("{alert}", alert.name),
        **links,
    }
    return AlertRule(
        alert=alert.name,
        expr=fill(alert.expr, site, thresholds),
        hold=duration(asked.dumps * site.dump_interval) if asked.dumps else "",
        keep=duration(asked.hold * site.dump_interval) if asked.hold else "",
        labels={
            "signal": alert.kind,
            "severity": asked.severity.value,
            "sensitivity": sensitivity.value,
            **alert.labels,
            **site.alert_labels,
            **site.alerts.get(alert.name, AlertOverride()).labels,
        },
        annotations=annotations,
    )


def alerts(site: Site, sensitivity: Sensitivity) -> tuple[RuleGroup, ...]:
    """The alert pack of one tier, one group a kind of signal."""
    groups: dict[str, list[AlertRule]] = {}
    links = alert_links(site)
    for alert in catalogue.ALERTS:
        rule = alert_rule(alert, sensitivity, site, links.get(alert.name, {}))
        if rule is not None:
            groups.setdefault(f"nccl-alerts-{alert.kind}", []).append(rule)
    # Alerts look verdicts up, which costs nothing; twice a dump they lose less time between two groups.
    interval = duration(_evaluated_every(site) / 2)
    return tuple(RuleGroup(name=name, interval=interval, rules=tuple(rules)) for name, rules in groups.items())


def alertmanager(site: Site) -> dict[str, object]:
    """Inhibition and routing that make one incident one page, for the site's own alertmanager.yml."""
    labels = site.labels
    same_job = [*([labels.cluster] if labels.cluster else []), labels.job]
    fine = "NcclTransportDegraded|NcclNvlinkDegraded|NcclGpuLate|NcclNodeLate"
    return {
        "route": {
            "receiver": "nobody",
            # All in one route: where the site's own receiver is the default, info must not reach it.
            "routes": [
                {
                    "matchers": ['alertname=~"Nccl.+"'],
                    "receiver": "nobody",
                    "routes": [
                        {
                            "matchers": ['severity="critical"'],
                            "receiver": "pager",
                            "group_by": same_job,
                            "group_wait": duration(site.dump_interval),
                            "repeat_interval": "4h",
                        },
                        {
                            "matchers": ['severity="warning"'],
                            "receiver": "tickets",
                            "group_by": ["alertname", *same_job],
                            "group_wait": duration(4 * site.dump_interval),
                            "repeat_interval": "24h",
                        },
                    ],
                },
            ],
        },
        "inhibit_rules": [
            # A job that stands still is not slow: the stall is the page.
            {
                "source_matchers": ['alertname="NcclJobStalled"'],
                "target_matchers": [f'alertname=~"NcclJobDegraded|NcclJobQuiet|{fine}"'],
                "equal": same_job,
            },
            # The page about the job speaks for the finer alerts that say why.
            {
                "source_matchers": ['alertname="NcclJobDegraded"'],
                "target_matchers": [f'alertname=~"{fine}"'],
                "equal": same_job,
            },
            # A node whose links are slow arrives late as well; the links are the cause.
            {
                "source_matchers": ['alertname="NcclNvlinkDegraded"'],
                "target_matchers": ['alertname=~"NcclGpuLate|NcclNodeLate"'],
                "equal": [*same_job, labels.node],
            },
            # A port that is under suspicion speaks for its counters.
            {
                "source_matchers": ['alertname="NcclFabricSuspect"'],
                "target_matchers": ['alertname=~"NcclFabric.+|NcclTcpRetransmits"', 'alertname!="NcclFabricSuspect"'],
                "equal": [*same_job, labels.node],
            },
        ],
        "receivers": [{"name": "nobody"}, {"name": "pager"}, {"name": "tickets"}],
    }


def _silent(site: Site) -> frozenset[str]:
    """Signals that cannot have a value here, because what they are made of cannot."""
    trees = {name: promql.parse(expr) for name, expr in signals(site).items()}
    silent = frozenset(catalogue.SIGNAL_BY_NAME)
    while alive := [name for name in silent if name in trees and not promql.empty(trees[name], silent)]:
        silent -= frozenset(alive)
    return silent


def _speechless(expr: str, silent: frozenset[str]) -> bool:
    """Whether a query says nothing; "or vector(0)" alone would say that all is well where nobody looks."""
    reads = promql.names(expr)
    return bool(reads) and (reads <= silent or promql.empty(promql.parse(expr), silent))


def _fit(panels: Iterable[Panel], site: Site, silent: frozenset[str]) -> Iterator[Panel]:
    """Panels that the site can fill, with its names in them."""
    enabled = site.sources()
    for panel in panels:
        if panel.companion and panel.companion not in enabled:
            continue
        fitted = replace(
            panel,
            title=fill(panel.title, site),
            description=fill(panel.description, site),
            interval=fill(panel.interval, site),
            line_units={word: fill(unit, site) for word, unit in panel.line_units.items()},
            no_value=fill(panel.no_value, site),
            queries=tuple(
                replace(query, expr=fill(query.expr, site), legend=fill(query.legend, site))
                for query in panel.queries
                if not query.companion or query.companion in enabled
            ),
            columns={fill(name, site): fill(title, site) for name, title in panel.columns.items()},
            column_units={fill(name, site): unit for name, unit in panel.column_units.items()},
            column_states={fill(name, site): states for name, states in panel.column_states.items()},
            links={
                title: filled for title, url in panel.links.items() if (filled := fill(url, site, _link_words(site)))
            },
        )
        queries = tuple(query for query in fitted.queries if not _speechless(query.expr, silent))
        if queries or not panel.queries:
            yield replace(fitted, queries=queries)


def _link_words(site: Site) -> dict[str, str]:
    """What only links know: how boards are called, and the choices that are carried from board to board."""
    carried = [site.grafana.datasource.variable, *(["cluster"] if site.labels.cluster else [])]
    chosen = "&".join(f"${{{name}:queryparam}}" for name in carried)
    return {"uid": site.grafana.uid_prefix, "chosen": chosen}


def board(template: Dashboard, site: Site, silent: frozenset[str]) -> Dashboard:
    """A dashboard as this site sees it, without what reads only ``silent`` signals."""
    rows = tuple(
        replace(row, title=fill(row.title, site), panels=tuple(_fit(row.panels, site, silent))) for row in template.rows
    )
    variables = tuple(
        replace(variable, label=fill(variable.label, site), series=fill(variable.series, site))
        for variable in template.variables
    )
    cluster = boards.cluster_variable(site.labels.cluster) if site.labels.cluster else ()
    annotations = tuple(
        replace(each, expr=fill(each.expr, site), text=fill(each.text, site)) for each in template.annotations
    )
    return replace(
        template,
        rows=tuple(row for row in rows if row.panels),
        variables=(*cluster, *variables),
        annotations=annotations,
    )


def dashboards(site: Site) -> tuple[Dashboard, ...]:
    """Every dashboard as this site sees it."""
    silent = _silent(site)
    views = [board(template, site, silent) for template in boards.templates(site.sensitivity)]
    gone = tuple(f"/d/{site.grafana.uid_prefix}{view.slug}?" for view in views if not view.rows)
    return tuple(_unlinked(view, gone) for view in views if view.rows)


def _unlinked(view: Dashboard, gone: tuple[str, ...]) -> Dashboard:
    """A dashboard without links to those that are gone."""

    def kept(panel: Panel) -> Panel:
        return replace(panel, links={title: url for title, url in panel.links.items() if not url.startswith(gone)})

    rows = (replace(row, panels=tuple(kept(panel) for panel in row.panels)) for row in view.rows)
    return replace(view, rows=tuple(rows)) if gone else view


def bundle(site: Site, sensitivities: Iterable[Sensitivity] = tuple(Sensitivity)) -> Bundle:
    """Everything that the site gets, as its overlays change it.

    Raises UserError when an overlay is wrong, and for a rule that Prometheus would refuse.
    """
    made = plain(site, sensitivities)
    if site.overlays:
        from dashgen.jsonnet import mixin, overlay

        made = overlay.apply(made, mixin.sources(site, plain), site.overlays)
    for problem in accepted.problems(made):
        raise UserError(f"{listed(Path(path).name for path in site.overlays) or 'dashgen.yaml'}: {problem}")
    return made


def plain(site: Site, sensitivities: Iterable[Sensitivity] = tuple(Sensitivity)) -> Bundle:
    """Everything that the site gets without its overlays."""
    from dashgen.grafana import dashboard as grafana

    views = dashboards(site)
    style = grafana.Style(
        uid_prefix=site.grafana.uid_prefix,
        title_prefix=site.grafana.title_prefix,
        tags=site.grafana.tags,
        datasource=site.grafana.datasource.variable,
        datasource_regex=site.grafana.datasource.regex,
        datasource_default=site.grafana.datasource.default,
        min_interval=duration(site.dump_interval),
        span_nulls_ms=int(3 * site.dump_interval * 1000),
    )
    packs = {sensitivity: alerts(site, sensitivity) for sensitivity in sensitivities}
    shipped = {
        rule.alert
        for groups in packs.values()
        for group in groups
        for rule in group.rules
        if isinstance(rule, AlertRule)
    }
    return Bundle(
        dashboards={view.slug: grafana.dashboard(view, style, views) for view in views},
        recording=recording(site),
        alerts=packs,
        runbooks={
            alert.name: runbook(site.alert(alert), symbolic(alert, site), site.dump_interval)
            for alert in catalogue.ALERTS
            if alert.name in shipped
        },
        alertmanager=alertmanager(site),
        folder=site.grafana.folder,
    )


def symbolic(alert: Alert, site: Site) -> str:
    """An alert's PromQL with its thresholds by name, for a text that speaks of all tiers."""
    names = {"threshold", *(name for asked in alert.tiers.values() for name in asked.extra)}
    return fill(alert.expr, site, {name: name.upper() for name in names})


def exposed(site: Site) -> frozenset[str]:
    """Names of the series that the site's sources expose, the configured throughput among them."""
    throughput = promql.selectors(promql.parse(fill("<throughput> or vector(0)", site))) if _throughput(site) else ()
    return frozenset({site.metric(metric.key) for metric in METRICS} | {each.name for each in throughput})


def panel_needs(site: Site) -> dict[tuple[str, str], tuple[str, ...]]:
    """The metrics, by (board, panel title), without any of which a panel has nothing to show."""
    by_companion: dict[str, tuple[str, ...]] = {}
    for metric in METRICS:
        by_companion[metric.companion] = (*by_companion.get(metric.companion, ()), site.metric(metric.key))
    return {
        (view.slug, panel.title): by_companion[panel.companion]
        for view in dashboards(site)
        for panel in view.panels
        if panel.companion in by_companion and panel.companion
    }
