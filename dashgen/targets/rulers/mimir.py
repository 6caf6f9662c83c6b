# SPDX-License-Identifier: Apache-2.0
"""Namespace files for ``mimirtool rules sync`` and the rulers of Mimir, Cortex and Grafana Cloud."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml

# Mimir's default of -ruler.max-rules-per-rule-group; a larger group is refused as a whole with HTTP 400.
RULES_PER_GROUP = 20


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One namespace file. A ruler knows a namespace by its file, so the packs have one each."""
    wanted = site.targets.mimir
    largest = max((len(group.rules) for group in pack.groups), default=0)
    note = f"Its largest group needs ruler_max_rules_per_rule_group: {largest}; the default is {RULES_PER_GROUP}."
    namespace = f"{wanted.namespace}-{pack.name.removeprefix('nccl-')}"
    data = {"namespace": namespace, "groups": groups(pack, wanted.group.data())}
    return commented(header(pack, [note] if largest > RULES_PER_GROUP else [])) + to_yaml(data)
