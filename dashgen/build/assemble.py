# SPDX-License-Identifier: Apache-2.0
"""catalogue + Site -> Bundle. Pure but for a site's overlays: no file, no process, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dashgen import catalogue, durations, promql
from dashgen.build import accepted
from dashgen.build.alert_rules import Thresholds, alerts, numbers
from dashgen.build.board_views import dashboards
from dashgen.build.placeholders import throughput
from dashgen.build.recording_rules import recording
from dashgen.build.routing import alertmanager
from dashgen.build.runbook import runbook
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.guard.text import listed, shown
from dashgen.model import Bundle, Sensitivity


def bundle(site: Site, sensitivities: Iterable[Sensitivity] = tuple(Sensitivity)) -> Bundle:
    """Everything that the site gets, as its overlays change it.

    Raises UserError when an overlay is wrong, and for a rule that Prometheus would refuse.
    """
    made = plain(site, sensitivities)
    if site.overlays:
        from dashgen.jsonnet import mixin, overlay

        made = overlay.apply(made, mixin.single(site, plain), site.overlays)
    for problem in accepted.problems(made):
        raise UserError(f"{listed(map(shown, map(Path, site.overlays))) or 'the configuration'}: {problem}")
    return made


def plain(
    site: Site, sensitivities: Iterable[Sensitivity] = tuple(Sensitivity), thresholds: Thresholds = numbers
) -> Bundle:
    """Everything that the site gets without its overlays; ``thresholds`` stand for those of the alerts."""
    from dashgen.grafana import dashboard as grafana

    views = dashboards(site)
    style = grafana.Style(
        uid_prefix=site.grafana.uid_prefix,
        title_prefix=site.grafana.title_prefix,
        tags=site.grafana.tags,
        datasource=site.grafana.datasource.variable,
        datasource_regex=site.grafana.datasource.regex,
        datasource_default=site.grafana.datasource.default,
        min_interval=durations.text(site.dump_interval),
        span_nulls_ms=int(3 * site.dump_interval * 1000),
    )
    packs = {sensitivity: alerts(site, sensitivity, thresholds) for sensitivity in sensitivities}
    shipped = {rule.alert for groups in packs.values() for group in groups for rule in group.alerts}
    return Bundle(
        dashboards={view.slug: grafana.dashboard(view, style, views) for view in views},
        recording=recording(site),
        alerts=packs,
        runbooks={alert.name: runbook(site.alert(alert), site) for alert in catalogue.ALERTS if alert.name in shipped},
        alertmanager=alertmanager(site),
        folder=site.grafana.folder,
    )


def exposed(site: Site) -> frozenset[str]:
    """Names of the series that the site's sources expose, the configured throughput among them."""
    own = promql.names(throughput(site)) if throughput(site) else frozenset[str]()
    return frozenset(site.metric(metric.key) for metric in METRICS) | own
