# SPDX-License-Identifier: Apache-2.0
"""The key ``layout`` of ``dashgen.yaml``: who evaluates the rules of the edges, and who those above them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

Level = Literal["edge", "global"]
RuleForm = Literal["prometheus", "prometheusrule", "vmrule", "vmalert", "mimir", "thanos", "grafana-alerting"]
DEFAULT_LAYOUT: dict[Level, RuleForm] = {"edge": "prometheus", "global": "prometheus"}

Layout = Annotated[dict[Level, RuleForm], AfterValidator(lambda given: {**DEFAULT_LAYOUT, **given})]
"""The target in whose form the rules of each level are written."""
