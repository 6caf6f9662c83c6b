# SPDX-License-Identifier: Apache-2.0
"""What a target says of itself. Its module holds one in ``TARGET``, and that is all it takes to be a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dashgen.config.sections import Section
from dashgen.config.site import Site
from dashgen.model import Bundle
from dashgen.targets.packs import Pack, packs

Render = Callable[[Bundle, Site], dict[str, str]]
Document = Callable[[Pack, Bundle, Site], str]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One form of a build.

    ``summary`` says what it writes and ``readers`` who reads that; ``how`` is Markdown for the page of the targets:
    what a reader has to do. ``render`` makes {path: text}, all of it below ``owned``. ``document`` writes one rule
    pack, where the target carries rules. ``keys`` are its section of dashgen.yaml, and ``shared`` sections that it
    reads beside others, by name. ``late`` says that its engine stores a result after the evaluation, so that no rule of
    the same evaluation sees it.
    """

    name: str
    summary: str
    readers: str
    render: Render
    how: str = ""
    owned: tuple[str, ...] = ()
    document: Document | None = None
    late: bool = False
    keys: type[Section] | None = None
    shared: Mapping[str, type[Section]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.owned:
            object.__setattr__(self, "owned", (self.name,))

    @property
    def sections(self) -> dict[str, type[Section]]:
        """Its sections below ``targets`` in dashgen.yaml."""
        return {**self.shared, **({self.name.replace("-", "_"): self.keys} if self.keys else {})}

    def site(self, site: Site) -> Site:
        """The site as a bundle for this target is built from it."""
        return site.showing_results(late=True) if self.late else site


def documents(folder: str, document: Document) -> Render:
    """Writes one document for each pack into a folder."""

    def render(bundle: Bundle, site: Site) -> dict[str, str]:
        return {f"{folder}/{pack.name}.yaml": document(pack, bundle, site) for pack in packs(bundle, site)}

    return render
