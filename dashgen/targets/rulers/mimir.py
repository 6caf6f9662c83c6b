# SPDX-License-Identifier: Apache-2.0
"""Namespace files for ``mimirtool rules sync`` and the rulers of Mimir, Cortex and Grafana Cloud."""

from __future__ import annotations

from pydantic import Field, model_validator

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import Switch
from dashgen.durations import Duration
from dashgen.model import Bundle
from dashgen.targets.groups import GroupKeys
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.target import Target, documents

# Mimir's default of -ruler.max-rules-per-rule-group; a larger group is refused as a whole with HTTP 400.
RULES_PER_GROUP = 20


class MimirGroup(GroupKeys):
    """Keys of a rule group of Mimir's and Cortex' rulers (Mimir pkg/mimirtool/rules/rwrulefmt)."""

    align_evaluation_time_on_interval: Switch | None = None
    evaluation_delay: Duration | None = Field(None, description="the old name of query_offset")
    query_offset: Duration | None = Field(None, description="evaluates so far in the past")
    source_tenants: tuple[str, ...] | None = Field(None, description="tenants that the rules read")

    @model_validator(mode="after")
    def _one(self) -> MimirGroup:
        if self.query_offset and self.evaluation_delay:
            raise ValueError("evaluation_delay is the old name of query_offset; set one of them")
        return self


class MimirKeys(Section):
    """Namespace files for mimirtool and the rulers of Mimir, Cortex and Grafana Cloud."""

    namespace: str = Field("nccl", pattern=r"^[^/\\\s]+$", description="the ruler's namespace of the groups")
    group: MimirGroup = Field(MimirGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One namespace file. A ruler knows a namespace by its file, so the packs have one each."""
    wanted = site.targets.of(MimirKeys)
    largest = max((len(group.rules) for group in pack.groups), default=0)
    note = f"Its largest group needs ruler_max_rules_per_rule_group: {largest}; the default is {RULES_PER_GROUP}."
    namespace = f"{wanted.namespace}-{pack.name.removeprefix('nccl-')}"
    data = {"namespace": namespace, "groups": groups(pack, wanted.group.data())}
    return commented(header(pack, [note] if largest > RULES_PER_GROUP else [])) + to_yaml(data)


_HOW = """\
`mimirtool rules sync mimir/*.yaml` loads them. Rulers accept 20 rules a group by default and answer HTTP 400 to more;
the head of each file says which `ruler_max_rules_per_rule_group` it needs. Splitting the group instead would let rules
read what the group before them has not yet recorded. `targets: {mimir: {group: {source_tenants: [a, b]}}}` reads the
series of other tenants."""

TARGET = Target(
    name="mimir",
    summary="two namespace files",
    readers="`mimirtool rules sync`, Mimir, Cortex and Grafana Cloud",
    how=_HOW,
    render=documents("mimir", document),
    document=document,
    keys=MimirKeys,
)
