# SPDX-License-Identifier: Apache-2.0
"""What an on-call reads: the annotations of firing alerts, rendered by Prometheus itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from processes import tool

from dashgen import build
from dashgen.config import site as config
from dashgen.engine.prometheus import evaluate, rendered_annotations
from dashgen.model import AlertRule, Sensitivity
from dashgen.recordings.format import read_samples, read_story
from dashgen.targets.rulefile import rule_file

RECORDINGS = Path(__file__).parent / "recordings"

# A recording in which each alert fires.
FIRES = {
    "timeline-b": ["NcclJobDegraded"],
    "late-gpu": ["NcclJobDegraded"],
    "slow-node": ["NcclNodeLate"],
    "nvlink-node": ["NcclJobDegraded"],
    "stalled": ["NcclJobStalled", "NcclJobQuiet"],
    "killed": ["NcclStaleFiles"],
    "exporter-gone": ["NcclNodeTelemetryLost"],
    "unreadable-file": ["NcclTextfileUnreadable"],
    "gpu0-collision": ["NcclGpusHidden", "NcclDuplicateSeries"],
    "uint8": ["NcclGarbageBuckets"],
    "healthy-counters": ["NcclRecordsDropped"],
    "mnnvl-lost": ["NcclNvlinkDomainLost"],
    "algorithm-change": ["NcclAlgorithmChanged"],
    "label-explosion": ["NcclCardinalityHigh"],
    "fabric-symbol-errors": ["NcclFabricSuspect", "NcclFabricSymbolErrors"],
    "mtu-mismatch": ["NcclFabricMtuMismatch"],
    "tcp-retransmits": ["NcclTcpRetransmits"],
}


@pytest.mark.parametrize("name", FIRES)
def test_annotations_of_firing_alerts_are_sentences_with_numbers_and_names(name: str) -> None:
    tool("promtool")
    story, series = read_story(RECORDINGS / name), read_samples(RECORDINGS / name)
    site = config.site(story.site or None, name)
    groups = build.alerts(site, Sensitivity.HIGH)
    files = {"recording.yaml": rule_file(build.recording(site)), "alerts.yaml": rule_file(groups)}
    start, end = story.start.timestamp(), story.end.timestamp()
    fired = evaluate(files, series, start, end, 30, story.scrape_interval, "ALERTS").alerts
    times = {
        alert: [one.firing[0][0] for one in fired if one.alert == alert and one.firing][:1] for alert in FIRES[name]
    }
    assert all(times.values()), f"{times} of {sorted({one.alert for one in fired})}"
    rendered = rendered_annotations(files, series, start, 30, story.scrape_interval, times)
    shipped = {rule.alert: rule for group in groups for rule in group.rules if isinstance(rule, AlertRule)}
    for alert in FIRES[name]:
        assert rendered[alert]
        for texts in rendered[alert]:
            assert set(texts) == set(shipped[alert].annotations)
            for text in texts.values():
                assert not re.search(r"<no value>|\{\{|\}\}|%!|NaN|\bInf\b|  ", text), text
            assert re.search(r"\d", texts["description"]), texts["description"]
            assert texts["summary"].endswith("."), texts["summary"]
            assert any(job.job in texts["description"] + texts["summary"] for job in story.faults) or not story.faults
