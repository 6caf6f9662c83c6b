# SPDX-License-Identifier: Apache-2.0
"""Boards of the catalogue -> boards as a site sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from urllib.parse import quote

from dashgen import catalogue, promql
from dashgen.build.once import once
from dashgen.build.placeholders import fill
from dashgen.build.recording_rules import signals
from dashgen.catalogue import boards as shipped
from dashgen.catalogue.metrics import METRICS
from dashgen.config.site import Site
from dashgen.model import Dashboard, Panel


def _silent(site: Site) -> frozenset[str]:
    """Signals that cannot have a value here, because what they are made of cannot."""
    trees = {name: promql.parse(expr) for name, expr in signals(site).items()}
    silent = frozenset(catalogue.SIGNAL_BY_NAME)
    while alive := [name for name in silent if name in trees and not promql.empty(trees[name], silent)]:
        silent -= frozenset(alive)
    return silent


# The same queries are asked about for every tier and every kind of site.
_reads = lru_cache(maxsize=4096)(promql.names)


def _speechless(expr: str, silent: frozenset[str]) -> bool:
    """Whether a query says nothing; "or vector(0)" alone would say that all is well where nobody looks."""
    reads = _reads(expr)
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
            states={value: (fill(word, site), role) for value, (word, role) in panel.states.items()},
            words={label: fill(word, site) for label, word in panel.words.items()},
            columns={fill(name, site): fill(title, site) for name, title in panel.columns.items()},
            column_units={fill(name, site): unit for name, unit in panel.column_units.items()},
            column_states={fill(name, site): states for name, states in panel.column_states.items()},
            links={
                title: filled
                for title, url in panel.links.items()
                # Grafana would silence in its own Alertmanager, which knows nothing of alerts of Prometheus.
                if "<silencer>" not in url or site.grafana.alertmanager
                if (filled := fill(url, site, _link_words(site)))
            },
        )
        queries = tuple(query for query in fitted.queries if not _speechless(query.expr, silent))
        if queries or not panel.queries:
            yield replace(fitted, queries=queries)


def _link_words(site: Site) -> dict[str, str]:
    """What only links know: how boards are called, and the choices that are carried from board to board."""
    carried = [site.grafana.datasource.variable, *(["cluster"] if site.labels.cluster else [])]
    chosen = "&".join(f"${{{name}:queryparam}}" for name in carried)
    silencer = f"alertmanager={quote(site.grafana.alertmanager, safe='')}&"
    silencer += f"matcher={site.labels.cluster}%3D~${{cluster:regex}}&" if site.labels.cluster else ""
    return {"uid": site.grafana.uid_prefix, "chosen": chosen, "silencer": silencer}


def board(template: Dashboard, site: Site, silent: frozenset[str]) -> Dashboard:
    """A dashboard as this site sees it, without what reads only ``silent`` signals."""
    rows = tuple(
        replace(row, title=fill(row.title, site), panels=tuple(_fit(row.panels, site, silent))) for row in template.rows
    )
    variables = tuple(
        replace(variable, label=fill(variable.label, site), series=fill(variable.series, site))
        for variable in template.variables
    )
    cluster = shipped.cluster_variable(site.labels.cluster) if site.labels.cluster else ()
    annotations = tuple(
        replace(each, expr=fill(each.expr, site), text=fill(each.text, site)) for each in template.annotations
    )
    return replace(
        template,
        rows=tuple(row for row in rows if row.panels),
        variables=(*cluster, *variables),
        annotations=annotations,
    )


@once
def dashboards(site: Site) -> tuple[Dashboard, ...]:
    """Every dashboard as this site sees it."""
    silent = _silent(site)
    views = [board(template, site, silent) for template in shipped.templates(site.sensitivity)]
    gone = tuple(f"/d/{site.grafana.uid_prefix}{view.slug}?" for view in views if not view.rows)
    return tuple(_unlinked(view, gone) for view in views if view.rows)


def _unlinked(view: Dashboard, gone: tuple[str, ...]) -> Dashboard:
    """A dashboard without links to those that are gone."""

    def kept(panel: Panel) -> Panel:
        return replace(panel, links={title: url for title, url in panel.links.items() if not url.startswith(gone)})

    rows = (replace(row, panels=tuple(kept(panel) for panel in row.panels)) for row in view.rows)
    return replace(view, rows=tuple(rows)) if gone else view


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
