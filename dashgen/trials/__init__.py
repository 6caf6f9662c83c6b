# SPDX-License-Identifier: Apache-2.0
"""Trials: random jobs, healthy and faulty, on which alert packs are judged by Prometheus' own rule evaluation.

``draw`` makes a scenario from a seed, ``judge`` compares what fired with what was wrong, ``score`` counts.
"""

from __future__ import annotations
