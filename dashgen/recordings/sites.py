# SPDX-License-Identifier: Apache-2.0
"""Where recordings lie, and the site that each was made at."""

from __future__ import annotations

from pathlib import Path

from dashgen.config import site as config
from dashgen.config.sources import merged
from dashgen.errors import UserError
from dashgen.recordings.format import STORY, read_story


def folders(path: Path) -> list[Path]:
    """The recordings below a folder, or the folder itself. Raises UserError where there is none."""
    if (path / STORY).exists():
        return [path]
    found = sorted(story.parent for story in path.glob(f"*/{STORY}"))
    if not found:
        raise UserError(f"{path}: no recording (a folder with {STORY}); name their folder with --recordings")
    return found


def made_at(folder: Path, base: config.Site) -> config.Site:
    """The site that a recording was made at: its own keys over the given configuration. Raises UserError."""
    own = read_story(folder).site
    if not own:
        return base
    given = base.model_dump(mode="json", exclude_unset=True)
    return config.site(merged(given, own), str(folder / STORY) + ": site")
