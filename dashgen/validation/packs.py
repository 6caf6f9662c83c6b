# SPDX-License-Identifier: Apache-2.0
"""Alert packs that are to be judged: dashgen's own, or a folder of anybody's rule files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dashgen import build
from dashgen.config import site as config
from dashgen.engine import evaluated
from dashgen.errors import UserError
from dashgen.guard.files import Loader, parse_yaml, read_text
from dashgen.guard.text import line
from dashgen.model import Sensitivity
from dashgen.targets.rulefile import to_yaml


@dataclass(frozen=True)
class Packs:
    """Rule files, and the packs in them by their names; alerts that do not say which are of the pack ``unnamed``.

    Without ``files`` the packs are dashgen's own, built for the site of each recording.
    """

    names: tuple[str, ...]
    unnamed: str = ""
    files: Mapping[str, str] | None = None

    def at(self, site: config.Site) -> Mapping[str, str]:
        """The rule files for a site."""
        if self.files is not None:
            return self.files
        return rule_files(site, [tier for tier in Sensitivity if tier in self.names])


def rule_files(site: config.Site, tiers: Collection[Sensitivity] = tuple(Sensitivity)) -> dict[str, str]:
    """The recording rules and the packs of some tiers for one run; groups get names of their own."""
    # Overlays may change any rule, and are applied to everything at once.
    if site.overlays:
        made = build.bundle(site, tiers)
        return evaluated.rule_files(made.recording, made.alerts)
    return evaluated.rule_files(build.recording(site), {tier: build.alerts(site, tier) for tier in tiers})


def own(tiers: Collection[Sensitivity]) -> Packs:
    """dashgen's own packs of some tiers."""
    return Packs(tuple(tier.value for tier in Sensitivity if tier in tiers))


def theirs(folder: Path, tiers: Collection[Sensitivity]) -> Packs:
    """The packs in the rule files below a folder; with ``tiers`` only those whose alerts carry such a ``sensitivity``.

    Raises UserError where there is no rule file, no alert, or YAML that is none.
    """
    found = {}
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
        text, groups = _read(path)
        if groups:
            found[str(path.relative_to(folder))] = (text, groups)
    if not found:
        raise UserError(f"{folder}: no rule file (*.yaml with groups) in this folder; name another one with --rules")
    unnamed = folder.resolve().name
    names = {_pack(rule, unnamed) for _, groups in found.values() for rule in _rules(groups) if "alert" in rule}
    wanted = [name for name in names if not tiers or name in tiers]
    if not wanted:
        told = f" with sensitivity {', '.join(tiers)}" if tiers else ""
        raise UserError(f"{folder}: no alert{told} in these rule files; name another folder with --rules")
    order = [tier.value for tier in Sensitivity]
    wanted.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    # Where all groups have one moment, what is recorded comes before what reads it.
    files = sorted(found.items(), key=lambda item: not any("record" in rule for rule in _rules(item[1][1])))
    return Packs(tuple(wanted), unnamed, {name: text for name, (text, _) in files})


def apart(files: Mapping[str, str]) -> dict[str, str]:
    """Rule files in which no two groups share a name, as promtool wants them."""
    seen: set[str] = set()
    made = {}
    for name, text in files.items():
        groups = yaml.load(text, Loader)["groups"] or []
        if seen & {group["name"] for group in groups}:
            groups = [{**group, "name": f"{name}: {group['name']}"} for group in groups]
            text = to_yaml({"groups": groups})
        seen |= {group["name"] for group in groups}
        made[name] = text
    return made


def _read(path: Path) -> tuple[str, list[Any]]:
    text = read_text(path, remedy="name a folder of rule files with --rules")
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise UserError(f"{path}: not readable as a rule file: {line(str(error), 200)}; correct it") from error
    groups = data.get("groups") if isinstance(data, dict) else None
    if groups is not None and not isinstance(groups, list):
        raise UserError(f"{path}: groups: not a list; write it as Prometheus' documentation of rules does")
    return text, groups or []


def _rules(groups: list[Any]) -> list[Mapping[str, Any]]:
    """What stands where rules stand; whether it is one, the engine says."""
    lists = [group.get("rules") for group in groups if isinstance(group, dict)]
    return [rule for rules in lists if isinstance(rules, list) for rule in rules if isinstance(rule, dict)]


def _pack(rule: Mapping[str, Any], unnamed: str) -> str:
    labels = rule.get("labels")
    return str(labels.get("sensitivity", unnamed)) if isinstance(labels, dict) else unnamed
