# SPDX-License-Identifier: Apache-2.0
"""What node_exporter says of Inspector's files and of itself."""

from __future__ import annotations

from dashgen.model import Metric, Unit

TEXTFILE = "prometheus/node_exporter collector/textfile.go"
MEMINFO = "prometheus/node_exporter collector/meminfo.go"

METRICS: tuple[Metric, ...] = (
    Metric(
        key="mtime",
        name="node_textfile_mtime_seconds",
        unit=Unit.SECONDS,
        meaning="When a textfile was last written; absent for a file that could not be parsed.",
        labels=("file",),
        source=TEXTFILE,
        companion="textfile",
    ),
    Metric(
        key="textfile_error",
        name="node_textfile_scrape_error",
        unit=Unit.BOOL,
        meaning="1 when any textfile of the node could not be read; a single 1 is normal while files are rewritten.",
        labels=(),
        source=TEXTFILE,
        companion="textfile",
    ),
    Metric(
        key="gathering_errors",
        name="promhttp_metric_handler_errors_total",
        unit=Unit.COUNT,
        kind="counter",
        meaning='With cause="gathering": the only sign that duplicate series were dropped.',
        labels=("cause",),
        source="prometheus/client_golang promhttp, as used by node_exporter",
        companion="exporter_metrics",
    ),
    Metric(
        key="host_memory_total",
        name="node_memory_MemTotal_bytes",
        unit=Unit.BYTES,
        meaning="The memory of the host.",
        labels=(),
        source=MEMINFO,
        companion="host_memory",
    ),
    Metric(
        key="host_memory_available",
        name="node_memory_MemAvailable_bytes",
        unit=Unit.BYTES,
        meaning="What new processes could have: memory of processes and shared memory is not in it, caches of files are.",
        labels=(),
        source=MEMINFO,
        companion="host_memory",
    ),
)
