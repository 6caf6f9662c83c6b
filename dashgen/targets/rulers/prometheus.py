# SPDX-License-Identifier: Apache-2.0
"""Rule files of which ``rule_files: [prometheus/*.yaml]`` may load all."""

from __future__ import annotations

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.groups import PrometheusGroup
from dashgen.targets.packs import Pack, groups, header
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.target import Target, documents


class PrometheusKeys(Section):
    """Rule files of Prometheus."""

    group: PrometheusGroup = Field(PrometheusGroup(), description="further keys of every rule group")


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One rule file."""
    return commented(header(pack)) + to_yaml({"groups": groups(pack, site.targets.of(PrometheusKeys).group.data())})


_HOW = """\
```yaml
# prometheus.yml
rule_files: [/etc/prometheus/nccl/prometheus/*.yaml]
```"""

TARGET = Target(
    name="prometheus",
    summary="two rule files",
    readers="Prometheus, by a glob in `rule_files`",
    how=_HOW,
    render=documents("prometheus", document),
    document=document,
    keys=PrometheusKeys,
)
