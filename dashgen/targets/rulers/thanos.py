# SPDX-License-Identifier: Apache-2.0
"""Rule files of Thanos Ruler, each group with its answer to a store that is away (thanos.io/tip/components/rule.md)."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file; promtool reads it with --ignore-unknown-fields."""
    return commented(header(pack)) + to_yaml({"groups": groups(pack, site.targets.thanos.group.data())})
