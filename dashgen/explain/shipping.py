# SPDX-License-Identifier: Apache-2.0
"""The targets as Markdown: what each writes, what its reader has to do, and its keys in dashgen.yaml."""

from __future__ import annotations

from dashgen.build import assemble
from dashgen.config.site import Site
from dashgen.explain.keys import section
from dashgen.explain.pages import table
from dashgen.targets import FORMATS, TARGETS

SHOWN = 4
"""Files of a target that are named; most write one for each board."""


def overview() -> str:
    """Every target in a row."""
    rows = ((f"[`{name}`](#{name})", target.summary, target.readers) for name, target in TARGETS.items())
    return table(("target", "writes", "for"), rows)


def targets(site: Site) -> str:
    """Every target under a heading of its own."""
    bundle = assemble.bundle(site)
    parts = []
    for name, target in TARGETS.items():
        files = sorted(target.render(bundle, site))
        named = ", ".join(f"`{path}`" for path in files[:SHOWN])
        more = " and others" if len(files) > SHOWN else ""
        printed = f" `dashgen rules --format {name}` prints one of its rule packs." if name in FORMATS else ""
        about = f"For {target.readers}: {target.summary}. It writes {named}{more}.{printed}"
        parts += [f"### {name}", about, target.how, section(f"targets.{name.replace('-', '_')}")]
    return "\n\n".join(part for part in parts if part)
