# SPDX-License-Identifier: Apache-2.0
"""How lines and columns are told apart: colours by role, and the rules that give some of them a look of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from dashgen.grafana.schema import Json
from dashgen.model import TRANSPORTS, Panel

PALETTE: Mapping[str, str] = MappingProxyType(
    {
        "ok": "#009E73",
        "warn": "#E69F00",
        "bad": "#D55E00",
        "info": "#56B4E9",
        "nvlink": "#0072B2",
        "network": "#CC79A7",
        "mixed": "#999933",
        "neutral": "#8E8E8E",
    }
)
"""Colours by role, safe for the colour-blind: Okabe and Ito, Color Universal Design (2008), without their yellow, which
cannot be seen on white: the olive is of Paul Tol's muted scheme (SRON technical note 3.2, 2021). And a grey."""

OPERATIONS: Mapping[str, str] = MappingProxyType(
    {
        "AllReduce": "#0072B2",
        "AllGather": "#56B4E9",
        "ReduceScatter": "#009E73",
        "Broadcast": "#AA4499",
        "Reduce": "#999933",
        "AllGatherV": "#CC79A7",
    }
)
"""A colour for every collective, so that a curve and what it is compared with look alike; from the same two sources,
but never that of what is bad."""

_SIZES: Mapping[str, int] = MappingProxyType({"small": 1, "medium": 2, "large": 3})


def colour(panel: Panel, role: str) -> str:
    """The colour of a role. Raises ValueError where there is none."""
    if role not in PALETTE:
        raise ValueError(f"{panel.title}: there is no colour role {role}; use one of {', '.join(PALETTE)}")
    return PALETTE[role]


def mappings(panel: Panel, states: Mapping[int, tuple[str, str]]) -> list[Json]:
    """States as the words and colours of values."""
    options = {
        str(value): {"text": name, "color": colour(panel, role), "index": index}
        for index, (value, (name, role)) in enumerate(states.items())
    }
    return [{"type": "value", "options": options}] if options else []


def data_links(links: Mapping[str, str]) -> list[Json] | None:
    """Links by their titles; None where there is none."""
    return [{"title": title, "url": url, "targetBlank": False} for title, url in links.items()] or None


def transport_colours(panel: Panel) -> list[Json]:
    """The colour of a transport, the same on every board; shades where one transport has several series."""
    legends = {query.legend.strip() for query in panel.queries}
    coloured = panel.states or (panel.steps and panel.type != "timeseries")  # there the value chooses the colour
    if coloured or not any(word in legend for legend in legends for word in ("transport", *TRANSPORTS)):
        return []
    mode = "fixed" if legends <= {"{{transport}}", *TRANSPORTS} else "shades"
    return [
        override("byRegexp", f"/^{transport}\\b/", color={"mode": mode, "fixedColor": PALETTE[transport]})
        for transport in TRANSPORTS
    ]


def _operation_colours(panel: Panel) -> list[Json]:
    """The colour of an operation and, by the width of its line, of a size, for a curve as for its usual line."""
    if not any(re.match(r"(usual |expected )?\{\{collective\}\}", query.legend) for query in panel.queries):
        return []
    colours = [
        override("byRegexp", f"/\\b{name}\\b/", color={"mode": "fixed", "fixedColor": colour})
        for name, colour in OPERATIONS.items()
    ]
    sizes = _SIZES if any("{{size_class}}" in query.legend for query in panel.queries) else {}
    return colours + [override("byRegexp", f"/\\b{size}\\b/", custom__lineWidth=w) for size, w in sizes.items()]


_REFERENCE_LINE = re.compile(r"usual|expected")
# A line that stands for several, beside none of its own colour.
_ALONE = re.compile(r"(usual|expected) [^{]*$")


def _reference_lines(panel: Panel) -> list[Json]:
    """What a curve is compared with is a thin dashed line of the curve's colour, or grey where it has no curve."""
    found = sorted({match[0] for query in panel.queries if (match := _REFERENCE_LINE.match(query.legend))})
    style = {"custom__lineStyle": {"fill": "dash", "dash": [6, 6]}, "custom__lineWidth": 1}
    grey = {"color": {"mode": "fixed", "fixedColor": PALETTE["neutral"]}}
    alone = {match[1] for query in panel.queries if (match := _ALONE.match(query.legend))}
    return [override("byRegexp", f"/^{word}\\b/", **style, **(grey if word in alone else {})) for word in found]


def _slowest_path(panel: Panel) -> list[Json]:
    """Dotted, as it has the colour of the best path beside it."""
    style = {"custom__lineStyle": {"fill": "dot", "dash": [2, 6]}}
    found = any(query.legend.startswith("slowest path") for query in panel.queries)
    return [override("byRegexp", "/^slowest path\\b/", **style)] * found


def _line_names(panel: Panel) -> list[Json]:
    """Lines as people call them; last, as no rule after this finds a line by its old name."""
    return [override("byName", old, displayName=new) for old, new in panel.line_names.items()]


def _line_colours(panel: Panel) -> list[Json]:
    """A colour of a role for the lines whose name holds a word."""
    return [
        override("byRegexp", f"/\\b{word}\\b/", color={"mode": "fixed", "fixedColor": colour(panel, role)})
        for word, role in panel.line_colours.items()
    ]


def _line_units(panel: Panel) -> list[Json]:
    return [override("byRegexp", f"/\\b{word}\\b/", unit=unit) for word, unit in panel.line_units.items()]


def override(matcher: str, options: str, **properties: object) -> Json:
    """A rule for the fields that a matcher finds; two underscores stand for a point."""
    return {
        "matcher": {"id": matcher, "options": options},
        "properties": [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()],
    }


def lines(panel: Panel) -> list[Json]:
    """The rules for the lines of a graph."""
    return [
        *transport_colours(panel),
        *_operation_colours(panel),
        *_line_colours(panel),
        *_reference_lines(panel),
        *_slowest_path(panel),
        *_line_units(panel),
        *_line_names(panel),
    ]
