# SPDX-License-Identifier: Apache-2.0
"""Where recordings lie, and the site that each was made at."""

from __future__ import annotations

from pathlib import Path

from dashgen.config import site as config
from dashgen.config.sources import merged
from dashgen.errors import UserError
from dashgen.recordings.format import STORY, read_story

# How series are named is for the recording to say: where it says nothing, as Inspector and Prometheus name them.
_NAMES = {"source", "labels", "metrics", "selector"}
# How often machines that never were dump, and what they reach.
_MACHINES = {"dump_interval", "acceptance"}


def folders(path: Path) -> list[Path]:
    """The recordings below a folder, or the folder itself. Raises UserError where there is none."""
    if (path / STORY).exists():
        return [path]
    found = sorted(story.parent for story in path.glob(f"*/{STORY}"))
    if not found:
        raise UserError(f"{path}: no recording (a folder with {STORY}); name their folder with --recordings")
    return found


def made_at(folder: Path, base: config.Site) -> config.Site:
    """The site that a recording was made at: its own keys over those of the given configuration that it may have.

    Raises UserError.
    """
    story = read_story(folder)
    other = _NAMES | _MACHINES if story.source == "simulated" else _NAMES
    given = base.model_dump(mode="json", exclude_unset=True, exclude=other)
    return config.site(merged(given, story.site), str(folder / STORY) + ": site")
