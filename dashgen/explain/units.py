# SPDX-License-Identifier: Apache-2.0
"""Units as people say them, and sentences cut out of texts."""

from __future__ import annotations

import re

from dashgen.model import Unit

_WORDS = {
    Unit.GBPS: "GB/s",
    Unit.MICROSECONDS: "µs",
    Unit.SECONDS: "seconds",
    Unit.HOURS: "hours",
    Unit.NONE: "number",
    Unit.RATIO: "share, 1 is 100 %",
    Unit.PERCENT: "percent",
    Unit.COUNT: "number",
    Unit.PER_SECOND: "per second",
    Unit.PER_HOUR: "per hour",
    Unit.BYTES: "bytes",
    Unit.MEBIBYTES: "MiB",
    Unit.BYTES_PER_SECOND: "bytes per second",
    Unit.BITS_PER_SECOND: "bits per second",
    Unit.TIMESTAMP: "time, seconds since 1970",
    Unit.CELSIUS: "°C",
    Unit.WATTS: "W",
    Unit.TFLOPS: "TFLOP/s",
    Unit.BOOL: "0 or 1",
}


def said(unit: str) -> str:
    """A unit of Grafana in words; one of the many others, which a site may give its throughput, as it is."""
    return _WORDS[Unit(unit)] if unit in list(Unit) else unit


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence."""
    return re.split(r"(?<=[.?!])\s", text, maxsplit=1)[0]
