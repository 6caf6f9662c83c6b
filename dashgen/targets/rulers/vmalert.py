# SPDX-License-Identifier: Apache-2.0
"""Rule files that every vmalert loads.

vmalert refuses a file with a field that it does not know, and stores what a rule records only after the group has run
(docs.victoriametrics.com/vmalert): recorded series are never judged in the group that makes them.
"""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.packs import Pack, groups, header, without_hysteresis
from dashgen.targets.rulefile import commented, to_yaml

_LEFT_OUT = "Without hysteresis, for any vmalert; targets.vmalert.keep_firing_for: true brings it back."


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file."""
    wanted = site.targets.vmalert
    loadable = pack if wanted.keep_firing_for else without_hysteresis(pack)
    notes = [_LEFT_OUT] if loadable != pack else []
    return commented(header(pack, notes)) + to_yaml({"groups": groups(loadable, wanted.group.data())})
