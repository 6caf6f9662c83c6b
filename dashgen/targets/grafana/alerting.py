# SPDX-License-Identifier: Apache-2.0
"""Provisioning files of Grafana-managed rules, for sites that have no ruler.

Grafana reads them from ``provisioning/alerting``. The alerts judge recorded series: where no Prometheus records them,
Grafana does by the second file, which needs ``[recording_rules] enabled = true``.
"""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.grafana import rules as grafana_rules
from dashgen.targets.packs import Pack, header, unexpanded
from dashgen.targets.rulefile import commented, to_yaml
from dashgen.targets.target import Target, documents

_RECORDING = "Only where no Prometheus records them; needs [recording_rules] enabled = true in grafana.ini."


def document(pack: Pack, bundle: Bundle, site: Site) -> str:
    """One provisioning file."""
    wanted = site.targets.of(grafana_rules.GrafanaAlertingKeys)
    data: dict[str, object] = {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": wanted.org_id,
                "name": unexpanded(group.name),
                "folder": unexpanded(bundle.folder),
                "interval": f"{grafana_rules.interval(group)}s",
                "rules": grafana_rules.rules(group, bundle, site),
            }
            for group in pack.groups
        ],
    }
    if wanted.delete and pack.name != "nccl-recording":
        data["deleteRules"] = [{"orgId": wanted.org_id, "uid": uid} for uid in wanted.delete]
    return commented(header(pack, [_RECORDING] if pack.name == "nccl-recording" else [])) + to_yaml(data)


_HOW = """\
It is made for `/etc/grafana/provisioning/alerting`. A rule cannot use a dashboard variable, so give the uid of the
data source: `targets: {grafana_alerting: {datasource_uid: abc}}`.

`nccl-recording.yaml` is for sites where no Prometheus records the rules; it needs `[recording_rules] enabled = true`.
Grafana evaluates each rule by itself, so rules that read one another lag one evaluation for each step; a ruler is
better where there is one. Texts lack what Prometheus looks up while it writes them, such as since when a job is slow:
Grafana's templates cannot ask.

Rules that you no longer want leave Grafana through `targets: {grafana_alerting: {delete: [UID]}}`. Notification
policies are not written: provisioning them would replace the whole tree."""

TARGET = Target(
    name="grafana-alerting",
    summary="two provisioning files of Grafana-managed rules",
    readers="Grafana without a ruler",
    how=_HOW,
    render=documents("grafana-alerting", document),
    document=document,
    late=True,
    keys=grafana_rules.GrafanaAlertingKeys,
)
