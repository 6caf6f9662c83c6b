# SPDX-License-Identifier: Apache-2.0
"""What every section of dashgen.yaml has in common: no unknown key, no change after it was read, no endless text."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from dashgen.config.values import LONGEST_TEXT


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=LONGEST_TEXT)
