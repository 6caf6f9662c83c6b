# SPDX-License-Identifier: Apache-2.0
"""What a change of generated files means, in the words of a reviewer: "2 alerts stricter in low, 1 panel added".

Rules and panels are found wherever a target puts them, so the words are the same for rule files, Kubernetes objects,
Grafana's own rules and Terraform. Of a mixin, whose rules are a program, only the files that changed are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from dashgen import durations
from dashgen.findings import Finding
from dashgen.guard.files import parse_documents, parse_json
from dashgen.guard.text import counted
from dashgen.output.writer import Change

Json = Mapping[str, Any]
# In the order in which a reviewer wants to hear of them.
Verdict = Literal["stricter", "laxer", "added", "removed", "changed", "reworded"]

# By name and tier; several severities may have the same name.
_Alerts = Mapping[tuple[str, str], Sequence[Json]]

_NAMED = 3  # names that a line of the summary gives


@dataclass
class _Contents:
    """Alerts, recording rules by name, panels by (board, title), and the boards."""

    alerts: dict[tuple[str, str], tuple[Json, ...]] = field(default_factory=dict)
    records: dict[str, Json] = field(default_factory=dict)
    panels: dict[tuple[str, str], Json] = field(default_factory=dict)
    boards: dict[str, Json] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.alerts or self.records or self.boards)


def summary(changes: Iterable[Change]) -> list[str]:
    """The changes, most important first; nothing when there was nothing before, as then everything is new."""
    touched = list(changes)
    if all(change.before is None for change in touched):
        return []
    before, after = _Contents(), _Contents()
    other, damaged = [], []
    for change in touched:
        sides = ((before, change.before), (after, change.after))
        try:
            parts = [(into, _read(change.path, text)) for into, text in sides if text is not None]
        except ValueError:
            damaged.append(f"{change.path}: what is there is damaged")
            continue
        if all(part.empty for _, part in parts):
            other.append(change)
        for into, part in parts:
            _merge(into, part)
    return [
        *damaged,
        *_alerts(before.alerts, after.alerts),
        *_things("recording rule", before.records, after.records),
        *_things("dashboard", before.boards, after.boards, changed=False),
        *_panels(before, after),
        *_files("runbook", [change for change in other if change.path.endswith(".md")]),
        *_files("other file", [change for change in other if not change.path.endswith(".md")]),
    ]


def findings(changes: Iterable[Change]) -> list[Finding]:
    """Stale files as findings, for the annotations of a pull request and for programs."""
    remedy = "run `dashgen build` and commit the result"
    found = [(change, "; ".join(summary([change]))) for change in changes]
    return [
        Finding("stale", change.kind, f"{meaning}; {remedy}" if meaning else remedy, file=change.path)
        for change, meaning in found
    ]


# Reading.


def _read(path: str, text: str) -> _Contents:
    """Rules and dashboards in a generated file; nothing in one of another kind. Raises ValueError for a damaged one."""
    found = _Contents()
    try:
        if path.endswith(".json"):
            _collect(parse_json(text), found)
        elif path.endswith((".yaml", ".yml")):
            for document in parse_documents(text):
                _collect(document, found)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(path) from error
    return found


def _collect(value: object, found: _Contents) -> None:
    if isinstance(value, str):
        # A dashboard inside a ConfigMap, or a Grafana object.
        if value.startswith("{") and '"panels"' in value:
            _collect(parse_json(value), found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)
    elif isinstance(value, Mapping):
        rule = _managed(value) if isinstance(value.get("data"), list) and {"title", "name"} & value.keys() else value
        if isinstance(rule.get("expr"), str) and isinstance(rule.get("alert"), str):
            key = rule["alert"], str((rule.get("labels") or {}).get("sensitivity", ""))
            found.alerts[key] = (*found.alerts.get(key, ()), rule)
        elif isinstance(rule.get("expr"), str) and isinstance(rule.get("record"), str):
            found.records[rule["record"]] = rule
        elif isinstance(value.get("panels"), list) and "schemaVersion" in value:
            _board(value, found)
        else:
            for item in value.values():
                _collect(item, found)


def _managed(rule: Json) -> Json:
    """A Grafana-managed rule, in Prometheus' words; Terraform names it otherwise, and has its queries as text."""
    models = (node.get("model") or {} for node in rule["data"])
    read = (parse_json(model) if isinstance(model, str) else model for model in models)
    expr = next((model["expr"] for model in read if "expr" in model), None)
    kind = "record" if rule.get("record") else "alert"
    keep = {"keep_firing_for": rule["keepFiringFor"]} if "keepFiringFor" in rule else {}
    return {**rule, **keep, "record": None, kind: rule.get("title", rule.get("name")), "expr": expr}


def _board(board: Json, found: _Contents) -> None:
    title = str(board.get("title"))
    found.boards[title] = board
    for panel in board["panels"]:
        for each in (panel, *panel.get("panels", [])):
            if each.get("type") != "row":
                # A panel that another one has pushed down is not another panel.
                stays = {key: item for key, item in each.items() if key not in ("id", "gridPos")}
                found.panels[title, str(each.get("title"))] = stays


def _merge(into: _Contents, more: _Contents) -> None:
    into.alerts |= more.alerts
    into.records |= more.records
    into.panels |= more.panels
    into.boards |= more.boards


# Telling.


def _alerts(before: _Alerts, after: _Alerts) -> Iterator[str]:
    """One line for each kind of change and the tiers that it happened in."""
    tiers: dict[tuple[Verdict, str], list[str]] = {}
    for name, tier in dict.fromkeys([*before, *after]):
        if verdict := _verdict(before.get((name, tier), ()), after.get((name, tier), ())):
            tiers.setdefault((verdict, name), []).append(tier)
    names: dict[tuple[Verdict, tuple[str, ...]], list[str]] = {}
    for (verdict, name), packs in tiers.items():
        names.setdefault((verdict, tuple(sorted(packs, key=_rank))), []).append(name)
    order = get_args(Verdict)
    for (verdict, where), found in sorted(names.items(), key=lambda item: order.index(item[0][0])):
        place = f" in {_listed(where)}" if any(where) else ""
        yield f"{counted(len(found), 'alert')} {verdict}{place} ({_few(found)})"


def _rank(tier: str) -> int:
    return ["low", "medium", "high", tier].index(tier)


def _verdict(before: Sequence[Json], after: Sequence[Json]) -> Verdict | None:
    """What happened to the alerts of one name, as several severities may have."""
    if not before or not after:
        return "removed" if before else "added"
    if len(before) != len(after):
        return "changed"
    found = {verdict for pair in zip(before, after, strict=True) if (verdict := _of_one(*pair))}
    return found.pop() if len(found) == 1 else "changed" if found else None


def _of_one(before: Json, after: Json) -> Verdict | None:
    if before == after:
        return None
    directions = {*_numbers(str(before["expr"]), str(after["expr"])), *_longer(before.get("for"), after.get("for"))}
    others = ("labels", "keep_firing_for")
    if any(before.get(key) != after.get(key) for key in others) or None in directions:
        return "changed"
    if not directions:
        return "reworded"
    return directions.pop() if len(directions) == 1 else "changed"


def _longer(before: object, after: object) -> Iterator[Verdict]:
    old, new = (_seconds(value) for value in (before, after))
    if old != new:
        yield "stricter" if new > old else "laxer"


def _seconds(value: object) -> float:
    """A duration; none where the file has been edited into something else."""
    try:
        return durations.seconds(str(value or "0s"))
    except ValueError:
        return 0.0


_NUMBER = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*")|(?P<sign>[<>]=?)?(?P<space>\s*)(?<![\w.])(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])"""
)


def _numbers(before: str, after: str) -> Iterator[Verdict | None]:
    """Which way each number moved; None for a change that is not one of numbers next to a comparison."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match["text"] else f"{match['sign'] or ''}{match['space']}N"

    if _NUMBER.sub(blank, before) != _NUMBER.sub(blank, after):
        yield None
        return
    # Behind ``unless`` the higher threshold may be the laxer one.
    told = len(after.partition("unless")[0])
    pairs = zip(_NUMBER.finditer(before), _NUMBER.finditer(after), strict=True)
    for old, new in pairs:
        if old["text"] or float(old["number"]) == float(new["number"]):
            continue
        rose = float(new["number"]) > float(old["number"])
        known = old["sign"] and new.start() < told
        yield None if not known else "stricter" if rose == old["sign"].startswith(">") else "laxer"


def _things(what: str, before: Mapping[str, Json], after: Mapping[str, Json], changed: bool = True) -> Iterator[str]:
    kinds = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if changed and name in before and before[name] != after[name]],
    }
    yield from (f"{counted(len(names), what)} {kind} ({_few(names)})" for kind, names in kinds.items() if names)


def _panels(before: _Contents, after: _Contents) -> Iterator[str]:
    """Panels of boards that were there before and still are; the others are told as boards."""
    kept = before.boards.keys() & after.boards.keys()

    def named(contents: _Contents) -> dict[str, Json]:
        return {f"{board}: {title}": panel for (board, title), panel in contents.panels.items() if board in kept}

    yield from _things("panel", named(before), named(after))


def _files(what: str, changes: list[Change]) -> Iterator[str]:
    for kind in ("added", "removed", "changed"):
        names = [change.path.rsplit("/", 1)[-1] for change in changes if change.kind == kind]
        if names:
            yield f"{counted(len(names), what)} {kind} ({_few(names)})"


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _few(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
