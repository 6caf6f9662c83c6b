# SPDX-License-Identifier: Apache-2.0
"""The default target: plain files for Grafana's file provider, Prometheus and Alertmanager."""

from __future__ import annotations

from dashgen.config.site import Site
from dashgen.grafana.dashboard import text
from dashgen.model import Bundle
from dashgen.targets.packs import GENERATED, unexpanded
from dashgen.targets.rulefile import commented, rule_file, to_yaml
from dashgen.targets.target import Target

_ALERTMANAGER = """\
Example of routing and inhibition for these alerts: merge the route below the
root, which here keeps whatever else there is to itself, into the site's own alertmanager.yml.
Critical alerts are pages: slow jobs, stalled jobs. Warnings are tickets, info is context for nobody's pager."""

_DATASOURCE = """\
Example of a Prometheus data source, for /etc/grafana/provisioning/datasources/. The dashboards offer every
Prometheus data source there is, so a site that has one does not need this file."""


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of every file."""
    files = {f"dashboards/{slug}.json": text(board) for slug, board in bundle.dashboards.items()}
    files["rules/recording.yaml"] = rule_file(bundle.recording, GENERATED)
    for sensitivity, groups in bundle.alerts.items():
        pack = f"Sensitivity {sensitivity}: load only one of the packs, beside recording.yaml."
        files[f"rules/alerts/{sensitivity}.yaml"] = rule_file(groups, f"{GENERATED}\n{pack}")
    for alert, page in bundle.runbooks.items():
        files[f"rules/runbooks/{alert}.md"] = f"<!-- {GENERATED} -->\n\n{page}"
    files["rules/alertmanager.yaml"] = commented(f"{GENERATED}\n{_ALERTMANAGER}") + to_yaml(dict(bundle.alertmanager))
    files["dashboards/provisioning/dashboards/dashgen.yaml"] = commented(GENERATED) + to_yaml(_provider(bundle, site))
    files["dashboards/provisioning/datasources/prometheus.yaml.example"] = commented(
        f"{GENERATED}\n{_DATASOURCE}"
    ) + to_yaml(_source())
    return files


def _provider(bundle: Bundle, site: Site) -> dict[str, object]:
    """Grafana's file provider for the folder of dashboards."""
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": "dashgen",
                "orgId": 1,
                "type": "file",
                "folder": unexpanded(bundle.folder),
                "disableDeletion": False,
                "updateIntervalSeconds": 30,
                "allowUiUpdates": False,
                "options": {"path": unexpanded(site.grafana.path), "foldersFromFilesStructure": False},
            }
        ],
    }


def _source() -> dict[str, object]:
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "Prometheus",
                "type": "prometheus",
                "access": "proxy",
                "url": "http://localhost:9090",
                "isDefault": True,
            }
        ],
    }


TARGET = Target(
    name="files",
    summary="dashboards, recording rules, the packs of all tiers, runbooks and an example of routing",
    readers="Grafana's file provider, Prometheus and people",
    render=render,
    owned=("dashboards", "rules"),
)
