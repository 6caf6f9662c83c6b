# SPDX-License-Identifier: Apache-2.0
"""The alerts -> what the site's Alertmanager is told: who is called, and which alert speaks for which."""

from __future__ import annotations

from collections.abc import Iterator

from dashgen import catalogue, durations
from dashgen.config.site import Site
from dashgen.model import Scope


def alertmanager(site: Site) -> dict[str, object]:
    """Inhibition and routing that make one incident one page, for the site's own alertmanager.yml."""
    labels = site.labels
    same_job = list(labels.of_job)
    return {
        "route": {
            "receiver": "nobody",
            "routes": [_route(site, same_job)],
        },
        "inhibit_rules": list(_inhibition(same_job, labels.node)),
        "receivers": [{"name": "nobody"}, {"name": "pager"}, {"name": "tickets"}],
    }


def _inhibition(same_job: list[str], node: str) -> Iterator[dict[str, object]]:
    """A rule for each alert that speaks for others, and for the labels in which they must be equal."""
    spoken_for: dict[tuple[str, Scope], list[str]] = {}
    for alert in catalogue.ALERTS:
        for coarse, scope in alert.explained_by.items():
            spoken_for.setdefault((coarse, scope), []).append(alert.name)
    for (coarse, scope), names in spoken_for.items():
        yield {
            "source_matchers": [f'alertname="{coarse}"'],
            "target_matchers": [f'alertname=~"{"|".join(names)}"'],
            "equal": [*same_job, *([node] if scope == "node" else [])],
        }


def _route(site: Site, same_job: list[str]) -> dict[str, object]:
    """All in one route: where the site's own receiver is the default, info must not reach it."""
    return {
        "matchers": ['alertname=~"Nccl.+"'],
        "receiver": "nobody",
        # News of a page, and its end, come once in so many dumps: five minutes at 30 s.
        "group_interval": durations.text(10 * site.dump_interval),
        "routes": [
            {
                "matchers": ['severity="critical"'],
                "receiver": "pager",
                # Not by job alone: a stall in a job that has paged for its loss would wait for the next news of that.
                "group_by": ["alertname", *same_job],
                "group_wait": durations.text(site.dump_interval),
                "repeat_interval": "4h",
            },
            {
                "matchers": ['severity="warning"'],
                "receiver": "tickets",
                "group_by": ["alertname", *same_job],
                "group_wait": durations.text(4 * site.dump_interval),
                "repeat_interval": "24h",
            },
        ],
    }
