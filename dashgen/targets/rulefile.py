# SPDX-License-Identifier: Apache-2.0
"""Rule groups as the YAML that Prometheus, promtool and every ruler read."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from dashgen.model import AlertRule, RecordingRule, RuleGroup

# libyaml writes the same bytes three times faster; PyYAML falls back where it is missing.
_Base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc,valid-type]
    """Writes what people review: long PromQL on its own lines, no aliases, keys in the given order."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(data: object) -> str:
    """Plain data as YAML for people: no folding, literal blocks for texts of several lines."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20))


def commented(header: str) -> str:
    """Lines as YAML comments."""
    return "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())


def rule_data(rule: RecordingRule | AlertRule) -> dict[str, object]:
    """One rule as Prometheus names its fields."""
    if isinstance(rule, RecordingRule):
        data: dict[str, object] = {"record": rule.record, "expr": rule.expr}
        return data | ({"labels": dict(rule.labels)} if rule.labels else {})
    data = {"alert": rule.alert, "expr": rule.expr}
    if rule.for_:
        data["for"] = rule.for_
    if rule.keep_firing_for:
        data["keep_firing_for"] = rule.keep_firing_for
    return data | {"labels": dict(rule.labels), "annotations": dict(rule.annotations)}


def group_data(groups: Iterable[RuleGroup]) -> list[dict[str, object]]:
    """Rule groups as Prometheus names their fields."""
    return [
        {"name": group.name, "interval": group.interval, "rules": [rule_data(rule) for rule in group.rules]}
        for group in groups
    ]


def rule_file(groups: Iterable[RuleGroup], header: str = "") -> str:
    """A whole rule file; ``header`` lines become comments."""
    return commented(header) + to_yaml({"groups": group_data(groups)})
