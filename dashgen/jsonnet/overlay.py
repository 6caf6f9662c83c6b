# SPDX-License-Identifier: Apache-2.0
"""Overlays: what a site changes in jsonnet, the mixin way, before any target gives it a form.

The build becomes a mixin, the overlays are put on top, and the result becomes a build again. So an overlay works the
same in every target, and beside the mixin target in any other jsonnet project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dashgen.errors import UserError
from dashgen.grafana.schema import MAX_UID, UID
from dashgen.guard.text import line, listed
from dashgen.jsonnet import sandbox as jsonnet
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup
from dashgen.targets.rulefile import group_data

LIBRARY = Path(__file__).with_name(jsonnet.HELPERS)


def apply(made: Bundle, mixin: str, overlays: Sequence[str]) -> Bundle:
    """The build as the overlays change it; ``mixin`` is the same build as one text of jsonnet.

    Raises UserError, naming overlay and line, or the rule or dashboard that came out wrong.
    """
    paths = [Path(path) for path in overlays]
    done = jsonnet.evaluate(_program(made, mixin, paths), LIBRARY.read_text(encoding="utf-8"), paths)
    names = listed(path.name for path in paths)
    try:
        return _bundle(made, done)
    except _Wrong as error:
        raise UserError(f"{names}: {error}") from error


def _program(made: Bundle, mixin: str, paths: Sequence[Path]) -> str:
    """One evaluation for all tiers; the tier is set last, so that no overlay ships one pack three times."""
    imports = "".join(f" + (import '{jsonnet.OVERLAY}{number}/{path.name}')" for number, path in enumerate(paths))
    tiers = ", ".join(f"'{tier}': at('{tier}').prometheusAlerts" for tier in made.alerts)
    return f"""
local site = ({mixin}) + {{ runbooks:: {{}} }}{imports};
local at(tier) = site + {{ _config+:: {{ sensitivity: tier }} }};
{{
  folder: site.grafanaDashboardFolder,
  dashboards: site.grafanaDashboards,
  recording: site.prometheusRules,
  alerts: {{ {tiers} }},
  alertmanager: site.alertmanager,
  runbooks: site.runbooks,
}}"""


class _Wrong(Exception):
    """What came out of the overlays is not what a build is made of."""


def _bundle(made: Bundle, done: jsonnet.Evaluation) -> Bundle:
    value = done.value
    alerts = {
        tier: _groups(value["alerts"][tier], made.alerts[tier], f"prometheusAlerts ({tier})", _alert)
        for tier in made.alerts
    }
    shipped = {rule.alert for groups in alerts.values() for group in groups for rule in group.alerts}
    runbooks = {name: page for name, page in made.runbooks.items() if name in shipped}
    return replace(
        made,
        dashboards=_dashboards(value["dashboards"], made.dashboards),
        recording=_groups(value["recording"], made.recording, "prometheusRules", _record),
        alerts=alerts,
        runbooks={**runbooks, **_texts(value["runbooks"], "runbooks")},
        alertmanager=_kept(made.alertmanager, _object(value["alertmanager"], "alertmanager")),
        folder=_string(value["folder"], "grafanaDashboardFolder"),
        overlays=done.sources,
    )


def _dashboards(value: object, before: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    boards: dict[str, Mapping[str, object]] = {}
    uids: dict[object, str] = {}
    for name, board in _object(value, "dashboards").items():
        where = f"dashboards['{line(name, 60)}']"
        slug = name.removesuffix(".json")
        if not name.endswith(".json") or not slug or "/" in slug or slug.startswith("."):
            raise _Wrong(f"{where}: a dashboard is called like its file, NAME.json")
        found = _object(board, where)
        uid = _string(found.get("uid"), f"{where}.uid")
        if not UID.fullmatch(uid):
            raise _Wrong(f"{where}.uid: has at most {MAX_UID} letters, digits, dashes and underscores")
        if uid in uids:
            raise _Wrong(f"{where}.uid: {line(uids[uid], 60)} has the same; Grafana would show one of them")
        uids[uid] = name
        _string(found.get("title"), f"{where}.title")
        if not isinstance(found.get("panels"), list):
            raise _Wrong(f"{where}.panels: has to be a list")
        boards[slug] = _kept(before.get(slug), found)
    # In the order of the build, which is the order in which somebody walks through them.
    known = [slug for slug in before if slug in boards]
    return {slug: boards[slug] for slug in [*known, *(slug for slug in boards if slug not in before)]}


def _kept(before: Any, after: Any) -> Any:
    """What has come out, in the order and with the numbers that went in.

    Jsonnet sorts keys and makes 1 of 1.0, and a review would show it all.
    """
    if before == after:
        return before
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = [*(key for key in before if key in after), *(key for key in after if key not in before)]
        return {key: _kept(before.get(key), after[key]) for key in keys}
    if isinstance(before, list | tuple) and isinstance(after, list):
        known = {_identity(item): item for item in before}
        return [_kept(known.get(_identity(item)), item) for item in after]
    return after


def _identity(item: object) -> object:
    """By what an item of a list is found again: panels, rules, groups, variables and queries have names."""
    if not isinstance(item, Mapping):
        return repr(item)
    return next(((key, item[key]) for key in ("id", "alert", "record", "name", "refId") if key in item), None)


Rule = RecordingRule | AlertRule


def _groups(
    value: object, before: Sequence[RuleGroup], where: str, make: Callable[[Mapping[str, Any], str], Rule]
) -> tuple[RuleGroup, ...]:
    found = _object(value, where)
    _known(found, ("groups",), where)
    groups = []
    for item in _kept(group_data(before), _list(found.get("groups"), f"{where}.groups")):
        group = _object(item, f"{where}: group")
        name = _string(group.get("name"), f"{where}: group.name")
        place = f"{where}: group {line(name, 60)}"
        _known(group, ("name", "interval", "rules"), place)
        rules = [_object(rule, f"{place}: rule") for rule in _list(group.get("rules"), f"{place}.rules")]
        interval = _string(group.get("interval"), f"{place}.interval")
        groups.append(RuleGroup(name=name, interval=interval, rules=tuple(make(rule, place) for rule in rules)))
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise _Wrong(f"{where}: two groups are called {line(name, 60)}; add to the rules of the first")
    return tuple(group for group in groups if group.rules)


def _record(rule: Mapping[str, Any], place: str) -> RecordingRule:
    name = _string(rule.get("record"), f"{place}: record")
    place = f"{place}: {line(name, 60)}"
    _known(rule, ("record", "expr", "labels"), place)
    expr = _string(rule.get("expr"), f"{place}.expr")
    return RecordingRule(record=name, expr=expr, labels=_texts(rule.get("labels", {}), f"{place}.labels"))


def _alert(rule: Mapping[str, Any], place: str) -> AlertRule:
    name = _string(rule.get("alert"), f"{place}: alert")
    place = f"{place}: {line(name, 60)}"
    _known(rule, ("alert", "expr", "for", "keep_firing_for", "labels", "annotations"), place)
    waits, stays = (_string(rule[key], f"{place}.{key}") if key in rule else "" for key in ("for", "keep_firing_for"))
    return AlertRule(
        alert=name,
        expr=_string(rule.get("expr"), f"{place}.expr"),
        for_=waits,
        keep_firing_for=stays,
        labels=_texts(rule.get("labels", {}), f"{place}.labels"),
        annotations=_texts(rule.get("annotations", {}), f"{place}.annotations"),
    )


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Wrong(f"{where}: has to be an object, and is {_short(value)}")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Wrong(f"{where}: has to be a list, and is {_short(value)}")
    return value


def _string(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _Wrong(f"{where}: has to be a text, and is {_short(value)}")
    return value


def _texts(value: object, where: str) -> dict[str, str]:
    return {key: _string(text, f"{where}.{line(key, 60)}") for key, text in _object(value, where).items()}


def _known(value: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in value:
        if key not in keys:
            raise _Wrong(f"{where}: unknown key {line(key, 60)}; there are {', '.join(keys)}")


def _short(value: object) -> str:
    return "missing" if value is None else json.dumps(value)[:60]
