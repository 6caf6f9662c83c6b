# SPDX-License-Identifier: Apache-2.0
"""The bill of a fleet: forecasts agree with what was measured, and a live site is read for what it is."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import bills
import pytest
import yaml
from command import dashgen
from engines import remote
from processes import serving, tool

from dashgen.catalogue.metrics import upstream
from dashgen.config.site import Site, site
from dashgen.cost.advice import advice
from dashgen.cost.forecast import Fleet, exponent, forecast, usual
from dashgen.cost.measured import Size, measured
from dashgen.recordings.format import read_samples

TESTS = Path(__file__).parent
RECORDING = TESTS / "recordings" / "label-explosion"
SIZES = measured().sizes
BUSBW = [one for one in read_samples(RECORDING) if one.name == upstream("busbw")]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.gpus))
def test_a_forecast_is_within_a_tenth_of_what_was_measured(size: Size) -> None:
    bill = forecast(usual(size.gpus, size.jobs), Site())

    assert bill.raw_series == pytest.approx(size.nccl_series + size.companion_series, rel=0.1)
    assert bill.memory_bytes == pytest.approx(size.memory_with_rules, rel=0.1)
    assert bill.rule_seconds == pytest.approx(size.rule_seconds, rel=0.1)
    assert bill.recorded_series == pytest.approx(size.recorded_series, rel=0.1)


def test_what_was_measured_grows_hardly_faster_than_the_fleet() -> None:
    for name in ("rule_seconds", "memory_with_rules", "recorded_series"):
        assert exponent((size.gpus, getattr(size, name)) for size in SIZES) < 1.15, name


def test_a_larger_fleet_costs_more_of_everything_and_a_rarer_scrape_less() -> None:
    bills = [forecast(usual(gpus, gpus // 256), Site()) for gpus in (512, 8192, 100_000)]
    for small, large in pairwise(bills):
        assert small.memory_bytes < large.memory_bytes  # type: ignore[operator]
        assert small.rule_seconds < large.rule_seconds  # type: ignore[operator]
    rare = forecast(usual(512, 2, scrape=30), Site())
    assert rare.samples_per_second < bills[0].samples_per_second  # type: ignore[operator]


def test_rare_dumps_cost_more_each_and_less_an_hour() -> None:
    taken = [forecast(usual(2048, 8), Site(dump_interval=dump)).rule_seconds or 0 for dump in (30, 60, 120, 600)]
    assert taken == sorted(taken)
    hourly = [round(each / dump, 9) for each, dump in zip(taken, (30, 60, 120, 600), strict=True)]
    assert hourly == sorted(hourly, reverse=True)


@pytest.mark.parametrize("named", [{"source": "nccl-otlp"}, {"metrics": {"busbw": "my_bw", "exec": "my_exec"}}])
def test_more_series_cost_as_much_under_any_name(named: dict[str, object]) -> None:
    many = replace(usual(1024, 4), nccl=10 * measured().nccl)
    # What the source lacks is lacking under the upstream names too.
    here = site(named, "test")
    usually = here.model_copy(update={"metrics": {}})
    assert forecast(many, here).rule_seconds == pytest.approx(forecast(many, usually).rule_seconds)


def test_a_source_that_is_switched_off_costs_nothing() -> None:
    less = site({"companions": {"infiniband": {"enabled": False}, "hw_counters": {"enabled": False}}}, "test")
    assert forecast(usual(512, 2), less).rule_seconds < forecast(usual(512, 2), Site()).rule_seconds  # type: ignore[operator]


def test_advice_names_what_no_verdict_needs_in_lines_that_prometheus_reads() -> None:
    fleet = Fleet(8, 1, 60, 10)
    listed = advice(Site(), fleet, {"0B": 8, "512-1023KB": 16, "4-5MB": 8}, {upstream("busbw"): 32, "nccl_odd": 8})
    saved = {each.about: each.series for each in listed}

    assert saved["drop sizes that NCCL cannot name"] == 16
    assert saved["drop messages below 1 MB"] == 32
    assert saved["drop nccl_odd"] == 8
    assert not any(upstream("busbw") in about for about in saved)
    for each in listed:
        assert yaml.safe_load(each.lines)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with a recording that ends now."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "prometheus.yml").write_text("global: {}\n")
    flags = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data")
    more = ("--web.enable-remote-write-receiver", "--web.listen-address=127.0.0.1:PORT")
    with serving(tool("prometheus"), *flags, *more, ready="/-/ready", log=folder / "log") as url:
        samples = read_samples(RECORDING)
        late = time.time() - max(one.times[-1] for one in samples)
        remote.write(url, (replace(one, times=one.times + late) for one in samples))
        yield url


def test_a_live_site_is_counted_and_compared(live: str, tmp_path: Path) -> None:
    done = dashgen("cost", "--prometheus", live, "--format", "json", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    said = json.loads(done.stdout)

    at_the_end = {dict(one.labels).get("gpu") for one in read_samples(RECORDING) if one.name == upstream("busbw")}
    assert said["fleet"]["gpus"] % len(at_the_end) == 0 and said["fleet"]["jobs"] == 1
    assert said["fleet"]["scrape"] == 15
    assert said["measured"]["raw_series"] == pytest.approx(said["forecast"]["raw_series"])
    assert said["measured"]["memory_bytes"] > 1e6
    assert said["measured"]["recorded_series"] == 0 and said["measured"]["rule_seconds"] is None


@pytest.mark.parametrize(("gpus", "jobs", "words"), bills.PLAN)
def test_the_command_above_the_plan_gives_its_figures(tmp_path: Path, gpus: int, jobs: int, words: str) -> None:
    page = (TESTS.parent / "dashgen/docs/cost.md").read_text(encoding="utf-8")
    command = f"dashgen cost --gpus {gpus} --jobs {jobs}"
    assert f"\n{command}\n" in page
    (row,) = re.findall(rf"^\| {words} \| (.*) \|$", page, re.MULTILINE)
    bill = dashgen(*command.split()[1:], cwd=tmp_path).stdout
    figures = re.findall(r"^│ (\S.*?) +│ +(\S.*?) │$", bill, re.MULTILINE)
    assert row.split(" | ") == [figure for name, figure in figures if "reads" not in name]


def test_a_fleet_is_needed_and_a_server_without_inspector_is_told(tmp_path: Path) -> None:
    done = dashgen("cost", cwd=tmp_path)
    assert done.returncode == 2 and "--gpus" in done.stderr
