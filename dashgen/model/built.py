# SPDX-License-Identifier: Apache-2.0
"""What a build makes: rules that are ready to write, and all of it in one value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dashgen.model.words import Sensitivity


@dataclass(frozen=True, kw_only=True)
class RecordingRule:
    """A recording rule, ready to write."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """An alert rule, ready to write; durations are Prometheus durations, empty when there is none."""

    alert: str
    expr: str
    for_: str
    keep_firing_for: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RuleGroup:
    """Rules that are evaluated one after the other, every ``interval``."""

    name: str
    interval: str
    rules: tuple[RecordingRule | AlertRule, ...]

    @property
    def recorded(self) -> Iterator[RecordingRule]:
        """The rules that record series."""
        return (rule for rule in self.rules if isinstance(rule, RecordingRule))

    @property
    def alerts(self) -> Iterator[AlertRule]:
        """The rules that tell a person."""
        return (rule for rule in self.rules if isinstance(rule, AlertRule))


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """Everything that one build produces, before any target gives it a form.

    ``dashboards`` maps a slug to Grafana JSON as plain data, ``runbooks`` an alert name to Markdown. ``folder`` is the
    Grafana folder, ``overlays`` the jsonnet sources, by path, that have changed the rest.
    """

    dashboards: Mapping[str, Mapping[str, object]]
    recording: tuple[RuleGroup, ...]
    alerts: Mapping[Sensitivity, tuple[RuleGroup, ...]]
    runbooks: Mapping[str, str]
    alertmanager: Mapping[str, object]
    folder: str = "NCCL"
    overlays: Mapping[str, str] = field(default_factory=dict)
