# SPDX-License-Identifier: Apache-2.0
"""Two clusters whose jobs, nodes and GPUs have equal names, in one Prometheus: neither changes a value of the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from processes import tool

from dashgen.build import assemble as build
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.engine.evaluated import replay
from dashgen.model import Sensitivity
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.recordings.importing import sorted_labels

RECORDINGS = Path(__file__).parent / "recordings"
LASTS = 28 * 60  # seconds: the faults begin after 22 minutes
LATER = 3 * 60  # seconds by which the second cluster begins and fails later: meanwhile the first fails alone
NAMES = {"slurm_job_id": "1"}
SITE = config.site(
    {"labels": {"cluster": "zone"}, "companions": {"throughput": {"metric": "megatron_training_throughput_tflops"}}},
    "test",
)

Values = Mapping[tuple[str, tuple[tuple[str, str], ...]], tuple[tuple[float, float], ...]]


def moved(recording: str, zone: str, start: float, until: float) -> list[Series]:
    """The first minutes of a recording, in a cluster of its own, at another time and with another name of its job."""
    by = start - read_story(RECORDINGS / recording).start.timestamp()
    samples = []
    for one in read_samples(RECORDINGS / recording):
        keep = one.times + by <= until
        labels = {**dict(one.labels), "zone": zone}
        labels |= {name: value for name, value in NAMES.items() if name in labels}
        values = one.values[keep] + (by if one.name == upstream("mtime") else 0.0)
        samples.append(replace(one, labels=sorted_labels(labels), times=one.times[keep] + by, values=values))
    return [one for one in samples if len(one.times)]


def made(story: Recording, samples: Iterable[Series]) -> Values:
    """What all rules make of samples: recorded series and alerts, every value of each."""
    mine = list(samples)
    found = replay(build.bundle(SITE), story, mine, list(Sensitivity)).series[len(mine) :]
    return {(one.name, one.labels): tuple(zip(one.times.tolist(), one.values.tolist(), strict=True)) for one in found}


def test_a_cluster_gets_the_values_that_it_would_get_alone() -> None:
    tool("promtool")
    first = read_story(RECORDINGS / "late-gpu-40")
    end = first.start.timestamp() + LASTS
    story = first.model_copy(update={"end": first.end.fromtimestamp(end, first.end.tzinfo), "faults": (), "expect": {}})
    late = moved("late-gpu-40", "a", end - LASTS, end)
    links = moved("nvlink-node", "b", end - LASTS + LATER, end)
    alone = {**made(story, late), **made(story, links)}
    together = made(story, [*late, *links])
    assert together.keys() == alone.keys()
    for key, values in alone.items():
        assert [time for time, _ in together[key]] == [time for time, _ in values], key
        assert [value for _, value in together[key]] == pytest.approx([value for _, value in values], rel=1e-9), key
    # It is a test only where both clusters have verdicts, and different ones, about jobs of one name.
    blamed = {
        (dict(labels)["zone"], dict(labels)["slurm_job_id"], dict(labels)["suspect"])
        for name, labels in together
        if name == "job:nccl_verdict:depth" and dict(labels)["state"] == "degraded"
    }
    assert blamed == {("a", "1", "straggler"), ("b", "1", "nvlink")}
