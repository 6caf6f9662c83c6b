# SPDX-License-Identifier: Apache-2.0
"""What a live site has, and what its server says that it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dashgen import build
from dashgen.catalogue.signals.freshness import FIRST
from dashgen.cost.forecast import DAY, Bill, Fleet, usual
from dashgen.durations import seconds
from dashgen.errors import UserError
from dashgen.live.client.http import Refused
from dashgen.live.doctor.probe import Probe, whole

_FIGURE = re.compile(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)$", re.MULTILINE)


@dataclass(frozen=True)
class Survey:
    """A site: its fleet, what it pays, the series of each bucket of message sizes and of each raw metric."""

    fleet: Fleet
    bill: Bill
    by_size: Mapping[str, int]
    by_metric: Mapping[str, int]


def survey(probe: Probe, days: float) -> Survey:
    """Count what is there. Raises UserError as the server, or where no series of Inspector are."""
    gpus = probe.count("count(count by (<job>, <node>, <gpu>) (<busbw>{<selector>}))")
    of_all = probe.count("count(count by (<job>, <node>, <gpu>) (<busbw>))")
    jobs = probe.count("count(count by (<job>) (<busbw>{<selector>}))")
    metrics = _counts(probe, '{__name__=~"nccl_.+", <selector>}', "__name__")
    own = {probe.site.metric(key) for key in ("busbw", "exec", "p2p_busbw", "p2p_exec")}
    metrics = {**_counts(probe, f'{{__name__=~"{"|".join(sorted(own))}", <selector>}}', "__name__"), **metrics}
    others = "|".join(sorted(build.exposed(probe.site) - set(metrics)))
    # Companions do not know whose GPUs the site selects: all of them are those of all GPUs,
    # of which there are at least those that were counted before.
    nccl, companions = sum(metrics.values()), probe.count(f'count({{__name__=~"{others}"}})')
    if not gpus or not nccl:
        raise UserError(f"{probe.server.url}: no series of NCCL Inspector; run `dashgen doctor`, or give --gpus")
    scrape = _scrape(probe)
    fleet = Fleet(gpus, jobs, nccl / gpus, companions / max(of_all, gpus), scrape, days)
    return Survey(fleet, _bill(probe, fleet), _counts(probe, "<busbw>{<selector>}", "message_size"), metrics)


def _counts(probe: Probe, selector: str, label: str) -> dict[str, int]:
    rows = probe.rows(f"count by ({label}) ({selector})")
    found = {
        one.name if label == "__name__" and one.name else dict(one.labels).get(label, ""): whole(one.values[0])
        for one in rows
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _scrape(probe: Probe) -> float:
    """Seconds between two samples of Inspector's series, from the GPU with the most in ten minutes."""
    most = probe.number(f"max(count_over_time(<busbw>{{{FIRST},<selector>}}[10m]))")
    return max(1.0, round(600 / most)) if most > 2 else usual(1, 1).scrape


def _bill(probe: Probe, fleet: Fleet) -> Bill:
    """What the server says of itself; a figure that it does not tell is None."""
    recorded = _counts(probe, '{__name__=~"(job|peer|gpu|node):.+"}', "__name__")
    every = {rule.record: seconds(group.interval) for group in build.recording(probe.site) for rule in group.recorded}
    said = _said(probe)
    chunk, packed = (said.get(f"prometheus_tsdb_compaction_chunk_{name}_sum") for name in ("size_bytes", "samples"))
    written = fleet.gpus * (fleet.nccl + fleet.companions) / fleet.scrape
    written += sum(count / every.get(name, probe.site.dump_interval) for name, count in recorded.items())
    taken = _rule_seconds(probe)
    return Bill(
        raw_series=fleet.gpus * (fleet.nccl + fleet.companions),
        recorded_series=sum(recorded.values()),
        samples_per_second=written,
        rule_seconds=taken,
        reads=None,
        memory_bytes=said.get("go_memstats_next_gc_bytes"),
        disk_bytes=written * DAY * fleet.days * chunk / packed if chunk and packed else None,
    )


def _rule_seconds(probe: Probe) -> float | None:
    """Seconds a dump that the groups of these packs took when they ran last."""
    names = {group.name for group in (*build.recording(probe.site), *build.alerts(probe.site, probe.site.sensitivity))}
    groups = [group for group in (probe.rules.groups if probe.rules else ()) if group.name in names and group.interval]
    return sum(each.evaluationTime * probe.site.dump_interval / each.interval for each in groups) if groups else None


def _said(probe: Probe) -> dict[str, float]:
    """A server's own metrics, sums over their labels; none where it has none or shows them to nobody."""
    try:
        page = probe.server.client.get("/metrics").decode(errors="replace")
    except Refused:
        return {}
    found: dict[str, float] = {}
    for name, value in _FIGURE.findall(page):
        found[name] = found.get(name, 0.0) + float(value)
    return found
