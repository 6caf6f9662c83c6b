# SPDX-License-Identifier: Apache-2.0
"""Rules as Grafana evaluates them itself, for three targets: provisioning files, the operator and Terraform.

An alert becomes the three nodes into which Grafana's own converter turns Prometheus rules
(grafana/grafana pkg/services/ngalert/prom/convert.go): the query, a node that is 1 for whatever the query returns,
and a threshold on it. So any series fires and none is healthy, as in Prometheus.

Grafana expands ``$NAME`` in provisioning files from its environment, in labels and annotations too
(pkg/services/provisioning/values/values.go); templates are therefore written in their dot forms.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from dashgen import catalogue, durations
from dashgen.build import templates
from dashgen.build.placeholders import STEP
from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import Whole
from dashgen.errors import UserError
from dashgen.grafana.schema import MAX_UID, UID, told_apart
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup

Json = dict[str, Any]

MAX_TITLE = 190
_NO_DATA = ("OK", "NoData", "Alerting", "KeepLast")
_ERROR = ("Error", "OK", "Alerting", "KeepLast")
# How far back an instant query may look, as in Grafana's converter.
_RANGE = {"from": 600, "to": 0}


class GrafanaAlertingKeys(Section):
    """Grafana-managed alert rules, for sites without a ruler; Terraform and the Grafana operator use the same."""

    datasource_uid: str = Field(
        "prometheus", pattern=r"^[a-zA-Z0-9_-]{1,40}$", description="uid of the data source; no variable works here"
    )
    record_to: str = Field(
        "", pattern=r"^[a-zA-Z0-9_-]{0,40}$", description="uid of the data source that recording rules write to"
    )
    org_id: Whole = Field(1, ge=1)
    delete: tuple[str, ...] = Field((), description="uids of rules that earlier builds made and Grafana shall forget")


def interval(group: RuleGroup) -> int:
    """How often Grafana evaluates the group, in seconds."""
    return max(STEP, math.ceil(durations.seconds(group.interval) / STEP) * STEP)


def rule_uid(site: Site, name: str) -> str:
    """A uid that stays the same from build to build."""
    uid = site.grafana.uid_prefix + re.sub(r"[^a-zA-Z0-9_-]+", "-", name)
    return uid if len(uid) <= MAX_UID else told_apart(uid, uid)


def rules(group: RuleGroup, bundle: Bundle, site: Site) -> list[Json]:
    """The rules of a group, as provisioning files write them. Raises UserError for what Grafana cannot express."""
    if any(group.recorded) and durations.seconds(group.interval) < STEP:
        remedy = f"set dump_interval to {STEP}s or more, or take the target of a ruler"
        raise UserError(f"{group.name}: Grafana evaluates rules every {STEP} seconds at the most often; {remedy}")
    packs = (bundle.recording, *bundle.alerts.values())
    known = [Counter(rule_uid(site, _title(rule)) for each in pack for rule in each.rules) for pack in packs]
    for title in map(_title, group.rules):
        if any(pack[rule_uid(site, title)] > 1 for pack in known):
            remedy = "Grafana tells rules apart by the letters, digits and dashes of their names: rename one"
            raise UserError(f"{group.name}: two rules are called {title}; {remedy}")
    made = [_alert(rule, bundle, site) if isinstance(rule, AlertRule) else _record(rule, site) for rule in group.rules]
    for rule in made:
        for problem in problems(rule):
            raise UserError(f"{group.name}: {problem}")
    return made


def _title(rule: AlertRule | RecordingRule) -> str:
    return rule.alert if isinstance(rule, AlertRule) else rule.record


def _record(rule: RecordingRule, site: Site) -> Json:
    wanted = site.targets.of(GrafanaAlertingKeys)
    target = {"targetDatasourceUid": wanted.record_to} if wanted.record_to else {}
    return {
        "uid": rule_uid(site, rule.record),
        "title": rule.record,
        "data": [_query(rule.expr, wanted.datasource_uid)],
        "record": {"metric": rule.record, "from": "A", **target},
        **({"labels": dict(rule.labels)} if rule.labels else {}),
    }


def _alert(rule: AlertRule, bundle: Bundle, site: Site) -> Json:
    any_value = "is_number($A) || is_nan($A) || is_inf($A)"
    above = [{"evaluator": {"type": "gt", "params": [0]}}]
    annotations = {key: template(text, f"{rule.alert}.{key}") for key, text in rule.annotations.items()}
    return {
        "uid": rule_uid(site, rule.alert),
        "title": rule.alert,
        "condition": "C",
        "data": [
            _query(rule.expr, site.targets.of(GrafanaAlertingKeys).datasource_uid),
            _expression("B", {"type": "math", "expression": any_value}),
            _expression("C", {"type": "threshold", "expression": "B", "conditions": above}),
        ],
        "for": rule.for_ or "0s",
        **({"keepFiringFor": rule.keep_firing_for} if rule.keep_firing_for else {}),
        "noDataState": "OK",
        "execErrState": "Error",
        # Prometheus resolves an alert as soon as its series has gone.
        "missing_series_evals_to_resolve": 1,
        "labels": {key: template(text, f"{rule.alert}.{key}") for key, text in rule.labels.items()},
        "annotations": {**annotations, **_panel(rule, bundle)},
    }


def _query(expr: str, uid: str) -> Json:
    model = {
        "refId": "A",
        "datasource": {"type": "prometheus", "uid": uid},
        "editorMode": "code",
        "expr": expr,
        "instant": True,
        "range": False,
        "intervalMs": 1000,
        "maxDataPoints": 43200,
    }
    return {"refId": "A", "datasourceUid": uid, "relativeTimeRange": dict(_RANGE), "model": model}


def _expression(name: str, node: Mapping[str, object]) -> Json:
    model = {"refId": name, "datasource": {"type": "__expr__", "uid": "__expr__"}, **node}
    return {"refId": name, "datasourceUid": "__expr__", "relativeTimeRange": {"from": 0, "to": 0}, "model": model}


def _panel(rule: AlertRule, bundle: Bundle) -> dict[str, str]:
    """Where Grafana shows the alert: the first panel of its board that draws its signal."""
    alert = catalogue.ALERT_BY_NAME.get(rule.alert)
    board: Any = bundle.dashboards.get(alert.dashboard) if alert else None
    if alert is None or board is None:
        return {}
    for panel in (each for row in board["panels"] for each in (row, *row.get("panels", []))):
        if any(alert.signal in target.get("expr", "") for target in panel.get("targets", [])):
            return {"__dashboardUid__": board["uid"], "__panelId__": str(panel["id"])}
    return {"__dashboardUid__": board["uid"]}


def template(text: str, where: str) -> str:
    """A Prometheus template as Grafana's, with no dollar sign that the environment could fill in.

    What Prometheus looks up while it writes (``range query``) is left out: Grafana's templates cannot ask anybody.
    Raises UserError for variables of the template's own, and for labels where the dot means something else.
    """
    opened: list[str] = []

    def dotted(match: re.Match[str]) -> str:
        word = templates.word(match)
        moved = any(each in templates.MOVING for each in opened)
        if word == "end" and opened:
            opened.pop()
        elif word in templates.BLOCKS:
            opened.append(word)
        action = match[0]
        if re.search(r"\$(?!labels\b|value\b)", action) or (moved and "$" in action):
            raise UserError(f"{where}: Grafana-managed rules cannot say {action}; write the text without it")
        return re.sub(r"\$value\b", ".Values.A.Value", re.sub(r"\$labels\b", ".Labels", action))

    return templates.ACTION.sub(dotted, _without_lookups(text)).replace("$", '{{ "\\x24" }}')


def _without_lookups(text: str) -> str:
    """A template without its blocks that begin with ``range query``."""
    kept, done, begun, depth = [], 0, 0, 0
    for match in templates.ACTION.finditer(text):
        word = templates.word(match)
        if depth:
            depth += (word in templates.BLOCKS) - (word == "end")
            if not depth:
                kept.append(text[done:begun])
                done = match.end()
        elif re.match(r"range\s+query\b", match[1]):
            depth, begun = 1, match.start()
    return "".join([*kept, text[done:]])


def problems(rule: Mapping[str, Any]) -> Iterator[str]:
    """What Grafana would refuse, or silently change, in one rule of a provisioning file."""
    title = str(rule.get("title", ""))
    name = title or "a rule"
    if not 1 <= len(title) <= MAX_TITLE:
        yield f"{name}: a title has 1 to {MAX_TITLE} characters"
    if not UID.fullmatch(str(rule.get("uid", ""))):
        yield f"{name}: a uid has 1 to {MAX_UID} letters, digits, dashes and underscores"
    data = list(rule.get("data") or ())
    names = [node.get("refId") for node in data]
    if not data or len(set(names)) != len(names):
        yield f"{name}: needs data, each node with a refId of its own"
    for node in data:
        yield from (f"{name}: {problem}" for problem in _node_problems(node, names))
    if "record" in rule:
        record = rule["record"]
        if not record.get("metric") or record.get("from") not in names:
            yield f"{name}: a recording rule names its metric and the node that it is made from"
    else:
        if rule.get("condition") not in names:
            yield f"{name}: the condition names one of the nodes"
        if rule.get("noDataState", "NoData") not in _NO_DATA or rule.get("execErrState", "Alerting") not in _ERROR:
            yield f"{name}: noDataState or execErrState is none that Grafana knows"
    for key in ("labels", "annotations"):
        for label, text in dict(rule.get(key) or {}).items():
            if "$" in str(text):
                yield f"{name}: {key}.{label}: Grafana would fill in the $ from its environment"


def _node_problems(node: Mapping[str, Any], names: list[Any]) -> Iterator[str]:
    model = node.get("model") or {}
    if not node.get("datasourceUid"):
        yield f"node {node.get('refId')} has no datasourceUid"
    if str(node.get("datasourceUid", "")).startswith("$"):
        yield f"node {node.get('refId')}: a dashboard variable means nothing to an alert rule"
    if model.get("refId") != node.get("refId"):
        yield f"node {node.get('refId')}: its model has another refId"
    if node.get("datasourceUid") != "__expr__":
        if not model.get("expr") or not model.get("instant"):
            yield f"node {node.get('refId')}: an alert asks an instant query"
        return
    if model.get("type") == "threshold":
        if model.get("expression") not in names:
            yield f"node {node.get('refId')}: its threshold is on no node of the rule"
        if not model.get("conditions"):
            yield f"node {node.get('refId')}: a threshold has conditions"
    elif model.get("type") == "math":
        if not set(re.findall(r"\$\{?(\w+)", str(model.get("expression", "")))) <= set(names):
            yield f"node {node.get('refId')}: its expression reads no node of the rule"
    else:
        yield f"node {node.get('refId')}: the expression type is neither math nor threshold"
