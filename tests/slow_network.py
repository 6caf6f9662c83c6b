# SPDX-License-Identifier: Apache-2.0
"""A small recording that several tests judge or draw: one job, whose network is slow for five minutes."""

from __future__ import annotations

import numpy as np

from dashgen.catalogue.metrics import upstream
from dashgen.recordings.format import Recording, Series

BANDWIDTH = upstream("busbw")
START = 1_773_930_000  # 2026-03-19T14:20:00Z
STEPS = 60  # fifteen minutes
FAULT = "2026-03-19T14:25:00Z"


def samples(job: str = "7") -> list[Series]:
    """Four GPUs of one job, whose bandwidth halves from 14:25 to 14:30."""
    times = START + 15.0 * np.arange(STEPS + 1)
    values = np.where((times >= START + 300) & (times < START + 600), 50.0, 100.0)
    return [
        Series(BANDWIDTH, (("gpu", str(gpu)), ("node", "n1"), ("slurm_job_id", job)), times, values + gpu)
        for gpu in range(4)
    ]


def story(**changes: object) -> Recording:
    told = {
        "format": 1,
        "story": "The network of job 7 is slow for five minutes.",
        "source": "simulated",
        "made_by": "a test",
        "start": "2026-03-19T14:20:00Z",
        "end": "2026-03-19T14:35:00Z",
        "scrape_interval": 15,
        "faults": [{"kind": "network", "start": FAULT, "end": "2026-03-19T14:30:00Z", "job": "7"}],
    }
    return Recording.model_validate(told | changes)
