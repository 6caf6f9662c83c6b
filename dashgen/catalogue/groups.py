# SPDX-License-Identifier: Apache-2.0
"""The groups that recording rules are evaluated in: a rule reads what stands before it in its own group as of now."""

from __future__ import annotations

from typing import Final

VERDICT: Final = "nccl-verdict"
"""From a job's evidence to its verdict, in one evaluation."""

HEALTHY: Final = "nccl-healthy"
"""Samples that may teach what is usual."""

USUAL: Final = "nccl-usual"
"""What series are used to."""

PRESENCE: Final = "nccl-presence"
"""Which GPUs report for which job."""

STALLS: Final = "nccl-stalls"
SHAPE: Final = "nccl-shape"
BANDWIDTH: Final = "nccl-bandwidth"
P2P: Final = "nccl-p2p"
TELEMETRY: Final = "nccl-telemetry"
FABRIC: Final = "nccl-fabric"

SLOW: Final = frozenset({USUAL, PRESENCE})
"""Groups that are evaluated every four dumps, but every two minutes at least: what changes slowly, and costs most."""
