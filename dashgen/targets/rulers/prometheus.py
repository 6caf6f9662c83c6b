# SPDX-License-Identifier: Apache-2.0
"""Rule files of which ``rule_files: [prometheus/*.yaml]`` may load all."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file."""
    return commented(header(pack)) + to_yaml({"groups": groups(pack, site.targets.prometheus.group.data())})
