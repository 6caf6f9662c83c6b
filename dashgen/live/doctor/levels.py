# SPDX-License-Identifier: Apache-2.0
"""Which of two levels a server is, where dashgen.yaml divides the rules, and which rules it should have then."""

from __future__ import annotations

from collections.abc import Collection

from dashgen import build
from dashgen.build.layout import Levels, levels
from dashgen.build.once import once
from dashgen.config.layout import Level
from dashgen.config.site import Site
from dashgen.live.doctor.probe import Probe, shipped
from dashgen.model import AlertRule, RecordingRule, RuleGroup


@once
def _levels(site: Site) -> Levels:
    return levels(build.recording(site), (), ())


def alerts(site: Site) -> set[str]:
    """The names of the alerts of the site's tier."""
    groups = shipped(site).alerts[site.sensitivity]
    return {rule.alert for group in groups for rule in group.rules if isinstance(rule, AlertRule)}


def level(probe: Probe) -> Level | None:
    """The level whose rules alone a server evaluates; None for a server that has all rules, or should."""
    if "layout" not in probe.site.model_fields_set or probe.rules is None:
        return None
    there = {rule.name for group in probe.rules.groups for rule in group.rules}
    split = _levels(probe.site)
    below = bool(there & _recorded(split.edge))
    above = bool(there & (_recorded(split.above) | alerts(probe.site)))
    return None if below == above else "edge" if below else "global"


def expected(probe: Probe) -> frozenset[str]:
    """The names of the recording rules that the server should evaluate."""
    split = _levels(probe.site)
    parts = {"edge": split.edge, "global": split.above, None: (*split.edge, *split.above)}
    return frozenset(_recorded(parts[level(probe)]))


def _recorded(groups: Collection[RuleGroup]) -> set[str]:
    return {rule.record for group in groups for rule in group.rules if isinstance(rule, RecordingRule)}
