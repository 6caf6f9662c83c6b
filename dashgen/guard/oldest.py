# SPDX-License-Identifier: Apache-2.0
"""What of PromQL the oldest Prometheus knows that packs are made for, 2.42.

promql-parser reads the language as it is today. A rule file in which one expression is of tomorrow is refused as a
whole, so what a newer Prometheus has added, or takes only with a flag, is no part of a pack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import timedelta

import promql_parser as ast

from dashgen import promql
from dashgen.guard.text import quoted

# prometheus/prometheus v2.42.0 promql/parser/functions.go, without holt_winters, which 3.0 has renamed.
_KNOWN = """
abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil changes clamp clamp_max clamp_min cos
cosh count_over_time day_of_month day_of_week day_of_year days_in_month deg delta deriv exp floor histogram_count
histogram_fraction histogram_quantile histogram_sum hour idelta increase irate label_join label_replace last_over_time
ln log10 log2 max_over_time min_over_time minute month pi predict_linear present_over_time quantile_over_time rad rate
resets round scalar sgn sin sinh sort sort_desc sqrt stddev_over_time stdvar_over_time sum_over_time tan tanh time
timestamp vector year
"""
_FUNCTIONS = frozenset(_KNOWN.split())
_ALL = "sum avg count min max group stddev stdvar topk bottomk count_values quantile"
_AGGREGATIONS = frozenset(_ALL.split())

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])"
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`|(?P<comment>#[^\n]*)')
_BRACES = re.compile(r"\{([^{}]*)\}")
_MATCHER = re.compile(r"\s*(?:[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*\"\"\s*)?")
_UNITLESS = re.compile(rf"(?:\boffset\s+[-+]?|\[\s*|\[[^\[\]]*:\s*){_NUMBER}", re.IGNORECASE)
_LONGEST = timedelta(days=106_000)  # nanoseconds in 64 bits
_LATEST = 9.2e15  # seconds after @, as milliseconds in 64 bits


def check(expr: str, tree: promql.Tree) -> None:
    """Raise ValueError where the oldest Prometheus does not know what stands in an expression."""
    if problem := next(_problems(expr, tree), None):
        raise ValueError(f"{problem}, which Prometheus 2.42 does not know; write it in another way")


def _problems(expr: str, tree: promql.Tree) -> Iterator[str]:
    bare = _TEXT.sub(lambda match: "" if match["comment"] else '""', expr)
    if "$" in bare:
        yield "a variable of Grafana"
    for node in promql.nodes(tree):
        if isinstance(node, ast.Call) and node.func.name not in _FUNCTIONS:
            yield f"the function {quoted(node.func.name)}"
        elif isinstance(node, ast.AggregateExpr) and (name := str(node.op).lower()) not in _AGGREGATIONS:
            yield f"the aggregation {quoted(name)}"
        if any(abs(span) > _LONGEST for span in _spans(node)):
            yield "a duration that is too long"
    if not all(_MATCHER.fullmatch(part) for inside in _BRACES.findall(bare) for part in inside.split(",")):
        yield "a name in quotes"
    if _UNITLESS.search(bare):
        yield "a duration without unit"
    if any(math.isinf(float(each)) for each in re.findall(rf"(?<![\w.]){_NUMBER}", bare)):
        yield "a number that is too large"
    if any(abs(float(each)) > _LATEST for each in re.findall(rf"@\s*[-+]?({_NUMBER})", bare)):
        yield "a moment that is too far away"


def _spans(node: promql.Tree) -> Iterator[timedelta]:
    """The durations in a node of the tree itself."""
    found = (getattr(node, name, None) for name in ("range", "step", "offset"))
    yield from (each for each in found if isinstance(each, timedelta))
