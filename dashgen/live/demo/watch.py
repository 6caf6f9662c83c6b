# SPDX-License-Identifier: Apache-2.0
"""What a demo has to tell: what is injected, what fires, and who was told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dashgen.live.client.api import Prometheus
from dashgen.live.demo.plan import Action, happenings
from dashgen.live.demo.server import Delivery
from dashgen.live.demo.stack import Stack

_HIDDEN = {"alertname", "alertstate", "severity", "signal", "sensitivity", "__name__"}


@dataclass(frozen=True)
class News:
    """Something that happened ``at`` so many seconds after the beginning; ``kind`` is one of KINDS."""

    at: float
    kind: str
    text: str


KINDS = ("begins", "ends", "fires", "cleared", "told", "stack")


@dataclass
class Watch:
    """Looks at a running stack. ``wrong`` is what is injected now, ``firing`` the alerts of now with their labels."""

    stack: Stack
    server: Prometheus
    wrong: list[str] = field(default_factory=list)
    firing: list[str] = field(default_factory=list)
    _told: int = 0

    def news(self) -> list[News]:
        """What is new since the last look, in its order. Raises UserError when a program of the stack has ended."""
        found = [News(self.stack.elapsed, "stack", _done(each)) for each in self.stack.act()]
        now = self.stack.elapsed
        wrong = [name for name, _, start, end in happenings(self.stack.plan) if start <= now < end]
        found += _changes(now, self.wrong, wrong, "begins", "ends")
        self.wrong = wrong
        if self.stack.services["prometheus"].running:
            firing = self._firing()
            found += _changes(now, self.firing, firing, "fires", "cleared")
            self.firing = firing
        deliveries = self.stack.hub.deliveries[self._told :]
        self._told += len(deliveries)
        found += [News(each.at - self.stack.begin, "told", delivered(each)) for each in deliveries]
        return found

    def _firing(self) -> list[str]:
        firing = self.server.instant('ALERTS{alertstate="firing"}', time.time())
        return sorted(_named(dict(one.labels)) for one in firing)


def delivered(one: Delivery) -> str:
    """A notification in one line."""
    alerts = (f"{_named(each.labels)}{' resolved' * (each.status == 'resolved')}" for each in one.notification.alerts)
    return f"{one.notification.receiver}: {', '.join(alerts)}"


def _changes(at: float, old: list[str], new: list[str], begins: str, ends: str) -> list[News]:
    found = [News(at, begins, each) for each in new if each not in old]
    return found + [News(at, ends, each) for each in old if each not in new]


def _named(labels: dict[str, str]) -> str:
    told = [f"{name}={value}" for name, value in sorted(labels.items()) if name not in _HIDDEN]
    return " ".join((labels["alertname"], *told))


def _done(action: Action) -> str:
    done = {"stop": "stopped", "start": "started again", "restart": "restarted"}[action.what]
    return " ".join(part for part in (action.program, action.node and f"of {action.node}", done) if part)
