# SPDX-License-Identifier: Apache-2.0
"""Whatever an overlay says, it is refused in one line, or promtool accepts what comes of it. See hostile.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hostile import NAMES, PROMQL, TEXTS, WORDS, Packs, examples, is_one_line
from hypothesis import given, settings
from hypothesis import strategies as st

from dashgen import build
from dashgen.build import accepted
from dashgen.build.alert_rules import Thresholds, numbers
from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.jsonnet import mixin, overlay, sandbox
from dashgen.model import Bundle, RuleGroup, Sensitivity
from dashgen.targets.rulefile import rule_file

QUOTED = (TEXTS | PROMQL | WORDS | NAMES).map(json.dumps)


@st.composite
def overlays(draw: st.DrawFn) -> str:
    value = QUOTED | st.just("'up'") | st.just("5")
    rule = "{ record: %s, expr: %s, labels: { [%s]: %s } }"
    alert = "{ alert: %s, expr: %s, 'for': %s, labels: { team: %s }, annotations: { summary: 's' } }"
    made = [
        "{ grafanaDashboardFolder:: %s }",
        "{ prometheusRules+:: { groups+: [{ name: %s, interval: '1m', rules: [" + rule + "] }] } }",
        "{ prometheusAlerts+:: { groups+: [{ name: 'x', interval: %s, rules: [" + alert + "] }] } }",
        "{ runbooks+:: { [%s]: %s } }",
        "{ dashboards+:: { [%s + '.json']: { uid: 'x', title: %s, panels: [{ id: %s, targets: [{ expr: %s }] }] } } }",
        "{ _config+:: { selector: %s, jobLabel: %s } }",
        "{ _config+:: { sensitivity: %s } }",
        "{ _config+:: { alerts+: { NcclJobDegraded+: { low+: { threshold: %s, 'for': %s } } } } }",
        "%s",
    ]
    first, *parts = draw(st.sampled_from(made)).split("%s")
    return first + "".join(draw(value) + part for part in parts)


def small(site: Site, tiers: Iterable[Sensitivity] = tuple(Sensitivity), thresholds: Thresholds = numbers) -> Bundle:
    """A build of one rule, one alert and one panel: an overlay meets the same fields in it as in the whole."""

    def few(groups: Sequence[RuleGroup]) -> tuple[RuleGroup, ...]:
        return tuple(replace(group, rules=group.rules[:1]) for group in groups[:1])

    made = build.plain(site, tiers, thresholds)
    board = made.dashboards["fleet"]
    return replace(
        made,
        dashboards={"fleet": {**board, "panels": board["panels"][:1]}},  # type: ignore[index]
        recording=few(made.recording),
        alerts={tier: few(groups) for tier, groups in made.alerts.items()},
    )


@cache
def as_mixin(made_by: mixin.Build) -> tuple[Bundle, str]:
    """A build, and the same as one text of jsonnet."""
    return made_by(Site(), [Sensitivity.LOW]), mixin.single(Site(), made_by)


def here(program: str, helpers: str, overlays: Sequence[Path]) -> dict[str, Any]:
    """What the worker answers, without a process of its own: what is drawn neither hangs nor grows."""
    return sandbox._answer(program, sandbox._Imports(helpers, overlays))


# The implementation in C++ reads its own library anew for every import, and so takes four times as long.
@pytest.mark.parametrize(
    ("made_by", "implementation", "drawn"),
    [(small, "_gojsonnet", examples(0.945)), (small, "_jsonnet", examples(0.05)), (build.plain, "", examples(0.005))],
    ids=["a small build here, in Go", "a small build here, in C++", "the worker"],
)
def test_an_overlay_is_refused_in_one_line_or_gives_packs_that_promtool_accepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: mixin.Build, implementation: str, drawn: settings
) -> None:
    if implementation:
        pytest.importorskip(implementation)
        monkeypatch.setattr(sandbox, "IMPLEMENTATIONS", (implementation,))
        monkeypatch.setattr(sandbox, "_asked", here)
    path = tmp_path / "my.jsonnet"
    packs = Packs()
    usual, source = as_mixin(made_by)

    @drawn
    @given(content=overlays())
    def check(content: str) -> None:
        path.write_text(content, encoding="utf-8", errors="replace")
        try:
            made = overlay.apply(usual, source, [str(path)])
        except UserError as error:
            return is_one_line(error, "my.jsonnet")
        # What is wrong with it then is a line of the build.
        if next(accepted.problems(made), None):
            return None
        for groups in (made.recording, *made.alerts.values()):
            packs.add(rule_file(groups))
        return None

    check()
    packs.check()
