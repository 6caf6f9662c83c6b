# SPDX-License-Identifier: Apache-2.0
"""The kinds of values in ``dashgen.yaml`` that end up in rules: names, matchers, expressions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from dashgen import promql
from dashgen.errors import one_line
from dashgen.guard import grammar
from dashgen.guard.text import line, quoted

LONGEST_TEXT = 10_000
"""Characters of one value; a selector stands in some fifty places of a build."""

MOST_LABELS = 50
"""Labels that a site adds, and tags; Mimir takes 30 labels on a series by default."""

# Labels that Prometheus, Inspector, exporters or what is built from the catalogue give a meaning to.
_RESERVED = frozenset(
    {
        *("alertname", "alertstate", "severity", "sensitivity", "signal"),
        *("transport", "size_class", "state", "suspect", "evidence", "le", "are", "fault"),
        *("kinds", "nodes", "of", "file", "past"),
        *("version", "comm_name", "n_nodes", "nranks", "collective", "p2p_operation", "message_size", "algo_proto"),
    }
)
_OF_PORTS = frozenset({"device", "port", "guid", "counter", "switch", "uplink"})


def _label_beside(reserved: frozenset[str]) -> Callable[[str], str]:
    """The check of a site's own label."""

    def checked(name: str) -> str:
        grammar.check_label(name)
        if name in reserved or name.startswith("__"):
            raise ValueError(f"{quoted(name)} is used by the rules themselves; choose the site's own label")
        return name

    return checked


def _metric(name: str) -> str:
    grammar.check_metric(name)
    return name


def _regex(text: str) -> str:
    if text:
        grammar.check_regex(text)
        # promql-parser refuses some that RE2 takes, and reads everything that is built.
        _parse(f'up{{a=~"{grammar.escaped(text)}"}}', "a regular expression that Prometheus knows (RE2)")
    return text


def _pattern(text: str) -> str:
    try:
        with warnings.catch_warnings():
            # Of what may one day mean something else in Python; Grafana's regular expressions are JavaScript's.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {line(str(error), 100)}") from error
    return text


_STRING = r""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' """
_MATCHER = rf"[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:{_STRING})"
_MATCHERS = re.compile(rf"{_MATCHER}(?:\s*,\s*{_MATCHER})*", re.VERBOSE)


def _matchers(text: str) -> str:
    text = text.strip().removesuffix(",").rstrip()
    if text:
        what = 'label matchers such as cluster="a", env!="test"'
        # What stands between braces must not be able to close them.
        if not _MATCHERS.fullmatch(text):
            raise ValueError(f"not {what}")
        _parse(f"up{{{text}}}", what)
    return text


def _expression(text: str) -> str:
    text = text.strip()
    if text:
        if promql.depth(text) > promql.DEEPEST // 2:
            raise ValueError(f"nests deeper than {promql.DEEPEST // 2} levels; record it under a name of its own")
        _parse(text, "PromQL")
        # As the rules will use it; a comment at its end would swallow what follows.
        _parse(f"max by (a) ({text})", "PromQL of an instant vector")
    return text


def _no_text(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", value):
        raise ValueError(f"{quoted(value)} is a text to YAML; write the number without quotes and exponent")
    return value


def literal(text: str) -> str:
    """A text that is no template. Raises ValueError."""
    if "{{" in text:
        raise ValueError("a template ({{ }}) is not possible here; give the text itself")
    return text


def _parse(expr: str, what: str) -> None:
    try:
        grammar.check_expression(expr)
    except ValueError as error:
        raise ValueError(f"not {what}: {line(one_line(error), 160)}") from error


def _editors(pattern: re.Pattern[str]) -> Any:
    """The form of a name, for editors that complete and check by the schema; the check itself says more."""
    return Field(json_schema_extra={"pattern": f"^(?:{pattern.pattern})$"})


Label = Annotated[str, AfterValidator(_label_beside(_RESERVED | _OF_PORTS)), _editors(grammar.LABEL)]
GpuLabel = Annotated[str, AfterValidator(_label_beside(_RESERVED)), _editors(grammar.LABEL)]
"""Any label that ports have may name a GPU: no rule about ports names one, and some exporters write ``device``."""
MetricName = Annotated[str, AfterValidator(_metric), _editors(grammar.METRIC)]
LabelValue = Annotated[str, AfterValidator(literal)]
# Strict, because yes and true are no numbers.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False), BeforeValidator(_no_text)]
Whole = Annotated[int, Field(strict=True)]
Switch = Annotated[bool, Field(strict=True)]
Regex = Annotated[str, AfterValidator(_regex)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Matchers = Annotated[str, AfterValidator(_matchers)]
Expression = Annotated[str, AfterValidator(_expression)]
