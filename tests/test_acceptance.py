# SPDX-License-Identifier: Apache-2.0
"""From the output of nccl-tests to accepted values, and from those to a verdict about a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import tool
from typer.testing import CliRunner

from dashgen import build
from dashgen.cli.main import app
from dashgen.config import nccl_tests as ncclperf
from dashgen.config import site as config
from dashgen.errors import UserError
from dashgen.model import AlertRule, Sensitivity
from dashgen.recordings.sites import made_at
from dashgen.validation import validate as proof

SAMPLES = Path(__file__).parent / "ncclperf"
RECORDING = Path(__file__).parent / "recordings" / "below-acceptance"
MB = 1024**2


def reached(peak: float, size: int, ranks: int, *, in_place: bool = True) -> float:
    """What the sample files say, see their README."""
    return peak * size / (size + 4e6 * ranks / 8) * (0.995 if in_place else 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "one-node.txt",
            {
                ("AllReduce", "nvlink", "small"): reached(480, 8192, 8),
                ("AllReduce", "nvlink", "medium"): reached(480, MB, 8),
                ("AllReduce", "nvlink", "large"): reached(480, 64 * MB, 8),
            },
        ),
        # Sizes of 1 MB to 1 GB for 32 ranks: pieces of 32 KB to 32 MB.
        (
            "all_gather_perf-4-nodes.log",
            {
                ("AllGather", "mixed", "small"): reached(370, MB, 32),
                ("AllGather", "mixed", "medium"): reached(370, 32 * MB, 32),
            },
        ),
        (
            "mpirun-tagged.txt",
            {
                ("ReduceScatter", "network", "medium"): reached(46, 16 * MB, 4),
                ("ReduceScatter", "network", "large"): reached(46, 256 * MB, 4),
            },
        ),
        ("srun-labelled.txt", {("AllReduce", "mixed", "large"): reached(360, 64 * MB, 16)}),
        ("no-in-place.txt", {("AllGather", "nvlink", "medium"): reached(450, 64 * MB, 8, in_place=False)}),
        (
            "old-2.0.txt",
            {
                ("AllReduce", "nvlink", "medium"): reached(130, MB, 8),
                ("AllReduce", "nvlink", "large"): reached(130, 64 * MB, 8),
            },
        ),
        (
            "old-no-redop.txt",
            {
                ("AllGather", "nvlink", "small"): reached(125, MB, 8),
                ("AllGather", "nvlink", "medium"): reached(125, 8 * MB, 8),
            },
        ),
        (
            "several.txt",
            {
                ("AllReduce", "nvlink", "large"): reached(470, 64 * MB, 8),
                ("Broadcast", "nvlink", "large"): reached(400, 64 * MB, 8),
            },
        ),
        ("unchecked.txt", {("AllReduce", "nvlink", "large"): reached(470, 64 * MB, 8)}),
        (
            "rccl.txt",
            {
                ("AllReduce", "nvlink", "medium"): reached(322, MB, 8),
                ("AllReduce", "nvlink", "large"): reached(322, 64 * MB, 8),
            },
        ),
    ],
)
def test_every_form_of_table_gives_the_lowest_value_of_each_size_class(name: str, expected: dict[Any, float]) -> None:
    assert ncclperf.acceptance([SAMPLES / name]) == pytest.approx(expected, rel=2e-3, abs=0.01)


def test_every_sample_is_in_the_readme_beside_it() -> None:
    told = (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert {path.name for path in SAMPLES.iterdir() if f"`{path.name}`" not in told} == {"README.md"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no-ranks.txt", r"no-ranks.txt:2: the log does not list its ranks; say --transport"),
        ("one-rank.txt", r"one-rank.txt:1: one rank only"),
        ("wrong.txt", r"wrong.txt:15: 12 results were wrong"),
        ("torn.txt", r"torn.txt:16: 6 values under 13 columns"),
        ("README.md", r"README.md: no table of nccl-tests"),
        ("missing.txt", r"missing.txt: No such file"),
    ],
)
def test_what_cannot_be_an_acceptance_is_refused_with_file_and_line(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        ncclperf.acceptance([SAMPLES / name])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("time   algbw", "time(us)   algbw", "no table of nccl-tests"),
        ("67108864 ", f"{'9' * 5000} ", r"log\.txt:13: Exceeds the limit"),
        ("443.39", "1e999", r"log\.txt:15: busbw inf is no bandwidth"),
        ("443.39", "nan", r"log\.txt:15: busbw nan is no bandwidth"),
    ],
)
def test_a_table_with_impossible_values_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    log = tmp_path / "log.txt"
    text = (SAMPLES / "no-in-place.txt").read_text(encoding="utf-8")
    head, table = text.split("#       size")
    log.write_text(f"{head}#       size{table.replace(old, new, 1)}", encoding="utf-8")
    with pytest.raises(UserError, match=says):
        ncclperf.acceptance([log])


def test_a_table_without_the_name_of_its_test_is_asked_for_it_where_two_tests_look_alike(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    lines = (SAMPLES / "no-in-place.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "Collective test" not in line), encoding="utf-8")
    with pytest.raises(UserError, match=r"log\.txt:1: the log does not name its test; say --collective"):
        ncclperf.acceptance([log])
    assert set(ncclperf.acceptance([log], operation="AllGather")) == {("AllGather", "nvlink", "medium")}


def test_all_to_all_alone_is_nothing_that_inspector_times(tmp_path: Path) -> None:
    log = tmp_path / "alltoall_perf.txt"
    log.write_text((SAMPLES / "no-in-place.txt").read_text(encoding="utf-8").replace("all_gather", "alltoall"), "utf-8")
    with pytest.raises(UserError, match="no message of 8 KB or more of a collective"):
        ncclperf.acceptance([log])


def test_one_bad_node_among_many_does_not_lower_what_is_expected(tmp_path: Path) -> None:
    good = SAMPLES / "unchecked.txt"
    bad = tmp_path / "bad.txt"
    slow = (SAMPLES / "rccl.txt").read_text(encoding="utf-8")
    bad.write_text(slow, encoding="utf-8")
    key = ("AllReduce", "nvlink", "large")
    assert ncclperf.acceptance([good, good, bad])[key] == ncclperf.acceptance([good])[key]


def test_the_values_are_keys_of_dashgen_yaml() -> None:
    done = CliRunner().invoke(app, ["baseline", str(SAMPLES / "one-node.txt"), str(SAMPLES / "srun-labelled.txt")])
    assert done.exit_code == 0
    site = config.site(yaml.safe_load(done.stdout), "stdout")
    assert site.acceptance == {
        "AllReduce": {"nvlink": {"small": 0.98, "medium": 99.2, "large": 450.7}, "mixed": {"large": 320.1}}
    }


def test_what_is_typed_overrides_what_the_log_says_and_is_checked() -> None:
    log = str(SAMPLES / "one-node.txt")
    done = CliRunner().invoke(app, ["baseline", log, "--transport", "mixed", "--collective", "all_gather_perf"])
    assert yaml.safe_load(done.stdout)["acceptance"].keys() == {"AllGather"}
    for option, word in (("--transport", "ethernet"), ("--collective", "AllToAll")):
        refused = CliRunner().invoke(app, ["baseline", log, option, word])
        assert isinstance(refused.exception, UserError)
        assert f"{option} {word}: no such" in str(refused.exception)


WRITTEN = """\
# our site
dump_interval: 60s  # slow disks

acceptance:
  AllReduce:
    nvlink: {small: 1, large: 400}

  Reduce: {network: {large: 40}}
# Grafana
grafana:
  folder: GPU
"""


def test_updating_keeps_comments_and_other_values(tmp_path: Path) -> None:
    path = tmp_path / "dashgen.yaml"
    path.write_text(WRITTEN, encoding="utf-8")
    done = CliRunner().invoke(app, ["baseline", str(SAMPLES / "several.txt"), "--update", str(path)])
    assert (done.exit_code, done.stdout) == (0, f"{path}: 2 accepted values\n")
    assert (
        path.read_text(encoding="utf-8").replace("\n\n", "\n")
        == """\
# our site
dump_interval: 60s  # slow disks
acceptance:
  AllReduce:
    nvlink: {small: 1, large: 441.3}
  Broadcast:
    nvlink: {large: 375.6}
  Reduce:
    network: {large: 40}
# Grafana
grafana:
  folder: GPU
"""
    )
    again = CliRunner().invoke(app, ["baseline", str(SAMPLES / "several.txt"), "--update", str(path)])
    assert again.exit_code == 0
    assert config.load(path).acceptance["AllReduce"]["nvlink"] == {"small": 1, "large": 441.3}


@pytest.mark.parametrize(
    "before",
    [
        None,
        "",
        "fabric: xGMI",
        "acceptance: {}\n",
        "'acceptance':\n  Reduce:\n    nvlink: {large: 4}\n",
    ],
)
def test_updating_a_file_writes_the_values_wherever_they_stand(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "dashgen.yaml"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    path.write_text(ncclperf.merge(path, {("Reduce", "nvlink", "large"): 300.0}), encoding="utf-8")
    site = config.load(path)
    assert site.acceptance == {"Reduce": {"nvlink": {"large": 300}}}
    assert site.fabric == ("xGMI" if before == "fabric: xGMI" else "NVLink")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{acceptance: {AllReduce: {nvlink: {large: 400}}}}\n", "cannot be replaced there"),
        ("acceptance:  # from March\n  Reduce: {nvlink: {large: 4}}\n", "cannot be replaced there"),
        ("acceptance:\n  Reduce:\n# note\n    nvlink: {large: 4}\n", "cannot be replaced there"),
        ("dump_interval:\t60s\n", "cannot be replaced there"),
        ("acceptance: {Reduce: {nvlink: {huge: 3}}}\n", "acceptance.Reduce.nvlink.huge"),
        ("acceptance: {Reduce: {nvlink: {large: -3}}}\n", "acceptance.Reduce.nvlink.large"),
    ],
)
def test_a_file_that_cannot_be_updated_is_left_alone(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "dashgen.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        ncclperf.merge(path, {("AllReduce", "nvlink", "large"): 300.0})
    assert path.read_text(encoding="utf-8") == text


ACCEPTED = {"acceptance": {"AllReduce": {"network": {"medium": 38, "large": 46}}}}


def test_without_accepted_values_there_is_no_alert_and_no_line() -> None:
    without, with_values = config.Site(), config.site(ACCEPTED, "test")
    for site, there in ((without, False), (with_values, True)):
        rules = [rule for group in build.alerts(site, Sensitivity.HIGH) for rule in group.rules]
        assert ("NcclBelowAcceptance" in {rule.alert for rule in rules if isinstance(rule, AlertRule)}) is there
        assert ("job:nccl_busbw:expected" in build.signals(site)) is there
        (job,) = [board for board in build.dashboards(site) if board.slug == "job"]
        assert any("job:nccl_busbw:expected" in query.expr for panel in job.panels for query in panel.queries) is there


def test_the_same_values_give_the_same_rules_and_promtool_accepts_them() -> None:
    tool("promtool")
    bundle = build.bundle(config.site(ACCEPTED, "test"))
    assert bundle == build.bundle(config.site(ACCEPTED, "test"))
    assert proof.check_packs(bundle, build.exposed(config.site(ACCEPTED, "test"))) == []


def test_a_job_that_is_slow_from_its_start_is_below_acceptance_and_its_sound_transport_is_not() -> None:
    tool("prometheus")
    site = made_at(RECORDING, config.Site())
    found = proof.prove(build.bundle(site), RECORDING)
    about = {dict(one.labels)["transport"] for one in found.alerts if one.alert == "NcclBelowAcceptance" and one.firing}
    assert about == {"network"}
    assert [each.what for each in found.deviations if each.alert == "NcclBelowAcceptance"] == []
