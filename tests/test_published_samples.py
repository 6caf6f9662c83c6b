# SPDX-License-Identifier: Apache-2.0
"""Every line of Inspector's text format that its makers published is understood, printed and scraped unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import DIRECT, serving, tool
from prometheus_client.parser import text_string_to_metric_families

from dashgen.recordings.format import selector
from dashgen.recordings.importing import ImportReport
from dashgen.recordings.inspector import (
    Bucket,
    Values,
    busbw_gbs,
    exposition,
    message_size_range,
    parse_message_size,
    series_names,
)
from dashgen.recordings.textfile import import_textfile

PUBLISHED = sorted((Path(__file__).parent / "published").glob("*.prom"))

Sample = tuple[str, dict[str, str], float]


def samples(text: str) -> list[Sample]:
    families = text_string_to_metric_families(text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


def bucket_of(labels: dict[str, str]) -> Bucket:
    size = parse_message_size(labels["message_size"])
    assert size is not None and message_size_range(size) == labels["message_size"]
    function = labels.get("collective") or labels["p2p_operation"]
    shape = (int(labels["nranks"]), int(labels["n_nodes"]))
    return Bucket(*shape, function, size, labels["comm_name"], labels.get("algo_proto", ""))


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.stem)
def test_a_published_line_is_parsed_and_printed_again_as_it_was(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        [(name, labels, value)] = samples(line + "\n")
        assert f"{selector(name, labels)} {value:.6g}" == line
        bucket = bucket_of(labels)
        values = Values(value, value)
        place = {"node": labels["node"], "gpu": labels["gpu"], "job_id": labels["slurm_job_id"]}
        cluster = f'cluster="{labels.get("cluster")}",'
        assert name in series_names(bucket)
        assert line.replace(cluster, "") + "\n" in list(exposition({bucket: values}, **place))


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.stem)
def test_a_published_file_is_imported_with_all_its_series(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "2026-05-07T12-00-00Z" / "nccl_inspector_metrics_0.prom"
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())
    _, series, report = import_textfile(tmp_path)
    expected = samples(file.read_text())
    found = {(one.name, one.labels): set(one.values.tolist()) for one in series if one.name.startswith("nccl_")}
    added = {"instance": f"{expected[0][1]['node']}:9100", "job": "import"}
    assert found == {(name, tuple(sorted((labels | added).items()))): {value} for name, labels, value in expected}
    assert report == ImportReport(files=1, records=len(expected), used=len(expected))


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.stem)
def test_node_exporter_serves_a_published_file_with_the_same_labels_and_values(file: Path, tmp_path: Path) -> None:
    exporter = tool("prometheus-node-exporter", "node_exporter")
    folder = tmp_path / "textfile"
    folder.mkdir()
    (folder / "nccl_inspector_metrics_0.prom").write_bytes(file.read_bytes())
    flags = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}"]
    command = [exporter, *flags, "--web.listen-address=127.0.0.1:PORT"]
    with serving(*command, ready="/metrics", log=tmp_path / "log") as url, DIRECT.open(f"{url}/metrics") as answer:
        served = samples(answer.read().decode())
    expected = samples(file.read_text())
    assert sorted(map(repr, (one for one in served if one[0].startswith("nccl_")))) == sorted(
        repr((name, dict(sorted(labels.items())), value)) for name, labels, value in expected
    )
    assert ("node_textfile_scrape_error", {}, 0.0) in served


def test_published_bandwidth_is_the_one_that_published_size_and_time_give() -> None:
    """One operation gives exactly its figure; the mean time of several is longer than their mean bandwidth tells."""
    checked = {}
    for file in PUBLISHED:
        found: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
        for name, labels, value in samples(file.read_text()):
            found.setdefault(tuple(sorted(labels.items())), {})["time" if "exec_time" in name else "gbs"] = value
        for key, pair in found.items():
            if len(pair) == 2:
                bucket = bucket_of(dict(key))
                given = busbw_gbs(bucket.function, bucket.size, bucket.nranks, pair["time"])
                checked[bucket.function, dict(key)["message_size"]] = pair["gbs"] / given
    # The sizes of NVIDIA's README are powers of two, so the lower bound of their range is their size.
    assert checked["AllReduce", "4-5GB"] == pytest.approx(1, rel=1e-4)
    assert checked["Send", "512-513MB"] == pytest.approx(1, rel=1e-4)
    assert all(0.999 < ratio < 2 for ratio in checked.values()), checked
