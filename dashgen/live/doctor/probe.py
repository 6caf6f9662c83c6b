# SPDX-License-Identifier: Apache-2.0
"""What conditions look at: a server at a moment, asked each question once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dashgen import build
from dashgen.build.once import once
from dashgen.catalogue.metrics import METRICS
from dashgen.catalogue.metrics.inspector import OLD_LABEL
from dashgen.config.site import Site
from dashgen.live.client.answers import Alertmanagers, Rules
from dashgen.live.client.api import Prometheus, Samples, T
from dashgen.live.client.http import Client, Refused
from dashgen.model import Bundle
from dashgen.recordings.format import Series

SAMPLE = 500
"""Series of Inspector from which labels are told: as many as a node of eight GPUs with sixty buckets exposes."""

RECENT = 900.0
"""Seconds of raw samples from which intervals are told: thirty dumps."""

MOST_NAMED = 5  # names in a sentence

MOST_COUNTED = 10**9
"""Of anything on one server, whose memory holds ten million series or so."""


def whole(value: float) -> int:
    """A number of things that a server can mean, else 0."""
    return round(value) if 0 <= value <= MOST_COUNTED else 0


def named(names: set[str]) -> str:
    """Some names for a sentence."""
    shown = sorted(names)[:MOST_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


@once
def shipped(site: Site) -> Bundle:
    """What a site should have: boards, rules, and the alerts of its tier."""
    return build.bundle(site, [site.sensitivity])


@dataclass(frozen=True)
class Diagnosis:
    """One thing that is wrong: where, what, and keys of dashgen.yaml that cure it, if any do."""

    where: str
    message: str
    config: Mapping[str, object] = field(default_factory=dict)


class Probe:
    """Questions about one server at a moment, in seconds since the epoch. All raise UserError as the server."""

    def __init__(self, server: Prometheus, site: Site, moment: float, grafana: Client | None = None) -> None:
        self.server, self.site, self.moment, self.grafana = server, site, moment, grafana
        self._asked: dict[str, list[Series]] = {}
        self._raw: dict[str, list[Samples]] = {}

    def of(self, site: Site) -> Probe:
        """The same server, asked as another site; what was asked before is not asked again."""
        other = Probe(self.server, site, self.moment, self.grafana)
        other._asked, other._raw = self._asked, self._raw
        return other

    def rows(self, template: str) -> list[Series]:
        """The value of PromQL with the catalogue's placeholders, one sample a series."""
        expr = build.fill(template, self.site)
        if expr not in self._asked:
            self._asked[expr] = self.server.instant(expr, self.moment)
        return self._asked[expr]

    def raw(self, template: str, more: Mapping[str, str]) -> list[Samples]:
        """The raw samples of the last minutes of the series that a selector with placeholders matches.

        ``more`` are further placeholders: what a server said is not searched for any.
        """
        selector = build.fill(template, self.site, more)
        if selector not in self._raw:
            self._raw[selector] = list(self.server.raw(selector, self.moment - RECENT, self.moment).values())
        return self._raw[selector]

    def number(self, template: str) -> float:
        """The value of PromQL that gives one series; 0 where it gives none, or none that is a number."""
        found = self.rows(template)
        value = float(found[0].values[0]) if found else 0.0
        return value if math.isfinite(value) else 0.0

    def count(self, template: str) -> int:
        """How many things PromQL counts; 0 where it gives no such number."""
        return whole(self.number(template))

    def labels(self, template: str) -> list[dict[str, str]]:
        """The labels of all series that PromQL gives."""
        return [dict(one.labels) for one in self.rows(template)]

    @cached_property
    def names(self) -> frozenset[str]:
        """Which metrics of the catalogue, or of the site's own, are there now."""
        return self.names_with("")

    def names_with(self, matcher: str) -> frozenset[str]:
        """Those of them of which there are series that a matcher selects."""
        known = build.exposed(self.site) | {metric.name for metric in METRICS}
        every = "|".join(sorted(known))
        return frozenset(one.name for one in self.rows(f'count by (__name__) ({{__name__=~"{every}", {matcher}}})'))

    def has(self, key: str) -> bool:
        """Whether a metric of the catalogue is there now."""
        return self.site.metric(key) in self.names

    @cached_property
    def sample(self) -> list[dict[str, str]]:
        """The labels of some series of Inspector that rules can use."""
        return self.labels(f'topk({SAMPLE}, <busbw>{{{OLD_LABEL}="", <selector>}})')

    @cached_property
    def labelled(self) -> frozenset[str]:
        """All labels of these."""
        return frozenset(name for one in self.sample for name in one)

    @property
    def placed(self) -> bool:
        """Whether Inspector's series are there with the labels that the site names."""
        labels = self.site.labels
        return {labels.job, labels.node, labels.gpu, labels.instance} <= self.labelled

    @cached_property
    def rules(self) -> Rules | None:
        """What the server evaluates; None where it does not say."""
        return self._said(Rules, "/api/v1/rules")

    @cached_property
    def alertmanagers(self) -> Alertmanagers | None:
        """Whom the server tells of alerts; None where it does not say."""
        return self._said(Alertmanagers, "/api/v1/alertmanagers")

    def _said(self, data: type[T], path: str) -> T | None:
        try:
            return self.server.ask(data, path)
        except Refused as refusal:
            if refusal.status in (400, 404, 405, 501):
                return None
            raise
