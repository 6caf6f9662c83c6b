# SPDX-License-Identifier: Apache-2.0
"""Incidents as a table for a person, and as JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from dashgen.catalogue import SIGNAL_BY_NAME
from dashgen.config.site import Site
from dashgen.grafana.units import written
from dashgen.guard.text import counted, visible
from dashgen.live.incidents.windows import Evidence, Incident
from dashgen.model import Unit

COLUMNS = (
    *("cluster", "job", "start", "end", "seconds", "ongoing", "state", "suspect", "transport", "node", "gpu", "depth"),
    *("detected", "worst", "evidence", "before", "during", "after", "gpus", "gpu_hours", "fabric", "alerts"),
)
"""The columns of the CSV, and the keys of an incident in JSON."""


def lost(found: Sequence[Incident]) -> float:
    """GPU hours that all incidents cost together, as far as they are known."""
    return sum(one.gpu_hours or 0.0 for one in found)


def as_json(found: Sequence[Incident]) -> str:
    """A list of incidents, and what they cost together. Moments are ISO 8601 in UTC, shares go from 0 to 1."""
    content = {"incidents": [_fields(one) for one in found], "gpu_hours": round(lost(found), 3)}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_csv(found: Sequence[Incident]) -> str:
    """A line for each incident below a line of names; lists are joined by spaces."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in found:
        fields = _fields(one)
        fields["fabric"] = "; ".join(fabric(each) for each in one.fabric)
        fields["alerts"] = " ".join(f"{each.name}+{each.after:g}s" for each in one.alerts)
        lines.writerow(["" if fields[name] is None else _inert(fields[name]) for name in COLUMNS])
    return text.getvalue()


def _inert(value: object) -> object:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _fields(one: Incident) -> dict[str, Any]:
    throughput = one.throughput
    return {
        "cluster": one.cluster,
        "job": one.job,
        "start": iso(one.start),
        "end": None if one.ongoing else iso(one.end),
        "seconds": round(one.length),
        "ongoing": one.ongoing,
        "state": one.state,
        "suspect": one.suspect,
        "transport": one.transport,
        "node": one.node,
        "gpu": one.gpu,
        "depth": round(one.depth, 4),
        "detected": iso(one.detected),
        "worst": iso(one.worst),
        "evidence": throughput.evidence if throughput else "none",
        "before": _rounded(throughput.before if throughput else None),
        "during": _rounded(throughput.during if throughput else None),
        "after": _rounded(throughput.after if throughput else None),
        "gpus": one.gpus,
        "gpu_hours": _rounded(one.gpu_hours),
        "fabric": [{"name": each.name, "labels": dict(each.labels), "value": each.value} for each in one.fabric],
        "alerts": [asdict(each) for each in one.alerts],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def iso(moment: float) -> str:
    """A moment, in seconds since the epoch, as ISO 8601 in UTC."""
    return datetime.fromtimestamp(round(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def table(found: Sequence[Incident], site: Site) -> Table:
    """One row an incident, in words."""
    drawn = Table(box=None, pad_edge=False)
    for head in ("job", "begin (UTC)", "lasted", "what", "where", "depth", "throughput", "GPU hours", "alerts"):
        drawn.add_column(head, justify="right" if head in ("lasted", "depth", "GPU hours") else "left")
    for one in found:
        row = (name(one), moment(one.start), length(one), what(one), where(one), depth(one), throughput(one, site))
        drawn.add_row(*(Text(visible(cell)) for cell in (*row, cost(one), alerts(one))))
        for each in one.fabric:
            drawn.add_row(*("",) * 3, Text(visible(fabric(each)), style="dim"))
    return drawn


def summary(found: Sequence[Incident]) -> str:
    """All of them in a line."""
    if not found:
        return "no incidents"
    unknown = sum(one.gpu_hours is None for one in found)
    more = f" ({unknown} of unknown cost not counted)" if unknown else ""
    return f"{counted(len(found), 'incident')}, {lost(found):.1f} GPU hours lost{more}"


def name(one: Incident) -> str:
    """The job, with its cluster where there are several."""
    return f"{one.cluster}/{one.job}" if one.cluster else one.job


def moment(when: float) -> str:
    """A moment for a person."""
    return datetime.fromtimestamp(round(when), UTC).strftime("%Y-%m-%d %H:%M:%S")


def length(one: Incident) -> str:
    """How long it lasted."""
    return written(one.length, "s") + (" so far" if one.ongoing else "")


def what(one: Incident) -> str:
    """State and suspect."""
    return one.state if not one.suspect else f"{one.state}: {one.suspect}"


def where(one: Incident) -> str:
    """Transport, node and GPU as far as they are known; who may count the GPU of a stall."""
    counts = "(as nvidia-smi or CUDA counts)" if one.gpu and one.state == "stalled" else ""
    return " ".join(each for each in (one.transport, one.node, one.gpu, counts) if each) or "–"


def depth(one: Incident) -> str:
    """How deep the verdict was."""
    return written(one.depth, "percentunit") if one.state == "degraded" else "–"


def throughput(one: Incident, site: Site) -> str:
    """Usual, during and after, with unit and source."""
    told = one.throughput
    if told is None or told.before is told.during is told.after is None:
        return "–"
    said = " → ".join("–" if each is None else f"{each:.4g}" for each in (told.before, told.during, told.after))
    unit = site.companions.throughput.unit
    if told.evidence != "reported":
        return f"{said} ({told.evidence})"
    return said if unit == "short" else f"{said} {unit}"


def cost(one: Incident) -> str:
    """The GPU hours that it cost."""
    return "–" if one.gpu_hours is None else f"{one.gpu_hours:.2f}"


def alerts(one: Incident) -> str:
    """What fired, and how long after the begin."""
    return ", ".join(f"{each.name} +{each.after:.0f} s" for each in one.alerts) or "none"


def fabric(each: Evidence) -> str:
    """A row of fabric evidence."""
    labels = " ".join(f"{key}={value}" for key, value in each.labels)
    value, unit = each.value, SIGNAL_BY_NAME[each.name].unit
    if unit == Unit.PER_SECOND:  # as on the boards: errors are rare
        value, unit = 3600 * value, Unit.PER_HOUR
    return f"{each.name} {labels}: {written(value, unit)}"
