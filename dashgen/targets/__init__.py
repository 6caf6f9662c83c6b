# SPDX-License-Identifier: Apache-2.0
"""The forms that a build takes, by name. Each module turns a Bundle into {path: text} and touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dashgen.config import Site
from dashgen.model import Bundle
from dashgen.targets import files


@dataclass(frozen=True)
class Target:
    """What a target writes, where, and what for."""

    summary: str
    render: Callable[[Bundle, Site], dict[str, str]]
    owned: tuple[str, ...]


TARGETS: Mapping[str, Target] = {
    "files": Target("dashboards, rules and runbooks for Grafana's file provider and Prometheus", files.render, files.OWNED),
}
