# SPDX-License-Identifier: Apache-2.0
"""Turns one panel of the model into Grafana JSON, whatever its type.

Every panel is built with grafanalib. What grafanalib cannot say (spans in milliseconds, heatmap options, data links) is
laid over its output, and dashgen.grafana.schema brings the result to the current schema.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grafanalib import core

from dashgen.grafana.looks import PALETTE, colour, data_links, lines, mappings, override, transport_colours
from dashgen.grafana.schema import Json, overlay, plain
from dashgen.model import Panel, PanelType, Unit

_LEGEND_CALCS = ["lastNotNull", "min", "max"]
_LINKED_FIELD = re.compile(r"\$\{__data\.fields\.(\w+)")


@dataclass(frozen=True, kw_only=True)
class Style:
    """What all boards of a site share.

    ``span_nulls_ms`` is the longest gap that a line may cross: at least two dumps, since one late dump is no outage.
    ``min_interval`` is the dump interval, because a finer step would draw every dump several times. ``datasource`` is
    the name of the data source variable.
    """

    uid_prefix: str = "dashgen-nccl-"
    title_prefix: str = "NCCL / "
    tags: tuple[str, ...] = ("nccl",)
    datasource: str = "datasource"
    datasource_regex: str = ""
    datasource_default: str = ""
    refresh: str = "30s"
    timezone: str = "browser"
    min_interval: str = "30s"
    span_nulls_ms: int = 90_000
    editable: bool = False

    @property
    def source(self) -> Json:
        """A reference to whatever data source the reader has chosen."""
        return {"type": "prometheus", "uid": f"${{{self.datasource}}}"}


def build(panel: Panel, style: Style) -> Json:
    """One panel of any type, without its place in the grid."""
    raw, patch = _BUILDERS[panel.type](panel, style)
    return overlay(plain(raw), patch)


def _common(panel: Panel, style: Style) -> Json:
    return {
        "title": panel.title,
        "description": panel.description,
        "dataSource": style.source,
        "targets": [_target(panel, index, style) for index in range(len(panel.queries))],
        "thresholds": _thresholds(panel),
        "maxDataPoints": panel.points or None,
    }


def _target(panel: Panel, index: int, style: Style) -> core.Target:
    query = panel.queries[index]
    table = panel.type == "table"
    return core.Target(
        expr=query.expr,
        legendFormat=query.legend or "__auto",
        format="table" if table else "time_series",
        instant=query.instant or table,
        interval=panel.interval or style.min_interval,
        refId=string.ascii_uppercase[index],
        datasource=style.source,
    )


def _thresholds(panel: Panel) -> list[core.Threshold]:
    """Steps of value and colour; the first one is the base and has no value."""
    steps = panel.steps or ((None, "info"),)
    if steps[0][0] is not None or None in [value for value, _ in steps[1:]]:
        raise ValueError(f"{panel.title}: the first threshold step, and no other, has the value None")
    # A cell that is not bad has no colour: one without a value would be green as well.
    colours = [
        "transparent" if panel.type == "table" and not place else colour(panel, role)
        for place, (_, role) in enumerate(steps)
    ]
    return [
        core.Threshold(colour, index, float(value or 0))
        for index, ((value, _), colour) in enumerate(zip(steps, colours, strict=True))
    ]


def _defaults(panel: Panel, custom: Mapping[str, object] | None = None) -> Json:
    """The field configuration that grafanalib takes as integers, or not at all."""
    return {
        "unit": panel.unit.value,
        "decimals": panel.decimals,
        "min": panel.minimum,
        "max": panel.maximum,
        "noValue": panel.no_value,
        "mappings": mappings(panel, panel.states),
        "links": data_links(panel.links),
        "custom": custom,
    }


def _time_series(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    raw = core.TimeSeries(
        **_common(panel, style),
        lineWidth=2,
        showPoints="auto",  # a lone sample between two gaps is drawn, not lost
        legendDisplayMode="table",
        legendPlacement="bottom",
        legendCalcs=_LEGEND_CALCS,
        tooltipMode="multi",
        tooltipSort="asc" if panel.lowest_first else "desc",
        thresholdsStyleMode="dashed" if panel.steps else "off",
        overrides=lines(panel),
    )
    custom = {"spanNulls": style.span_nulls_ms, "stacking": {"group": "A", "mode": "none"}, **_soft_limits(panel)}
    # The odd one is on top, not below the fold of the legend.
    legend = {"sortBy": "Min", "sortDesc": False} if panel.lowest_first else {"sortBy": "Max", "sortDesc": True}
    return raw, {"fieldConfig": {"defaults": _defaults(panel, custom)}, "options": {"legend": legend}}


def _soft_limits(panel: Panel) -> Json:
    """Room for the thresholds: a limit that is off the scale tells nobody how far away it is."""
    values = [value for value, _ in panel.steps if value is not None]
    return {"axisSoftMin": min(0.0, *values), "axisSoftMax": 1.1 * max(values)} if values else {}


def _stat(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    instant = all(query.instant for query in panel.queries)
    raw = core.Stat(
        **_common(panel, style),
        colorMode="background" if panel.steps or panel.states else "none",
        graphMode="none" if instant or panel.states else "area",
        reduceCalc="lastNotNull",
        # A sentence is the name of a series; its value chooses the colour.
        textMode="name" if panel.sentence else "auto",
        overrides=transport_colours(panel),
    )
    return raw, {"fieldConfig": {"defaults": {**_defaults(panel), "color": {"mode": "thresholds"}}}}


def _bar_gauge(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    raw = core.BarGauge(
        **_common(panel, style),
        calc="lastNotNull",
        format=panel.unit.value,
        min=panel.minimum,
        max=panel.maximum,
        decimals=panel.decimals,
        displayMode=core.GAUGE_DISPLAY_MODE_BASIC,
    )
    return raw, {"fieldConfig": {"defaults": _defaults(panel), "overrides": transport_colours(panel)}}


def _state_timeline(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    raw = core.StateTimeline(
        **_common(panel, style), mergeValues=False, lineWidth=0, fillOpacity=80, showValue="auto", tooltipMode="single"
    )
    custom = {"spanNulls": style.span_nulls_ms}
    # Colours come from the states. Merged and coloured by thresholds, as both are by default, Grafana would show
    # neither the word nor the colour of a state (grafana/grafana#71804, #41075).
    colour = {"mode": "fixed", "fixedColor": PALETTE["neutral"]}
    return raw, {"fieldConfig": {"defaults": {**_defaults(panel, custom), "color": colour}}}


def _heatmap(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    """One row per series, time to the right, the value as colour: a bad node is a stripe."""
    cells = {"unit": panel.unit.value, "decimals": panel.decimals}
    scale = {"min": panel.minimum, "max": panel.maximum}
    options: Json = {
        "calculate": False,
        "cellGap": 1,
        "cellValues": {key: value for key, value in cells.items() if value is not None},
        # Cividis was made to look the same with and without red-green colour blindness (Nuñez et al., 2018).
        "color": {
            "mode": "scheme",
            "scheme": "Cividis",
            "fill": PALETTE["warn"],
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
            "reverse": False,
            **{key: value for key, value in scale.items() if value is not None},
        },
        "exemplars": {"color": PALETTE["bad"]},
        "filterValues": {"le": -1e9},  # Grafana's default hides zeros, and a zero is an answer
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto", "value": panel.title},
        "showValue": "never",
        "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
        "yAxis": {"axisPlacement": "left", "reverse": True},  # the first name on top, as in a list
    }
    raw = core.Heatmap(**_common(panel, style))
    custom = {"hideFrom": {"legend": False, "tooltip": False, "viz": False}, "scaleDistribution": {"type": "linear"}}
    return raw, {"fieldConfig": {"defaults": _defaults(panel, custom)}, "options": options}


# Tables: one line per thing, joined from instant queries.


def _table(panel: Panel, style: Style) -> tuple[core.Panel, Json]:
    columns = {_column(panel, name): title for name, title in panel.columns.items()}
    raw = core.Table(
        **_common(panel, style),
        filterable=True,
        displayMode="auto",
        overrides=_column_overrides(panel, columns),
        transformations=_transformations(panel, columns),
    )
    # Mappings and links are the columns' own: a GPU called 1 is not a state.
    defaults = {**_defaults(panel), "mappings": [], **({"links": None} if columns else {})}
    order = (
        [{"displayName": panel.order.removeprefix("-"), "desc": panel.order.startswith("-")}] if panel.order else None
    )
    return raw, {"fieldConfig": {"defaults": defaults}, "options": {"cellHeight": "sm", "sortBy": order}}


def _column(panel: Panel, name: str) -> str:
    """The name that Grafana gives a value column: with the query's letter only if there are several queries."""
    if len(panel.queries) == 1:
        return "Value" if name == "Value #A" else name
    return "Value #A" if name == "Value" else name


def _transformations(panel: Panel, columns: Mapping[str, str]) -> list[Json]:
    """Keep the listed columns, join the queries on the labels that are left, then name and order the columns.

    Filtering comes first: a label that only one query has would otherwise keep the lines apart.
    """
    merge = [{"id": "merge", "options": {}}] if len(panel.queries) > 1 else []
    if not columns:
        return [*merge, {"id": "organize", "options": {"excludeByName": {"Time": True}}}]
    # Time as well: without a column that all of them have, and an empty answer has no other, Grafana joins nothing.
    names = [*(["Time"] if merge else []), *columns]
    keep = {"id": "filterFieldsByName", "options": {"include": {"names": names}}}
    order = {name: index for index, name in enumerate(columns)}
    if panel.across:
        return _grid(panel, columns, order)
    options = {"excludeByName": {"Time": True} if merge else {}, "indexByName": order, "renameByName": dict(columns)}
    return [keep, *merge, {"id": "organize", "options": options}]


def _grid(panel: Panel, columns: Mapping[str, str], order: Mapping[str, int]) -> list[Json]:
    """One row for each value of the first column's label, one column for each of the label across."""
    label, title = next(iter(columns.items()))
    # Grafana's own name for the column of the rows.
    corner = f"{label}\\{panel.across}"
    fields = {"rowField": label, "columnField": panel.across, "valueField": "Value", "emptyValue": "null"}
    places = {corner if name == label else name: index for name, index in order.items()}
    names = {corner: title} | {name: shown for name, shown in columns.items() if name not in (label, shown)}
    return [
        {"id": "groupingToMatrix", "options": fields},
        {"id": "organize", "options": {"excludeByName": {}, "indexByName": places, "renameByName": names}},
    ]


def _is_value(panel: Panel, name: str) -> bool:
    """Whether a column holds numbers: in a grid all but the first do."""
    return name not in list(panel.columns)[:1] if panel.across else name.startswith("Value")


def _column_overrides(panel: Panel, columns: Mapping[str, str]) -> list[Json]:
    """Units per column, colours on the values in the panel's own unit, links on the column they speak of."""
    units = {_column(panel, name): unit for name, unit in panel.column_units.items()}
    # A cell without a value is a dash: the panel's own words are for a table without any line.
    overrides = [override("byRegexp", "/.+/", noValue="–")] if columns else []
    overrides += [_unit(columns.get(name, name), unit) for name, unit in units.items()]
    for name, title in columns.items():
        if not _is_value(panel, name):
            # Grafana takes a label that looks like a number for one: job 41502 of a table in percent is 4150200 %.
            said = {"mappings": _words(panel.words)} if panel.words else {}
            overrides.append(override("byName", title, unit="string", **said))
    if panel.steps:
        overrides += [
            override("byName", title, custom__cellOptions=_PAINTED)
            for name, title in columns.items()
            if _is_value(panel, name) and name not in units and title not in units
        ]
    for name, states in panel.column_states.items():
        title = columns[_column(panel, name)]
        words = mappings(panel, states)
        overrides.append(override("byName", title, unit="none", mappings=words, custom__cellOptions=_PAINTED))
    for name, links in _linked(panel, columns).items():
        overrides.append(override("byName", columns[name], links=data_links(links)))
    return overrides


def _words(words: Mapping[str, str]) -> list[Json]:
    """Labels as people say them."""
    options = {word: {"text": text, "index": index} for index, (word, text) in enumerate(words.items())}
    return [{"type": "value", "options": options}]


_PAINTED: Json = {"type": "color-background", "mode": "basic"}


def _unit(title: str, unit: Unit) -> Json:
    return override("byName", title, unit=unit.value)


def _linked(panel: Panel, columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The links of each column: a link belongs to the first column that it reads, or else to the table's first."""
    found: dict[str, dict[str, str]] = {}
    for title, url in panel.links.items() if columns else ():
        fields = _LINKED_FIELD.findall(url)
        for field in fields:
            if field not in columns:
                raise ValueError(f"{panel.title}: a link reads the column {field}, which the table does not show")
        for field in fields if panel.across else ():
            # A grid has no column of a label's name any more: its title is left.
            url = url.replace(f"${{__data.fields.{field}}}", f"${{__data.fields.{columns[field]}}}")
        found.setdefault(fields[0] if fields else next(iter(columns)), {})[title] = url
    return found


_BUILDERS: Mapping[PanelType, Callable[[Panel, Style], tuple[core.Panel, Json]]] = {
    "timeseries": _time_series,
    "stat": _stat,
    "table": _table,
    "heatmap": _heatmap,
    "state-timeline": _state_timeline,
    "bargauge": _bar_gauge,
}

TYPES = tuple(_BUILDERS)
"""The panel types that can be drawn: all of the model's."""
