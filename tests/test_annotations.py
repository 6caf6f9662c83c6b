# SPDX-License-Identifier: Apache-2.0
"""What an on-call reads: the annotations of firing alerts, rendered by Prometheus itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from processes import tool

from dashgen import build
from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.engine.prometheus import rendered_annotations
from dashgen.model import RuleGroup, Sensitivity
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.simulator.scenario import Scenario, scenario_path
from dashgen.simulator.simulate import simulate
from dashgen.targets.rulefile import rule_file

RECORDINGS = Path(__file__).parent / "recordings"

# A recording in which each alert fires.
FIRES = {
    "timeline-b": ["NcclJobDegraded"],
    "late-gpu": ["NcclJobDegraded"],
    "slow-node": ["NcclNodeLate"],
    "nvlink-node": ["NcclJobDegraded"],
    "stalled": ["NcclJobStalled"],
    "stalled-blind": ["NcclJobQuiet"],
    "killed": ["NcclStaleFiles"],
    "exporter-gone": ["NcclNodeTelemetryLost"],
    "unreadable-file": ["NcclTextfileUnreadable"],
    "unwritable": ["NcclTelemetryFrozen"],
    "gpu0-collision": ["NcclGpusHidden", "NcclDuplicateSeries"],
    "healthy-counters": ["NcclRecordsDropped"],
    "mnnvl-lost": ["NcclNvlinkDomainLost"],
    "algorithm-change": ["NcclAlgorithmChanged"],
    "label-explosion": ["NcclCardinalityHigh"],
    "fabric-symbol-errors": ["NcclFabricSuspect", "NcclFabricSymbolErrors"],
    "mtu-mismatch": ["NcclFabricMtuMismatch"],
    "tcp-retransmits": ["NcclTcpRetransmits"],
}


def moments(story: Recording, alert: str) -> list[float]:
    """The evaluations in which an alert is expected to begin: all of the recording's where it does not say."""
    start, end = story.start.timestamp(), story.end.timestamp()
    told = [each for each in story.expect[Sensitivity.HIGH] if each.alert == alert]
    assert told, f"{alert} is not expected"
    first = min((each.after.timestamp() for each in told if each.after), default=start)
    last = min((each.before.timestamp() for each in told if each.before), default=end)
    return [start + 30 * step for step in range(int((last - start) // 30) + 1) if start + 30 * step >= first]


def rendered(
    name: str,
    story: Recording,
    groups: Iterable[RuleGroup],
    site: Site,
    times: Mapping[str, list[float]],
    seen: Callable[[Series], Series | None] = lambda one: one,
) -> dict[str, list[dict[str, str]]]:
    """The texts with which alerts fire on a recording, or what is seen of it, at the given moments."""
    files = {"recording.yaml": rule_file(build.recording(site)), "alerts.yaml": rule_file(groups)}
    start = story.start.timestamp()
    samples = [there for one in read_samples(RECORDINGS / name) if (there := seen(one))]
    return rendered_annotations(files, samples, start, 30, story.scrape_interval, times)


@pytest.mark.parametrize("name", FIRES)
def test_annotations_of_firing_alerts_are_sentences_with_numbers_and_names(name: str) -> None:
    tool("promtool")
    story = read_story(RECORDINGS / name)
    # A node that costs throughput is told of by the page alone; the ticket is for sites that do not know what it costs.
    blind = {"companions": {"dcgm": {"enabled": False}}} if name == "slow-node" else None
    site = config.site(blind or story.site or None, name)
    groups = build.alerts(site, Sensitivity.HIGH)
    told = rendered(name, story, groups, site, {alert: moments(story, alert) for alert in FIRES[name]})
    shipped = {rule.alert: rule for group in groups for rule in group.alerts}
    for alert in FIRES[name]:
        assert told[alert]
        for texts in told[alert]:
            assert set(texts) == set(shipped[alert].annotations)
            for text in texts.values():
                assert not re.search(r"<no value>|\{\{|\}\}|%!|NaN|\bInf\b|  ", text), text
            assert re.search(r"\d", texts["description"]), texts["description"]
            assert texts["summary"].endswith("."), texts["summary"]
            assert any(job.job in texts["description"] + texts["summary"] for job in story.faults) or not story.faults


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("nic-slow-discards", "Rising meanwhile: discards of node03 mlx5_2 port 1"),
        ("nic-lower-rate", "Slower than its like: mlx5_2 port 1 of node03, whose link runs at 200Gbit/s."),
        ("network-25", None),
    ],
)
def test_the_page_of_a_slow_network_names_the_port_that_has_errors_or_a_lower_rate(name: str, port: str | None) -> None:
    tool("promtool")
    story = read_story(RECORDINGS / name)
    site = config.site(story.site or None, name)
    begins = min(fault.start.timestamp() for fault in story.faults if fault.suspect == "network")
    times = {"NcclJobDegraded": [begins + 30 * step for step in range(20)]}
    pages = rendered(name, story, build.alerts(site, Sensitivity.MEDIUM), site, times)["NcclJobDegraded"]
    *_, told = (texts["description"] for texts in pages)
    words = "Rising meanwhile|Slower than its like"
    hints = re.findall(rf"(?:{words}): .*?(?=, at \d[\d.]*% of the published limit\.|$)", told)
    assert hints == ([port] if port else [])


@pytest.mark.parametrize(
    ("name", "place", "alert", "told"),
    [
        ("late-gpu", "late GPU or node, node03 GPU5.", "NcclGpuLate", "GPU5 (CUDA's number) of node03"),
        ("nic-slow", "network, the rail of GPU1.", "NcclTransportDegraded", "The bus bandwidth of the rail of GPU1, "),
    ],
)
def test_page_and_ticket_name_the_place(name: str, place: str, alert: str, told: str) -> None:
    tool("promtool")
    story = read_story(RECORDINGS / name)
    site = config.site(story.site or None, name)
    (fault,) = story.faults
    times = [fault.start.timestamp() + 30 * step for step in range(20)]
    texts = rendered(
        name,
        story,
        build.alerts(site, Sensitivity.MEDIUM),
        site,
        {"NcclJobDegraded": times, alert: times},
    )
    assert texts["NcclJobDegraded"][-1]["summary"].endswith(place)
    assert texts[alert][-1]["description"].startswith(told)


def test_the_texts_about_a_job_on_one_node_name_it() -> None:
    tool("promtool")
    story = read_story(RECORDINGS / "nvlink-node")
    (fault,) = (each for each in story.faults if each.suspect == "nvlink")

    def of_the_node(one: Series) -> Series | None:
        labels = dict(one.labels)
        told = not one.name.startswith("nccl_") or (labels["node"], labels["n_nodes"]) == (fault.node, "1")
        return one if told else None

    site = config.site({"companions": {"dcgm": {"enabled": False}}}, "nvlink-node")
    begins = fault.start.timestamp()
    times = {alert: [begins + 30 * step for step in range(20)] for alert in ("NcclJobDegraded", "NcclNvlinkDegraded")}
    told = rendered("nvlink-node", story, build.alerts(site, Sensitivity.MEDIUM), site, times, of_the_node)
    assert f"transport nvlink, node {fault.node} since" in told["NcclJobDegraded"][-1]["description"]
    assert f"% slower on {fault.node} than job" in told["NcclNvlinkDegraded"][-1]["description"]


@pytest.mark.parametrize(
    ("name", "dcgm", "words"),
    [
        ("stalled", True, "Its kernels spin, as in a collective that hangs. "),
        ("stalled", False, "Nothing tells whether its processes live: it may have been killed. "),
    ],
)
def test_the_page_of_a_silent_job_says_what_is_known_of_its_processes_and_leads_to_its_beginning(
    name: str, dcgm: bool, words: str
) -> None:
    tool("promtool")
    story = read_story(RECORDINGS / name)
    bare = {"companions": {each: {"enabled": False} for each in ("dcgm", "host_memory")}}
    site = config.site({"grafana": {"url": "https://grafana.example"}, **({} if dcgm else bare)}, name)
    (fault,) = (each for each in story.faults if each.kind == "hang")
    begins = fault.start.timestamp()
    times = {"NcclJobStalled": [begins + 30 * step for step in range(30)]}
    pages = rendered(name, story, build.alerts(site, Sensitivity.LOW), site, times)["NcclJobStalled"]
    assert pages and all(words in texts["description"] for texts in pages)
    for texts in pages:
        (since,) = re.findall(r"var-job=[0-9]+&from=([0-9]+)&to=now$", texts["dashboard_url"])
        # A test of promtool begins at second 0.
        began = story.start.timestamp() + int(since) / 1000 + 1800
        assert abs(begins - began) <= 60


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("dcgm", "as nvidia-smi counts, rests while all others spin: its process is dead or has not come to the"),
        (
            "counters",
            "(CUDA's number) no longer writes its file, and all others have written theirs since: its process",
        ),
    ],
)
def test_the_page_of_a_job_of_which_a_process_died_names_it_and_says_who_counts(source: str, words: str) -> None:
    tool("promtool")
    dead = {"kind": "dead-rank", "start": "10m", "node": "node02", "gpu": 1}
    usual = yaml.safe_load(scenario_path("network-25").read_text())
    told = {"name": "dead", "lasts": "17m", "expect": {}, "events": [dead], "companions": {"dcgm": False, source: True}}
    story, samples = simulate(Scenario.model_validate(usual | told))
    (fault,) = story.faults
    files = {
        "recording.yaml": rule_file(build.recording(Site())),
        "alerts.yaml": rule_file(build.alerts(Site(), Sensitivity.LOW)),
    }
    times = {"NcclJobStalled": [story.end.timestamp() - 60]}
    pages = rendered_annotations(files, samples, story.start.timestamp(), 30, story.scrape_interval, times)
    (page,) = pages["NcclJobStalled"]
    assert f"{fault.gpu} of {fault.node}" in page["description"] and words in page["description"]


def test_the_ticket_about_who_has_always_been_late_says_what_else_may_be_the_reason() -> None:
    tool("promtool")
    name = "../worlds/others/one-percent"
    story = read_story(RECORDINGS / name)
    times = {"NcclGpuLate": [story.start.timestamp() + 30 * step for step in range(16, 30)]}
    tickets = rendered(name, story, build.alerts(Site(), Sensitivity.MEDIUM), Site(), times)["NcclGpuLate"]
    assert tickets and all(
        "Nothing is known of it from before: the stage of" in each["description"] for each in tickets
    )


@pytest.mark.parametrize("dies", [False, True])
def test_the_page_of_a_job_that_hangs_because_a_node_died_names_it(dies: bool) -> None:
    tool("promtool")
    story = read_story(RECORDINGS / "stalled")
    (fault,) = (each for each in story.faults if each.kind == "hang")
    begins = fault.start.timestamp()
    node = min(label for one in read_samples(RECORDINGS / "stalled") for name, label in one.labels if name == "node")

    def of_living_nodes(one: Series) -> Series:
        there = one.times < (begins if dies and node in " ".join(dict(one.labels).values()) else np.inf)
        return replace(one, times=one.times[there], values=one.values[there])

    times = {"NcclJobStalled": [begins + 30 * step for step in range(12)]}
    site = Site()
    pages = rendered("stalled", story, build.alerts(site, Sensitivity.LOW), site, times, of_living_nodes)
    told = [texts["description"] for texts in pages["NcclJobStalled"]]
    assert told
    assert all(f"nothing has been scraped from {node}: it may be down." in each for each in told) == dies
    assert any("nothing has been scraped" in each for each in told) == dies
