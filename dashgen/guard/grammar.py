# SPDX-License-Identifier: Apache-2.0
"""What Prometheus takes for an expression, a name and a regular expression, asked of its own grammars.

promql-parser knows PromQL, google-re2 the syntax that Prometheus' regular expressions have (both cite RE2 as theirs).
Words of PromQL are not listed here: a name is right when the parser takes it at every place where the rules put it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dashgen import promql
from dashgen.errors import one_line
from dashgen.guard import oldest
from dashgen.guard.text import line, quoted

LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LONGEST_NAME = 200
"""Characters of a label's or a metric's name; Mimir takes 1024 by default, and an error line has to quote it."""

# Places of a name in the rules: grouping, matching, carrying over.
_GROUPED = 'sum by ({0}, zz) (up{{{0}="a"}}) * on (zz) group_left ({0}) avg without ({0}) (up) or avg by ({0}) (up)'
_SELECTED = 'sum by (zz) (rate({0}{{a="b"}}[5m])) or {0} * on (zz) {0}'
# Go reads (?<name>) since 1.22; Prometheus of Debian 12 is older.
_ANGLE_NAME = re.compile(r"\(\?<(?![=!])")


def escaped(text: str) -> str:
    """A text as it stands between the double quotes of a PromQL string."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def literal(text: str) -> str:
    """The regular expression of RE2 that matches this text alone."""
    return re.sub(r"([.+*?()|\[\]{}^$\\])", r"\\\1", text)


def check_label(name: str) -> None:
    """Raise ValueError where a text is no label name that every Prometheus can group by."""
    if not LABEL.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ValueError(f"{quoted(name)} is not a Prometheus label name (letters, digits and underscores)")
    _check_word(name, _GROUPED, "cannot be grouped by; relabel it")


def check_metric(name: str) -> None:
    """Raise ValueError where a text is no name of a series that every Prometheus can select."""
    if not METRIC.fullmatch(name) or len(name) > LONGEST_NAME:
        raise ValueError(f"{quoted(name)} is not a Prometheus metric name")
    _check_word(name, _SELECTED, "cannot be selected; rename the series by relabelling")


def _check_word(name: str, places: str, why: str) -> None:
    try:
        promql.parse(places.format(name))
    except ValueError as error:
        raise ValueError(f"{quoted(name)} is a word of PromQL and {why}") from error


def check_expression(expr: str) -> None:
    """Raise ValueError where a text is not PromQL of every Prometheus that packs are for, with its patterns."""
    tree = promql.parse(expr)
    oldest.check(expr, tree)
    for pattern in promql.patterns(tree):
        check_regex(pattern)


@lru_cache(maxsize=4096)
def check_regex(pattern: str) -> None:
    """Raise ValueError where a text is no regular expression of RE2."""
    # Slow to import where nobody asks.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        why = line(_text(error), 100)
        raise ValueError(f"{quoted(pattern)} is not a regular expression that Prometheus knows (RE2): {why}") from error
    if _ANGLE_NAME.search(pattern):
        raise ValueError(f"{quoted(pattern)}: an older Prometheus does not know (?<name>); write (?P<name>)")


def _text(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return one_line(said.decode("utf-8", "replace") if isinstance(said, bytes) else said)
