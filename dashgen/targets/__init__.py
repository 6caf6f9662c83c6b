# SPDX-License-Identifier: Apache-2.0
"""The forms that a build takes, by name. Each module turns a Bundle into {path: text} and touches nothing.

A module below this package that has a ``TARGET`` is a target: its keys, its commands and its documentation follow.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module

from dashgen.config.sections import Section
from dashgen.targets.packs import Pack
from dashgen.targets.target import Document, Target

__all__ = ["FORMATS", "TARGETS", "Pack", "Target", "sections"]


def _found() -> Iterator[Target]:
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        target = getattr(import_module(module.name), "TARGET", None)
        if isinstance(target, Target):
            yield target


# The one that is built by default comes first.
_ALL = sorted(_found(), key=lambda target: (target.name != "files", target.name))
TARGETS: Mapping[str, Target] = {target.name: target for target in _ALL}

FORMATS: Mapping[str, Document] = {name: target.document for name, target in TARGETS.items() if target.document}
"""The targets whose rules `dashgen rules --format` prints."""

if len(TARGETS) != len(_ALL):
    raise ValueError("two targets share a name")


def sections() -> dict[str, type[Section]]:
    """The sections below ``targets`` in dashgen.yaml, those that several targets read first."""
    shared = {name: model for target in _ALL for name, model in target.shared.items()}
    return {**shared, **{name: model for target in _ALL for name, model in target.sections.items()}}
