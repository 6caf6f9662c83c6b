# SPDX-License-Identifier: Apache-2.0
"""A panel shows what its title promises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dashgen import promql
from dashgen.grafana.parsed import Board, references
from dashgen.lint import Hit

_ACROSS = re.compile(r"\bacross (?:\w+ )?domains\b|\bnetwork\b|\bRDMA\b|\bInfiniBand\b|\bRoCE\b", re.IGNORECASE)
_NET = re.compile(r"\bNET\b")
_WITHIN = re.compile(r"\bNVLink\b|\bxGMI\b", re.IGNORECASE)
_OPERATION_LABELS = ("collective", "p2p_operation")
_OPERATION = re.compile(r"\b(AllReduce|AllGather|AllGatherV|ReduceScatter|Broadcast|Reduce|All2All|Send|Recv)\b")


def title_query_mismatch(board: Board) -> Iterator[Hit]:
    """A title promises the transport and the operation that its query selects.

    NCCL counts NVLink domains as nodes: ``n_nodes="1"`` is within one domain, anything else goes across.
    """
    for panel in board.panels:
        for query in panel.queries:
            matchers = [matcher for selector in query.selectors for matcher in selector.matchers]
            transports = {_selected_transport(each) for each in matchers} - {""}
            transport = _titled_transport(panel.title) or _titled_transport(panel.row)
            if transport and transports and transport not in transports:
                yield query.where, _mismatch({transport}, transports)
            operations = {each.value for each in matchers if each.label in _OPERATION_LABELS and each.op == "="}
            selected = set(_OPERATION.findall(" ".join(operations)))
            titled = set(_OPERATION.findall(panel.title) or _OPERATION.findall(panel.row))
            if titled and selected and not titled & selected:
                yield query.where, _mismatch(titled, selected)


def _mismatch(titled: set[str], selected: set[str]) -> str:
    return f"correct the title or the query: {' and '.join(sorted(titled))} against {' and '.join(sorted(selected))}"


def _titled_transport(title: str) -> str:
    """What a title promises; nothing where it names both, as comparisons do."""
    rest = _NET.sub("", _ACROSS.sub("", title))
    across, within = rest != title, bool(_WITHIN.search(rest))
    return "" if across == within else "network" if across else "NVLink"


def _selected_transport(matcher: promql.Matcher) -> str:
    """The side that a matcher selects: NVLink, network, or nothing where it says neither."""
    inside = {"n_nodes": "1", "transport": "nvlink"}.get(matcher.label)
    values = set(matcher.value.split("|")) if matcher.op in ("=~", "!~") else {matcher.value}
    if inside is None or references(matcher.value) or not all(value.isalnum() for value in values):
        return ""
    if matcher.op in ("!=", "!~"):
        return "network" if values == {inside} else ""
    if inside in values:
        return "NVLink" if values == {inside} else ""
    return "network"
