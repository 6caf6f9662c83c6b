# SPDX-License-Identifier: Apache-2.0
"""A jsonnet mixin (monitoring.mixins.dev) in which ``_config`` works, with the site's overlays on top."""

from __future__ import annotations

import json
from pathlib import Path

from dashgen import build
from dashgen.config.site import Site
from dashgen.jsonnet import mixin
from dashgen.model import Bundle
from dashgen.targets.packs import GENERATED, tier
from dashgen.targets.target import Target

_README = f"""\
<!-- {GENERATED} -->

# NCCL Inspector mixin

    jb install <this folder's repository>

    local nccl = (import 'mixin.libsonnet') + {{
      _config+:: {{
        selector: 'cluster="a"',
        jobLabel: 'slurm_job_id',
        sensitivity: 'low',
        runbookURLPattern: 'https://example.com/runbooks/{{alert}}',
        alerts+: {{ NcclJobDegraded+: {{ low+: {{ threshold: 0.2 }} }} }},
      }},
    }};

`grafanaDashboards`, `prometheusRules` and `prometheusAlerts` hold what they hold in any mixin; `config.libsonnet` lists
every key. `prometheusAlerts` is the pack of the tier that `sensitivity` names. Durations follow the dump interval that
the mixin was built for: for another one, set `dump_interval` in dashgen.yaml and build again.
"""


def render(bundle: Bundle, site: Site) -> dict[str, str]:
    """path -> text of the mixin."""
    entries = [f"overlays/{number}/{Path(path).name}" for number, path in enumerate(site.overlays)]
    wanted = site.model_copy(update={"sensitivity": tier(bundle, site)})
    files = mixin.sources(wanted, build.plain, entries)
    files |= {f"overlays/{path}": text for path, text in bundle.overlays.items()}
    files["jsonnetfile.json"] = json.dumps({"version": 1, "dependencies": [], "legacyImports": True}, indent=2) + "\n"
    files["README.md"] = _README
    return {f"mixin/{path}": text for path, text in files.items()}


_HOW = """\
```jsonnet
local nccl = (import 'mixin/mixin.libsonnet') + {
  _config+:: {
    selector: 'cluster="a"',
    clusterLabel: 'cluster',
    sensitivity: 'low',
    runbookURLPattern: 'https://example.com/runbooks/{alert}',
    alerts+: { NcclJobDegraded+: { low+: { threshold: 0.2 } } },
  },
};
{ 'alerts.json': nccl.prometheusAlerts, 'rules.json': nccl.prometheusRules } + nccl.grafanaDashboards
```

`config.libsonnet` lists every key. What is built with `_config` equals what `dashgen build` writes for the same
settings. Durations follow `dump_interval`, and thresholds in panels the tiers, of the dashgen.yaml that the mixin was
built with."""

TARGET = Target(
    name="mixin",
    summary="a jsonnet mixin in which `_config` works",
    readers="jsonnet-bundler, kube-prometheus and Tanka",
    how=_HOW,
    render=render,
)
