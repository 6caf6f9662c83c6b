# SPDX-License-Identifier: Apache-2.0
"""`dashgen explain`: everything that dashgen knows can be asked for by its name, and why it said what it said."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import promql_parser
import pytest
from command import dashgen
from hypothesis import given
from hypothesis import strategies as st
from processes import tool
from servers import Reply, answering
from test_record import prometheus

from dashgen import build, catalogue, promql
from dashgen.build import spoken
from dashgen.catalogue.metrics import COMPANIONS, METRICS, upstream
from dashgen.config import site as config
from dashgen.config.companions import Companions
from dashgen.config.site import Site
from dashgen.engine.evaluated import replay
from dashgen.errors import UserError
from dashgen.explain import values
from dashgen.explain.tree import Step, steps, tree, vocabulary
from dashgen.explain.units import said
from dashgen.explain.values import MOST_ROWS, Subject, moment, of_job, why
from dashgen.explain.words import explain
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series, read_samples, read_story

EVERYTHING = config.site({"companions": {"slurm": {"enabled": True}, "throughput": {"metric": "mfu"}}}, "test")
KEYS = {*Site.model_fields, *(f"companions.{name}" for name in Companions.model_fields)}
BARE = config.site(
    {"companions": {name: {"enabled": False} for name in ("textfile", *COMPANIONS) if name != "slurm"}}, "test"
)


@pytest.mark.parametrize("name", catalogue.SIGNAL_BY_NAME)
def test_a_signal_is_explained_by_its_question_its_healthy_value_its_alerts_and_its_promql(name: str) -> None:
    signal, text = catalogue.SIGNAL_BY_NAME[name], explain(name, EVERYTHING)
    assert text.startswith(f"{name}  [{said(signal.unit)}]")
    assert signal.question in text and signal.healthy in text
    assert all(alert.name in text for alert in catalogue.ALERTS if alert.signal == name)
    for site in (EVERYTHING, BARE):
        promql = explain(name, site).split("\n\n")[1]
        if name in build.signals(site):
            promql_parser.parse(promql)
        else:
            key = promql.removeprefix("(not recorded: ").removesuffix(" is off in dashgen.yaml)")
            assert key in {*KEYS, "every source of it"}


@pytest.mark.parametrize("name", catalogue.ALERT_BY_NAME)
def test_an_alert_is_explained_by_its_question_its_runbook_and_what_each_tier_asks(name: str) -> None:
    alert, text = catalogue.ALERT_BY_NAME[name], explain(name, Site())
    assert text.startswith(f"# {name}\n")
    assert catalogue.SIGNAL_BY_NAME[alert.signal].question in text
    assert alert.runbook.meaning in text and build.fill(alert.runbook.look_first[0], Site()) in text
    for level in Sensitivity:
        tier = alert.tiers.get(level)
        fires = f"{spoken.limit(alert, tier, 30)} | {spoken.span(tier.dumps, 30)}" if tier else "not in this tier"
        assert f"| {level} | {fires}" in text


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_an_upstream_metric_is_explained_by_its_meaning_its_labels_and_its_source(
    metric: catalogue.metrics.Metric,
) -> None:
    text = explain(metric.name, Site())
    assert metric.meaning in text and metric.source in text
    assert all(label in text for label in metric.labels)


def test_the_site_has_its_own_names_and_its_own_thresholds() -> None:
    site = config.site(
        {
            "labels": {"job": "job_name"},
            "metrics": {"busbw": "nccl_bus_bandwidth_GB_per_second"},
            "alerts": {"NcclJobDegraded": {"low": {"threshold": 0.777}}},
        },
        "test",
    )
    assert "geometric mean" in explain("nccl_bus_bandwidth_GB_per_second", site).lower()
    assert "| low | more than 77.7 % of the throughput is lost" in explain("NcclJobDegraded", site)
    signal = explain("job:nccl_busbw:max", site)
    assert "nccl_bus_bandwidth_GB_per_second" in signal and "job_name" in signal and "slurm_job_id" not in signal


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NcclGpuSlow", "NcclGpuLate"),
        ("job:nccl_verdict", "job:nccl_verdict:depth"),
        ("nccl_bus_bandwidth", upstream("busbw")),
        ("zzz", "rules/ lists all signals and alerts"),
        ("", "rules/ lists all signals and alerts"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"{name}: no such signal, alert or metric; .*{near}"):
        explain(name, Site())


def test_the_command_prints_it(tmp_path: Path) -> None:
    done = dashgen("explain", "NcclGpuLate", cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", explain("NcclGpuLate", Site()) + "\n")


# What a rule is made of.


def test_each_series_is_told_once_and_feedback_ends_a_branch() -> None:
    rules = {
        "memory": ("verdict", "raw"),
        "evidence": ("raw", "memory"),
        "verdict": ("evidence", "since", "raw"),
        "since": ("since", "verdict"),
        "alert": ("verdict",),
    }
    assert steps("alert", rules) == (
        Step("alert", 0, told=True),
        Step("verdict", 1, told=True),
        Step("evidence", 2, told=True),
        Step("raw", 3, told=True),
        Step("memory", 3, told=True),
        Step("verdict", 4, told=False, earlier=True),
        Step("raw", 4, told=False),
        Step("since", 2, told=True, earlier=True),
        Step("raw", 2, told=False),
    )
    assert steps("since", {"since": ("since",)})[1:] == (Step("since", 1, told=False, earlier=True),)
    assert steps("raw", rules) == (Step("raw", 0, told=True),)


@pytest.mark.parametrize("name", [*catalogue.SIGNAL_BY_NAME, *catalogue.ALERT_BY_NAME])
def test_a_tree_goes_down_to_what_others_expose(name: str) -> None:
    rules, exposed = build.signals(EVERYTHING), build.exposed(EVERYTHING)
    found, known = tree(name, EVERYTHING), vocabulary(EVERYTHING)
    told = [step.name for step in found if step.told]
    assert len(told) == len(set(told)) and {step.name for step in found} == set(told)
    assert set(told) <= known.keys()
    if name in rules:
        assert {step.name for step in found if step.depth == 1} == promql.names(rules[name])
    # A branch ends where others expose, at feedback, at a reference, or at a constant.
    for step, after in zip(found, [*found[1:], None], strict=True):
        leaf = after is None or after.depth <= step.depth
        constant = step.name in rules and not promql.names(rules[step.name])
        gone = step.depth == 0 and name not in rules
        assert not leaf or step.name in exposed or step.earlier or not step.told or constant or gone, step


def test_the_tree_of_an_alert_is_part_of_what_is_told_of_it() -> None:
    text = explain("NcclJobDegraded", Site())
    below = text[text.index("## Made of") :]
    assert "    job:nccl_verdict:depth  [share, 1 is 100 %]  What is the state of each job" in below
    assert "job:nccl_verdict:depth  (what an earlier evaluation recorded)" in below
    assert f"{upstream('exec')}  (as above)" in below


# Why a job got its verdict.

TRACE = Path(__file__).parent / "worlds" / "traces" / "trace-AR"
JOB, END = "710000", "2025-01-01 12:22:30 UTC"
OTHERS = 30


@dataclass(frozen=True)
class Served:
    """A Prometheus with a recording and what the rules made of it, and more jobs that only the first metric shows."""

    url: str
    config: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tool("promtool")
    folder = tmp_path_factory.mktemp("served")
    story = read_story(TRACE)
    site = folder / "dashgen.yaml"
    site.write_text("companions: {throughput: {metric: training_throughput_tflops_per_gpu}}\n")
    found = replay(build.bundle(config.load(site)), story, read_samples(TRACE), list(Sensitivity)).series
    times = np.arange(story.start.timestamp(), story.end.timestamp() + 1, 15.0)
    others = [
        Series(upstream("busbw"), (("gpu", f"G\x1b[2J{number}"), ("slurm_job_id", f"9{number:02}")), times, times)
        for number in range(OTHERS)
    ]
    with prometheus([*found, *others], folder, "--query.lookback-delta=50s") as url:
        yield Served(url, site)


def test_what_stands_behind_the_page_of_a_slow_job_does_not_grow() -> None:
    """Whoever is called at night follows these rules one by one."""
    assert len({step.name for step in tree("NcclJobDegraded", Site())} & catalogue.SIGNAL_BY_NAME.keys()) <= 25


def test_a_recording_and_a_prometheus_give_the_same_reasons(served: Served, tmp_path: Path) -> None:
    asked = ["explain", "NcclGpuLate", "--job", JOB]
    recorded = dashgen(*asked, "--recording", TRACE, cwd=tmp_path)
    assert (recorded.returncode, recorded.stderr) == (0, "")
    assert recorded.stdout.startswith(f"NcclGpuLate, job {JOB}, {END}\n")
    lines = [line.strip() for line in recorded.stdout.splitlines()]

    def under(name: str) -> list[str]:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{name}  "))
        return lines[at + 1 : at + 2 + MOST_ROWS]

    assert [line.split(" {")[0] for line in under("NcclGpuLate")[:2]] == ["= firing"] * 2, "medium and high"
    assert under("job:nccl_verdict:depth")[0].endswith(
        '",node="gpu-00000",state="degraded",suspect="straggler"}'  # two of its GPUs are equally late
    )
    # They convince twice over, so they began two seconds before the dump told. The rail that waits is not blamed. Seven
    # dumps later the links of the node are, of which nothing is known; the verdict stays with who was blamed first.
    blamed = [line for line in under("job:nccl_suspect:since") if line.startswith("= ")]
    assert [re.sub('gpu="GPU[12]",', "", line) for line in blamed] == [
        *['= 2025-01-01 12:01:58 {node="gpu-00000",suspect="straggler"}'] * 3,
        "= and 1 more",
    ]
    assert sum("gpu=" in line for line in blamed) == 2
    assert under(upstream("gpu_util"))[0].startswith("= 100% {")
    assert under("training_throughput_tflops_per_gpu")[0].startswith("= 299 {")
    assert under(upstream("collectives"))[0] == "= nothing"
    assert under(upstream("busbw"))[MOST_ROWS] == "= and 53 more"
    moment = ["--at", "2025-01-01T12:22:30", "-c", served.config]
    live = dashgen(*asked, "--prometheus", served.url, *moment, cwd=tmp_path)
    assert (live.returncode, live.stderr) == (0, "")

    def any_gpu(text: str) -> list[str]:
        """Two GPUs of the slowed node are equally late: which of them a tie names is the server's choice."""
        return sorted(re.sub('gpu="GPU[12]"', 'gpu="GPU1"', text).splitlines())

    assert any_gpu(live.stdout) == any_gpu(recorded.stdout)


RECORDINGS = Path(__file__).parent / "recordings"


def rows(text: str, name: str) -> list[tuple[float, str]]:
    """What is told of a series: its largest shares, each with its labels."""
    below = re.split(rf" {name}  (?!\()", text)[1].split("\n")[1:]
    told = itertools.takewhile(bool, (re.match(r" +(= .*)", line) for line in below))
    found = (re.fullmatch(r"= (-?[\d.]+)% \{(.*)\}", line[1]) for line in told if line)
    return [(float(one[1]) / 100, one[2]) for one in found if one]


@pytest.mark.parametrize(
    ("recording", "evidence"),
    [
        ("late-gpu-40", "gpu:nccl_lateness_excess:ratio"),
        ("nvlink-node", "peer:nccl_slowness:ratio"),
        ("network-25", "job:nccl_suspect:depth"),
    ],
)
def test_the_reasons_for_a_verdict_are_what_was_really_wrong(recording: str, evidence: str, tmp_path: Path) -> None:
    (fault,) = read_story(RECORDINGS / recording).faults
    assert fault.job is not None
    asked = ["NcclJobDegraded", "--job", fault.job, "--recording", RECORDINGS / recording]
    done = dashgen("explain", *asked, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    truth = {
        "suspect": fault.suspect,
        "node": fault.node,
        "gpu": fault.gpu,
        "transport": ",".join(fault.transport or ()),
    }
    named = [f'{label}="{value}"' for label, value in truth.items() if value]
    ((depth, verdict),) = rows(done.stdout, "job:nccl_verdict:depth")
    assert all(name in verdict for name in named) and 'state="degraded"' in verdict
    assert verdict.count("=") == 1 + len(named), "it names more than is known"
    # The evidence that decides is that of the place, stands out among its like, and is as deep as the verdict says.
    (first, place), *others = rows(done.stdout, evidence)
    assert all(name in place for name in named if not name.startswith("suspect"))
    assert first == pytest.approx(depth, rel=0.2)
    assert all(value < 0.5 * first for value, _ in others)


def test_what_a_label_says_does_not_reach_the_terminal_as_it_is(served: Served, tmp_path: Path) -> None:
    asked = [upstream("busbw"), "--job", "900", "--prometheus", served.url, "--at", "2025-01-01T12:10:00"]
    done = dashgen("explain", *asked, cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout and '{gpu="G [2J0"}' in done.stdout


@pytest.mark.parametrize("job", ["7", "", '710000"} or up{job="', ".*", "710000\n"])
def test_a_job_that_is_not_there_is_answered_with_those_that_are(served: Served, tmp_path: Path, job: str) -> None:
    asked = ["NcclGpuLate", "--job", job, "--prometheus", served.url, "--at", "2025-01-01T12:10:00"]
    done = dashgen("explain", *asked, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    named, _, more = done.stderr.partition("there are ")[2].partition(" and ")
    assert len(named.split(", ")) > 10 and more == f"{OTHERS + 1 - len(named.split(', '))} more\n"


def test_of_many_series_only_the_largest_are_asked_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def ask(expr: str, at: float) -> list[Series]:
        found = Prometheus(Client(served.url)).instant(expr, at)
        rows.append(len(found))
        return found

    subject = Subject("NcclJobDegraded", JOB, datetime(2025, 1, 1, 12, 22, 30, tzinfo=UTC).timestamp())
    whole = why(subject, config.load(served.config), ask)
    assert max(rows) > MOST_ROWS
    rows.clear()
    monkeypatch.setattr(values, "MOST_ASKED", MOST_ROWS)
    # Which of equals is told is the server's choice.
    assert [line.partition(" {")[0] for line in why(subject, config.load(served.config), ask).splitlines()] == [
        line.partition(" {")[0] for line in whole.splitlines()
    ]
    assert max(rows) == MOST_ROWS
    with pytest.raises(UserError, match=f"no such slurm_job_id at .*; {OTHERS + 1} others are there"):
        why(replace(subject, job="7"), config.load(served.config), ask)


def test_of_moments_the_earliest_is_told_first() -> None:
    began = 1.7e9

    def ask(expr: str, at: float) -> list[Series]:
        each = {"slurm_job_id": "1"}
        rows = [{**each, "suspect": name} for name in ("network", "nvlink", "straggler", "unknown")]
        found = (
            zip(rows, (60, 0, 30, 90), strict=True) if "since" in expr and "count" not in expr else [(each, 4 - began)]
        )
        return [
            Series("", tuple(sorted(row.items())), np.array([at]), np.array([began + after])) for row, after in found
        ]

    told = why(Subject("job:nccl_suspect:since", "1", began + 300), config.Site(), ask).splitlines()
    assert [re.findall(r'suspect="(\w+)"|(and 1 more)', line) for line in told[3:7]] == [
        [("nvlink", "")],
        [("straggler", "")],
        [("network", "")],
        [("", "and 1 more")],
    ]


def test_before_the_job_there_is_none(served: Served, tmp_path: Path) -> None:
    asked = ["NcclGpuLate", "--job", JOB, "--prometheus", served.url, "--at", "2025-01-01T11:00:00"]
    done = dashgen("explain", *asked, cwd=tmp_path)
    assert done.returncode == 2
    assert "no such slurm_job_id at 2025-01-01 11:00:00 UTC; there is none; look at another time" in done.stderr


def test_where_the_rules_are_not_loaded_nothing_is_said_of_what_they_found(served: Served, tmp_path: Path) -> None:
    """A job of which the rules know nothing is told of in their results of others."""
    asked = ["NcclJobDegraded", "--at", "2025-01-01T12:10:00", "--prometheus"]
    unknown = dashgen("explain", *asked, served.url, "--job", "900", cwd=tmp_path)
    assert unknown.returncode == 0 and "= does not fire" in unknown.stdout
    with prometheus(read_samples(TRACE), tmp_path, "--query.lookback-delta=50s") as url:
        done = dashgen("explain", *asked, url, "--job", JOB, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "the recording rules have no results at 2025-01-01 12:10:00 UTC, of any job; load" in done.stderr
        raw = dashgen("explain", upstream("busbw"), *asked[1:], url, "--job", JOB, cwd=tmp_path)
        assert (raw.returncode, raw.stderr) == (0, "") and "= and " in raw.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--job", "1"], "--job needs one place to look; give either --prometheus URL or --recording DIR"),
        (["--job", "1", "--prometheus", "http://x", "--recording", "y"], "--job needs one place to look"),
        (["--prometheus", "http://x"], "add --job ID"),
        (["--at", "2025-01-01"], "add --job ID"),
        (["--job", "1", "--prometheus", "x"], "x: not an http:// or https:// address"),
        (["--job", "1", "--prometheus", "http://127.0.0.1:9"], "http://127.0.0.1:9: not reachable"),
        (
            ["--job", "1", "--recording", "nowhere"],
            "nowhere/recording.yaml: No such file or directory",
        ),
        (["--job", JOB, "--recording", str(TRACE), "--at", "2024-01-01"], "--at: not within the recording"),
    ],
)
def test_what_cannot_be_asked_is_one_line(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = dashgen("explain", "NcclGpuLate", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert complaint in done.stderr


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}', "no such slurm_job_id"),
        (b"{}", "not the answer of a Prometheus"),
    ],
)
def test_what_is_no_prometheus_is_one_line(tmp_path: Path, body: bytes, message: str) -> None:
    with answering(lambda _: Reply(body)) as (url, _):
        done = dashgen("explain", "NcclGpuLate", "--job", "2", "--prometheus", url, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


@given(st.text())
def test_a_job_id_never_becomes_promql(job: str) -> None:
    names = ["job:nccl_verdict:depth", "NcclGpuLate", upstream("busbw"), upstream("gpu_util"), "up", "mfu"]
    for name in [*names, upstream("job_info")]:
        matched = [
            (matcher.op, matcher.value)
            for selector in promql.selectors(promql.parse(of_job(name, job, EVERYTHING)))
            for matcher in selector.matchers
            if matcher.label != "alertname"
        ]
        assert matched == [("=", job)], name


def test_a_recording_is_looked_at_when_the_first_fault_of_the_job_ends(tmp_path: Path) -> None:
    story = read_story(TRACE)
    assert moment(story, JOB) == story.faults[0].end.timestamp()
    assert moment(story, "another") == story.end.timestamp()
    shutil.copytree(TRACE, tmp_path / "damaged")
    (tmp_path / "damaged" / "series.om.gz").write_bytes(b"no gzip")
    done = dashgen("explain", "NcclGpuLate", "--job", JOB, "--recording", "damaged", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
