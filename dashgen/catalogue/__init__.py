# SPDX-License-Identifier: Apache-2.0
"""What dashgen knows, one concern per file. Here they are put in order: what is remembered first, then what is judged by it.
A rule reads what stands before it in its group, or what an earlier evaluation recorded: no group waits for another."""

from __future__ import annotations

from dashgen.catalogue import learned
from dashgen.catalogue.signals import (
    acceptance,
    bandwidth,
    degradation,
    fabric,
    freshness,
    lateness,
    shape,
    stalls,
    telemetry,
    throughput,
    transport,
    verdict,
)
from dashgen.model import Alert, Signal

SIGNALS: tuple[Signal, ...] = (
    *learned.SIGNALS,
    *stalls.SIGNALS,
    freshness.PRESENCE,
    freshness.LEFT,
    throughput.CURRENT,
    transport.BEST,
    transport.SHAPE,
    lateness.TIME,
    lateness.LATENESS,
    *freshness.SIGNALS,
    stalls.QUIET,
    transport.FAMILIAR,
    transport.SLOWNESS,
    *lateness.SIGNALS,
    *throughput.SIGNALS,
    *verdict.SIGNALS,
    transport.DROP,
    *bandwidth.SIGNALS,
    *bandwidth.P2P_SIGNALS,
    *telemetry.SIGNALS,
    *shape.SIGNALS,
    *acceptance.SIGNALS,
    *fabric.SIGNALS,
)

ALERTS: tuple[Alert, ...] = (
    *degradation.ALERTS,
    *throughput.ALERTS,
    *stalls.ALERTS,
    *telemetry.ALERTS,
    *shape.ALERTS,
    *acceptance.ALERTS,
    *fabric.ALERTS,
)

SIGNAL_BY_NAME = {signal.name: signal for signal in SIGNALS}
ALERT_BY_NAME = {alert.name: alert for alert in ALERTS}

if len(SIGNAL_BY_NAME) != len(SIGNALS) or len(ALERT_BY_NAME) != len(ALERTS):
    raise ValueError("two signals or two alerts share a name")
for _alert in ALERTS:
    if unknown := _alert.explained_by.keys() - ALERT_BY_NAME.keys():
        raise ValueError(f"{_alert.name}: is explained by {', '.join(sorted(unknown))}, which there is not")
