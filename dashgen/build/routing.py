# SPDX-License-Identifier: Apache-2.0
"""The alerts -> what the site's Alertmanager is told: who is called, and which alert speaks for which."""

from __future__ import annotations

from dashgen import durations
from dashgen.config.site import Site


def alertmanager(site: Site) -> dict[str, object]:
    """Inhibition and routing that make one incident one page, for the site's own alertmanager.yml."""
    labels = site.labels
    same_job = [*([labels.cluster] if labels.cluster else []), labels.job]
    fine = "NcclTransportDegraded|NcclNvlinkDegraded|NcclGpuLate|NcclNodeLate"
    return {
        "route": {
            "receiver": "nobody",
            "routes": [_route(site, same_job)],
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
                "group_by": same_job,
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
