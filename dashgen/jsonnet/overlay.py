# SPDX-License-Identifier: Apache-2.0
"""Overlays: what a site changes in jsonnet, the mixin way, before any target gives it a form.

The build becomes a mixin, the overlays are put on top, and the result becomes a build again. So an overlay works the
same in every target, and beside the mixin target in any other jsonnet project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dashgen.errors import UserError
from dashgen.grafana.parsed import Board
from dashgen.grafana.schema import MAX_UID, UID
from dashgen.guard.text import line, listed, shown
from dashgen.jsonnet import sandbox as jsonnet
from dashgen.jsonnet import settings, shape
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup
from dashgen.targets.rulefile import group_data

LIBRARY = Path(__file__).with_name(jsonnet.HELPERS)
# Of Alertmanager's file (prometheus/alertmanager config/config.go, Config).
_ALERTMANAGER = (
    *("global", "route", "inhibit_rules", "receivers", "templates", "time_intervals", "mute_time_intervals", "tracing"),
)


def apply(made: Bundle, mixin: str, overlays: Sequence[str]) -> Bundle:
    """The build as the overlays change it; ``mixin`` is the same build as one text of jsonnet.

    Raises UserError, naming overlay and line, or the rule or dashboard that came out wrong.
    """
    paths = [Path(path) for path in overlays]
    done = jsonnet.evaluate(_program(made, mixin, paths), LIBRARY.read_text(encoding="utf-8"), paths)
    names = listed(map(shown, paths))
    try:
        return _bundle(made, done)
    except shape.Wrong as error:
        raise UserError(f"{names}: {error}") from error


def _program(made: Bundle, mixin: str, paths: Sequence[Path]) -> str:
    """One evaluation for all tiers; the tier is set last, so that no overlay ships one pack three times.

    What is asked of alerts is shown with what is hidden in it, because ``alerts+::`` works as ``alerts+:`` does.
    """
    imports = "".join(f" + (import '{jsonnet.OVERLAY}{number}/{path.name}')" for number, path in enumerate(paths))
    tiers = ", ".join(f"'{tier}': at('{tier}').prometheusAlerts" for tier in made.alerts)
    return f"""
local usual = ({mixin}) + {{ runbooks:: {{}} }};
local site = usual{imports};
local shown(value) =
  if std.isObject(value) then {{ [key]: shown(value[key]) for key in std.objectFieldsAll(value) }} else value;
local at(tier) = site + {{ _config+:: {{ sensitivity: tier }} }};
{{
  config: {{ before: usual._config, after: site._config + {{ alerts::: shown(super.alerts) }} }},
  folder: site.grafanaDashboardFolder,
  dashboards: site.grafanaDashboards,
  recording: site.prometheusRules,
  alerts: {{ {tiers} }},
  alertmanager: site.alertmanager,
  runbooks: site.runbooks,
}}"""


def _bundle(made: Bundle, done: jsonnet.Evaluation) -> Bundle:
    value = done.value
    settings.check(**value["config"])
    alerts = {
        tier: _groups(value["alerts"][tier], made.alerts[tier], f"prometheusAlerts ({tier})", _alert)
        for tier in made.alerts
    }
    shipped = {rule.alert for groups in alerts.values() for group in groups for rule in group.alerts}
    runbooks = {name: page for name, page in made.runbooks.items() if name in shipped}
    pages = shape.texts(value["runbooks"], "runbooks")
    for name in pages:
        shape.file_name(name, f"runbooks['{line(name, 60)}']", "a page is called like its alert")
    alertmanager = shape.mapping(value["alertmanager"], "alertmanager")
    shape.known(alertmanager, _ALERTMANAGER, "alertmanager")
    return replace(
        made,
        dashboards=_dashboards(value["dashboards"], made.dashboards),
        recording=_groups(value["recording"], made.recording, "prometheusRules", _record),
        alerts=alerts,
        runbooks={**runbooks, **pages},
        alertmanager=_kept(made.alertmanager, alertmanager),
        folder=shape.string(value["folder"], "grafanaDashboardFolder"),
        overlays=done.sources,
    )


def _dashboards(value: object, before: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    boards: dict[str, Mapping[str, object]] = {}
    uids: dict[object, str] = {}
    for name, board in shape.mapping(value, "dashboards").items():
        where = f"dashboards['{line(name, 60)}']"
        called = "a dashboard is called like its file, NAME.json"
        if not name.endswith(".json"):
            raise shape.Wrong(f"{where}: {called}")
        slug = shape.file_name(name.removesuffix(".json"), where, called)
        found = shape.mapping(board, where)
        uid = shape.string(found.get("uid"), f"{where}.uid")
        if not UID.fullmatch(uid):
            raise shape.Wrong(f"{where}.uid: has at most {MAX_UID} letters, digits, dashes and underscores")
        if uid in uids:
            raise shape.Wrong(f"{where}.uid: {line(uids[uid], 60)} has the same; Grafana would show one of them")
        uids[uid] = name
        shape.string(found.get("title"), f"{where}.title")
        _check_panels(found.get("panels"), f"{where}.panels")
        for variable in Board(found).variables:
            shape.string(variable.get("name"), f"{where}.templating.list: name")
        boards[slug] = _kept(before.get(slug), found)
    _told_apart(boards, "dashboards")
    # In the order of the build, which is the order in which somebody walks through them.
    known = [slug for slug in before if slug in boards]
    return {slug: boards[slug] for slug in [*known, *(slug for slug in boards if slug not in before)]}


def _told_apart(names: Iterable[str], where: str) -> None:
    """Kubernetes and Terraform tell names apart by small letters and digits alone."""
    found: dict[str, str] = {}
    for name in names:
        other = found.setdefault(re.sub(r"[^a-z0-9]+", "-", name.lower()), name)
        if other != name:
            both = f"{line(other, 60)} and {line(name, 60)}"
            raise shape.Wrong(f"{where}: {both} are one name to some targets; rename one")


def _check_panels(value: object, where: str) -> None:
    for item in shape.items(value, where):
        panel = shape.mapping(item, f"{where}: panel")
        if panel.get("id") is not None:
            shape.number(panel["id"], f"{where}: panel.id")
        if "panels" in panel:
            _check_panels(panel["panels"], f"{where}: panels")


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
    names = ((key, item.get(key)) for key in ("id", "alert", "record", "name", "refId"))
    return next(((key, name) for key, name in names if isinstance(name, str | int | float)), None)


Rule = RecordingRule | AlertRule


def _groups(
    value: object, before: Sequence[RuleGroup], where: str, make: Callable[[Mapping[str, Any], str], Rule]
) -> tuple[RuleGroup, ...]:
    found = shape.mapping(value, where)
    shape.known(found, ("groups",), where)
    groups = []
    for item in _kept(group_data(before), shape.items(found.get("groups"), f"{where}.groups")):
        group = shape.mapping(item, f"{where}: group")
        name = shape.string(group.get("name"), f"{where}: group.name")
        place = f"{where}: group {line(name, 60)}"
        shape.known(group, ("name", "interval", "rules"), place)
        rules = [shape.mapping(rule, f"{place}: rule") for rule in shape.items(group.get("rules"), f"{place}.rules")]
        interval = shape.string(group.get("interval"), f"{place}.interval")
        groups.append(RuleGroup(name=name, interval=interval, rules=tuple(make(rule, place) for rule in rules)))
    names = [group.name for group in groups]
    for name in names:
        if names.count(name) > 1:
            raise shape.Wrong(f"{where}: two groups are called {line(name, 60)}; add to the rules of the first")
    _told_apart(names, where)
    return tuple(group for group in groups if group.rules)


def _record(rule: Mapping[str, Any], place: str) -> RecordingRule:
    name = shape.string(rule.get("record"), f"{place}: record")
    place = f"{place}: {line(name, 60)}"
    shape.known(rule, ("record", "expr", "labels"), place)
    expr = shape.string(rule.get("expr"), f"{place}.expr")
    return RecordingRule(record=name, expr=expr, labels=shape.texts(rule.get("labels", {}), f"{place}.labels"))


def _alert(rule: Mapping[str, Any], place: str) -> AlertRule:
    name = shape.string(rule.get("alert"), f"{place}: alert")
    place = f"{place}: {line(name, 60)}"
    shape.known(rule, ("alert", "expr", "for", "keep_firing_for", "labels", "annotations"), place)
    waits, stays = (
        shape.string(rule[key], f"{place}.{key}") if key in rule else "" for key in ("for", "keep_firing_for")
    )
    return AlertRule(
        alert=name,
        expr=shape.string(rule.get("expr"), f"{place}.expr"),
        for_=waits,
        keep_firing_for=stays,
        labels=shape.texts(rule.get("labels", {}), f"{place}.labels"),
        annotations=shape.texts(rule.get("annotations", {}), f"{place}.annotations"),
    )
