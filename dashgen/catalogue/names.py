# SPDX-License-Identifier: Apache-2.0
"""The series that more than PromQL reads: what a job's verdict is recorded under."""

from __future__ import annotations

from typing import Final

VERDICT: Final = "job:nccl_verdict:depth"
"""State, suspect and place of each job in labels; how deep it is as the value."""

SINCE: Final = "job:nccl_verdict:since"
"""Since when each job is in that state, a Unix timestamp."""
