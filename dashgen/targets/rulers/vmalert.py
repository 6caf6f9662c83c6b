# SPDX-License-Identifier: Apache-2.0
"""Rule files that every vmalert loads.

vmalert refuses a file with a field that it does not know, and stores what a rule records only after the group has run
(docs.victoriametrics.com/vmalert): recorded series are never judged in the group that makes them.
"""

from __future__ import annotations

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.config.values import Switch
from dashgen.model import Bundle
from dashgen.targets.groups import VmGroup
from dashgen.targets.packs import Pack, groups, header, not_filled_in, without_hysteresis
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.target import Target, documents

_LEFT_OUT = "Without hysteresis, for any vmalert; targets.vmalert.keep_firing_for: true brings it back."


class VmalertKeys(Section):
    """Rule files that every vmalert loads."""

    keep_firing_for: Switch = Field(False, description="hysteresis; vmalert 1.79 and its like refuse the field")
    group: VmGroup = Field(VmGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file. Raises UserError for what vmalert would fill in."""
    wanted = site.targets.of(VmalertKeys)
    loadable = pack if wanted.keep_firing_for else without_hysteresis(pack)
    notes = [_LEFT_OUT] if loadable != pack else []
    rules = not_filled_in(to_yaml({"groups": groups(loadable, wanted.group.data())}))
    return commented(header(pack, notes)) + rules


_HOW = """\
vmalert refuses a file that has a field it does not know. Versions such as Debian's 1.79 do not know `keep_firing_for`,
so the hysteresis is left out until `targets: {vmalert: {keep_firing_for: true}}`; `vmrule` has it. Of the keys of a
group, Debian's does not know `eval_alignment`, `eval_delay`, `eval_offset`, `headers`, `notifier_headers` and `tenant`.

vmalert stores what it records after the evaluation. Recording rules and alerts are therefore in groups of their own,
and rules that read one another lag one evaluation for each step. VictoriaMetrics answers questions about now of
`-search.latencyOffset` (30 s) ago, unless they say `nocache=1`, as every group does. Results are sent every five
seconds (`-remoteWrite.flushInterval`): with dumps below ten, shorten that."""

TARGET = Target(
    name="vmalert",
    summary="two rule files",
    readers="vmalert of any version",
    how=_HOW,
    render=documents("vmalert", document),
    document=document,
    late=True,
    keys=VmalertKeys,
)
