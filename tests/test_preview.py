# SPDX-License-Identifier: Apache-2.0
"""Boards drawn on recordings by the real Prometheus, and opened in a real browser."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from browser import Document, browse
from command import Done, dashgen, environment, tree
from processes import tool
from slow_network import BANDWIDTH, START, samples, story

from dashgen.catalogue.metrics import upstream
from dashgen.engine.evaluated import replay, serve
from dashgen.errors import UserError
from dashgen.model import AlertRule, Bundle, RecordingRule, RuleGroup, Sensitivity
from dashgen.preview import make
from dashgen.preview.page import MARK, page
from dashgen.recordings.format import Series, write_samples, write_story

RECORDINGS = Path(__file__).parent / "recordings"
MEDIUM = Sensitivity.MEDIUM
HOSTILE = (
    '<img src=x onerror=alert(1)> </script><script>document.title="owned"</script> <a href="https://example.org/">&amp;'
)


@pytest.fixture(autouse=True)
def _installed() -> None:
    tool("promtool")
    tool("prometheus")


# A small recording and small boards.


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Writes the recording; the keywords change its story."""

    def write(series: list[Series] | None = None, **changes: object) -> Path:
        folder = tmp_path / "slow-network"
        folder.mkdir()
        write_story(folder, story(**changes))
        write_samples(folder, samples() if series is None else series)
        return folder

    return write


def panel(title: str, expr: str, legend: str = "", kind: str = "timeseries", **more: object) -> dict[str, object]:
    instant = kind in ("table", "stat", "bargauge")
    target = {"refId": "A", "expr": expr, "legendFormat": legend, "instant": instant}
    return {"type": kind, "title": title, "targets": [target], "description": f"What is {title}?", **more}


JOB = {
    "name": "job",
    "label": "Job",
    "type": "query",
    "query": {"query": "label_values(job:nccl_busbw:max, slurm_job_id)", "refId": "V"},
}
ALERTS = {
    "name": "Alerts",
    "enable": True,
    "iconColor": "#D55E00",
    "titleFormat": "{{alertname}} of {{slurm_job_id}}",
    "target": {"expr": 'ALERTS{alertstate="firing"}'},
}
SPEED_EXPR = 'job:nccl_busbw:max{slurm_job_id="$job"}'
SPEED = panel(
    "Speed",
    SPEED_EXPR,
    "{{slurm_job_id}}",
    fieldConfig={"defaults": {"unit": "MBs"}, "overrides": []},
)


def board(*panels: Mapping[str, object], **more: object) -> dict[str, object]:
    frame = {"templating": {"list": [JOB]}, "annotations": {"list": [ALERTS]}}
    return {"title": "Jobs", "uid": "jobs-uid", "panels": list(panels), **frame, **more}


def bundle(*panels: Mapping[str, object], **more: object) -> Bundle:
    recorded = RecordingRule(record="job:nccl_busbw:max", expr=f"max by (slurm_job_id) ({BANDWIDTH})")
    alert = AlertRule(
        alert="NcclBandwidthLow",
        expr="job:nccl_busbw:max < 60",
        for_="1m",
        keep_firing_for="",
        labels={"severity": "warning", "signal": "degradation"},
        annotations={"summary": "slow"},
    )
    return Bundle(
        dashboards={"jobs": board(*panels, **more)},
        recording=(RuleGroup(name="nccl-job", interval="30s", rules=(recorded,)),),
        alerts={MEDIUM: (RuleGroup(name="nccl-alerts", interval="30s", rules=(alert,)),)},
        runbooks={},
        alertmanager={},
    )


def drawn(
    made: Bundle, folder: Path, needs: Mapping[tuple[str, str], tuple[str, ...]] | None = None, **more: Any
) -> str:
    return page(make.content(made, folder, make.Wanted(tier=MEDIUM, **more), needs or {}))


def figures(text: str) -> list[dict[str, Any]]:
    packed = Document(text).scripts["figures"]
    found = json.loads(zlib.decompress(base64.b64decode(packed)))
    return [found[name] for name in sorted(found, key=lambda name: int(name.removeprefix("p")))]


# What is drawn.


def test_a_curve_has_the_values_that_prometheus_answers(record: Callable[..., Path]) -> None:
    folder, made = record(), bundle(SPEED)
    (figure,) = figures(drawn(made, folder))
    with serve(replay(made, story(), samples(), [MEDIUM])) as server:
        (answer,) = server.query_range('job:nccl_busbw:max{slurm_job_id="7"}', START, START + 900, 30)
    (trace,) = figure["data"]
    assert (trace["x0"], trace["dx"], trace["name"]) == (START * 1000, 30_000, "7")
    assert trace["y"] == answer.values.tolist()
    assert len(trace["y"]) == 31 and set(trace["y"]) == {53, 103}
    assert figure["layout"]["yaxis"]["ticksuffix"] == " MB/s"


def test_the_page_tells_where_it_comes_from_what_was_wrong_what_fired_and_how_to_make_it_again(
    record: Callable[..., Path],
) -> None:
    text = drawn(bundle(SPEED), record(), commands=("dashgen preview --recording slow-network",))
    shown = Document(text).text
    for said in (
        "The network of job 7 is slow for five minutes.",
        "simulated (a test)",
        "2026-03-19 14:25:00 to 14:30:00",
        "NcclBandwidthLow",
        "14:26:00 to 14:30:00",
        "dashgen preview --recording slow-network",
        "What is Speed?",
        "sensitivity medium",
    ):
        assert said in shown, said


def test_an_annotation_shades_the_time_in_which_the_alert_fired(record: Callable[..., Path]) -> None:
    text = drawn(bundle(SPEED), record())
    (figure,) = figures(text)
    *truth, moment, shape = figure["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == ((START + 360) * 1000, (START + 600) * 1000)
    # What was really wrong, and the moment that is shown.
    assert [each["type"] for each in (*truth, moment)] == ["rect"] * len(story().faults) + ["line"]
    assert moment["x0"] == moment["x1"] == story().end.timestamp() * 1000
    assert "NcclBandwidthLow of 7" in Document(text).text


def test_single_values_and_tables_show_the_moment_at_which_the_boards_are_opened(record: Callable[..., Path]) -> None:
    folder = record()
    made = bundle(panel("Now", "max(job:nccl_busbw:max)", kind="stat"), panel("GPUs", BANDWIDTH, kind="table"), SPEED)
    late, early = Document(drawn(made, folder)), Document(drawn(made, folder, moment=START + 450.0))
    assert "103" in late.texts and "53" not in late.texts
    assert "53" in early.texts and "103" not in early.texts
    with pytest.raises(UserError, match="--at: not within the recording, 2026-03-19T14:20:00 to 2026-03-19T14:35:00"):
        drawn(made, folder, moment=START + 901.0)


def test_panels_keep_their_places_on_the_grid_row_by_row(record: Callable[..., Path]) -> None:
    def at(title: str, x: int, y: int, w: int, h: int) -> dict[str, object]:
        return {**SPEED, "title": title, "gridPos": {"x": x, "y": y, "w": w, "h": h}}

    # What is below a collapsed row has the same places as what is in it.
    row = {"type": "row", "title": "More", "collapsed": True, "panels": [at("C", 0, 9, 24, 6)]}
    other = {"type": "row", "title": "Last", "panels": []}
    made = bundle(at("A", 0, 0, 8, 8), at("B", 8, 0, 16, 8), row, other, at("D", 20, 10, 8, 99), SPEED)
    document = Document(drawn(made, record()))
    places = [attributes["style"] for tag, attributes in document.elements if tag == "article"]
    assert places == [
        f"grid-area:{place}"
        for place in (
            *("1/1/span 8/span 8", "1/9/span 8/span 16", "1/1/span 6/span 24"),
            *("1/17/span 60/span 8", "auto/auto/span 8/span 12"),
        )
    ]


def test_variables_are_chosen_as_somebody_would_who_looks_for_the_fault(record: Callable[..., Path]) -> None:
    folder = record([*samples("6"), *samples("7")])
    titled = {**SPEED, "title": "Speed of $job"}
    text = drawn(bundle(titled), folder)
    (figure,) = figures(text)
    assert [trace["name"] for trace in figure["data"]] == ["7"]
    assert "Speed of 7" in Document(text).text


@pytest.mark.parametrize("several", [False, True])
def test_a_job_is_found_and_told_whatever_is_in_its_name(record: Callable[..., Path], several: bool) -> None:
    odd = r'team\job."1"'
    choice = JOB | {"multi": several, "includeAll": several}
    asked = panel("Of $job", 'job:nccl_busbw:max{slurm_job_id=~"$job"}' if several else SPEED_EXPR, "{{slurm_job_id}}")
    text = drawn(bundle(asked, templating={"list": [choice]}), record(samples(odd)))
    (figure,) = figures(text)
    assert [trace["name"] for trace in figure["data"]] == [odd]
    assert f"Of {odd}" in Document(text).text


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"type": "piechart"}, "not drawn here: panel type piechart"),
        ({"type": "heatmap", "options": {"calculate": True}}, "not drawn here: heatmap with calculated buckets"),
        ({"type": "table", "transformations": [{"id": "reduce"}]}, "not drawn here: transformation reduce"),
        ({"type": "stat", "options": {"reduceOptions": {"calcs": ["p99"]}}}, "not drawn here: reduction p99"),
        ({"repeat": "job"}, "not drawn here: repeated panel"),
        ({"transformations": [{"id": "reduce"}]}, "not drawn here: transformations on a timeseries"),
        (
            {"targets": [{"expr": "x", "datasource": {"type": "loki"}}]},
            "not drawn here: queries of another data source",
        ),
        ({"targets": [{"refId": "A", "expr": "no_such_name"}]}, "No data: there is no series no_such_name"),
        ({"targets": [{"refId": "A", "expr": "sum by (job (x)"}]}, "Prometheus refuses"),
        ({"fieldConfig": {"defaults": {"custom": {"drawStyle": "bars"}}}}, "not done here: drawStyle bars"),
        ({"targets": [{"refId": "A", "expr": "job:nccl_busbw:max > 1000"}]}, "No data"),
        (
            {
                "targets": [{"refId": "A", "expr": "job:nccl_busbw:max > 1000"}],
                "fieldConfig": {"defaults": {"noValue": "all is well"}},
            },
            "All is well",
        ),
    ],
)
def test_what_cannot_be_drawn_says_so(record: Callable[..., Path], odd: Mapping[str, object], says: str) -> None:
    assert says in Document(drawn(bundle(SPEED | odd), record())).text


def test_a_panel_whose_source_the_recording_lacks_names_it(record: Callable[..., Path]) -> None:
    clock = panel("Clock", upstream("sm_clock"))
    text = drawn(bundle(clock), record(), {("jobs", "Clock"): (upstream("sm_clock"), upstream("gpu_util"))})
    assert f"No data: needs {upstream('gpu_util')}, {upstream('sm_clock')}, which this recording does not have" in (
        Document(text).text
    )


# Other people's text, in a browser.


def hostile_board(record: Callable[..., Path]) -> str:
    words = panel(
        "Words", "", kind="text", options={"mode": "markdown", "content": f"# {HOSTILE}\n\n[x](javascript:1)"}
    )
    link = {"title": HOSTILE, "url": 'javascript:alert(1)//"><script>alert(1)</script>'}
    config = {"defaults": {"unit": f"suffix:{HOSTILE}", "links": [link], "noValue": HOSTILE}}
    kinds = ("timeseries", "heatmap", "state-timeline", "bargauge", "stat", "table", HOSTILE)
    panels = [panel(HOSTILE, "job:nccl_busbw:max", "{{slurm_job_id}}", kind, fieldConfig=config) for kind in kinds]
    empty = panel("Empty", "nothing", fieldConfig=config)
    row = {"type": "row", "title": HOSTILE, "panels": []}
    folder = record(samples(HOSTILE), story=HOSTILE, made_by=HOSTILE)
    made = bundle(row, *panels, empty, words, title=HOSTILE, description=HOSTILE)
    return drawn(made, folder, commands=(HOSTILE,))


def is_inert(document: Document) -> None:
    """No element, attribute or link that a page of ours does not have."""
    tags = {tag for tag, _ in document.elements}
    assert not tags & {"img", "iframe", "object", "embed", "base", "form", "video", "audio"}
    for tag, attributes in document.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert "src" not in attributes, (tag, attributes)
        href = attributes.get("href") or attributes.get("xlink:href") or "#"
        # plotly draws the cells of a heatmap as a picture that it makes itself.
        assert href.startswith("#") or (tag == "image" and href.startswith("data:image/png;")), (tag, attributes)
    own = [attributes for tag, attributes in document.elements if tag == "script" and "type" not in attributes]
    # The page's own; in a browser plotly.js, unpacked, stands beside it.
    assert own in ([{}], [{}, {}])


def test_other_peoples_text_stays_text_in_the_file_and_in_the_browser(
    record: Callable[..., Path], tmp_path: Path
) -> None:
    text = hostile_board(record)
    is_inert(Document(text))
    file = tmp_path / "hostile.html"
    file.write_text(text, encoding="utf-8")
    seen = browse(file, tmp_path / "profile")
    is_inert(seen.document)
    assert seen.console == []
    assert (seen.root["data-finished"], seen.root["data-drawn"], seen.root["data-errors"]) == ("yes", "4", "0")
    title = "slow-network: dashgen preview"
    assert title in seen.document.texts
    # In the legend, on an axis, in a table, as a heading, in Markdown.
    assert seen.document.text.count("<img src=x onerror=alert(1)>") > 20


def test_the_browser_runs_no_script_but_the_pages_own(record: Callable[..., Path], tmp_path: Path) -> None:
    text = drawn(bundle(SPEED), record())
    file = tmp_path / "changed.html"
    file.write_text(text.replace("<main", '<script>document.title="owned"</script><main'), encoding="utf-8")
    seen = browse(file, tmp_path / "profile")
    assert seen.root["data-drawn"] == "1"
    assert "owned" not in seen.document.texts
    assert any("Content Security Policy" in line for line in seen.console)


# The command.


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A preview of all boards, as somebody gets it who asks for nothing."""
    tool("promtool"), tool("prometheus")
    folder = tmp_path_factory.mktemp("shipped")
    done = dashgen("preview", cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("preview.html: 6 boards, ")
    yield folder / "preview.html"


def test_without_an_argument_all_boards_are_drawn_on_a_shipped_scenario_and_a_browser_draws_every_panel(
    shipped: Path, tmp_path: Path
) -> None:
    text = shipped.read_text(encoding="utf-8")
    document = Document(text)
    assert len(text.encode()) < 2_500_000
    assert "314 → 289 → 311 TFLOP/s" in document.text
    assert "not drawn here" not in document.text and "not done here" not in document.text
    assert "Prometheus refuses" not in document.text
    is_inert(document)
    seen = browse(shipped, tmp_path / "profile")
    plots = [attributes for tag, attributes in document.elements if tag == "div" and attributes.get("class") == "plot"]
    assert len(plots) > 30
    assert seen.console == []
    assert (seen.root["data-finished"], seen.root["data-drawn"]) == ("yes", str(len(plots)))
    assert seen.root["data-errors"] == "0"
    # Each of them is a drawing with curves, bars or cells in it.
    canvases = [attributes for tag, attributes in seen.document.elements if attributes.get("class") == "main-svg"]
    assert len(canvases) >= len(plots)


def test_the_same_input_gives_the_same_bytes(shipped: Path, tmp_path: Path) -> None:
    elsewhere = environment(PYTHONHASHSEED="1", TZ="Asia/Kathmandu", LC_ALL="C")
    done = dashgen("preview", "-o", "again.html", cwd=tmp_path, env=elsewhere)
    assert done.returncode == 0, done
    assert (tmp_path / "again.html").read_bytes() == shipped.read_bytes()


def test_a_board_is_chosen_by_slug_or_uid_and_a_preview_may_be_made_again(shipped: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(shipped, tmp_path / "preview.html"))
    arguments = ["--board", "job", "--board", "dashgen-nccl-fleet", "--at", "2026-03-19T14:43:30"]
    done = dashgen("preview", *arguments, "--sensitivity", "high", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("preview.html: 2 boards"), done
    document = Document(copy.read_text(encoding="utf-8"))
    again = "--board job --board dashgen-nccl-fleet --sensitivity high --at 2026-03-19T14:43:30"
    assert f"dashgen preview {again}" in document.texts
    assert "NCCL / Fleet" in document.texts and "NCCL / Telemetry health" not in document.texts


def test_overlays_and_configuration_are_drawn_as_they_are_built(tmp_path: Path) -> None:
    (tmp_path / "my.jsonnet").write_text("{ dashboards+:: { 'fleet.json'+: { title: 'GPU fleet' } } }\n")
    (tmp_path / "site.yaml").write_text("overlays: [my.jsonnet]\nfabric: xGMI\n")
    shutil.copytree(RECORDINGS / "gpu0-collision", tmp_path / "small")
    arguments = ["--recording", "small", "--board", "fleet", "--board", "job"]
    done = dashgen("preview", "-c", "site.yaml", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done
    document = Document((tmp_path / "preview.html").read_text(encoding="utf-8"))
    assert "GPU fleet" in document.texts and "NCCL / Fleet" not in document.texts
    assert "xGMI" in document.text and "NVLink domain" not in document.text.replace("NVLink domains", "")
    assert "dashgen preview --config site.yaml --recording small --board fleet --board job" in document.texts


def fails(done: Done) -> str:
    assert done.returncode == 2 and done.stdout == "", done
    (line,) = done.stderr.splitlines()
    return line.removeprefix("dashgen: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--board", "jbo"], "--board jbo: no such board; there are fleet, job, "),
        (["--recording", "folder"], "folder/recording.yaml: No such file or directory; name the folder of a recording"),
        (["-o", "missing/preview.html"], "missing/preview.html: its folder does not exist"),
        (["-o", "folder"], "folder: Is a directory; name a file"),
        (["-o", "file"], "file: was not generated by dashgen and would be lost; move it or use -o FILE"),
        (["--at", "2026-03-19T16:00:00"], "--at: not within the recording, 2026-03-19T14:00:00 to 2026-03-19T15:00:00"),
        (["-c", "missing.yaml"], "missing.yaml: No such file or directory"),
    ],
)
def test_a_wrong_preview_is_one_line_and_nothing_is_written(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("ours\n")
    before = tree(tmp_path)
    assert fails(dashgen("preview", *arguments, cwd=tmp_path)).startswith(says)
    assert tree(tmp_path) == before


def test_a_missing_tool_is_one_line(tmp_path: Path) -> None:
    assert fails(dashgen("preview", cwd=tmp_path, env=environment(PATH=str(tmp_path)))).startswith(
        "promtool: not found"
    )


def test_a_preview_begins_with_its_mark(shipped: Path) -> None:
    assert shipped.read_text(encoding="utf-8").startswith(MARK)
