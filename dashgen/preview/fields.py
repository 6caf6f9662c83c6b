# SPDX-License-Identifier: Apache-2.0
"""What a panel says about one of its curves or columns: Grafana's field configuration with its overrides applied."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dashgen.grafana import units
from dashgen.grafana.parsed import Json, mapping, objects

CLASSIC = (
    *("#7EB26D", "#EAB839", "#6ED0E0", "#EF843C", "#E24D42", "#1F78C1", "#BA43A9", "#705DA0", "#508642", "#CCA300"),
    *("#447EBC", "#C15C17", "#890F02", "#0A437C", "#6D1F62", "#584477", "#B7DBAB", "#F4D598", "#70DBED", "#F9BA8F"),
)
"""Grafana's classic palette, for curves without a colour of their own."""

_NAMED = {
    "green": "#73BF69",
    "yellow": "#FADE2A",
    "orange": "#FF9830",
    "red": "#F2495C",
    "blue": "#5794F2",
    "purple": "#B877D9",
    "transparent": "#ffffff",
    "text": "#24292e",
}
_GREY = "#808080"
_HEX = re.compile(r"#[0-9a-fA-F]{6}")

_MATCHERS = ("byName", "byRegexp")
_CELLS = (None, "auto", "color-background")
_COLOURS = (None, "fixed", "shades", "thresholds", "palette-classic")
_DRAWN = frozenset(
    {
        *("color", "unit", "decimals", "min", "max", "noValue", "mappings", "links", "thresholds", "displayName"),
        *("custom.lineStyle", "custom.lineWidth", "custom.fillOpacity", "custom.cellOptions", "custom.spanNulls"),
        *("custom.axisSoftMin", "custom.axisSoftMax"),
        # These change how a table is handled or how a line is dotted, not what it says.
        *("custom.width", "custom.align", "custom.filterable", "custom.showPoints", "custom.pointSize", "description"),
    }
)


@dataclass(frozen=True)
class Field:
    """How one curve or column is to be shown."""

    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Grafana's name of the unit."""
        return str(self.config.get("unit") or "")

    @property
    def decimals(self) -> int | None:
        """Digits behind the point, where the panel says so."""
        value = self.config.get("decimals")
        return value if isinstance(value, int) else None

    @property
    def no_value(self) -> str:
        """What stands where there is nothing."""
        return str(self.config.get("noValue") or "")

    @property
    def custom(self) -> Json:
        """What only this type of panel knows."""
        return mapping(self.config.get("custom"))

    @property
    def links(self) -> tuple[Json, ...]:
        """Where the value leads."""
        return objects(self.config.get("links"))

    @property
    def steps(self) -> tuple[tuple[float | None, str], ...]:
        """Thresholds as value and colour; the base has no value. Percentages are not for a preview."""
        thresholds = mapping(self.config.get("thresholds"))
        if thresholds.get("mode") == "percentage":
            return ()
        return tuple(
            (number(each.get("value")), "" if each.get("color") == "transparent" else colour(each.get("color")))
            for each in objects(thresholds.get("steps"))
        )

    def limit(self, name: str) -> float | None:
        """``min`` or ``max``."""
        return number(self.config.get(name))

    def state(self, value: float) -> tuple[str, str] | None:
        """The word and the colour that a value is mapped to; None where it is not, "" where it has no colour."""
        for each in objects(self.config.get("mappings")) if math.isfinite(value) else ():
            options = mapping(each.get("options"))
            if each.get("type") == "value":
                found = mapping(options.get(_key(value)))
            elif each.get("type") == "range":
                low, high = number(options.get("from")), number(options.get("to"))
                inside = (low is None or value >= low) and (high is None or value <= high)
                found = mapping(options.get("result")) if inside else {}
            else:
                found = {}
            if found:
                return str(found.get("text") or self.number(value)), colour(found["color"]) if "color" in found else ""
        return None

    def word(self, text: str) -> str:
        """What a label is mapped to."""
        for each in objects(self.config.get("mappings")):
            found = mapping(mapping(each.get("options")).get(text)) if each.get("type") == "value" else {}
            if found:
                return str(found.get("text") or text)
        return text

    def number(self, value: float) -> str:
        """A value with its unit."""
        return units.written(value, self.unit, self.decimals)

    def text(self, value: float) -> str:
        """A value as the panel writes it: the word of its mapping, or the number with its unit."""
        state = self.state(value)
        return state[0] if state else self.number(value)

    def colour_of(self, value: float) -> str:
        """The colour of a value by its mapping or, without one, by the thresholds; empty where there are none."""
        state = self.state(value)
        if state and state[1]:
            return state[1]
        passed = [shade for limit, shade in self.steps if limit is None or value >= limit]
        return passed[-1] if passed else ""

    @property
    def own_colour(self) -> tuple[str, str]:
        """Mode and colour; the colour is empty where the mode chooses it."""
        chosen = mapping(self.config.get("color"))
        mode = str(chosen.get("mode") or "")
        return mode, colour(chosen["fixedColor"]) if mode in ("fixed", "shades") and chosen.get("fixedColor") else ""


def number(value: object) -> float | None:
    """The value, if it is a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def colour(value: object) -> str:
    """A colour as #rrggbb, also Grafana's names; grey for what is none. Nothing else reaches the page."""
    text = str(value or "")
    if _HEX.fullmatch(text):
        return text
    return next((code for name, code in _NAMED.items() if text.endswith(name)), _GREY)


def shade(base: str, place: int) -> str:
    """One of several shades of a colour; the first is the colour itself."""
    towards, share = [(0, 0.0), (255, 0.35), (0, 0.3), (255, 0.55), (0, 0.5)][place % 5]
    parts = (int(base[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (towards - part) * share):02x}" for part in parts)


def field_of(panel: Json, name: str) -> Field:
    """The configuration of what is called ``name``."""
    config = mapping(panel.get("fieldConfig"))
    found: dict[str, Any] = {**mapping(config.get("defaults"))}
    found["custom"] = {**mapping(found.get("custom"))}
    for override in objects(config.get("overrides")):
        if _matches(mapping(override.get("matcher")), name):
            for each in objects(override.get("properties")):
                key = str(each.get("id"))
                if key.startswith("custom."):
                    found["custom"][key.removeprefix("custom.")] = each.get("value")
                else:
                    found[key] = each.get("value")
    return Field(found)


def _matches(matcher: Json, name: str) -> bool:
    kind, options = matcher.get("id"), str(matcher.get("options") or "")
    if kind == "byRegexp":
        pattern = _regex(options)
        return pattern is not None and pattern.search(name) is not None
    return kind == "byName" and options == name


def _regex(text: str) -> re.Pattern[str] | None:
    """A regular expression as Grafana writes it, /…/i or bare; None where Python does not read it."""
    match = re.fullmatch(r"/(.*)/([a-z]*)", text, re.DOTALL)
    try:
        return re.compile(match[1], re.IGNORECASE if "i" in match[2] else 0) if match else re.compile(text)
    except re.error:
        return None


def ignored(panel: Json) -> Iterator[str]:
    """What a panel asks for and a preview does not do, in the words of the JSON."""
    config = mapping(panel.get("fieldConfig"))
    defaults = mapping(config.get("defaults"))
    if not units.known(str(defaults.get("unit") or "")):
        yield f"unit {defaults.get('unit')}"
    for override in objects(config.get("overrides")):
        matcher = mapping(override.get("matcher"))
        if matcher.get("id") not in _MATCHERS:
            yield f"override {matcher.get('id')}"
        elif matcher.get("id") == "byRegexp" and _regex(str(matcher.get("options") or "")) is None:
            yield f"override {matcher.get('options')}"
        else:
            yield from (
                str(each.get("id")) for each in objects(override.get("properties")) if each.get("id") not in _DRAWN
            )
    custom = mapping(defaults.get("custom"))
    cell = mapping(custom.get("cellOptions")).get("type")
    if cell not in _CELLS:
        yield f"cells {cell}"
    mode = mapping(defaults.get("color")).get("mode")
    if mode not in _COLOURS:
        yield f"colours {mode}"
    yield from (name for name in ("timeFrom", "timeShift") if panel.get(name))
    if custom.get("drawStyle") not in (None, "line"):
        yield f"drawStyle {custom.get('drawStyle')}"
    if mapping(custom.get("stacking")).get("mode") not in (None, "none", False):
        yield "stacking"
    if mapping(custom.get("scaleDistribution")).get("type") not in (None, "linear"):
        yield f"{mapping(custom.get('scaleDistribution')).get('type')} scale"
    if mapping(defaults.get("thresholds")).get("mode") == "percentage":
        yield "thresholds in per cent"
    for each in objects(defaults.get("mappings")):
        if each.get("type") not in ("value", "range"):
            yield f"mapping {each.get('type')}"


def _key(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
