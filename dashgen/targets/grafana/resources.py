# SPDX-License-Identifier: Apache-2.0
"""Dashboards as resources of Grafana's own API (grafana.com/docs/grafana/latest/as-code).

Git Sync makes folders of directories and takes no other hint; ``gcx resources push`` wants the folder as a resource,
and dashboards that name it. So there are two trees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import Field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.grafana.schema import MAX_UID, told_apart
from dashgen.model import Bundle
from dashgen.targets.target import Target

_FOLDER_API = "folder.grafana.app/v1beta1"


class ResourcesKeys(Section):
    """Resources of Grafana's own API, for Git Sync and gcx."""

    api_version: str = Field(
        "dashboard.grafana.app/v1beta1",
        pattern=r"^dashboard\.grafana\.app/(v0alpha1|v1beta1|v1)$",
        description="dashboard.grafana.app/v1 on Grafana 13",
    )


def folder_uid(bundle: Bundle, site: Site) -> str:
    """The uid of the folder of the dashboards: its title where that is short and plain."""
    uid = (site.grafana.uid_prefix + re.sub(r"[^a-zA-Z0-9_-]+", "-", bundle.folder)).strip("-").lower()
    plain = bundle.folder.isascii() and 1 <= len(uid) <= MAX_UID
    return uid if plain else told_apart(uid, bundle.folder).lstrip("-")


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of every resource."""
    folder = folder_uid(bundle, site)
    directory = re.sub(r"[^\w .+-]+", "-", bundle.folder).strip(" .") or "NCCL"
    files = {"resources/gcx/folder.json": _text(_FOLDER_API, "Folder", {"name": folder}, {"title": bundle.folder})}
    for slug, board in bundle.dashboards.items():
        spec = {key: value for key, value in board.items() if key != "uid"}
        api, name = site.targets.of(ResourcesKeys).api_version, board["uid"]
        placed = {"name": name, "annotations": {"grafana.app/folder": folder}}
        files[f"resources/gcx/{slug}.json"] = _text(api, "Dashboard", placed, spec)
        files[f"resources/git-sync/{directory}/{slug}.json"] = _text(api, "Dashboard", {"name": name}, spec)
    return files


def _text(api: str, kind: str, metadata: Mapping[str, object], spec: Mapping[str, object]) -> str:
    data = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


TARGET = Target(
    name="resources",
    summary="dashboards as API resources, in two trees",
    readers="Git Sync and `gcx resources push`",
    render=render,
    keys=ResourcesKeys,
)
