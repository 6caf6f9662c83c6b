# SPDX-License-Identifier: Apache-2.0
"""Which of two levels a server is, where dashgen.yaml divides the rules, and which rules it should have then."""

from __future__ import annotations

from dashgen import build
from dashgen.build.layout import Levels, levels
from dashgen.build.once import once
from dashgen.config.layout import Level
from dashgen.config.site import Site
from dashgen.live.doctor.probe import Probe, shipped
from dashgen.model import RuleGroup


@once
def _split(site: Site) -> Levels:
    return levels(build.recording(site), (), ())


def recording(site: Site, level: Level | None) -> tuple[RuleGroup, ...]:
    """The recording rules of a level; all of them for a server that is neither."""
    if level is None:
        return shipped(site).recording
    return _split(site).edge if level == "edge" else _split(site).above


def alerts(site: Site) -> set[str]:
    """The names of the alerts of the site's tier."""
    return {rule.alert for group in shipped(site).alerts[site.sensitivity] for rule in group.alerts}


def level(probe: Probe) -> Level | None:
    """The level whose rules alone a server evaluates; None for a server that has all rules, or should."""
    if "layout" not in probe.site.model_fields_set or probe.rules is None:
        return None
    there = {rule.name for group in probe.rules.groups for rule in group.rules}
    edge, above = (
        {rule.record for group in recording(probe.site, part) for rule in group.recorded} for part in ("edge", "global")
    )
    on_edge, on_global = bool(there & edge), bool(there & (above | alerts(probe.site)))
    return None if on_edge == on_global else "edge" if on_edge else "global"
