# SPDX-License-Identifier: Apache-2.0
"""Rule files of Thanos Ruler, each group with its answer to a store that is away (thanos.io/tip/components/rule.md)."""

from __future__ import annotations

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.groups import PartialResponse, PrometheusGroup
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.target import Target, documents


class ThanosGroup(PrometheusGroup):
    """Keys of a rule group of Thanos Ruler (thanos.io/tip/components/rule.md)."""

    partial_response_strategy: PartialResponse = Field("abort", description="what to do when a store is away")


class ThanosKeys(Section):
    """Rule files of Thanos Ruler."""

    group: ThanosGroup = Field(ThanosGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file; promtool reads it with --ignore-unknown-fields."""
    return commented(header(pack)) + to_yaml({"groups": groups(pack, site.targets.of(ThanosKeys).group.data())})


_HOW = """\
A group whose stores are not all there is not evaluated. Where half an answer is better than none:
`targets: {thanos: {group: {partial_response_strategy: warn}}}`."""

TARGET = Target(
    name="thanos",
    summary="two rule files",
    readers="Thanos Ruler",
    how=_HOW,
    render=documents("thanos", document),
    document=document,
    late=True,
    keys=ThanosKeys,
)
