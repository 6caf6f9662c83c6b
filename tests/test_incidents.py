# SPDX-License-Identifier: Apache-2.0
"""Incidents are told as they were: when, how long, whose fault and at what cost, from whatever a site has recorded."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import dashgen
from processes import rule_engine, serving, tool
from servers import Asked, Reply, answering
from test_record import prometheus

from dashgen.catalogue import SIGNAL_BY_NAME
from dashgen.config import site as config
from dashgen.cost.survey import survey
from dashgen.engine import scheduled as engine
from dashgen.errors import UserError
from dashgen.explain.values import Subject, why
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client
from dashgen.live.doctor.probe import Probe
from dashgen.live.incidents import annotate, history, look
from dashgen.live.incidents import report as incident_report
from dashgen.live.incidents.evidence import readings
from dashgen.live.incidents.history import AtHand, Played, played
from dashgen.live.incidents.review import review
from dashgen.live.incidents.windows import ERRORS, GPUS, SINCE, THROUGHPUT, USUAL, VERDICT, Incident, incidents
from dashgen.recordings.format import Series, read_samples, read_story, to_openmetrics
from dashgen.simulator.scenario import load_scenario
from dashgen.simulator.simulate import simulate

RECORDINGS = Path(__file__).parent / "recordings"
TOLD = {"companions": {"throughput": {"metric": "megatron_training_throughput_tflops", "unit": "tflops"}}}
SITE = config.Site.model_validate(TOLD)
DUMP = SITE.dump_interval
BEGAN = 1_800_000_000.0


pytestmark = pytest.mark.usefixtures("no_proxy")


@pytest.fixture(scope="module")
def attribution() -> Played:
    rule_engine()
    folder = RECORDINGS / "attribution"
    return played(read_story(folder), read_samples(folder), SITE)


def stamp(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def gone(_: Incident) -> Played:
    raise UserError("no raw series")


def as_published(one: Incident) -> None:
    """The incident that NVIDIA's blog of 2026-05-07 tells, within one dump."""
    assert (one.job, one.state, one.suspect, one.transport, one.gpus) == ("41502", "degraded", "network", "mixed", 32)
    assert abs(one.start - stamp("2026-03-19T14:39:50")) <= DUMP
    assert abs(one.end - stamp("2026-03-19T14:44:00")) <= DUMP
    assert one.throughput is not None and not one.ongoing
    told = (one.throughput.evidence, one.throughput.before, one.throughput.during, one.throughput.after)
    assert told == ("reported", pytest.approx(314, rel=0.01), 289.0, pytest.approx(311, rel=0.01))
    # A loss of 6 % of 32 GPUs for four minutes.
    assert one.gpu_hours == pytest.approx(0.12, abs=0.02)
    assert [each.name for each in one.alerts] == ["NcclTransportDegraded", "NcclJobDegraded"]
    ticket, page = (each.after for each in one.alerts)
    assert ticket is not None and page == pytest.approx(ticket + 2 * DUMP, abs=6), "three dumps make a page"


def test_victoriametrics_tells_the_same(attribution: Played, tmp_path: Path) -> None:
    flags = [f"-storageDataPath={tmp_path / 'data'}", "-retentionPeriod=100y", "-httpListenAddr=127.0.0.1:PORT"]
    lines = [one.rsplit(" ", 1) for one in to_openmetrics(attribution.replay.series) if not one.startswith("#")]
    text = "".join(f"{head} {round(float(at) * 1000)}\n" for head, at in lines)
    story = attribution.replay.story
    with serving(tool("victoria-metrics"), *flags, ready="/health", log=tmp_path / "log") as url:
        server = Prometheus(Client(url))
        server.client.request("POST", "/api/v1/import/prometheus", text.encode())
        server.client.get("/internal/force_flush")
        (one,) = look.on_server(server, SITE, story.start.timestamp(), story.end.timestamp(), []).incidents
        as_published(one)
        moment = stamp("2026-03-19T14:43:00")
        said = why(Subject("NcclJobDegraded", "41502", moment), SITE, server.instant)
        assert 'state="degraded",suspect="network"' in said
        assert survey(Probe(server, SITE, moment), 15.0).fleet.gpus == 32


def test_the_command_tells_the_published_incident_and_its_cost(tmp_path: Path) -> None:
    (tmp_path / "dashgen.yaml").write_text(json.dumps(TOLD))
    arguments = ["--recording", RECORDINGS / "attribution"]
    shown = dashgen("windows", *arguments, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "313.4 → 289 → 313.1 tflops" in shown.stdout and "1 incident, 0.1 GPU hours lost" in shown.stdout
    told = json.loads(dashgen("incidents", *arguments, "--format", "json", cwd=tmp_path).stdout)
    (line,) = csv.DictReader(io.StringIO(dashgen("incidents", *arguments, "--format", "csv", cwd=tmp_path).stdout))
    (one,) = told["incidents"]
    assert (one["before"], one["during"], one["after"], one["suspect"]) == (313.4, 289, 313.1, "network")
    assert set(line) == set(one) and line["start"] == one["start"] == "2026-03-19T14:40:15Z"


def test_the_recorded_verdict_and_a_replay_of_the_rules_tell_the_same(
    attribution: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, series = attribution.replay.story, attribution.replay.series
    start, end = story.start.timestamp(), story.end.timestamp()
    raw = [one for one in series if ":" not in one.name and one.name != "ALERTS"]
    (first,) = incidents(attribution.history, SITE, start, end)
    as_published(first)
    for name, there, replayed in (("ruled", list(series), ()), ("bare", raw, ("41502",))):
        (tmp_path / name).mkdir()
        with prometheus(there, tmp_path / name, "--query.lookback-delta=50s") as url:
            server = Prometheus(Client(url))
            for jobs in ([], ["41502"]):
                found = look.on_server(server, SITE, start, end, jobs)
                assert (found.replayed, found.left_out) == (replayed, ())
                (one,) = found.incidents
                as_published(one)
                assert (one.start, one.end, one.alerts) == (first.start, first.end, first.alerts)
            with monkeypatch.context() as little:
                little.setattr(history, "MOST_REPLAYED", 1000)
                found = look.on_server(server, SITE, start, end, [])
                assert found.left_out == replayed and (name == "ruled" or "1 more job has no" in found.notes[0])
                little.setattr(engine, "engine", lambda: None)
                if name == "bare":
                    with pytest.raises(UserError, match=r"more than the 0\.001 million .* ask for a shorter time"):
                        look.on_server(server, SITE, start, end, ["41502"])
            with pytest.raises(UserError, match=r"under the label slurm_job_id in that time; check --start"):
                look.on_server(server, SITE, start - 9e7, end - 9e7, [])
            if name == "ruled":
                page = review(found, SITE, "Review", url)
                assert "NCCL / Job" in page and "The verdict in Prometheus" in page and "cannot be drawn" not in page
                lost = review(replace(found, around=gone), SITE, "Review", url)
                assert "NcclJobDegraded fires" in lost and "The boards cannot be drawn: no raw series" in lost


@pytest.mark.parametrize("name", ["healthy", "healthy-fsdp", "checkpoints", "batch-size", "killed"])
def test_healthy_jobs_have_no_incident(name: str) -> None:
    rule_engine()
    assert look.in_recording(RECORDINGS / name, SITE, []).incidents == ()


EVENTS: list[dict[str, Any]] = [
    {"kind": "network", "loss": 0.08, "start": "40m", "end": "44m"},
    {"kind": "late-gpu", "node": "node03", "gpu": 2, "percent": 25, "start": "1h20m", "end": "1h40m"},
    {"kind": "nvlink", "node": "node02", "bandwidth": 0.5, "start": "2h10m", "end": "2h25m"},
    {"kind": "nic", "node": "node02", "gpu": 1, "bandwidth": 0.5, "start": "3h", "end": "3h15m"},
    {"kind": "hang", "start": "3h50m"},
]


def test_five_faults_are_five_incidents_each_within_a_dump_of_the_truth(tmp_path: Path) -> None:
    rule_engine()
    scenario = {
        "story": "Five faults.",
        "start": "2026-04-06T00:00:00Z",
        "lasts": "4h10m",
        "seed": 7,
        "events": EVENTS,
        "jobs": [{"id": "7", "preset": "tp-dp", "nodes": 4, "gpus_per_node": 4, "tp": 4, "tflops": 395}],
    }
    (tmp_path / "five.yaml").write_text(json.dumps(scenario))
    story, samples = simulate(load_scenario(tmp_path / "five.yaml"), 7)
    made = played(story, samples, SITE)
    found = incidents(made.history, SITE, story.start.timestamp(), story.end.timestamp())
    assert len(found) == len(story.faults) == 5
    for one, truth in zip(found, story.faults, strict=True):
        assert abs(one.start - truth.start.timestamp()) <= DUMP, (one, truth)
        assert one.ongoing or abs(one.end - truth.end.timestamp()) <= DUMP, (one, truth)
        assert (one.suspect or None) == truth.suspect
    assert [(one.state, one.node, one.gpu) for one in found] == [
        ("degraded", "", ""),
        ("degraded", "node03", "GPU2"),
        ("degraded", "node02", ""),
        ("degraded", "", "GPU1"),
        ("stalled", "", ""),
    ]
    # Twenty minutes in which sixteen GPUs do nothing.
    assert found[-1].ongoing and found[-1].gpu_hours == pytest.approx(16 / 3, rel=0.05)


def verdicts(*blamed: tuple[str, int], job: str = "1") -> list[Series]:
    """A verdict series for each suspect from the dumps at which it was blamed; "stalled" is a state, and "" is none."""
    times: dict[str, list[float]] = {}
    dump = 0
    for suspect, dumps in blamed:
        times.setdefault(suspect, []).extend(BEGAN + DUMP * (dump + each) for each in range(dumps))
        dump += dumps
    found = []
    for suspect, moments in times.items():
        state = {"state": "stalled"} if suspect == "stalled" else {"state": "degraded", "suspect": suspect}
        labels = {"slurm_job_id": job, **state}
        if suspect:
            found.append(Series(VERDICT, tuple(sorted(labels.items())), np.array(moments), np.ones(len(moments))))
    return found


def told(series: list[Series], dumps: int = 1000) -> list[tuple[str, float, float]]:
    """Suspect, begin and length in dumps."""
    found = incidents(AtHand(series), SITE, BEGAN, BEGAN + dumps * DUMP)
    return [(one.suspect, (one.start - BEGAN) / DUMP, one.length / DUMP) for one in found]


def test_what_belongs_together_is_one_incident_and_what_does_not_is_two() -> None:
    assert told(verdicts(("network", 20))) == [("network", 0, 19)]
    assert told(verdicts(("network", 10), ("", 8), ("network", 10))) == [("network", 0, 27)]
    assert told(verdicts(("network", 10), ("", 12), ("network", 10))) == [("network", 0, 9), ("network", 22, 9)]
    assert told(verdicts(("network", 10), ("straggler", 2), ("network", 10))) == [("network", 0, 21)]
    assert told(verdicts(("straggler", 2), ("network", 10))) == [("network", 0, 11)]
    assert told(verdicts(("network", 10), ("straggler", 10))) == [("network", 0, 9), ("straggler", 10, 9)]
    # A stall is another incident, however short.
    parts = [("network", 0, 9), ("", 10, 1), ("network", 12, 9)]
    assert told(verdicts(("network", 10), ("stalled", 2), ("network", 10))) == parts


def of_job(name: str, first: int, last: int, value: float, **labels: str) -> Series:
    """A series of job 1 with the same value at the dumps from ``first`` to ``last``."""
    times = BEGAN + DUMP * np.arange(first, last + 1)
    return Series(name, tuple(sorted({"slurm_job_id": "1", **labels}.items())), times, np.full(times.size, value))


def test_the_depth_is_that_of_the_suspect_that_is_named() -> None:
    network, straggler = verdicts(("network", 10), ("straggler", 2), ("network", 10))
    deeper = replace(straggler, values=np.full(2, 5.0))
    (one,) = incidents(AtHand([network, deeper]), SITE, BEGAN, BEGAN + 9e4)
    assert (one.suspect, one.depth) == ("network", 1.0) and one.worst in network.times


def test_incidents_of_a_job_follow_each_other() -> None:
    # Lateness is recorded during the stall as well, and looked unusual all the time.
    late = of_job("gpu:nccl_lateness:ratio", 0, 60, 0.5)
    series = [*verdicts(("stalled", 20), ("", 2), ("straggler", 20)), late]
    assert told(series) == [("", 0, 19), ("straggler", 19, 22)]
    # No dump came after the last news, so the slowness ends with them.
    news = of_job(SINCE, 20, 29, BEGAN + 8 * DUMP)
    series = [*verdicts(("network", 10), ("", 10), ("stalled", 10)), news]
    assert told(series) == [("network", 0, 7), ("", 7, 22)]


def test_alerts_are_those_that_begin_to_fire_from_the_begin_on() -> None:
    firing = {"alertstate": "firing", "severity": "warning"}
    series = [
        *verdicts(("network", 20)),
        # One fires since before, and one began anew.
        of_job("ALERTS", -9, 30, 1.0, alertname="NcclBefore", **firing),
        replace(
            again := of_job("ALERTS", -9, 30, 1.0, alertname="NcclAgain", **firing),
            times=(kept := again.times[(again.times < BEGAN + 2 * DUMP) | (again.times >= BEGAN + 5 * DUMP)]),
            values=np.ones(kept.size),
        ),
        of_job("ALERTS", 0, 30, 1.0, alertname="NcclAtOnce", **firing),
    ]
    (one,) = incidents(AtHand(series), SITE, BEGAN, BEGAN + 9e4)
    assert [(each.name, each.after / DUMP) for each in one.alerts] == [("NcclAtOnce", 0), ("NcclAgain", 5)]
    # What begins with the next incident is the next one's.
    stalled = of_job("ALERTS", 20, 30, 1.0, alertname="NcclJobStalled", **firing)
    slow, still = incidents(AtHand([*verdicts(("network", 20), ("stalled", 10)), stalled]), SITE, BEGAN, BEGAN + 9e4)
    assert (slow.alerts, [each.name for each in still.alerts]) == ((), ["NcclJobStalled"])


def test_throughput_is_told_by_one_evidence_and_against_what_was_usual() -> None:
    rates = [
        # The fault is five dumps older than what is seen of it.
        of_job(THROUGHPUT, -20, -6, 100.0, evidence="collectives"),
        of_job(THROUGHPUT, -5, 19, 60.0, evidence="collectives"),
        of_job(THROUGHPUT, 20, 24, 1.0, evidence="tensor"),
        of_job(THROUGHPUT, 25, 40, 90.0, evidence="collectives"),
    ]
    usual = of_job(USUAL, -20, -6, 99.0, of="throughput", evidence="collectives")

    def figures(*series: Series, suspect: str = "network", end: int = 900) -> tuple[float | None, ...]:
        (one,) = incidents(AtHand([*verdicts((suspect, 20)), *series]), SITE, BEGAN, BEGAN + end * DUMP)
        assert one.throughput is not None
        return one.throughput.before, one.throughput.during, one.throughput.after

    assert figures(*rates, usual) == (99.0, 60.0, 90.0)
    assert figures(*rates, usual, end=20) == (99.0, 60.0, None), "it has not ended"
    assert figures(*rates) == (None, 60.0, 90.0), "nothing was usual"
    silent = [rates[0], of_job(THROUGHPUT, 1, 19, 0.0, evidence="tensor"), rates[3]]
    assert figures(*silent, usual, suspect="stalled") == (99.0, None, 90.0)
    # What comes after belongs to the next incident.
    series = [*verdicts(("network", 20), ("straggler", 20)), *rates, usual]
    first, _ = incidents(AtHand(series), SITE, BEGAN, BEGAN + 9e4)
    assert first.throughput is not None and first.throughput.after is None


def test_ports_are_told_where_the_rules_would_suspect_them_and_as_boards_show_them() -> None:
    port = {"node": "n1", "device": "mlx5_0", "port": "1"}
    series = [
        *verdicts(("network", 20)),
        of_job(ERRORS, 0, 19, 1 / 300, counter="discards", **port),
        of_job(ERRORS, 0, 19, 50.0, counter="discards", **port | {"node": "n2"}),
        of_job(ERRORS, 0, 19, 0.5, counter="symbol_errors", **port),
        of_job("node:tcp_retransmits:ratio", 0, 19, 0.01, node="n1"),
        *(
            of_job("node:fabric_rate_low:bits", 0, 19, 1e9 * rate, **port | {"node": f"n{rate}"})
            for rate in (4, 3, 2, 1)
        ),
        replace(of_job("node:fabric_port_down:state", 0, 19, 1.0, **port), values=np.repeat([1.0, 2.0], 10)),
    ]
    (one,) = incidents(AtHand(series), SITE, BEGAN, BEGAN + 9e4)
    assert [incident_report.fabric(each) for each in one.fabric] == [
        f"{ERRORS} counter=symbol_errors device=mlx5_0 node=n1 port=1: 1800 per hour",
        f"{ERRORS} counter=discards device=mlx5_0 node=n2 port=1: 180000 per hour",
        "node:fabric_port_down:state device=mlx5_0 node=n1 port=1: 1",
        *(f"node:fabric_rate_low:bits device=mlx5_0 node=n{rate} port=1: {rate} Gb/s" for rate in (1, 2, 3)),
    ]


def test_who_counts_the_gpu_of_a_stall_is_said() -> None:
    rule_engine()
    (one,) = look.in_recording(RECORDINGS / "dead-rank", SITE, []).incidents
    assert incident_report.where(one) == "node02 GPU0 (as nvidia-smi or CUDA counts)"
    assert incident_report.where(replace(one, state="degraded")) == "node02 GPU0"


def other(label: str, value: str) -> str:
    """The value of a label of another job on other machines."""
    named = {"slurm_job_id": "2", **dict.fromkeys(("instance", "node", "Hostname"), f"other-{value}")}
    return named.get(label, value)


def test_jobs_that_are_replayed_and_those_left_out_are_all_jobs(
    attribution: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, series = attribution.replay.story, attribution.replay.series
    raw = [one for one in series if ":" not in one.name and one.name != "ALERTS"]
    twins = [replace(one, labels=tuple((key, other(key, value)) for key, value in one.labels)) for one in raw]
    monkeypatch.setattr(look, "MOST_JOBS", 1)
    heard: list[tuple[int, int]] = []
    with prometheus([*raw, *twins], tmp_path) as url:
        start, end = story.start.timestamp(), story.end.timestamp()
        found = look.on_server(Prometheus(Client(url)), SITE, start, end, [], lambda *done: heard.append(done))
    assert (found.replayed, found.left_out, heard) == (("2",), ("41502",), [(0, 1)])
    assert found.notes[1].startswith("1 more job has no verdict recorded")


def test_what_began_before_the_range_is_told_and_what_has_not_ended_says_so() -> None:
    series = verdicts(("network", 100))
    since = Series(SINCE, (("slurm_job_id", "1"),), series[0].times, np.full(100, BEGAN))
    for begin in (5, 60):
        (one,) = incidents(AtHand([*series, since]), SITE, BEGAN + begin * DUMP, BEGAN + 80 * DUMP)
        assert one.start == BEGAN and one.ongoing
    assert incidents(AtHand(series), SITE, BEGAN + 120 * DUMP, BEGAN + 150 * DUMP) == []


def test_the_cost_is_the_share_of_the_usual_work_that_was_not_done() -> None:
    labels = (("evidence", "collectives"), ("slurm_job_id", "1"))
    times = BEGAN + DUMP * np.arange(-20, 60)
    rate = np.where((times > BEGAN) & (times <= BEGAN + 39 * DUMP), 75.0, 100.0)
    series = [
        *verdicts(("network", 40)),
        Series(THROUGHPUT, labels, times, rate),
        Series(USUAL, (labels[0], ("of", "throughput"), labels[1]), times, np.full(times.size, 100.0)),
        Series(GPUS, (("slurm_job_id", "1"),), times, np.full(times.size, 64.0)),
    ]
    (one,) = incidents(AtHand(series), SITE, BEGAN, BEGAN + 100 * DUMP)
    assert one.gpu_hours == pytest.approx(64 * 0.25 * 39 * DUMP / 3600)
    (one,) = incidents(AtHand(series[:1]), SITE, BEGAN, BEGAN + 100 * DUMP)
    assert one.gpu_hours is None and "(1 of unknown cost not counted)" in incident_report.summary([one])


TEN = BEGAN + DUMP * np.arange(10)


def lateness(values: float | list[float], ago: float | None = None) -> Series:
    """The lateness of a GPU in ten dumps, or what it was used to so many seconds before."""
    job, place = ("slurm_job_id", "1"), (("gpu", "GPU3"), ("node", "n1"))
    if ago is None:
        return Series("gpu:nccl_lateness:ratio", (*place, job), TEN, np.full(10, values))
    return Series(USUAL, (*place, ("of", "lateness"), job), TEN - ago, np.full(10, values))


def test_a_gpu_without_a_past_is_unusual_beyond_what_a_fixed_position_explains() -> None:
    def odd(*more: Series, late: float) -> set[bool]:
        history = AtHand([lateness(late), *more])
        of_job = {"slurm_job_id": "1"}
        found = readings(history, SITE, "straggler", "", "n1", "GPU3", of_job, BEGAN, BEGAN + 9 * DUMP)
        return {one.unusual for one in found}

    assert odd(late=0.18) == {False} and odd(late=0.35) == {True}
    # What was learned counts for a day.
    assert odd(lateness(0.0, ago=36000), late=0.18) == {True}


def test_a_slow_communicator_is_unusual_where_its_gpus_are_slower_than_their_like() -> None:
    history = AtHand([lateness(0.0, ago=600), lateness([0.0] * 4 + [-0.4] * 6)])
    found = readings(history, SITE, "network", "", "", "", {"slurm_job_id": "1"}, BEGAN, TEN[-1])
    assert [one.unusual for one in found] == [False] * 4 + [True] * 6


class _Scripts(HTMLParser):
    """Collects the scripts and links of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_review_shows_the_timeline_the_chain_and_the_boards(tmp_path: Path) -> None:
    site = {**TOLD, "grafana": {"url": "https://grafana.example"}, "runbook_url": "https://books.example/{alert}"}
    (tmp_path / "dashgen.yaml").write_text(json.dumps(site))
    folder = RECORDINGS / "fabric-symbol-errors"
    done = dashgen("incidents", "--recording", folder, "--format", "html", "-o", "review.html", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    page = (tmp_path / "review.html").read_text()
    for part in (
        "NcclJobDegraded fires (critical)",
        "symbol_errors",
        "job:nccl_suspect:score",
        "NCCL / Job",
        "GPU hours",
    ):
        assert part in page
    links = [attributes["href"] or "" for tag, attributes in _Scripts(page).tags if tag == "a" and "href" in attributes]
    assert any(link.startswith("https://grafana.example/d/dashgen-nccl-job?var-job=51051&from=") for link in links)
    assert "https://books.example/NcclJobDegraded" in links
    ids = [attributes["id"] for _, attributes in _Scripts(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    (tmp_path / "other.html").write_text("mine")
    done = dashgen("incidents", "--recording", folder, "--format", "html", "-o", "other.html", cwd=tmp_path)
    assert done.returncode == 2 and "was not generated by dashgen" in done.stderr


def test_annotations_are_written_once_and_hold_no_markup() -> None:
    written: list[dict[str, Any]] = []

    def grafana(asked: Asked) -> Reply:
        if asked.method == "POST":
            written.append(json.loads(asked.body))
            return Reply(b'{"message":"Annotation added"}')
        return Reply(json.dumps(written).encode())

    found = incidents(AtHand(verdicts(("network", 20), job="<b>")), SITE, BEGAN, BEGAN + 9e4)
    with answering(grafana) as (url, _):
        assert [annotate.annotate(Client(url), found) for _ in range(2)] == [1, 0]
    (one,) = written
    assert (one["time"], one["timeEnd"]) == (BEGAN * 1000, (BEGAN + 19 * DUMP) * 1000)
    assert {"dashgen", "nccl-incident", "suspect:network"} <= set(one["tags"]) and "<" not in one["text"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs one place to look"),
        (["--recording", "a", "--prometheus", "http://x"], "needs one place to look"),
        (["--recording", "a", "--since", "2h"], "a recording is looked at as a whole"),
        (["--recording", "none"], "none/recording.yaml: No such file"),
        (["--recording", str(RECORDINGS / "idle"), "--job", "none"], "no series with slurm_job_id='none'"),
        (["--prometheus", "http://127.0.0.1:1"], "not reachable"),
        (["--prometheus", "http://x", "--format", "html"], "add -o review.html"),
        (["--prometheus", "http://x", "-o", "x"], "a table is for the terminal"),
        (["--prometheus", "http://x", "--annotate"], "needs a Grafana"),
        (["--prometheus", "http://x", "--since", "soon"], "not a duration"),
    ],
)
def test_what_cannot_be_told_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = dashgen("incidents", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr and list(tmp_path.iterdir()) == []


def test_every_series_that_incidents_read_is_in_the_catalogue() -> None:
    from dashgen.live.incidents import evidence
    from dashgen.live.incidents import windows as module

    names = [value for each in (module, evidence) for value in vars(each).values() if isinstance(value, str)]
    names = [name for name in names if name.count(":") == 2 and " " not in name]
    assert len(names) >= 8 and set(names) <= set(SIGNAL_BY_NAME)
