# SPDX-License-Identifier: Apache-2.0
"""Alerts: what each asks in every tier, and what its reader is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from dashgen.model.series import SignalKind
from dashgen.model.words import Sensitivity, Severity, require

Scope = Literal["job", "node"]

_VALUE = re.compile(r"<([a-z_]+)(?: %| dumps)?>")
_SHARE = re.compile(r"<([a-z_]+) %>")
_ALERT_NAME = re.compile(r"Nccl([A-Z][a-z0-9]+){2,}")


@dataclass(frozen=True, kw_only=True)
class Tier:
    """What one sensitivity asks of an alert: a threshold, a duration in dumps, a severity.

    ``dumps`` is Prometheus' ``for`` and ``keep_firing`` its ``keep_firing_for``, both counted in dumps. ``extra`` are
    further thresholds by placeholder name.
    """

    threshold: float
    dumps: int
    severity: Severity
    keep_firing: int = 0
    extra: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.dumps >= 0 and self.keep_firing >= 0, "durations are not negative")

    def value(self, name: str) -> float:
        """A threshold by its name."""
        return self.threshold if name == "threshold" else self.extra[name]


@dataclass(frozen=True, kw_only=True)
class Runbook:
    """What a tired person reads: meaning, first look, how to tell the causes apart, what to do."""

    meaning: str
    look_first: tuple[str, ...]
    tell_apart: tuple[str, ...] = ()
    act: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.meaning and self.look_first, "a runbook says what it means and where to look first")


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A rule that tells a person: an expression over signals with ``<threshold>``, and three tiers of it.

    ``limit`` says in words what the expression asks for; ``<threshold>`` and further thresholds by their name stand for
    a tier's values, ``<threshold %>`` for a share and ``<threshold dumps>`` for a time.
    ``rises`` is True when a larger threshold is the stricter one. A tier that is missing is not in that pack.
    ``explained_by`` names coarser alerts, and whether they speak for this one in the same job or only on the same node:
    while one of them fires, nobody is told of this one.
    ``beside`` are further sentences of the description, by the signal that they look up: a site that does not record it
    goes without.
    """

    name: str
    kind: SignalKind
    signal: str
    expr: str
    limit: str
    summary: str
    description: str
    tiers: Mapping[Sensitivity, Tier]
    runbook: Runbook
    dashboard: str
    labels: Mapping[str, str] = field(default_factory=dict)
    explained_by: Mapping[str, Scope] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    rises: bool = True
    companion: str = ""
    sources: str = ""

    @property
    def shares(self) -> frozenset[str]:
        """The thresholds that its limit tells in percent."""
        return frozenset(_SHARE.findall(self.limit))

    def __post_init__(self) -> None:
        require(_ALERT_NAME.fullmatch(self.name), f"{self.name}: an alert is called Nccl<Subject><Fault>")
        require(self.summary and self.description, f"{self.name}: needs a summary and a description")
        # A notification whose value changes is a new one to some receivers.
        require(not re.search(r"\$value|query", self.summary), f"{self.name}: a summary holds labels only")
        require(self.signal in self.expr, f"{self.name}: the expression does not use {self.signal}")
        require(self.sources, f"{self.name}: thresholds cite where they come from")
        said = set(_VALUE.findall(self.limit)) - {"threshold"}
        require(self.limit and all(said <= set(tier.extra) for tier in self.tiers.values()), f"{self.name}: its limit")
        self._check_order()

    def _check_order(self) -> None:
        """low ⊂ medium ⊂ high: an alert of a lower tier is in the higher one, and there no stricter."""
        order = [self.tiers.get(level) for level in Sensitivity]
        for calmer, keener in pairwise(order):
            if calmer is None:
                continue
            require(keener is not None, f"{self.name}: is in a tier but not in the next more sensitive one")
            assert keener is not None
            require(set(calmer.extra) == set(keener.extra), f"{self.name}: tiers have different extra thresholds")
            pairs = [
                (calmer.threshold, keener.threshold),
                *((calmer.extra[name], keener.extra[name]) for name in keener.extra),
            ]
            stricter = all(low >= high if self.rises else low <= high for low, high in pairs)
            require(stricter, f"{self.name}: a threshold of a lower tier is laxer than that of a higher one")
            require(calmer.dumps >= keener.dumps, f"{self.name}: a lower tier waits shorter than a higher one")
