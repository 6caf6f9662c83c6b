# SPDX-License-Identifier: Apache-2.0
"""What overlays have made of ``_config``: keys that exist, and tiers in the order that dashgen.yaml keeps as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dashgen import catalogue, durations
from dashgen.config.alerts import tiered
from dashgen.jsonnet import shape
from dashgen.model import Alert, Sensitivity, Tier


def check(before: Mapping[str, Any], after: object) -> None:
    """Raise Wrong where a key of the finished ``_config`` does nothing, or the tiers of an alert are out of order."""
    config = shape.mapping(after, "_config")
    shape.known(config, before, "_config", "; write KEY:: for one of your own")
    alerts = shape.mapping(config["alerts"], "_config.alerts")
    shape.known(alerts, before["alerts"], "_config.alerts")
    for name, asked in alerts.items():
        # What dashgen.yaml says was looked at where it was read.
        if asked != before["alerts"][name]:
            _check_alert(catalogue.ALERT_BY_NAME[name], asked)


def _check_alert(alert: Alert, asked: object) -> None:
    where = f"_config.alerts.{alert.name}"
    levels = shape.mapping(asked, where)
    shape.known(levels, Sensitivity, where)
    tiers = {level: _tier(alert, levels[level], f"{where}.{level}") for level in Sensitivity if level in levels}
    try:
        tiered(alert, tiers)
    except ValueError as error:
        raise shape.Wrong(f"_config.{error}") from error


def _tier(alert: Alert, value: object, where: str) -> Tier:
    """A tier with all that has to be in order."""
    usual = next(iter(alert.tiers.values()))
    asked = shape.mapping(value, where)
    waits = asked.get("for") or "0s"
    try:
        seconds = durations.seconds(shape.string(waits, f"{where}.for"))
    except ValueError as error:
        raise shape.Wrong(f"{where}.for: {error}") from error
    return replace(
        usual,
        threshold=shape.number(asked.get("threshold"), f"{where}.threshold"),
        # An overlay writes durations that are no whole number of dumps; they have the same order.
        dumps=round(1000 * seconds),
        extra={name: shape.number(asked.get(name), f"{where}.{name}") for name in usual.extra},
    )
