# SPDX-License-Identifier: Apache-2.0
"""How Prometheus and Alertmanager are told what to do: the generated rules and routing, on a faster clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashgen import durations
from dashgen.live.demo.exporters import NODE
from dashgen.live.demo.plan import Plan
from dashgen.model import Bundle
from dashgen.targets.rulefile import rule_file, to_yaml

RECEIVERS = ("pager", "tickets")


def rule_files(plan: Plan, bundle: Bundle) -> dict[str, str]:
    """The generated rules by the names of their files."""
    tier = plan.site.sensitivity
    return {"recording.yaml": rule_file(bundle.recording), "alerts.yaml": rule_file(bundle.alerts[tier])}


def prometheus(plan: Plan, nodes: Mapping[str, int], companions: int, alertmanager: int) -> str:
    """prometheus.yml: ``nodes`` are the ports of node_exporters by instance, ``companions`` is that of all others."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    for job, instance in plan.targets:
        labels = {**plan.scenario.labels, "instance": instance}
        if job != NODE:
            labels["__metrics_path__"] = path(job, instance)
        port = nodes[instance] if job == NODE else companions
        jobs.setdefault(job, []).append({"targets": [f"127.0.0.1:{port}"], "labels": labels})
    every = durations.text(plan.scrape)
    return to_yaml(
        {
            "global": {
                "scrape_interval": every,
                "scrape_timeout": every,
                "evaluation_interval": durations.text(plan.dump),
            },
            "rule_files": ["recording.yaml", "alerts.yaml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
            "scrape_configs": [{"job_name": job, "static_configs": found} for job, found in jobs.items()],
        }
    )


def path(job: str, instance: str) -> str:
    """Where the demo's own server has an exporter."""
    return f"/metrics/{job}/{instance}"


def alertmanager(bundle: Bundle, server: int) -> str:
    """alertmanager.yml: the generated routing, and the demo's own server as everybody who is told."""
    generated: dict[str, Any] = dict(bundle.alertmanager)
    told = [
        {
            "name": name,
            "webhook_configs": [{"url": f"http://127.0.0.1:{server}/told/{name}", "send_resolved": True}],
        }
        for name in RECEIVERS
    ]
    others = [each for each in generated["receivers"] if each["name"] not in RECEIVERS]
    route = _paging_at_once(generated["route"])
    return to_yaml({**generated, "route": route, "receivers": [*others, *told]})


def _paging_at_once(route: Mapping[str, Any]) -> dict[str, Any]:
    """A route whose pages do not wait for others to join them: who watches a demo waits for the page."""
    below = [_paging_at_once(each) for each in route.get("routes", ())]
    wait = {"group_wait": "0s"} if route["receiver"] == "pager" else {}
    return {**route, **({"routes": below} if below else {}), **wait}
