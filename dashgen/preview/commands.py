# SPDX-License-Identifier: Apache-2.0
"""The command lines with which a reader of a preview makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from dashgen.model import Sensitivity

SCENARIO = "attribution"
"""What is drawn where nobody names a recording: a published incident, a four-minute dip that the network caused."""


def again(
    recording: Path | None,
    config: Path | None,
    boards: Sequence[str],
    sensitivity: Sensitivity | None,
    at: datetime | None,
) -> tuple[str, ...]:
    """``dashgen preview`` with the options that were given; a file by its name alone, as it lies elsewhere there."""
    words = ["dashgen", "preview"]
    words += ["--config", config.name] if config else []
    words += ["--recording", recording.resolve().name] if recording else []
    words += [word for each in boards for word in ("--board", each)]
    words += ["--sensitivity", sensitivity.value] if sensitivity else []
    words += ["--at", at.strftime("%Y-%m-%dT%H:%M:%S")] if at else []
    return (shlex.join(words),)
