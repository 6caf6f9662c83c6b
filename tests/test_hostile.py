# SPDX-License-Identifier: Apache-2.0
"""Whatever a file holds, it is refused in one line, or what comes of it is right. See hostile.py for the numbers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile import (
    ANYTHING,
    DURATIONS,
    NAMES,
    NUMBERS,
    PATTERNS,
    TEXTS,
    WORDS,
    Packs,
    changed,
    damaged,
    examples,
    is_one_line,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from dashgen import build
from dashgen.build import accepted
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.config.targets import complete
from dashgen.errors import UserError
from dashgen.explain.words import example
from dashgen.grafana.dashboard import text
from dashgen.lint import foreign
from dashgen.lint import rules as lint
from dashgen.model import Sensitivity
from dashgen.recordings import jsonmode, textfile
from dashgen.recordings.format import EARLIEST, LATEST, SAMPLES, STORY, read_samples, read_story, write_samples
from dashgen.recordings.importing import save
from dashgen.recordings.inspector import GPU_TIMING
from dashgen.recordings.sites import made_at
from dashgen.simulator.physics import unit_effect
from dashgen.simulator.plans import base_plan
from dashgen.simulator.scenario import load_scenario, scenario_path
from dashgen.targets.rulefile import rule_file

RECORDING = Path(__file__).parent / "recordings" / "warm-up"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


# Configuration.


def leaves(section: BaseModel, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The places of a configuration, with what stands there where nothing is said."""
    for name in type(section).model_fields:
        value = getattr(section, name)
        yield from leaves(value, (*path, name)) if isinstance(value, BaseModel) else [((*path, name), value)]


PLACES: dict[tuple[str, ...], Any] = {
    **dict(leaves(Site(targets=complete()()))),
    ("metrics", "busbw"): "",
    ("metrics", "mtime"): "",
    ("alert_labels", "team"): "",
    ("alerts", "NcclJobDegraded", "low", "threshold"): 0.1,
    ("alerts", "NcclJobDegraded", "low", "dumps"): 4,
    ("alerts", "NcclGpuLate", "labels", "team"): "",
    ("acceptance", "AllReduce", "network", "large"): 100.0,
}


def alike(usual: Any) -> st.SearchStrategy[Any]:
    """Values of the kind of a usual one: more of them are accepted than of those that are anything."""
    if isinstance(usual, bool):
        return st.booleans()
    if isinstance(usual, int | float):
        return st.sampled_from([0, 0.05, 0.9, 1, 2, 7, 15, 60, 300, 1e6]) | DURATIONS | NUMBERS
    if isinstance(usual, str):
        return WORDS | NAMES | PATTERNS | TEXTS
    return ANYTHING


EXAMPLE = example().encode()


@st.composite
def configurations(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 3)) == 0:
        return draw(damaged(EXAMPLE))
    data: dict[str, Any] = {}
    for path in draw(st.lists(st.sampled_from(sorted(PLACES)), min_size=1, max_size=3, unique=True)):
        section = data
        for name in path[:-1]:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                break
        else:
            section[path[-1]] = draw(alike(PLACES[path]) if draw(st.integers(0, 3)) else ANYTHING | TEXTS)
    return yaml.safe_dump(data, allow_unicode=True).encode("utf-8", "replace")


def test_a_configuration_is_refused_in_one_line_or_gives_packs_that_promtool_accepts(folder: Path) -> None:
    path = folder / "dashgen.yaml"
    packs = Packs()

    @examples()
    @given(content=configurations())
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            site = config.load(path)
        except UserError as error:
            return is_one_line(error, str(path))
        if site == Site() or site.overlays:
            return None
        made = build.plain(site, [])
        made = type(made)(
            dashboards={},
            recording=made.recording,
            alerts={level: build.alerts(site, level) for level in Sensitivity},
            runbooks={},
            alertmanager={},
        )
        assert list(accepted.problems(made)) == []
        # The further keys of groups are newer than Debian's promtool.
        for groups in (made.recording, *made.alerts.values()):
            packs.add(rule_file(groups))
        return None

    check()
    packs.check()


# What importers read.

DUMP = [
    {
        "header": {"id": "0xabc", "rank": rank, "n_ranks": 2, "nnodes": 1, "comm_name": "tp"},
        "metadata": {"dump_timestamp_us": 1_700_000_000_000_000 + 30_000_000 * at, "hostname": "node1", "pid": 7},
        "coll_perf": {
            "coll": "AllReduce",
            "coll_sn": at,
            "coll_msg_size_bytes": 1 << 21,
            "coll_exec_time_us": 90,
            "coll_timing_source": GPU_TIMING,
            "coll_algobw_gbs": 12.5,
            "coll_busbw_gbs": 23.5,
        },
    }
    for at in range(4)
    for rank in range(2)
]
PROM = "".join(
    f'{upstream("busbw")}{{slurm_job_id="1",node="node1",gpu="GPU{gpu}",comm_name="tp",n_nodes="1",nranks="8",'
    f'collective="AllReduce",message_size="1-2MB",algo_proto="RING_LL",version="v5"}} {gpu}.25\n'
    for gpu in range(4)
)


def dump_bytes(data: Any) -> bytes:
    records = data if isinstance(data, list) else [data]
    return "\n".join(json.dumps(record) for record in records).encode()


def reads_back(folder: Path, made: Any) -> None:
    """What an importer made is a recording that can be read."""
    recording, series, _ = made
    save(folder / "out", recording, series)
    assert read_story(folder / "out") == recording
    found = read_samples(folder / "out")
    assert len(found) == len({(one.name, one.labels) for one in series}) == len(series)
    assert all(EARLIEST <= one.times[0] <= one.times[-1] <= LATEST for one in found)


def test_a_json_dump_is_refused_in_one_line_or_becomes_a_recording(folder: Path) -> None:
    path = folder / "dump.log"

    @examples()
    @given(content=damaged(dump_bytes(DUMP)) | changed(DUMP).map(dump_bytes))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            made = jsonmode.import_json(path)
        except UserError as error:
            return is_one_line(error, str(path))
        return reads_back(folder, made)

    check()


NEAR = ["1700000030", "1999999999", "2023-11-14T22:15:00Z", "20231114_221500"]
FAR = ["1710000000"]
"""Held until then, a file is a million samples: they take as long as a hundred others."""


@pytest.mark.parametrize(("moments", "part"), [(NEAR, 0.99), (FAR, 0.01)], ids=["near", "far"])
def test_copies_of_a_textfile_are_refused_in_one_line_or_become_a_recording(
    folder: Path, moments: list[str], part: float
) -> None:
    # Files are written anew and folders stay: to make a folder and remove it takes longer than to read it.
    for at in moments:
        for each in ("1700000000", at):
            (folder / "copies" / at / each).mkdir(parents=True)
            (folder / "copies" / at / each / "a.prom").write_text(PROM)

    @examples(part)
    @given(
        content=damaged(PROM.encode())
        | st.sampled_from(["9" * 400, "1e400", "-1", "NaN", "0x1", "1_0"]).map(
            lambda value: PROM.replace("0.25", value).encode()
        ),
        at=st.sampled_from(moments),
    )
    def check(content: bytes, at: str) -> None:
        copies = folder / "copies" / at
        (copies / at / "a.prom").write_bytes(content)
        try:
            made = textfile.import_textfile(copies)
        except UserError as error:
            return is_one_line(error, str(copies))
        return reads_back(folder, made)

    check()


# Recordings and scenarios.


def plain(path: Path) -> Any:
    """YAML as JSON would have it."""
    return json.loads(json.dumps(yaml.safe_load(path.read_text()), default=lambda value: value.isoformat()))


STORY_DATA, SCENARIO_DATA = plain(RECORDING / STORY), plain(scenario_path("bursts"))
SAMPLE_LINES = 40


def as_yaml(data: Any) -> bytes:
    return yaml.safe_dump(data, allow_unicode=True).encode("utf-8", "replace")


def test_a_recording_is_refused_in_one_line_or_says_what_can_be(folder: Path) -> None:
    copy = folder / "recording"
    copy.mkdir()
    write_samples(copy, read_samples(RECORDING)[:4])
    packed = (copy / SAMPLES).read_bytes()

    @examples(0.5)
    @given(
        story=damaged((RECORDING / STORY).read_bytes()) | changed(STORY_DATA).map(as_yaml),
        samples=damaged(packed) | st.just(packed),
    )
    def check(story: bytes, samples: bytes) -> None:
        (copy / STORY).write_bytes(story)
        (copy / SAMPLES).write_bytes(samples)
        try:
            found = read_story(copy)
            assert EARLIEST <= found.start.timestamp() < found.end.timestamp() <= LATEST
            assert (found.end - found.start).total_seconds() <= 1_000_000 * found.scrape_interval
            for one in read_samples(copy):
                assert EARLIEST <= one.times[0] <= one.times[-1] <= LATEST
            made_at(copy, Site())
        except UserError as error:
            is_one_line(error, str(copy))

    check()


def test_samples_are_refused_in_one_line_or_read(folder: Path) -> None:
    import gzip

    copy = folder / "samples"
    copy.mkdir()
    write_samples(copy, read_samples(RECORDING)[:2])
    plain = gzip.decompress((copy / SAMPLES).read_bytes()).splitlines(keepends=True)
    plain = b"".join([*plain[:SAMPLE_LINES], plain[-1]])

    @examples(0.25)
    @given(content=damaged(plain))
    def check(content: bytes) -> None:
        (copy / SAMPLES).write_bytes(gzip.compress(content, 1))
        try:
            assert all((one.times[1:] > one.times[:-1]).all() for one in read_samples(copy))
        except UserError as error:
            is_one_line(error, str(copy))

    check()


def test_a_scenario_is_refused_in_one_line_or_can_be_simulated(folder: Path) -> None:
    path = folder / "scenario.yaml"

    @examples(0.25)
    @given(content=damaged(scenario_path("bursts").read_bytes()) | changed(SCENARIO_DATA).map(as_yaml))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            scenario = load_scenario(path)
        except UserError as error:
            is_one_line(error, str(path))
            return
        for job in scenario.jobs:
            for event in scenario.events_of(job):
                try:
                    unit_effect(job, base_plan(job), event, scenario.nodes)
                except UserError as error:
                    is_one_line(error)

    check()


# Dashboards.


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    made = json.loads(text(build.plain(Site(), []).dashboards["fleet"]))
    made["panels"] = made["panels"][:3]
    return dict(made)


def test_a_dashboard_is_refused_in_one_line_or_its_faults_are_told_in_visible_lines(
    folder: Path, board: dict[str, Any]
) -> None:
    path = folder / "board.json"

    @examples()
    @given(content=damaged(json.dumps(board).encode()) | changed(board).map(lambda data: json.dumps(data).encode()))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        try:
            ((_, data),) = foreign.dashboards([path])
        except UserError as error:
            return is_one_line(error, str(path))
        found = lint.lint(data)
        for form in ("text", "github"):
            told = lint.render(found, form).split("\n")  # type: ignore[arg-type]
            assert len(told) == len(found) + 1
            for each in told:
                assert (each.isprintable() and "##[" not in each) and (form == "github" or not each.startswith("::"))
        assert len(json.loads(lint.render(found, "json"))) == len(found)
        assert "##[" not in lint.render(found, "json") + lint.render(found, "sarif")
        return None

    check()
