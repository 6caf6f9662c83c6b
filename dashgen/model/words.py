# SPDX-License-Identifier: Apache-2.0
"""Words that everything else is said with: tiers, severities and units."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

Transport = Literal["nvlink", "network", "mixed"]
"""What a communicator runs over: within one domain, one rank a node, or both."""
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)


class Sensitivity(StrEnum):
    """How much the on-call wants to hear: what fires in a tier also fires in the next one."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Severity(StrEnum):
    """What an alert asks for: critical pages, warning opens a ticket, info is context for nobody's pager."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Unit(StrEnum):
    """Units by their Grafana id."""

    GBPS = "GBs"  # decimal GB/s, as NCCL counts
    MICROSECONDS = "µs"
    SECONDS = "s"
    HOURS = "h"
    NONE = "none"  # a whole number that is written in full
    RATIO = "percentunit"
    PERCENT = "percent"
    COUNT = "short"
    PER_SECOND = "ops"
    PER_HOUR = "suffix:per hour"  # of what is rare
    BYTES = "bytes"
    MEBIBYTES = "mbytes"
    BYTES_PER_SECOND = "Bps"
    BITS_PER_SECOND = "bps"
    TIMESTAMP = "dateTimeAsIso"  # of milliseconds
    CELSIUS = "celsius"
    WATTS = "watt"
    TFLOPS = "tflops"
    BOOL = "bool_on_off"


def indented(promql: str, by: int = 2) -> str:
    """PromQL to put into other PromQL: its further lines begin so many spaces later."""
    return promql.strip().replace("\n", "\n" + by * " ")


def labelled(promql: str, label: str, value: str) -> str:
    """PromQL whose rows have one more label, on lines of its own."""
    return f"""
label_replace(
  {indented(promql)},
  "{label}", "{value}", "", ""
)"""


def require(condition: object, message: str) -> None:
    """Raise ValueError where a condition does not hold."""
    if not condition:
        raise ValueError(message)
