# SPDX-License-Identifier: Apache-2.0
"""The dialects of Inspector's series: what a source sets, and that the packs work on what it writes."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from engines.build import built
from engines.timelines import VERDICT
from processes import DIRECT, rule_engine, serving

from dashgen import build
from dashgen.catalogue.metrics import upstream
from dashgen.config.site import Site, site
from dashgen.engine import scheduled as engine
from dashgen.engine.prometheus import check_rules
from dashgen.errors import UserError
from dashgen.model import Sensitivity
from dashgen.recordings.format import Series, read_samples, read_story
from dashgen.targets.rulefile import rule_file

RECORDING = Path(__file__).parent / "recordings" / "network-25-short"


def of(source: str, **more: object) -> Site:
    return site({"source": source, **more}, "dashgen.yaml")


def test_a_source_sets_what_the_file_does_not_say() -> None:
    assert of("rccl").fabric == "xGMI" and of("rccl", fabric="IF").fabric == "IF"
    found = of("soperator", labels={"gpu": "gpu_id"}, companions={"slurm": {"job_id_label": "id"}})

    assert (found.labels.node, found.labels.gpu) == ("hostname", "gpu_id")
    assert found.companions.slurm.enabled and found.companions.slurm.job_id_label == "id"
    assert not found.companions.textfile.enabled
    assert of("nccl") == Site()
    with pytest.raises(UserError, match="source"):
        of("nickel")


@pytest.mark.parametrize(("source", "dump"), [("nccl", 600), ("nccl-otlp", 30), ("rccl", 60), ("soperator", 300)])
def test_the_packs_of_every_source_are_accepted_by_prometheus(source: str, dump: int) -> None:
    found = of(source, dump_interval=dump)
    assert not check_rules({"rules": rule_file([*build.recording(found), *build.alerts(found, Sensitivity.HIGH)])})


def spoken(one: Series, found: Site) -> Series | None:
    """A series of a recording as a source writes it; None where it has no such series."""
    if one.name.startswith("DCGM_") and not found.companions.dcgm.enabled:
        return None
    if not one.name.startswith("nccl_"):
        return None if one.name.startswith("node_textfile") and not found.companions.textfile.enabled else one
    labels = dict(one.labels)
    if found.source == "rccl":
        labels["cluster"] = "alola"
    names = {Site().metric(key): found.metric(key) for key in ("busbw", "exec", "p2p_busbw", "p2p_exec")}
    if found.source == "soperator":
        place, gpu = labels.pop("node"), labels.pop("gpu")
        number = int(place.removeprefix("node")) * 8 + int(gpu.removeprefix("GPU"))
        labels["hostname"], labels["rank"] = place, str(number)
        labels = {name: value for name, value in labels.items() if name not in ("comm_name", "algo_proto", "version")}
    return Series(names.get(one.name, one.name), tuple(sorted(labels.items())), one.times, one.values)


@pytest.mark.parametrize(
    "found",
    [of("nccl-otlp"), of("soperator"), of("rccl"), of("rccl", labels={"cluster": "cluster"})],
    ids=["nccl-otlp", "soperator", "rccl", "rccl by cluster"],
)
def test_a_slow_network_is_found_in_what_another_source_writes(found: Site) -> None:
    story = read_story(RECORDING)
    samples = [said for one in read_samples(RECORDING) if (said := spoken(one, found))]
    moments = engine.Moments.of(story, found.dump_interval, offsets=False)
    rules = {"rules": rule_file(build.recording(found))}
    made = engine.replay(rule_engine(), rules, samples, moments, VERDICT, moments.start).series

    verdicts = {(labels.get("state"), labels.get("suspect")) for labels in (dict(one.labels) for one in made)}
    assert ("degraded", "network") in verdicts


def posted(found: dict[str, str]) -> dict[str, object]:
    """A metric of Inspector's OTLP export: a gauge with one point."""
    values = {
        "version": "v5.1",
        "node": "host-a",
        "gpu": "GPU0",
        "comm_name": "unknown",
        "n_nodes": "2",
        "nranks": "16",
    }
    values |= {"collective": "AllReduce", "message_size": "4-5MB", "algo_proto": "RING_SIMPLE"}
    point = {"attributes": attributes(values), "timeUnixNano": str(time.time_ns()), "asDouble": 12.5}
    return {**found, "gauge": {"dataPoints": [point]}}


def attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


@pytest.mark.parametrize(
    ("translation", "metrics"),
    [
        ("", {}),
        (
            ", translation_strategy: UnderscoreEscapingWithoutSuffixes",
            {"busbw": upstream("busbw"), "p2p_busbw": upstream("p2p_busbw")},
        ),
    ],
    ids=["with units", "without"],
)
def test_prometheus_3_receives_otlp_under_the_names_and_labels_of_the_source(
    tmp_path: Path, translation: str, metrics: dict[str, str]
) -> None:
    program = built("prometheus3", "prometheus", build=False)
    promoted = f"otlp: {{promote_resource_attributes: [slurm.job.id]{translation}}}\n"
    (tmp_path / "prometheus.yml").write_text(promoted)
    flags = (f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data")
    more = ("--web.enable-otlp-receiver", "--web.listen-address=127.0.0.1:PORT")
    sent_ones = [
        posted({"name": upstream("busbw"), "unit": "GB/s"}),
        posted({"name": upstream("exec"), "unit": "us"}),
    ]
    resource = {"attributes": attributes({"service.instance.id": "host-a", "slurm.job.id": "7"})}
    body = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": {}, "metrics": sent_ones}]}]}
    with serving(program, *flags, *more, ready="/-/ready", log=tmp_path / "log") as url:
        headers = {"Content-Type": "application/json"}
        sent = urllib.request.Request(f"{url}/api/v1/otlp/v1/metrics", json.dumps(body).encode(), headers)
        assert DIRECT.open(sent, timeout=30).status == 200
        found = of("nccl-otlp", metrics=metrics)
        for key in ("busbw", "exec"):
            query = urllib.parse.urlencode(
                {"query": build.fill(f"count by (<job>, <node>, <gpu>, <instance>) (<{key}>)", found)}
            )
            (row,) = json.load(DIRECT.open(f"{url}/api/v1/query?{query}", timeout=30))["data"]["result"]
            assert row["metric"] == {"slurm_job_id": "7", "node": "host-a", "gpu": "GPU0", "instance": "host-a"}
