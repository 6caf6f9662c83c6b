# SPDX-License-Identifier: Apache-2.0
"""Brings grafanalib's dashboard JSON to the schema that Grafana writes today.

grafanalib 0.7.1 writes schema 12. Grafana migrates old dashboards step by step, but several steps run only when the
stored version is older than the step, so raising the number alone silently loses what those steps would have done.
Each function below is one such step; all of it is pure, and doing it twice changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

SCHEMA_VERSION = 42
"""The newest classic schema (grafana/grafana#110517); newer Grafana versions speak v2 resources beside it."""

PLUGIN_VERSION = "12.2.0"
"""A Grafana that writes schema 42: without a version every panel plugin runs its migrations on each load."""

GRID_COLUMNS = 24  # Grafana's grid is always this wide
MAX_UID = 40  # Grafana refuses longer ones
UID = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_UID}}}")


def told_apart(uid: str, name: str) -> str:
    """A uid within Grafana's limit that is no other name's although letters were lost: it ends with a checksum."""
    return f"{uid[: MAX_UID - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


LEGACY_BOARD_KEYS = frozenset(
    {
        *("__inputs", "__requires", "rows", "hideControls", "style", "gnetId", "id", "iteration"),
        *("sharedCrosshair", "version"),
    }
)
"""Top-level keys outside the schema, or that belong to one Grafana instance (``id``, ``version``)."""

LEGACY_PANEL_KEYS = frozenset({"editable", "error", "span", "minSpan", "height", "cacheTimeout", "fontSize", "columns"})
"""Panel keys of the time before grid positions and field configuration."""

LEGACY_HEATMAP_KEYS = frozenset(
    {
        *("cards", "color", "dataFormat", "heatmap", "hideZeroBuckets", "highlightCards", "legend", "reverseYBuckets"),
        *("tooltip", "xAxis", "xBucketNumber", "xBucketSize", "yAxis", "yBucketBound", "yBucketNumber", "yBucketSize"),
    }
)
"""What a heatmap looked like before Grafana 9.1 gave it options."""

LEGACY_TARGET_KEYS = frozenset({"query", "target", "metric", "step", "intervalFactor"})
"""Query keys of the Graphite days; ``intervalFactor: 2`` would still halve the resolution."""

LEGACY_VARIABLE_KEYS = frozenset({"tags", "tagsQuery", "tagValuesQuery", "useTags"})
"""Variable value groups, removed in Grafana 8."""

_ROW_KEYS = frozenset({"type", "id", "title", "gridPos", "collapsed", "panels", "repeat"})


def modernise(board: Mapping[str, Any]) -> Json:
    """A dashboard as Grafana 12 and 13 would store it, from one as grafanalib writes it."""
    new: Json = _without_nulls({key: value for key, value in board.items() if key not in LEGACY_BOARD_KEYS})
    new["schemaVersion"] = SCHEMA_VERSION
    new.get("timepicker", {}).pop("time_options", None)  # v41 migration
    for variable in new.get("templating", {}).get("list", []):
        _variable(variable)
    new["panels"] = [_panel(panel) for panel in new.get("panels", [])]
    return new


def _without_nulls(value: Any) -> Any:
    """A deep copy without null members; strict readers reject a null where the schema has an optional key."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _drop(target: Json, keys: frozenset[str]) -> None:
    for key in keys & target.keys():
        del target[key]


def _variable(variable: Json) -> None:
    _drop(variable, LEGACY_VARIABLE_KEYS)
    if variable.get("type") != "interval":
        _drop(variable, frozenset({"auto", "auto_count", "auto_min"}))
    current = {key: value for key, value in variable.get("current", {}).items() if key in ("text", "value")}
    variable["current"] = current if current.get("value") else {}


def _panel(panel: Json) -> Json:
    if panel.get("type") == "row":
        row = {key: value for key, value in panel.items() if key in _ROW_KEYS}
        row["panels"] = [_panel(child) for child in panel.get("panels", [])]
        return row
    if panel.get("maxDataPoints") == 100:
        del panel["maxDataPoints"]  # grafanalib's default, which coarsens every graph and inflates $__interval
    for default in ("hideTimeOverride", "transparent", "links", "targets", "transformations"):
        if not panel.get(default):
            panel.pop(default, None)
    if panel.get("type") in _CONVERT:
        _CONVERT[panel["type"]](panel)
    _drop(panel, LEGACY_PANEL_KEYS)
    panel["pluginVersion"] = PLUGIN_VERSION
    for target in panel.get("targets", []):
        _target(target)
    _field_config(panel.setdefault("fieldConfig", {}))
    _legend(panel.setdefault("options", {}))
    return panel


def _target(target: Json) -> None:
    _drop(target, LEGACY_TARGET_KEYS)
    for key in ("interval", "hide"):
        if not target.get(key):
            target.pop(key, None)
    if "expr" in target:
        instant = bool(target.get("instant"))
        target.update(instant=instant, range=not instant, editorMode="code", exemplar=False)


def _field_config(config: Json) -> None:
    config.setdefault("overrides", [])
    defaults = config.setdefault("defaults", {})
    defaults.setdefault("mappings", [])
    for unset in ("unit", "color"):
        if not defaults.get(unset):
            defaults.pop(unset, None)
    _thresholds(defaults)


def _thresholds(defaults: Json) -> None:
    """Steps of value and colour; the base step is the one place where the schema wants a null."""
    steps = defaults.get("thresholds", {}).get("steps") or []
    if not steps:
        defaults.pop("thresholds", None)
        return
    values = [None, *(step["value"] for step in steps[1:])]
    defaults["thresholds"]["steps"] = [
        {"color": step["color"], "value": value} for step, value in zip(steps, values, strict=True)
    ]


def _legend(options: Json) -> None:
    """Say that the legend shows: before v37 silence meant yes, since then it means no."""
    legend = options.get("legend")
    if isinstance(legend, dict) and "displayMode" in legend:
        hidden = legend["displayMode"] == "hidden"
        legend["displayMode"] = "list" if hidden else legend["displayMode"]
        legend.setdefault("showLegend", not hidden)
        legend.setdefault("calcs", [])
        options.get("tooltip", {}).setdefault("sort", "none")


def _stat(panel: Json) -> None:
    """Fill in options younger than grafanalib's Stat."""
    options = panel["options"]
    options.setdefault("wideLayout", True)
    options.setdefault("showPercentChange", False)
    options.setdefault("percentChangeColorMode", "standard")


def _table(panel: Json) -> None:
    """Root mappings and colour into the field configuration, the display mode into cell options (v38 migration)."""
    config = panel["fieldConfig"]
    defaults = config["defaults"]
    for key in ("mappings", "color"):
        if key in panel:
            defaults.setdefault(key, panel.pop(key))
    custom = defaults.setdefault("custom", {})
    if "displayMode" in custom:
        custom["cellOptions"] = {"type": custom.pop("displayMode")}


def _bar_gauge(panel: Json) -> None:
    """``fieldOptions`` of Grafana 6 into the field configuration, before a reader drops unit, limits and thresholds."""
    options = panel["options"]
    old = options.pop("fieldOptions", None)
    if old is not None:
        known = {key: value for key, value in old["defaults"].items() if value not in ("", [])}
        title = known.pop("title", None)
        defaults = panel["fieldConfig"].setdefault("defaults", {})
        defaults.update({**known, **({"displayName": title} if title else {})})
        defaults["thresholds"] = {"mode": "absolute", "steps": old.get("thresholds", [])}
        defaults.setdefault("color", {"mode": "thresholds"})
        options["reduceOptions"] = {"calcs": old["calcs"], "fields": "", "values": old["values"]}
        _drop(options, frozenset({"showThresholdLabels", "showThresholdMarkers"}))
    for key, value in _BAR_GAUGE.items():
        options.setdefault(key, dict(value) if isinstance(value, dict) else value)


_BAR_GAUGE: Json = {
    "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
    "maxVizHeight": 300,
    "minVizHeight": 16,
    "minVizWidth": 8,
    "namePlacement": "auto",
    "showUnfilled": True,
    "sizing": "auto",
    "valueMode": "color",
}
"""Bar gauge options younger than grafanalib, at Grafana's defaults."""


def _heatmap(panel: Json) -> None:
    """Drop the pre-9.1 shape; the options are the caller's, because the old shape holds nothing worth keeping."""
    _drop(panel, LEGACY_HEATMAP_KEYS)
    if not isinstance(panel.get("options"), dict):
        panel["options"] = {}


_CONVERT = {"stat": _stat, "table": _table, "bargauge": _bar_gauge, "heatmap": _heatmap}


def plain(value: Any) -> Any:
    """grafanalib objects as plain data; its own encoder goes through text."""
    if hasattr(value, "to_json_data"):
        return plain(value.to_json_data())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def overlay(base: Json, patch: Mapping[str, Any]) -> Json:
    """``base`` with ``patch`` laid over it, key by key; lists are replaced, None leaves the base alone."""
    merged = dict(base)
    for key, value in patch.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), dict):
            merged[key] = overlay(merged[key], value)
        elif value is not None:
            merged[key] = value
    return merged
