# SPDX-License-Identifier: Apache-2.0
"""What a reader sees of Fleet and Job while something happens, by Grafana's own code: the truth, and one truth."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from grafana_judge import VERSIONS, Json, View, judged, look, node
from processes import FULL, tool

from dashgen import build
from dashgen.catalogue.boards.verdicts import STATES, WORDS
from dashgen.config.site import Site
from dashgen.engine.evaluated import replay, serve
from dashgen.engine.prometheus import Server
from dashgen.grafana.looks import PALETTE
from dashgen.grafana.parsed import Board
from dashgen.model import Bundle
from dashgen.preview.draw import Drawn, Sheet, Surroundings, draw
from dashgen.preview.figures import Figure
from dashgen.preview.lines import MOST_CURVES
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.recordings.sites import made_at

pytestmark = pytest.mark.heavy

RECORDINGS = Path(__file__).parent / "recordings"
MOMENTS = ("before", "90 s in", "deep in", "after")
SLUGS = ("fleet", "job")


@dataclass(frozen=True)
class Truth:
    """What is true of a job: the state of its verdict, and as far as they are known suspect, node and GPU."""

    state: str = "healthy"
    suspect: str = ""
    node: str = ""
    gpu: str = ""

    @property
    def word(self) -> str:
        """What a timeline calls it."""
        return {"nvlink": "NVLink", "straggler": "late", "": {"stalled": "silent"}.get(self.state, self.state)}.get(
            self.suspect, self.suspect
        )

    @property
    def hurt(self) -> bool:
        return self.state in ("degraded", "stalled")


FINE = Truth()
NETWORK = Truth("degraded", "network")
NVLINK = Truth("degraded", "nvlink", "node02")
RAIL = Truth("degraded", "network", "", "GPU1")
LATE = Truth("degraded", "straggler", "node03", "GPU5")
WELL_AGAIN = Truth("recovering")

# Two bad dumps in a row are a verdict, of a late GPU where they are bad enough.
# A pause is no stall before it is longer than any checkpoint.
TRUTHS: dict[str, tuple[Truth, Truth, Truth, Truth]] = {
    "attribution": (FINE, NETWORK, NETWORK, WELL_AGAIN),
    "late-gpu": (FINE, LATE, LATE, WELL_AGAIN),
    "nvlink-node": (FINE, NVLINK, NVLINK, WELL_AGAIN),
    "nic-slow": (FINE, RAIL, RAIL, WELL_AGAIN),
    "stalled": (FINE, FINE, Truth("stalled"), Truth("stalled")),
    "killed": (FINE, FINE, Truth("gone"), Truth("gone")),
    "exporter-gone": (FINE, FINE, FINE, FINE),
    "fabric-link-flap": (FINE, FINE, FINE, FINE),
    "healthy": (FINE, FINE, FINE, FINE),
    "healthy-nvl72": (FINE, FINE, FINE, FINE),
}
REDUCED = ("attribution", "late-gpu", "killed", "healthy-nvl72")
CHOSEN = tuple(TRUTHS) if FULL else REDUCED
CASES = pytest.mark.parametrize(("name", "moment"), [(name, moment) for name in CHOSEN for moment in MOMENTS])


def moments(story: Recording) -> list[float]:
    """Before, ninety seconds in, deep in and after; where nothing happens, four moments of the second half."""
    start, end = story.start.timestamp(), story.end.timestamp()
    faults = [fault for fault in story.faults if fault.kind != "none"]
    begin = min((fault.start.timestamp() for fault in faults), default=start + (end - start) * 0.6)
    over = max((fault.end.timestamp() for fault in faults), default=begin + (end - begin) * 0.6)
    asked = (begin - 60, begin + 90, min(over - 30, begin + (over - begin) * 0.85), min(end, over + 180))
    # At an evaluation, as the dump before is over; a moment between two is rounded up.
    return [start - (start - at) // 30 * 30 for at in asked]


@dataclass(frozen=True)
class Opened:
    """A recording's boards by slug and moment: what each version of Grafana shows of their panels, and the preview."""

    seen: dict[str, dict[tuple[str, str], dict[str, Json]]]
    drawn: dict[tuple[str, str], dict[str, Drawn]]

    def at(self, moment: str, version: str = VERSIONS[-1]) -> tuple[dict[str, Json], dict[str, Json]]:
        """Fleet and Job."""
        return self.seen[version]["fleet", moment], self.seen[version]["job", moment]


@contextmanager
def played(folder: Path, samples: list[Series] | None = None) -> Iterator[tuple[Server, Bundle, Recording, Any]]:
    tool("promtool"), tool("prometheus"), node()
    site = made_at(folder, Site())
    bundle, story = build.bundle(site, [site.sensitivity]), read_story(folder)
    again = replay(bundle, story, read_samples(folder) if samples is None else samples, [site.sensitivity])
    with serve(again) as server:
        yield server, bundle, story, again


@functools.cache
def opened(name: str, silent: bool = False) -> Opened:
    """Boards on a recording; a ``silent`` one has lost all telemetry but that of a foreign exporter."""
    folder = RECORDINGS / name
    samples = [one for one in read_samples(folder) if one.name == "up"] if silent else None
    with played(folder, samples) as (server, bundle, story, again):
        views: dict[tuple[str, str], View] = {}
        drawn = {}
        for moment, end in zip(MOMENTS, moments(story), strict=True):
            for slug in bundle.dashboards if moment == "deep in" else SLUGS:
                view = look(bundle.dashboards[slug], slug, server, story, again.interval, end)
                around = Surroundings(view.viewer, (), {}, again.names, {})
                views[slug, moment] = view
                panels = Board(bundle.dashboards[slug]).panels
                drawn[slug, moment] = {panel.title: draw(panel, around) for panel in panels}
    seen = judged(list(views.values()))
    return Opened({version: dict(zip(views, each, strict=True)) for version, each in seen.items()}, drawn)


def truth(name: str, moment: str) -> Truth:
    return TRUTHS[name][MOMENTS.index(moment)]


def rows(panel: Json) -> list[dict[str, str]]:
    """The rows of a table by the titles of their columns; a dash is nothing."""
    found = [dict(zip(panel["columns"], (cell["text"] for cell in row), strict=True)) for row in panel.get("rows", [])]
    return [{title: "" if text == "–" else text for title, text in row.items()} for row in found]


def said(panel: Json) -> list[str]:
    return [value["name"] for value in panel.get("values", [])]


def last_word(panel: Json, bar: int = 0) -> str:
    return str(panel["bars"][bar]["states"][-1]["text"])


def told(row: dict[str, str]) -> Truth:
    """The verdict as a row of a table has it."""
    words = {text.replace("<fabric>", "NVLink"): word for word, text in WORDS.items()}
    suspect = row.get("Suspect", "")
    return Truth(row.get("State", ""), words.get(suspect, suspect), row.get("Node", ""), row.get("GPU", ""))


@CASES
def test_the_boards_tell_state_suspect_node_and_gpu_as_they_are(name: str, moment: str) -> None:
    _, job = opened(name).at(moment)
    expected = truth(name, moment)
    (row,) = rows(job["Verdict in figures"])
    assert told(row) == expected
    (sentence,) = said(job["Verdict now"])
    places = (expected.node, expected.gpu, *(["kernels spin: hung"] if expected.state == "stalled" else []))
    assert all(place in sentence for place in places), sentence
    assert (
        sentence.split()[0].lower()
        in {
            "healthy": ("healthy:",),
            "degraded": ("network", "rail", "nvlink", "late"),
            "stalled": ("silent",),
            "gone": ("ended",),
            "recovering": ("recovering:",),
        }[expected.state]
    )
    assert last_word(job["State and cause"]) == expected.word
    if expected.hurt:
        assert row["Since"] and row["For"] and row["Peak"]


@CASES
def test_no_two_panels_disagree(name: str, moment: str) -> None:
    fleet, job = opened(name).at(moment)
    expected = truth(name, moment)
    tiles = {title: fleet[title.capitalize()]["values"][0] for title in ("degraded", "stalled", "recovering", "gone")}
    assert {title: value["text"] for title, value in tiles.items()} == {
        title: str(int(title == expected.state)) for title in tiles
    }
    hurt = [row for row in rows(fleet["Hurt jobs, worst first"]) if row["State"] in ("degraded", "stalled")]
    assert [told(row) for row in hurt] == [expected] * expected.hurt
    (gpus,) = fleet["GPUs of hurt jobs"]["values"]
    assert gpus["text"] == (hurt[0]["GPUs"] if hurt else "0")
    (whole,) = said(fleet["Verdict now"])
    (sentence,) = said(job["Verdict now"])
    if expected.state in ("healthy", "unknown"):
        assert whole == "No job is hurt; jobs that report: 1"
    else:
        assert re.fullmatch(rf"Job \w+: {re.escape(sentence)}", whole)
    for alert in rows(fleet["Alerts"]):
        if alert["Alert"] == "NcclJobDegraded" and expected.hurt:
            assert told({**alert, "State": expected.state}) == expected
    # A frozen value is no value of today: bandwidth ends where the job did.
    if expected.state in ("stalled", "gone"):
        for title, panel in job.items():
            for curve in panel.get("curves", []) if title.startswith("Bandwidth ") else []:
                assert "usual" in curve["name"] or title == "Bandwidth lost by path" or curve["stale"], (title, curve)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_grids_show_who_is_late_and_which_path_is_slow(name: str) -> None:
    seen = opened(name).seen[VERSIONS[-1]]
    outliers, expected = seen["outliers", "deep in"], truth(name, "deep in")
    assert said(outliers["Verdict now"]) == said(seen["job", "deep in"]["Verdict now"])
    nodes, rails = outliers["Nodes and GPUs, now"], outliers["Rails, now"]
    grid, by_rail = rows(nodes), rows(rails)
    painted = {
        (row[0]["text"], column)
        for table in (nodes, rails)
        for row in table.get("rows", [])
        for column, cell in zip(table["columns"], row, strict=True)
        if _solid(cell["colour"]) and column != "Worst"
    }
    if expected.suspect == "straggler":
        assert grid[0]["Node"] == expected.node
        assert grid[0]["Worst"] == grid[0][f"GPU {expected.gpu.removeprefix('GPU')}"]
    elif expected.suspect == "nvlink":
        assert grid[0]["Node"] == expected.node and grid[0]["Worst"] == grid[0]["Lost inside"]
    elif expected.gpu:
        number = f"GPU {expected.gpu.removeprefix('GPU')}"
        assert {column for _, column in painted} == {number}
        assert by_rail[0]["Worst"] == by_rail[0][number]
    elif expected.state in ("healthy", "gone", "stalled"):
        assert not painted
    for row in nodes.get("rows", []):
        assert any(f"var-node={row[0]['text']}" in link for link in row[0]["links"])


@pytest.mark.parametrize("name", [name for name in CHOSEN if name.startswith("healthy")])
@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_red_on_a_healthy_fleet(name: str, moment: str) -> None:
    bad = {PALETTE[role].lower() for role in ("bad", "warn")}
    for board in opened(name).at(moment):
        for title, panel in board.items():
            cells = [cell for row in panel.get("rows", []) for cell in row]
            bars = [state for bar in panel.get("bars", []) for state in bar["states"]]
            seen = {each["colour"] for each in (*panel.get("values", []), *cells, *bars)}
            assert not seen & bad, title


@pytest.mark.parametrize("moment", MOMENTS)
def test_without_telemetry_everything_is_grey_and_says_so(moment: str) -> None:
    fleet, job = opened("healthy-nvl72", silent=True).at(moment)
    grey = {PALETTE[role].lower() for role in ("neutral", "info")}
    for board in (fleet, job):
        for title, panel in board.items():
            for value in panel.get("values", []):
                assert re.search("no data|none", value["text"], re.IGNORECASE), (title, value)
                # Nobody who reports is a warning, and the only one.
                assert value["colour"] in grey or title == "Jobs reporting", (title, value)
            for bar in panel.get("bars", []):
                assert [(state["text"], state["colour"]) for state in bar["states"]] == [
                    ("no data", PALETTE["neutral"].lower())
                ]
            assert panel.get("empty", "") != "Data does not have a time field", title
            assert not panel.get("rows") and not panel.get("curves"), title
    assert ["no job reports" in words for words in said(fleet["Verdict now"])] == [True]
    assert fleet["Jobs reporting"]["values"][0]["colour"] == PALETTE["warn"].lower()


@pytest.mark.parametrize("name", CHOSEN)
def test_a_table_is_one_table_and_a_label_is_no_number(name: str) -> None:
    for version in VERSIONS:
        for board in opened(name).seen[version].values():
            for title, panel in board.items():
                assert panel.get("frames", 1) == 1 or "empty" in panel, title
                assert panel["odd"] == [], title
                for row in rows(panel):
                    assert re.fullmatch(r"\d*", row.get("Job", "")), (title, row)


@pytest.mark.parametrize("name", CHOSEN)
def test_links_carry_the_job_and_the_time(name: str) -> None:
    fleet, _ = opened(name).at("deep in")
    for panel in fleet.values():
        for row in panel.get("rows", []):
            job = dict(zip(panel["columns"], row, strict=True)).get("Job")
            for link in job["links"] if job else []:
                assert f"var-job={job['text']}" in link
                assert re.search(r"[?&]from=\d+&to=\d+", link)


def _colours(panel: Json) -> Json:
    """What versions of Grafana may do differently, left out: the colours of lines that have none of their own."""
    return {**panel, "curves": [{**curve, "colour": ""} for curve in panel.get("curves", [])]}


@pytest.mark.parametrize("name", CHOSEN)
def test_every_version_of_grafana_shows_the_same(name: str) -> None:
    newest, *others = (opened(name).seen[version] for version in reversed(VERSIONS))
    for other in others:
        for place, board in other.items():
            for title, panel in board.items():
                assert _colours(panel) == _colours(newest[place][title]), (place, title)


@pytest.mark.parametrize("name", CHOSEN)
def test_the_preview_shows_what_grafana_shows_cell_by_cell(name: str) -> None:
    compared = 0
    for place, drawn in opened(name).drawn.items():
        seen = opened(name).seen[VERSIONS[-1]][place]
        for title, panel in seen.items():
            where = (place, title)
            match drawn[title].body:
                case Sheet() as sheet:
                    assert list(sheet.columns) == panel["columns"], where
                    ours = [[(box.text, box.colour.lower()) for box in row] for row in sheet.rows]
                    theirs = [[(cell["text"], _solid(cell["colour"])) for cell in row] for row in panel["rows"]]
                    assert sorted(ours) == sorted(theirs), where
                case tuple() as tiles:
                    # A sentence is the name of its series.
                    word = (
                        "name" if "textMode" in panel["options"] and panel["options"]["textMode"] == "name" else "text"
                    )
                    theirs = [(value[word], value["colour"]) for value in panel["values"]]
                    assert [
                        (tile.text, tile.colour.lower() or value[1]) for tile, value in zip(tiles, theirs, strict=True)
                    ] == theirs, where
                case Figure() as figure if panel["type"] == "timeseries":
                    lasts = {entry.name: entry.values[0] for entry in figure.entries[: figure.traces]}
                    theirs = {curve["name"]: curve["last"] for curve in panel["curves"]}
                    # Of very many curves a preview draws the odd ones.
                    assert lasts == {line: theirs[line] for line in lasts}, where
                    assert len(lasts) == min(len(theirs), MOST_CURVES), where
                case _:
                    continue
            compared += 1
    assert compared > 50


def _solid(colour: str) -> str:
    """A colour that cannot be seen through."""
    return "" if colour.endswith("00") and len(colour) == 9 else colour


def test_every_state_has_a_word_that_the_boards_use() -> None:
    words = {word.replace("<fabric>", "NVLink") for word, _ in STATES.values()}
    assert {each.word for truths in TRUTHS.values() for each in truths} <= words
