# SPDX-License-Identifier: Apache-2.0
"""What dashgen knows, one concern per file. Here they are put in order: a rule may read only what stands before it
in its group, or what an earlier evaluation recorded."""

from __future__ import annotations

from dashgen.catalogue import (
    acceptance,
    attribution,
    bandwidth,
    degradation,
    fabric,
    freshness,
    outliers,
    shape,
    stalls,
    telemetry,
    throughput,
    transport,
)
from dashgen.model import Alert, Signal

SIGNALS: tuple[Signal, ...] = (
    *transport.PEERS,
    *outliers.RELATIVE,
    *freshness.SIGNALS,
    *transport.SIGNALS,
    *degradation.SIGNALS,
    *outliers.SIGNALS,
    *stalls.DCGM,
    *throughput.SIGNALS,
    *attribution.SIGNALS,
    *stalls.SIGNALS,
    *bandwidth.SIGNALS,
    *bandwidth.P2P_SIGNALS,
    *telemetry.SIGNALS,
    *shape.SIGNALS,
    *acceptance.SIGNALS,
    *fabric.SIGNALS,
)

ALERTS: tuple[Alert, ...] = (
    *attribution.ALERTS,
    *attribution.LATE_ALERTS,
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
