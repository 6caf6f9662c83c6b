# SPDX-License-Identifier: Apache-2.0
"""The ``alerts`` section of dashgen.yaml: what a site changes in the alerts as they are shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, model_validator

from dashgen.config.sections import Section
from dashgen.config.values import (
    MOST_LABELS,
    Label,
    LabelValue,
    Number,
    Switch,
    Whole,
)
from dashgen.guard.text import line, listed
from dashgen.model import Alert, Sensitivity, Severity, Tier

MOST_DUMPS = 100_000
"""Dumps that an alert may wait; two months at the longest interval. Prometheus' durations end at 292 years."""


RENAMED = {"hold": "keep_firing"}
"""Keys of a tier that have had other names."""

RENAMED_THRESHOLDS = {
    "blind": "depth_without_throughput",
    "page": "paged_loss",
    "integrity": "integrity_errors",
    "rnr": "rnr_retries",
    "symbols": "symbol_errors",
    "receive": "receive_errors",
}
"""Further thresholds that have had other names."""


Threshold = Annotated[Number, Field(ge=0)]


class TierOverride(Section):
    """Values of one alert in one tier; what is left out stays as dashgen ships it."""

    threshold: Threshold | None = None
    dumps: Whole | None = Field(None, ge=0, le=MOST_DUMPS, description="duration, counted in dumps")
    keep_firing: Whole | None = Field(
        None, ge=0, le=MOST_DUMPS, description="hysteresis after the last bad dump, counted in dumps"
    )
    severity: Severity | None = None
    extra: dict[str, Threshold] = Field(default_factory=dict, description="further thresholds of this alert, by name")
    enabled: Switch = True

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, data: object) -> object:
        for old in RENAMED.keys() & data.keys() if isinstance(data, dict) else ():
            raise ValueError(f"{old}: is called {RENAMED[old]} now")
        return data


class AlertOverride(Section):
    """Changes to one alert; ``enabled: false`` takes it out of every tier."""

    enabled: Switch = True
    low: TierOverride = TierOverride()
    medium: TierOverride = TierOverride()
    high: TierOverride = TierOverride()
    labels: dict[Label, LabelValue] = Field(
        default_factory=dict, max_length=MOST_LABELS, description="further labels, for routing"
    )

    def tier(self, sensitivity: Sensitivity) -> TierOverride:
        """The changes to one tier."""
        found: TierOverride = getattr(self, sensitivity.value)
        return found


def overridden(shipped: Alert, override: AlertOverride) -> Alert:
    """The alert after the site's changes. Raises ValueError when one does not fit or turns the tiers' order around."""
    tiers = {}
    for sensitivity in Sensitivity:
        tier = _tier(f"alerts.{shipped.name}.{sensitivity}", shipped, sensitivity, override)
        if tier is not None:
            tiers[sensitivity] = tier
    return tiered(shipped, tiers)


def tiered(shipped: Alert, tiers: Mapping[Sensitivity, Tier]) -> Alert:
    """The alert with other tiers. Raises ValueError when they turn the order around."""
    try:
        return replace(shipped, tiers=tiers)
    except ValueError as error:
        rule = "what fires in low fires in medium, and what fires in medium in high"
        raise ValueError(f"alerts.{error}; {rule}") from error


def _tier(where: str, alert: Alert, sensitivity: Sensitivity, override: AlertOverride) -> Tier | None:
    """What a tier asks of an alert after an override; None where the alert is not in the tier."""
    shipped, change = alert.tiers.get(sensitivity), override.tier(sensitivity)
    if not (override.enabled and change.enabled):
        return None
    if shipped is None:
        if change.model_fields_set:
            raise ValueError(f"{where}: the alert is not in this tier; it is in {', '.join(alert.tiers)}")
        return None
    for name in change.extra:
        if name not in shipped.extra:
            if (now := RENAMED_THRESHOLDS.get(name)) in shipped.extra:
                raise ValueError(f"{where}.extra.{name}: is called {now} now")
            known = listed(shipped.extra) or "none"
            raise ValueError(f"{where}.extra.{line(name, 60)}: no such threshold; this alert has: {known}")
    given = {key: value for key, value in change.model_dump(exclude={"enabled", "extra"}).items() if value is not None}
    changed = replace(shipped, **given, extra={**shipped.extra, **change.extra})
    for name in sorted(alert.shares & (given.keys() | change.extra.keys())):
        before, after = shipped.value(name), changed.value(name)
        if before < 1 < after:
            key = name if name == "threshold" else f"extra.{name}"
            raise ValueError(
                f"{where}.{key}: {after:g} is {after:.0%}, and this is a share; write {after / 100:g} for {after:g} %"
            )
    return changed
