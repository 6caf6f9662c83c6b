# SPDX-License-Identifier: Apache-2.0
"""The rules of a fleet on two levels, each in the form of its own engine, and the list of the series that travel."""

from __future__ import annotations

from dashgen import build
from dashgen.build.layout import levels
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.grafana import alerting
from dashgen.targets.kubernetes import prometheusrule, vmrule
from dashgen.targets.packs import GENERATED, Pack, tier
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.rulers import mimir, prometheus, thanos, vmalert
from dashgen.targets.target import Target

FORMS = {
    each.TARGET.name: each.TARGET for each in (prometheus, prometheusrule, vmrule, vmalert, mimir, thanos, alerting)
}
"""The targets that write a rule pack as one document."""

BOARDS = ("fleet",)
"""The boards that the global level draws by itself; what is inside a job is drawn from its edge."""

_EDGE = "For every edge, which holds whole jobs."
_ABOVE = "For the global level, which reads what the edges send."
_TRAVELS = """\
What an edge sends to the global level: write_relabel_configs of Prometheus' remote_write, or the file of vmagent's
-remoteWrite.urlRelabelConfig."""


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of both levels."""
    edge, above = (FORMS[site.layout[level]] for level in ("edge", "global"))
    # What travels comes later than what is recorded on the spot, whatever the engine.
    below, over = edge.site(site), site.showing_results(late=True)
    packs = {late: _built(bundle, site, late) for late in {below.late_results, over.late_results}}
    views = [view for view in build.dashboards(site) if view.slug in BOARDS]
    split = {
        late: levels(pack.recording, (group for tiers in pack.alerts.values() for group in tiers), views)
        for late, pack in packs.items()
    }
    wanted = tier(bundle, site)
    higher = packs[over.late_results]
    lower = Pack("nccl-edge", split[below.late_results].edge, _EDGE)
    upper = Pack("nccl-global", (*split[over.late_results].above, *higher.alerts[wanted]), _ABOVE)
    keep = {"source_labels": ["__name__"], "regex": "|".join(split[over.late_results].travels), "action": "keep"}
    assert edge.document and above.document
    return {
        "layout/edge.yaml": edge.document(lower, packs[below.late_results], below),
        "layout/global.yaml": above.document(upper, higher, over),
        "layout/travels.yaml": commented(f"{GENERATED}\n{_TRAVELS}") + to_yaml([keep]),
    }


def _built(bundle: Bundle, site: Site, late: bool) -> Bundle:
    """The bundle of the site, or another where results come at another time."""
    if late == site.late_results:
        return bundle
    return build.bundle(site.showing_results(late=late), bundle.alerts)


_HOW = """\
For fleets that are too large for one server: `layout: {edge: prometheus, global: mimir}` names the target in whose
form the rules of each level are written. [Rules on two levels](layout.md) says what is recorded where, what travels,
and why a job must be whole in one edge."""

TARGET = Target(
    name="layout",
    summary="rule files of two levels, and the list of what travels between them",
    readers="fleets in several servers",
    how=_HOW,
    render=render,
)
