# SPDX-License-Identifier: Apache-2.0
"""Inspector's files become the recording that Prometheus would have made of them, and damage costs only itself."""

from __future__ import annotations

import gzip
import json
import os
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashgen.catalogue.metrics import upstream
from dashgen.catalogue.metrics.inspector import MIN_SIZE
from dashgen.errors import UserError
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.recordings.importing import ImportReport, save
from dashgen.recordings.inspector import (
    BUS_BANDWIDTH,
    EXEC_TIME,
    GPU_TIMING,
    P2P_EXEC_TIME,
    P2P_OPERATIONS,
    UNKNOWN,
    Bucket,
    Entry,
    Values,
    bucket_labels,
    busbw_gbs,
    drain,
    exposition,
    message_size_lower_bound,
    message_size_range,
    new_ring,
    parse_message_size,
    printed,
    series_names,
    transport,
)
from dashgen.recordings.jsonmode import import_json
from dashgen.recordings.textfile import import_textfile

START = 1_773_931_200  # 2026-03-19T14:40:00Z, a multiple of 30 s
Imported = tuple[Recording, list[Series], ImportReport]

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def header(**changes: object) -> dict[str, object]:
    return {"id": "0x7f", "comm_name": "unknown", "rank": 0, "n_ranks": 8, "nnodes": 1} | changes


def metadata(at: float, **changes: object) -> dict[str, object]:
    stamp = {"inspector_output_format_version": "v4.0", "dump_timestamp_us": round((START + at) * 1e6)}
    return stamp | {"hostname": "node-a", "pid": 100} | changes


def coll(**changes: object) -> dict[str, object]:
    data = {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 16 << 20, "coll_exec_time_us": 200}
    return data | {"coll_timing_source": "kernel_gpu", "coll_busbw_gbs": 100.0} | changes


def p2p(**changes: object) -> dict[str, object]:
    data = {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 3, "p2p_msg_size_bytes": 1 << 20, "p2p_exec_time_us": 50}
    return data | {"p2p_timing_source": "kernel_gpu", "p2p_busbw_gbs": 20.0} | changes


def line(
    at: float, head: dict[str, object] | None = None, meta: dict[str, object] | None = None, **perf: object
) -> str:
    record = {"header": header(**(head or {})), "metadata": metadata(at, **(meta or {})), "coll_perf": coll(**perf)}
    return json.dumps(record)


def write(folder: Path, lines: Iterable[str], name: str = "node-a-pid100.log") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(one + "\n" for one in lines))
    return path


def values_of(imported: Imported, name: str, **labels: str) -> dict[float, float]:
    """Samples of the one series that has the labels, by seconds after START."""
    found = [one for one in imported[1] if one.name == name and labels.items() <= dict(one.labels).items()]
    assert len(found) == 1, [one.labels for one in found]
    return dict(zip((found[0].times - START).tolist(), found[0].values.tolist(), strict=True))


# What the numbers mean.


def test_bus_bandwidth_is_the_one_that_nvidia_prints() -> None:
    assert busbw_gbs("AllReduce", 17179869184, 8, 61974) == pytest.approx(485.119099, abs=5e-7)
    assert busbw_gbs("ReduceScatter", 2147483648, 8, 41057) == pytest.approx(366.134533, abs=5e-7)


def test_transport_classes_are_those_of_nvidias_exporter() -> None:
    assert [transport(1, 8), transport(8, 8), transport(4, 32)] == ["nvlink", "network", "mixed"]


@given(st.integers(0, 2**64 - 1))
def test_a_message_size_label_reads_back_as_the_bound_of_its_range(size: int) -> None:
    bound = parse_message_size(message_size_range(size))
    assert bound == message_size_lower_bound(size)
    assert bound == message_size_lower_bound(bound)
    # The plugin computes in doubles, which round larger sizes to a neighbour.
    assert bound <= size or size > 2**53


def test_sizes_of_byte_tensors_land_where_the_plugin_puts_them() -> None:
    assert message_size_range(2**64 - 8192) == "16777215-16777216TB"
    assert message_size_range(2**64 - 1) == "0B"


# JSON mode.


def test_a_dump_is_held_in_its_file_until_the_next_dump_and_a_bucket_without_operations_goes(tmp_path: Path) -> None:
    small = {"coll": "Broadcast"}
    write(tmp_path, [line(0), line(0.001, coll_exec_time_us=400, coll_busbw_gbs=25), line(0.002, **small), line(30.1)])
    imported = import_json(tmp_path, job_id="7")
    assert values_of(imported, EXEC_TIME, collective="AllReduce") == {15: 300, 30: 300, 45: 200, 60: 200}
    assert values_of(imported, BUS_BANDWIDTH, collective="AllReduce") == {15: 50, 30: 50, 45: 100, 60: 100}
    assert values_of(imported, BUS_BANDWIDTH, collective="Broadcast") == {15: 100, 30: 100}
    mtimes = values_of(imported, upstream("mtime"), instance="node-a:9100")
    assert {at: mtime - START for at, mtime in mtimes.items()} == {15: 0, 30: 0, 45: 30, 60: 30}


def test_labels_are_those_of_prometheus_mode(tmp_path: Path) -> None:
    records = [line(0), json.dumps({"header": header(), "metadata": metadata(0), "p2p_perf": p2p()})]
    _, series, report = import_json(write(tmp_path / "nccl-inspector-1670760", records))
    found = {one.name: dict(one.labels) for one in series}
    shared = {"version": "v5.1", "slurm_job_id": "1670760", "node": "node-a", "gpu": "GPU0", "comm_name": "unknown"}
    shared |= {"n_nodes": "1", "nranks": "8", "instance": "node-a:9100", "job": "import"}
    assert found[EXEC_TIME] == shared | {
        "collective": "AllReduce",
        "message_size": "16-17MB",
        "algo_proto": "Unknown_Unknown",
    }
    assert found[P2P_EXEC_TIME] == shared | {"p2p_operation": "Send", "message_size": "1-2MB"}
    assert report == ImportReport(files=1, records=2, used=2)


def test_fast_dumps_are_averaged_over_30_seconds_and_only_the_newest_1024_operations_count(tmp_path: Path) -> None:
    times = [(number // 100, 1 + number) for number in range(1500)]
    write(tmp_path, [line(at, coll_exec_time_us=micros) for at, micros in times])
    imported = import_json(tmp_path)
    assert values_of(imported, EXEC_TIME) == {15: 988.5, 30: 988.5}


def test_what_prometheus_mode_does_not_show_is_left_out_and_counted(tmp_path: Path) -> None:
    left_out = [{"coll_msg_size_bytes": 8191}, {"coll_timing_source": "kernel_cpu"}, {"coll_exec_time_us": 0}]
    write(tmp_path, [line(0), *(line(0, **one) for one in left_out)])
    report = import_json(tmp_path)[2]
    assert (report.records, report.used, report.filtered.total(), report.skipped.total()) == (4, 1, 3, 0)


def stream(at: float, *payloads: dict[str, object], **counts: int) -> list[str]:
    marker = {"header": header(), "metadata": metadata(at), "dump_stats": counts}
    return [json.dumps(one) for one in (marker, *payloads)]


SELF_CONTAINED = [line(0), line(30)]
API_EVENT = json.dumps({"header": header(), "metadata": metadata(0), "api_event": {"name": "ncclAllReduce"}})
SHAPES = {
    "v4.0": SELF_CONTAINED,
    "v4.1 with dump_stats lines": [*stream(0, coll_records=1), line(0), *stream(30, coll_records=1), line(30)],
    "v4.1 with API events": [API_EVENT, *SELF_CONTAINED],
    "v4.3, first form": [
        *stream(0, coll_records=1, coll_dropped_total=0),
        line(0),
        *stream(9, p2p_records=0),
        line(30),
    ],
    "v4.3 and v4.4 streams": [
        *stream(
            0, {"coll_perf": coll()}, {"proxy_trace": {"record_type": "proxy_op"}}, coll_records=1, proxy_records=1
        ),
        *stream(30, {"coll_perf": coll()}, coll_records=1, p2p_records=0),
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_record_that_nccl_has_written_gives_the_same_series(shape: str, tmp_path: Path) -> None:
    imported = import_json(write(tmp_path, SHAPES[shape]))
    assert values_of(imported, EXEC_TIME) == {0: 200, 15: 200, 30: 200, 45: 200}
    assert not imported[2].skipped


def test_a_record_without_a_sure_communicator_is_skipped(tmp_path: Path) -> None:
    one = {"coll_perf": coll(coll="Reduce")}
    orphan = json.dumps(one)
    streams = [
        orphan,  # before any dump_stats line
        *stream(0, {"coll_perf": coll()}, one, coll_records=1),  # one more than announced
        *stream(30, {"coll_perf": coll()}, coll_records=2),  # one less than announced
        *stream(60, {"coll_perf": coll()}, coll_records=3),
        '{"header":{"id":"0x80","rank":1,',  # torn, perhaps the next dump_stats line
        orphan,
    ]
    write(tmp_path, streams, "a.log")
    write(tmp_path, [orphan], "b.log")  # context never leaves its file
    recording, series, report = import_json(tmp_path)
    assert {dict(each.labels).get("collective") for each in series} == {"AllReduce", None}
    assert report.used == 3
    assert report.skipped == {
        "no header, and no dump_stats line before it": 3,
        "more records than its dump_stats line announced": 1,
        "announced by a dump_stats line, but missing": 1,
        "not JSON": 1,
    }
    assert recording.source == "imported"


def test_gpus_of_a_node_are_numbered_by_rank_and_again_after_a_restart(tmp_path: Path) -> None:
    for pid, rank, at in [(300, 9, 0), (200, 8, 0.5), (410, 9, 600), (400, 8, 600)]:
        head = {"rank": rank, "n_ranks": 16, "nnodes": 2, "id": f"0x{at > 300}"}
        lines = [line(at, head, {"pid": pid}, coll_exec_time_us=pid)]
        write(tmp_path, lines, f"node-a-pid{pid}.log")
    imported = import_json(tmp_path)
    assert set(values_of(imported, EXEC_TIME, gpu="GPU0").values()) == {200, 400}
    assert set(values_of(imported, EXEC_TIME, gpu="GPU1").values()) == {300, 410}


def test_a_process_with_several_gpus_gives_one_gpu_per_local_rank(tmp_path: Path) -> None:
    write(tmp_path, [line(0, {"rank": rank}, coll_exec_time_us=100 + rank) for rank in (5, 4)])
    imported = import_json(tmp_path)
    assert set(values_of(imported, EXEC_TIME, gpu="GPU0").values()) == {104}
    assert set(values_of(imported, EXEC_TIME, gpu="GPU1").values()) == {105}
    assert "several GPUs" in imported[2].notes[0]


def test_a_directory_of_mixed_files_is_read_with_progress_and_a_damaged_gzip_costs_its_rest(tmp_path: Path) -> None:
    write(tmp_path, [line(0)])
    packed = gzip.compress(("\n".join(line(0, meta={"hostname": "node-b"}) for _ in range(50)) + "\n").encode())
    (tmp_path / "node-b.jsonl.gz").write_bytes(packed)
    (tmp_path / "node-c.log.gz").write_bytes(packed[:-30])
    (tmp_path / "notes.txt").write_text("not a dump")
    steps: list[tuple[int, int]] = []
    _, series, report = import_json(tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert {dict(one.labels).get("node") for one in series} >= {"node-a", "node-b"}
    assert report.skipped["compressed file is damaged from here on"] == 1
    total = sum(file.stat().st_size for file in tmp_path.iterdir() if file.suffix != ".txt")
    assert [done for done, _ in steps] == sorted(done for done, _ in steps) and steps[-1][0] <= total == steps[-1][1]


HOSTILE: dict[str, str | bytes] = {
    "cut off": line(0)[:200],
    "not UTF-8": b'{"header": {"id": "\xff\xfe"}}',
    "binary zeros": b"\x00" * 4096,
    "deeply nested": "[" * 100_000,
    "a list": "[1, 2]",
    "a number": "3",
    "a huge number": "9" * 5000,
    "two objects": line(0) + line(0),
    "a 10 kB name": line(0, {"comm_name": "x" * 10_000}),
    "a quote in a name": line(0, {"comm_name": 'a"b'}),
    "a newline in a name": line(0, {"comm_name": "a\nnccl_bus_bandwidth_gbs 1"}),
    "half a surrogate in a name": line(0, {"comm_name": "\ud800"}),
    "a name that is a list": line(0, {"comm_name": ["x"]}),
    "a rank outside": line(0, {"rank": 8}),
    "ranks that are a text": line(0, {"n_ranks": "8"}),
    "ranks that are true": line(0, {"n_ranks": True}),
    "no ranks": line(0, {"n_ranks": 0}),
    "more nodes than ranks": line(0, {"nnodes": 9}),
    "no host": line(0, meta={"hostname": ""}),
    "a negative pid": line(0, meta={"pid": -1}),
    "a bandwidth of NaN": line(0, coll_busbw_gbs=float("nan")),
    "an infinite bandwidth": line(0, coll_busbw_gbs=float("inf")),
    "a negative bandwidth": line(0, coll_busbw_gbs=-1),
    "a bandwidth with 400 digits": line(0, coll_busbw_gbs=10**400),
    "a size of 2^64": line(0, coll_msg_size_bytes=2**64),
    "a negative size": line(0, coll_msg_size_bytes=-1),
    "a size that is a text": line(0, coll_msg_size_bytes="16777216"),
    "a negative time": line(0, coll_exec_time_us=-5),
    "a time stamp of 0": line(-START),
    "a time stamp with 400 digits": line(0, meta={"dump_timestamp_us": 10**400}),
    "a time stamp ten days off": line(864_000),
    "an unknown operation": line(0, coll="AllReduce2"),
    "an operation that is a list": line(0, coll=["AllReduce"]),
    "an algorithm with a quote": line(0, coll_algo='RING"', coll_proto="LL"),
    "no metadata": json.dumps({"header": header(), "coll_perf": coll()}),
    "a header of null": json.dumps({"header": None, "metadata": metadata(0), "coll_perf": coll()}),
    "an operation of null": json.dumps({"header": header(), "metadata": metadata(0), "coll_perf": [1]}),
    "counts below zero": json.dumps({"header": header(), "metadata": metadata(0), "dump_stats": {"coll_records": -1}}),
    "counts that are a list": json.dumps({"header": header(), "metadata": metadata(0), "dump_stats": [1]}),
}


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("damage", HOSTILE)
def test_a_hostile_record_is_skipped_and_changes_no_series(damage: str, place: str, tmp_path: Path) -> None:
    sound = [line(0), line(0.1), line(30), line(30.1)]
    at = {"first": 0, "middle": 2, "last": 4}[place]
    raw: list[str | bytes] = [*sound[:at], HOSTILE[damage], *sound[at:]]
    (tmp_path / "a.log").write_bytes(b"\n".join(one.encode() if isinstance(one, str) else one for one in raw))
    recording, series, report = import_json(tmp_path)
    clean = import_json(write(tmp_path / "clean", sound))
    assert [(one.name, one.labels, one.times.tolist(), one.values.tolist()) for one in series] == [
        (one.name, one.labels, one.times.tolist(), one.values.tolist()) for one in clean[1]
    ]
    assert (report.used, report.skipped.total()) == (4, 1)
    assert (recording.start, recording.end) == (clean[0].start, clean[0].end)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
PLAUSIBLE = st.one_of(
    JUNK,
    st.sampled_from([1, 8, 16 << 20, "AllReduce", "Send", "kernel_gpu", "unknown", "node-a", 100.0, 0]),
    st.integers(START * 10**6 - 10**12, START * 10**6 + 10**12),
)
KEYS = {
    "header": list(header()),
    "metadata": list(metadata(0)),
    "coll_perf": [*coll(), "coll_algo", "coll_proto"],
    "p2p_perf": list(p2p()),
    "dump_stats": ["coll_records", "p2p_records", "proxy_records"],
}
SOUND: dict[str, dict[str, Any]] = {
    "header": header(),
    "metadata": metadata(0),
    "coll_perf": coll(),
    "p2p_perf": p2p(),
    "dump_stats": {"coll_records": 2},
}


@st.composite
def damaged_records(draw: st.DrawFn) -> str:
    kinds = draw(st.sets(st.sampled_from(list(KEYS)), max_size=4))
    record: dict[str, Any] = {kind: dict(SOUND[kind]) for kind in sorted(kinds)}
    for kind in sorted(kinds):
        for key in draw(st.sets(st.sampled_from(KEYS[kind]), max_size=2)):
            record[kind][key] = draw(PLAUSIBLE)
        if draw(st.integers(0, 9)) == 0:
            record[kind] = draw(JUNK)
    text = json.dumps(record)
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 5)) == 0 else text


@given(st.lists(damaged_records() | st.text(max_size=20), max_size=12))
@in_one_folder
def test_no_record_can_crash_an_import_or_make_a_series_that_inspector_would_not_write(
    tmp_path: Path, lines: list[str]
) -> None:
    (tmp_path / "a.log").write_bytes("\n".join([line(0), *lines]).encode(errors="surrogatepass"))
    recording, series, report = import_json(tmp_path)
    assert report.used + report.skipped.total() + report.filtered.total() >= report.records >= 1
    allowed = {"version", "slurm_job_id", "node", "gpu", "comm_name", "n_nodes", "nranks", "message_size", "algo_proto"}
    for one in series:
        labels = dict(one.labels)
        assert np.all(np.diff(one.times) > 0) and np.all(one.times % 15 == 0)
        assert np.all(np.isfinite(one.values)) and np.all(one.values >= 0)
        assert all(value.isprintable() and not set(value) & {'"', "\\"} for value in labels.values())
        if one.name.startswith("nccl_"):
            assert set(labels) <= allowed | {"collective", "p2p_operation", "instance", "job"}
            assert parse_message_size(labels["message_size"]) is not None
            assert 1 <= int(labels["n_nodes"]) <= int(labels["nranks"])
    save(tmp_path / "recording", recording, series)
    assert len(read_samples(tmp_path / "recording")) == len(series)


@dataclass(frozen=True, slots=True)
class Operation:
    """One finished operation on one rank, as the plugin knows it; ``communicator`` tells communicators apart."""

    communicator: Hashable
    nranks: int
    n_nodes: int
    function: str
    size: int
    exec_us: int
    comm_name: str = UNKNOWN
    algo_proto: str = "Unknown_Unknown"
    busbw: float | None = None
    timing_source: str = GPU_TIMING

    @property
    def is_p2p(self) -> bool:
        """Whether it is a Send or a Recv, which have series and a ring of their own."""
        return self.function in P2P_OPERATIONS

    @property
    def bucket(self) -> Bucket:
        """The bucket that it is averaged in."""
        algorithm = "" if self.is_p2p else self.algo_proto
        bound = message_size_lower_bound(self.size)
        return Bucket(self.nranks, self.n_nodes, self.function, bound, self.comm_name, algorithm)


def aggregate(operations: Iterable[Operation]) -> dict[Bucket, Values]:
    """What one dump of one GPU writes for the operations that finished since the last one, oldest first."""
    rings: dict[tuple[Hashable, bool], deque[Entry]] = {}
    for one in operations:
        if one.size < MIN_SIZE or one.timing_source != GPU_TIMING or one.exec_us == 0:
            continue
        busbw = one.busbw
        if busbw is None:
            busbw = busbw_gbs(one.function, one.size, one.nranks, one.exec_us)
        ring = rings.get((one.communicator, one.is_p2p))
        if ring is None:
            ring = rings[one.communicator, one.is_p2p] = new_ring()
        ring.append((one.bucket, one.exec_us, busbw))
    return drain(rings.values())


OPERATIONS = st.builds(
    Operation,
    communicator=st.sampled_from(["0xa", "0xb"]),
    nranks=st.just(8),
    n_nodes=st.sampled_from([1, 8]),
    function=st.sampled_from(["AllReduce", "ReduceScatter", "Broadcast", "Send"]),
    size=st.sampled_from([4096, 8192, 8193, 1 << 20, (1 << 20) + 5, 2**64 - 10**6]) | st.integers(0, 2**64 - 1),
    exec_us=st.integers(0, 10**7),
    comm_name=st.sampled_from(["unknown", "DP Group 0"]),
    algo_proto=st.sampled_from(["RING_LL128", "NVLS_TREE_SIMPLE"]),
    timing_source=st.sampled_from(["kernel_gpu"] * 5 + ["kernel_cpu"]),
)


def as_record(one: Operation) -> str:
    prefix = "p2p" if one.is_p2p else "coll"
    algo, _, proto = one.algo_proto.rpartition("_")
    perf = {prefix: one.function, f"{prefix}_msg_size_bytes": one.size, f"{prefix}_exec_time_us": one.exec_us}
    perf |= {f"{prefix}_timing_source": one.timing_source}
    perf |= {f"{prefix}_busbw_gbs": busbw_gbs(one.function, one.size, one.nranks, one.exec_us)}
    perf |= {} if one.is_p2p else {"coll_algo": algo, "coll_proto": proto}
    head = header(id=one.communicator, nnodes=one.n_nodes, comm_name=one.comm_name)
    return json.dumps({"header": head, "metadata": metadata(0), f"{prefix}_perf": perf})


@given(st.lists(OPERATIONS, min_size=1, max_size=60))
@in_one_folder
def test_imported_values_are_those_of_a_direct_aggregation(tmp_path: Path, operations: list[Operation]) -> None:
    # In a real job a communicator has one name and shape; here one that varies is as many communicators.
    operations = [
        Operation(**{**{f: getattr(one, f) for f in one.__slots__}, "communicator": key})
        for one in operations
        for key in [f"{one.communicator}{one.n_nodes}{one.comm_name}"]
    ]
    write(tmp_path, map(as_record, operations))
    dump = aggregate(operations)
    if not dump:
        with pytest.raises(UserError, match="no usable Inspector record"):
            import_json(tmp_path)
        return
    _, series, _ = import_json(tmp_path)
    place = {"node": "node-a", "gpu": "GPU0"}
    expected = {}
    for bucket, values in dump.items():
        labels = bucket_labels(bucket, **place) | {"instance": "node-a:9100", "job": "import"}
        for name, value in zip(series_names(bucket), values, strict=True):
            expected[name, tuple(sorted(labels.items()))] = printed(value)
    found = {(one.name, one.labels): one.values[0] for one in series if one.name.startswith("nccl_")}
    assert found == expected


def test_folders_without_dumps_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Inspector dump"):
        import_json(tmp_path)
    with pytest.raises(UserError, match=r"no usable Inspector record \(2 × not JSON\)"):
        import_json(write(tmp_path, ["step 1", "step 2"]))
    with pytest.raises(UserError, match="no such file"):
        import_json(tmp_path / "nothing")


# Textfiles.


def text(exec_us: float = 200, **labels: str) -> str:
    operation = Operation("0xa", 8, 1, "AllReduce", 16 << 20, 200, algo_proto="RING_LL")
    dump = {operation.bucket: Values(100.0, exec_us)}
    place = {"node": "node-a", "gpu": "GPU0", "job_id": "7"} | labels
    return "".join(exposition(dump, **place))


def snapshot(folder: Path, moment: str, content: str | bytes, name: str = "nccl_inspector_metrics_u0.prom") -> Path:
    path = folder / moment / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_snapshots_of_textfiles_become_what_a_scraper_would_have_seen(tmp_path: Path) -> None:
    snapshot(tmp_path, "2026-03-19T14-40-00Z", text(200))
    snapshot(tmp_path, "2026-03-19T14-40-30Z", text(200))
    snapshot(tmp_path, str(START + 60), text(300)[:-4])  # torn
    snapshot(tmp_path, str(START + 90), text(400))
    snapshot(tmp_path, str(START + 120), text(1, gpu="GPU1"), "nccl_inspector_metrics_u1.prom")  # the first is gone
    imported = import_textfile(tmp_path)
    assert values_of(imported, EXEC_TIME, gpu="GPU0") == {0: 200, 15: 200, 30: 200, 45: 200, 90: 400, 105: 400}
    assert values_of(imported, EXEC_TIME, gpu="GPU1") == {120: 1, 135: 1}
    file = "/var/lib/node_exporter/nccl_inspector/nccl_inspector_metrics_u0.prom"
    mtimes = values_of(imported, upstream("mtime"), file=file)
    assert {at: mtime - START for at, mtime in mtimes.items()} == {0: 0, 15: 0, 30: 0, 45: 0, 90: 90, 105: 90}
    assert imported[2].skipped == {"file is torn: its last line is not complete": 1}


def test_the_time_of_a_copy_may_stand_in_its_name_or_be_its_modification_time(tmp_path: Path) -> None:
    name = "nccl_inspector_metrics_u0"
    (tmp_path / f"{name}.{START}.prom").write_text(text(1))
    (tmp_path / f"{name}.prom.{START + 30}").write_text(text(2))
    (tmp_path / f"{name}.{START + 60}000.prom").write_text(text(3))
    late = tmp_path / f"{name}.prom"
    late.write_text(text(4))
    os.utime(late, (START + 90, START + 90))
    times = values_of(import_textfile(tmp_path), EXEC_TIME)
    assert times == {0: 1, 15: 1, 30: 2, 45: 2, 60: 3, 75: 3, 90: 4, 105: 4}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (text()[:-1], "file is torn: its last line is not complete"),
        (text().replace("RING", 'RI"NG'), "file is torn or not in Prometheus text format"),
        (text().replace("RING", "R\nING"), "file is torn or not in Prometheus text format"),
        (text().replace(" 200", " 200 1773931200000"), "file has client timestamps, which node_exporter refuses"),
        (text().encode() + b"\xff\n", "file is not UTF-8"),
        (text().replace(" 200", " NaN"), "value is negative or not a number"),
        (text() + text(5), "series is twice in one file, the first one counts"),
    ],
)
def test_a_damaged_textfile_is_taken_or_refused_as_node_exporter_would(
    content: str | bytes, reason: str, tmp_path: Path
) -> None:
    snapshot(tmp_path, str(START), text(7, gpu="GPU1"), "sound.prom")
    snapshot(tmp_path, str(START), content)
    imported = import_textfile(tmp_path)
    assert reason in imported[2].skipped
    assert set(values_of(imported, EXEC_TIME, gpu="GPU1").values()) == {7}
    doubled = reason.startswith("series is twice")
    assert any(("gpu", "GPU0") in one.labels and one.name == EXEC_TIME for one in imported[1]) == doubled


@given(st.lists(st.tuples(st.integers(0, 400), st.text(max_size=3)), max_size=4), st.integers(0, 400))
@in_one_folder
def test_no_text_can_crash_an_import_of_textfiles(tmp_path: Path, edits: list[tuple[int, str]], end: int) -> None:
    damaged = text()
    for at, inserted in edits:
        damaged = damaged[:at] + inserted + damaged[at:]
    snapshot(tmp_path, str(START), text(7, gpu="GPU1"), "sound.prom")
    snapshot(tmp_path, str(START), damaged[:end].encode(errors="surrogatepass") + b"\n")
    recording, series, _ = import_textfile(tmp_path)
    save(tmp_path / "recording", recording, series)
    assert len(read_samples(tmp_path / "recording")) == len(series) >= 3


def test_the_format_of_nccl_2_29_is_refused_with_the_reason(tmp_path: Path) -> None:
    old = f'{upstream("busbw")}{{comm_id="0x1",hostname="a",rank="0",coll_sn="3",message_size="4.00GB"}} 1\n'
    snapshot(tmp_path, str(START), old)
    with pytest.raises(UserError, match=r"nccl_inspector_metrics_u0\.prom: NCCL 2\.29 wrote .*coll_sn.*; record"):
        import_textfile(tmp_path)


# Writing.


def test_a_recording_is_written_whole_and_never_over_something_else(tmp_path: Path) -> None:
    recording, series, _ = import_json(write(tmp_path / "dumps", [line(0)]))
    out = tmp_path / "recording"
    save(out, recording, series)
    save(out, recording, series)
    assert read_story(out) == recording and len(read_samples(out)) == len(series)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds notes\.txt"):
        save(out, recording, series)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dumps", "recording"]
