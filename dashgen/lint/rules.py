# SPDX-License-Identifier: Apache-2.0
"""Faults of a Grafana dashboard that Grafana itself shows without a word.

A rule is one function that yields where it found a fault and what to do about it; its id, its documentation and its
test share one name in RULES. The rules with ids of grafana/dashboard-linter ask for the same as there. Any dashboard
can be checked, however old or broken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from dashgen import findings
from dashgen.findings import Finding, Format
from dashgen.grafana.parsed import Board, Json
from dashgen.lint import Hit, choices, frame, promises, questions, traps

Rule = Callable[[Board], Iterable[Hit]]


def lint(dashboard: Json, known: Collection[str] | None = None) -> list[Finding]:
    """All faults of a dashboard; ``known`` are the series that exist, a mapping of them says which labels each has."""
    board = Board(dashboard, known)
    return [Finding(name, where, message) for name, rule in RULES.items() for where, message in rule(board)]


def render(found: Sequence[Finding], form: Format = "text") -> str:
    """Findings in a form of dashgen.findings, with what the rules stand for where it has a place for that."""
    return findings.render(found, form, {name: (rule.__doc__ or "").split("\n\n")[0] for name, rule in RULES.items()})


def documentation() -> str:
    """Every rule by its id, in Markdown: what is kept in dashgen/docs/lint.md."""
    rules = "".join(f"\n## {name}\n\n{inspect.getdoc(rule)}\n" for name, rule in RULES.items())
    return _INTRODUCTION + rules


_INTRODUCTION = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# What dashgen lint finds

`dashgen lint PATH...` reads Grafana dashboards as JSON, files or folders of them, whoever wrote them and however old
they are, and says where they break or mislead. It exits with 1 when it finds anything.

| `--format` | for |
|---|---|
| `text` | people: file, place, remedy, rule |
| `json` | programs |
| `sarif` | code scanning of GitHub and GitLab |
| `github` | annotations of a pull request |

Each rule says what is right; what it reports is where a dashboard does otherwise. Rules in doubt stay silent: a query
that is not Prometheus', or that holds a variable where the rule needs a name, is left alone. Rules that share an id
with [dashboard-linter](https://github.com/grafana/dashboard-linter) ask for the same as there. The two rules about
unknown series and labels work only on dashgen's own boards, where it knows which there are.
"""


RULES: Mapping[str, Rule] = {
    "uneditable-dashboard": frame.uneditable_dashboard,
    "uid-too-long": frame.uid_too_long,
    "legacy-schema": frame.legacy_schema,
    "placeholder": frame.placeholder,
    "overlapping-grid": frame.overlapping_grid,
    "template-datasource": choices.template_datasource,
    "panel-datasource": choices.panel_datasource,
    "hard-coded-datasource": choices.hard_coded_datasource,
    "template-on-time-change-reload": choices.template_on_time_change_reload,
    "variable-unused": choices.variable_unused,
    "variable-undefined": choices.variable_undefined,
    "unusable-all": choices.unusable_all,
    "panel-title-description": questions.panel_title_description,
    "panel-units": questions.panel_units,
    "panel-no-targets": questions.panel_no_targets,
    "duplicate-title": questions.duplicate_title,
    "target-promql": questions.target_promql,
    "target-rate-interval": questions.target_rate_interval,
    "target-counter-agg": questions.target_counter_agg,
    "legend-label-dropped": questions.legend_label_dropped,
    "unknown-series": questions.unknown_series,
    "unknown-label": questions.unknown_label,
    "title-query-mismatch": promises.title_query_mismatch,
    "merged-states": traps.merged_states,
    "empty-timeline": traps.empty_timeline,
    "false-green": traps.false_green,
    "widened-rate": traps.widened_rate,
    "unjoined-table": traps.unjoined_table,
    "number-like-label": traps.number_like_label,
    "faint-colour": traps.faint_colour,
}
