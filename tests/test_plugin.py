# SPDX-License-Identifier: Apache-2.0
"""Bytes that Inspector's own code wrote: both of its modes become the same series, and so does a real scrape."""

from __future__ import annotations

import json
import math
import os
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashgen.errors import UserError
from dashgen.recordings.format import Series
from dashgen.recordings.importing import MTIME
from dashgen.recordings.inspector import BUS_BANDWIDTH, DUMP_INTERVAL, EXEC_TIME, busbw_gbs
from dashgen.recordings.jsonmode import import_json
from dashgen.recordings.textfile import import_textfile

Key = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    with tarfile.open(Path(__file__).parent / "plugin" / "output.tar.xz") as archive:
        # As an argument Debian 12's Python does not know it, and newer ones ask for it.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)  # type: ignore[method-assign]
        archive.extractall(folder)
    return folder


def by_labels(found: Iterable[Series], *without: str) -> dict[Key, list[Series]]:
    """Series by their name and labels, but for those that one mode does not know."""
    sorted_out: dict[Key, list[Series]] = {}
    for each in sorted(found, key=lambda one: one.values.tolist()):
        key = each.name, tuple((name, value) for name, value in each.labels if name not in without)
        sorted_out.setdefault(key, []).append(each)
    return sorted_out


def test_both_modes_of_the_plugin_become_the_same_series(output: Path) -> None:
    _, textfile, read = import_textfile(output / "prom")
    _, dumps, used = import_json(output / "json")
    assert not read.skipped and not used.skipped
    # JSON of v4.0 does not know algorithms, and the name of the file holds a UUID that JSON does not know either.
    there = by_labels([one for one in textfile if one.name != MTIME], "algo_proto")
    here = by_labels([one for one in dumps if one.name != MTIME], "algo_proto")
    assert there.keys() == here.keys() and len(textfile) == len(dumps) == 376
    for key, expected in there.items():
        for mine, its in zip(here[key], expected, strict=True):
            assert mine.times.tolist() == its.times.tolist(), key
            # A textfile has six digits, JSON six decimals: they may differ in the last digit.
            assert mine.values == pytest.approx(its.values, rel=1e-5), key


def test_both_modes_know_the_same_age_of_every_gpus_file(output: Path) -> None:
    ages = []
    for found in (import_textfile(output / "prom")[1], import_json(output / "json")[1]):
        mtimes = [one for one in found if one.name == MTIME]
        assert len(mtimes) == 8
        ages.append(np.median([one.times - one.values for one in mtimes], axis=0))
        assert all(np.all((one.times >= one.values) & (one.times - one.values < DUMP_INTERVAL)) for one in mtimes)
    # The dump's time stamp is the begin of writing, a file's mtime the end; copies were taken within a scrape.
    assert np.abs(ages[0] - ages[1]).max() <= 15


def test_bandwidth_is_the_one_that_the_plugin_computes_from_size_and_time(output: Path) -> None:
    checked = 0
    for path in sorted((output / "json").rglob("*.log")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            kind = "coll" if "coll_perf" in record else "p2p"
            told, ranks = record[f"{kind}_perf"], record["header"]["n_ranks"]
            size, microseconds = told[f"{kind}_msg_size_bytes"], told[f"{kind}_exec_time_us"]
            if size < 2**48:  # beyond, the size has wrapped, and its digits are those of a double
                expected = told[f"{kind}_busbw_gbs"]
                assert busbw_gbs(told[kind], size, ranks, microseconds) == pytest.approx(expected, abs=6e-7), line
                checked += 1
    assert checked > 10_000


def test_operations_on_other_channels_read_short_as_the_plugin_wrote_them(output: Path) -> None:
    """100 MB over 8 ranks in 1 ms is whole; 300 MB on channels 4 to 11 lack 10 µs, 200 MB on 8 to 15 are not there."""
    (path,) = (output / "odd" / "chan").glob("*.prom")
    found = {(name, labels.get("message_size")): value for name, labels, value in samples(path.read_text())}
    assert found[EXEC_TIME, "100-101MB"] == 1000 and found[EXEC_TIME, "300-301MB"] == 990
    assert (EXEC_TIME, "200-201MB") not in found
    _, series, _ = import_textfile(output / "odd" / "chan")
    mine = {(one.name, dict(one.labels).get("message_size")): set(one.values.tolist()) for one in series}
    assert {key: {value} for key, value in found.items()}.items() <= mine.items()
    # 2 * 7/8 * 104,857,600 B / 1 ms.
    assert found[BUS_BANDWIDTH, "100-101MB"] == pytest.approx(183.5008, rel=1e-5)


def test_gpus_with_one_name_become_what_node_exporter_makes_of_them(output: Path) -> None:
    folder = output / "odd" / "one-visible-gpu"
    scrape = (folder / "scrape.txt").read_text()
    scraped = {(name, tuple(sorted(labels.items()))): value for name, labels, value in samples(scrape)}
    _, found, _ = import_textfile(folder)
    mine = by_labels([one for one in found if one.name != MTIME], "instance", "job")
    assert mine.keys() == scraped.keys()
    # Which of the equal series it keeps is chance; a value of its own it never makes.
    written: dict[Key, set[float]] = {}
    for path in folder.glob("*.prom"):
        for name, labels, value in samples(path.read_text()):
            written.setdefault((name, tuple(sorted(labels.items()))), set()).add(value)
    assert max(map(len, written.values())) > 1
    for key, (one,) in mine.items():
        assert set(one.values.tolist()) <= written[key], key
        assert any(math.isclose(scraped[key], value, rel_tol=1e-9) for value in written[key]), key


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Inspector's own lines of a textfile or of a scrape."""
    text = re.sub(r"^(?!nccl_).*\n", "", text, flags=re.MULTILINE)
    families = text_string_to_metric_families(text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


def test_of_a_file_that_was_appended_to_the_older_window_counts_and_the_rest_is_told(output: Path) -> None:
    folder = output / "odd" / "clock-step-back-5s"
    (path,) = folder.glob("*.prom")
    first = {}
    for name, labels, value in samples(path.read_text()):
        first.setdefault((name, tuple(sorted(labels.items()))), value)
    _, found, report = import_textfile(folder)
    mine = by_labels([one for one in found if one.name != MTIME], "instance", "job")
    assert {key: set(one.values.tolist()) for key, (one,) in mine.items()} == {key: {first[key]} for key in first}
    assert report.skipped == {"series is twice in one file, the first one counts": len(first)}


def test_a_file_that_node_exporter_refuses_is_refused(output: Path) -> None:
    with pytest.raises(UserError, match=r"1 × file is not UTF-8"):
        import_textfile(output / "odd" / "badchar")


def test_copies_that_lost_their_time_are_refused_in_one_line(output: Path, tmp_path: Path) -> None:
    (path,) = (output / "odd" / "chan").glob("*.prom")
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    os.utime(copy, (0, 0))
    with pytest.raises(UserError, match=r"modification time is lost.*name its folder by the time"):
        import_textfile(tmp_path)
    (tmp_path / "20260319T144000Z").mkdir()
    copy.rename(tmp_path / "20260319T144000Z" / path.name)
    assert import_textfile(tmp_path)[0].start.isoformat().startswith("2026-03-19T14:40")
