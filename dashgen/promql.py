# SPDX-License-Identifier: Apache-2.0
"""What a PromQL expression reads and which labels its result can have, found without running it.

promql-parser builds the tree. Its printer does not escape label values, so nothing here turns a tree back into text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import promql_parser as ast

Tree = Any
"""A node of promql-parser, which has no type stubs."""

VARIABLE_WINDOW = timedelta(seconds=4321)
"""Stands for any duration that Grafana fills in; nobody writes such a window by hand."""

VARIABLE_NAME = "grafana_variable"
"""Stands for a name that Grafana fills in; a result that has this label can have any."""

_TEXT = r"""(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\#[^\n]*)"""
_TOKENS = re.compile(
    rf"{_TEXT}"
    r"""|(?P<window>\[[^\]]*\]|\boffset\s+\$\{?\w+\}?)"""
    r"""|(?P<variable>\$\{\w+(?::\w+)?\}|\$[A-Za-z_]\w*)"""
)
LONGEST = 100_000
"""Characters of an expression; the longest of the catalogue has some six thousand."""

DEEPEST = 120
"""Levels of an expression; the deepest of the catalogue has some fifty. promql-parser hands out copies of subtrees, so
its memory grows with the cube of the depth: 120 levels take 100 MB, 1000 more than a machine has."""

_NESTING = re.compile(
    rf"{_TEXT}"
    r"""|(?P<open>\()|(?P<close>\))|\b(?:and|or|unless|atan2)\b|[-+*/%^]|[=!]=|[<>]=?""",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"\$\{\w+(?::\w+)?\}(?:ms|[smhd])?|\$[A-Za-z_]\w*")  # ${__range_s}s has its unit outside


class Matcher(NamedTuple):
    """One label matcher of a selector, ``op`` as written."""

    label: str
    op: str
    value: str


@dataclass(frozen=True)
class Selector:
    """What an expression reads: a series name, empty where only matchers tell, and the other matchers."""

    name: str
    matchers: tuple[Matcher, ...]


@lru_cache(maxsize=1024)
def parse(expr: str) -> Tree:
    """The tree of an expression in which Grafana variables and macros may stand; ValueError when it is not PromQL.

    A variable outside quotes can be a number or a name: whatever of the two makes sense is taken. What nests deeper
    than DEEPEST, or is longer than LONGEST, is not looked at.
    """
    if len(expr) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    if depth(expr) > DEEPEST:
        raise ValueError(f"nests deeper than {DEEPEST} levels")
    try:
        return ast.parse(_filled(expr, "1"))
    except ValueError:
        if not _VARIABLE.search(expr):
            raise
        return ast.parse(_filled(expr, VARIABLE_NAME))


def filled_in(expr: str) -> bool:
    """Whether a variable stands for more than a text or a window: a function, say, of which only Grafana knows."""
    return any(match["variable"] for match in _TOKENS.finditer(expr))


def depth(expr: str) -> int:
    """At most so many levels has the tree: operators beside each other make a chain, parentheses hang below one."""
    groups = [[0, 0]]
    # Whatever is behind them is never parsed.
    for match in _NESTING.finditer(expr[:LONGEST]):
        if match["open"]:
            groups.append([0, 0])
        elif match["close"] and len(groups) > 1:
            below = sum(groups.pop()) + 1
            groups[-1][1] = max(groups[-1][1], below)
        elif not match["text"]:
            groups[-1][0] += 1
    return sum(map(sum, groups))


def _filled(expr: str, variable: str) -> str:
    def fill(match: re.Match[str]) -> str:
        if match["text"]:
            return match["text"]
        if match["window"]:
            return _VARIABLE.sub(f"{int(VARIABLE_WINDOW.total_seconds())}s", match["window"])
        return variable

    return _TOKENS.sub(fill, expr)


# ``ast.walk`` copies whatever lies below each node, which takes a hundred times as long.
_PARTS: dict[type, tuple[str, ...]] = {
    ast.MatrixSelector: ("vector_selector",),
    ast.AggregateExpr: ("param", "expr"),
    ast.BinaryExpr: ("lhs", "rhs"),
    ast.ParenExpr: ("expr",),
    ast.UnaryExpr: ("expr",),
    ast.SubqueryExpr: ("expr",),
}


def nodes(tree: Tree) -> Iterator[Tree]:
    """The tree and everything in it, in the order in which it is written."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        parts = (
            node.args if isinstance(node, ast.Call) else [getattr(node, name) for name in _PARTS.get(type(node), ())]
        )
        ahead += (each for each in reversed(parts) if each is not None)


def is_selector(text: str) -> bool:
    """Whether a text selects series and does nothing else, so that a range can be put behind it."""
    if depth(text) > DEEPEST or len(text) > LONGEST:
        return False
    try:
        return isinstance(ast.parse(f"{text}[1s]"), ast.MatrixSelector)
    except ValueError:
        return False


def selectors(tree: Tree) -> tuple[Selector, ...]:
    """Everything that an expression reads, in the order in which it is written."""
    return tuple(dict.fromkeys(_selector(node) for node in nodes(tree) if isinstance(node, ast.VectorSelector)))


def names(expr: str) -> frozenset[str]:
    """The series that an expression reads, those aside that only matchers tell."""
    return read(parse(expr))


def patterns(tree: Tree) -> Iterator[str]:
    """Every regular expression: of matchers, and of label_replace, which nobody reads before it runs."""
    for node in nodes(tree):
        if isinstance(node, ast.VectorSelector):
            yield from (each.value for each in _selector(node).matchers if each.op in ("=~", "!~"))
        elif isinstance(node, ast.Call) and node.func.name == "label_replace":
            yield from (each.val for each in node.args[4:5] if isinstance(each, ast.StringLiteral))


def _selector(node: Tree) -> Selector:
    matchers = tuple(Matcher(each.name, _OPERATORS[str(each.op)], each.value) for each in node.matchers.matchers)
    named = [each.value for each in matchers if each.label == "__name__" and each.op == "="]
    return Selector(node.name or "".join(named), tuple(each for each in matchers if each.label != "__name__"))


_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}


@dataclass(frozen=True)
class Labels:
    """A set of label names: the named ones, or all but the named ones."""

    names: frozenset[str]
    all_but: bool = False

    def __contains__(self, label: object) -> bool:
        return (label in self.names) != self.all_but

    def keep(self, labels: Iterable[str]) -> Labels:
        """Those of the given labels that are in the set."""
        return Labels(frozenset(label for label in labels if label in self))

    def drop(self, labels: Iterable[str]) -> Labels:
        """The set without the given labels."""
        gone = frozenset(labels)
        return Labels(self.names | gone if self.all_but else self.names - gone, self.all_but)

    def add(self, labels: Iterable[str]) -> Labels:
        """The set with the given labels."""
        new = frozenset(labels)
        return Labels(self.names - new if self.all_but else self.names | new, self.all_but)

    def either(self, other: Labels) -> Labels:
        """What is in one set or the other."""
        if not other.all_but:
            return self.add(other.names)
        return other.add(self.names) if not self.all_but else Labels(self.names & other.names, True)

    def both(self, other: Labels) -> Labels:
        """What is in both sets."""
        return other.keep(self.names) if not self.all_but else other.drop(self.names)


EVERY = Labels(frozenset(), all_but=True)
NONE = Labels(frozenset())


Known = Mapping[str, Collection[str]]
"""The labels of series, by name, as far as somebody knows them."""


def labels(tree: Tree, known: Known = MappingProxyType({})) -> Labels:
    """The labels that a result can have, as far as the expression and the series known tell."""
    for kind, rule in _LABELS.items():
        if isinstance(tree, kind):
            return rule(tree, known)
    return EVERY


def _series(tree: Tree, known: Known) -> Labels:
    name = _selector(tree).name
    return Labels(frozenset(known[name])) if name in known else EVERY


def _range(tree: Tree, known: Known) -> Labels:
    return _series(tree.vector_selector, known)


def _inner(tree: Tree, known: Known) -> Labels:
    return labels(tree.expr, known)


def _aggregate(tree: Tree, known: Known) -> Labels:
    inner = labels(tree.expr, known)
    if str(tree.op) in ("topk", "bottomk", "limitk", "limit_ratio"):
        return inner
    kept = NONE
    if tree.modifier is not None:
        by = tree.modifier.type == ast.AggModifierType.By
        kept = inner.keep(tree.modifier.labels) if by else inner.drop(tree.modifier.labels)
    return kept.add([tree.param.val]) if str(tree.op) == "count_values" else kept


def _call(tree: Tree, known: Known) -> Labels:
    name, arguments = tree.func.name, tree.args
    if name in ("label_replace", "label_join"):
        return labels(arguments[0], known).add([arguments[1].val])
    if name in ("histogram_quantile", "histogram_fraction"):
        return labels(arguments[-1], known).drop(["le"])
    if name in ("absent", "absent_over_time", "info"):
        return EVERY
    series = [each for each in arguments if not (_is_scalar(each) or isinstance(each, ast.StringLiteral))]
    return labels(series[0], known) if series else NONE


def _is_scalar(tree: Tree) -> bool:
    if isinstance(tree, ast.ParenExpr | ast.UnaryExpr):
        return _is_scalar(tree.expr)
    if isinstance(tree, ast.BinaryExpr):
        return _is_scalar(tree.lhs) and _is_scalar(tree.rhs)
    if isinstance(tree, ast.Call):
        return bool(tree.func.return_type == ast.ValueType.Scalar)
    return isinstance(tree, ast.NumberLiteral)


def _binary(tree: Tree, known: Known) -> Labels:
    """Prometheus' matching: ``on`` keeps its labels, ``ignoring`` drops them, a grouping keeps the many side's."""
    left, right = labels(tree.lhs, known), labels(tree.rhs, known)
    if _is_scalar(tree.lhs) or _is_scalar(tree.rhs):
        return right if _is_scalar(tree.lhs) else left
    operator = str(tree.op)
    if operator in ("and", "unless"):
        return left
    if operator == "or":
        return left.either(right)
    modifier = tree.modifier
    if modifier is not None and modifier.card in (_MANY_TO_ONE, _ONE_TO_MANY):
        many, one = (left, right) if modifier.card == _MANY_TO_ONE else (right, left)
        return many.add(one.keep(modifier.group_labels or []).names)
    if modifier is None or modifier.matching is None:
        return left.both(right)
    on = modifier.matching.type == ast.LabelModifierType.Include
    return left.keep(modifier.matching.labels) if on else left.drop(modifier.matching.labels)


_MANY_TO_ONE = ast.VectorMatchCardinality.ManyToOne
_ONE_TO_MANY = ast.VectorMatchCardinality.OneToMany

_LABELS: dict[type, Callable[[Tree, Known], Labels]] = {
    ast.VectorSelector: _series,
    ast.MatrixSelector: _range,
    ast.AggregateExpr: _aggregate,
    ast.BinaryExpr: _binary,
    ast.Call: _call,
    ast.ParenExpr: _inner,
    ast.UnaryExpr: _inner,
    ast.SubqueryExpr: _inner,
}


def empty(tree: Tree, silent: Collection[str]) -> bool:
    """Whether an expression has no result at all where the ``silent`` series have no samples."""
    if isinstance(tree, ast.VectorSelector):
        return _selector(tree).name in silent
    if isinstance(tree, ast.MatrixSelector):
        return empty(tree.vector_selector, silent)
    if isinstance(tree, ast.Call):
        # These have a result without a sample: that it is absent, or that it is no number.
        never = tree.func.name.startswith(("absent", "scalar", "vector"))
        return not never and any(empty(each, silent) for each in tree.args)
    if isinstance(tree, ast.BinaryExpr):
        match str(tree.op):
            case "or":
                return empty(tree.lhs, silent) and empty(tree.rhs, silent)
            case "unless":
                return empty(tree.lhs, silent)
            case _:
                return empty(tree.lhs, silent) or empty(tree.rhs, silent)
    if isinstance(tree, ast.AggregateExpr | ast.ParenExpr | ast.UnaryExpr | ast.SubqueryExpr):
        return empty(tree.expr, silent)
    return False


def read(tree: Tree) -> frozenset[str]:
    """The names of the series that an expression reads."""
    return frozenset(each.name for each in selectors(tree) if each.name)


_RATES = frozenset({"rate", "irate", "increase", "resets", "changes"})
_COUNTING = frozenset({"count", "group", "count_values"})
_PRESENCE = frozenset({"absent", "timestamp", "absent_over_time", "present_over_time", "count_over_time"})


def bare_counters(tree: Tree) -> Iterator[str]:
    """Counters whose height an expression reads, by name: neither as a rate nor merely as being there."""
    if isinstance(tree, ast.VectorSelector):
        name = _selector(tree).name
        yield from [name] * name.endswith("_total")
    elif isinstance(tree, ast.MatrixSelector):
        yield from bare_counters(tree.vector_selector)
    elif isinstance(tree, ast.Call):
        inner = () if tree.func.name in _RATES | _PRESENCE else tree.args
        yield from (name for each in inner for name in bare_counters(each))
    elif isinstance(tree, ast.AggregateExpr):
        yield from () if str(tree.op) in _COUNTING else bare_counters(tree.expr)
    elif isinstance(tree, ast.BinaryExpr):
        # The right side of a set operation only says which series stay.
        sides = (tree.lhs,) if str(tree.op) in ("and", "unless") else (tree.lhs, tree.rhs)
        yield from (name for each in sides for name in bare_counters(each))
    elif isinstance(tree, ast.ParenExpr | ast.UnaryExpr | ast.SubqueryExpr):
        yield from bare_counters(tree.expr)


def rate_windows(tree: Tree) -> Iterator[timedelta]:
    """The windows over which an expression takes rates."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and node.func.name in ("rate", "irate", "increase"):
            yield from (each.range for each in node.args if isinstance(each, ast.MatrixSelector))
