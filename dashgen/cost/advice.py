# SPDX-License-Identifier: Apache-2.0
"""How to pay less: series that no verdict needs, as lines for the scrape job that has Inspector's files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dashgen import build, durations, promql
from dashgen.build.placeholders import GARBAGE
from dashgen.config.site import Site
from dashgen.cost.forecast import Fleet

SMALL = "[0-9]+-[0-9]+(B|KB)"


@dataclass(frozen=True)
class Advice:
    """One way to pay less: what it saves, what it costs, and the lines that do it.

    ``series`` is how many go, None where only a site can tell; ``lines`` are for prometheus.yml or dashgen.yaml.
    """

    about: str
    loss: str
    lines: str
    series: float | None = None


def unread(site: Site, metrics: Mapping[str, int]) -> dict[str, int]:
    """The raw metrics of Inspector that no rule and no panel of this site reads."""
    expressions = [rule.expr for group in build.recording(site) for rule in group.rules]
    expressions += [rule.expr for group in build.alerts(site, site.sensitivity) for rule in group.rules]
    expressions += [query.expr for board in build.dashboards(site) for panel in board.panels for query in panel.queries]
    read = frozenset().union(*(promql.names(each) for each in expressions))
    return {name: count for name, count in metrics.items() if name not in read}


def advice(site: Site, fleet: Fleet, by_size: Mapping[str, int], by_metric: Mapping[str, int]) -> list[Advice]:
    """All that applies. Without counts of a site, what holds anywhere."""
    found = []
    buckets = [site.metric("busbw"), site.metric("exec")]
    for pattern, about, loss in (
        (GARBAGE, "sizes that NCCL cannot name", "nothing: no rule reads them"),
        (SMALL, "messages below 1 MB", "no verdict reads them; boards lose the size class `small`"),
    ):
        count = sum(number for size, number in by_size.items() if re.fullmatch(pattern, size)) * len(buckets)
        if count or not by_size:
            lines = _drop(["__name__", "message_size"], f"({'|'.join(buckets)});({pattern})")
            found.append(Advice(f"drop {about}", loss, lines, float(count) if by_size else None))
    for name, count in unread(site, by_metric).items():
        found.append(
            Advice(f"drop {name}", "nothing: no rule and no panel reads it", _drop(["__name__"], name), float(count))
        )
    if fleet.scrape < site.dump_interval:
        lines = f"scrape_interval: {durations.text(site.dump_interval)}"
        loss = "a verdict may come up to one scrape later; a missed scrape is a missed dump"
        about = f"scrape once a dump: {fleet.scrape / site.dump_interval:.0%} of the raw samples"
        found.append(Advice(about, loss, lines))
    return found


def _drop(labels: list[str], regex: str) -> str:
    return "\n".join(
        (
            "metric_relabel_configs:",
            f"  - source_labels: [{', '.join(labels)}]",
            f"    regex: '{regex}'",
            "    action: drop",
        )
    )
