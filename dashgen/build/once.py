# SPDX-License-Identifier: Apache-2.0
"""What a build asks a site for again and again is made once: a site never changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TypeVar

from dashgen.config.site import Site

KEPT = 9
"""Sites that are remembered; a mixin is built from as many."""

_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class _Same:
    """A site that equals itself alone: to compare two takes longer than most of what is made of them."""

    site: Site

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.site is other.site

    def __hash__(self) -> int:
        return id(self.site)


def once(function: Callable[[Site], _Made]) -> Callable[[Site], _Made]:
    """The function, computed once for each site. Its result is shared, so it must be one that nobody changes."""

    @lru_cache(maxsize=KEPT)
    def made(same: _Same) -> _Made:
        return function(same.site)

    @wraps(function)
    def asked(site: Site) -> _Made:
        return made(_Same(site))

    return asked
