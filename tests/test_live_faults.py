# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with the watching itself: clocks, scrapes, exporters, Prometheus. No page is lost, and none is false.

Most of it happens to recordings, which the rule engine evaluates. What only a real Prometheus has, its restart and its
standstill, happens to one at dumps of a second, with DASHGEN_FULL=1.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import processes
import pytest
from engines import remote

from dashgen import build
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.config.site import Site
from dashgen.engine import scheduled as engine
from dashgen.engine.loopback import answers, reserved_ports
from dashgen.engine.prometheus import Firing
from dashgen.engine.scheduled import Moments
from dashgen.model import Sensitivity
from dashgen.recordings.format import Recording, Series, read_samples, read_story
from dashgen.targets.rulefile import rule_file
from dashgen.validation.packs import rule_files

TIER = Sensitivity.MEDIUM
RECORDINGS = Path(__file__).parent / "recordings"
SCRAPE = 15.0  # seconds, in these recordings
LATER = 60.0  # seconds that a page may come later when its evidence comes later

Samples = Sequence[Series]


def instance(one: Series) -> str:
    return dict(one.labels).get("instance", "")


def instances(samples: Samples) -> list[str]:
    return sorted({instance(one) for one in samples} - {""})


def every_other(samples: Samples, change: Callable[[Series], Series]) -> list[Series]:
    """Samples in which half of the targets are different."""
    odd = set(instances(samples)[::2])
    return [change(one) if instance(one) in odd else one for one in samples]


def late_scrapes(samples: Samples, story: Recording) -> list[Series]:
    """Half of the targets answer an interval late, all the time."""
    return every_other(samples, lambda one: replace(one, times=one.times + SCRAPE))


def wrong_clocks(samples: Samples, story: Recording) -> list[Series]:
    """The clocks of nodes are a minute fast and slow, by turns; files carry the times of their nodes."""
    numbers = {name: number for number, name in enumerate(instances(samples))}
    return [
        replace(one, values=one.values + (60 if numbers[instance(one)] % 2 else -60))
        if one.name == upstream("mtime")
        else one
        for one in samples
    ]


def half_gone(samples: Samples, story: Recording) -> list[Series]:
    """Ten minutes after the start half of the exporters do not answer any more, for good."""
    end = story.start.timestamp() + 600

    def gone(one: Series) -> Series:
        if one.name == "up":
            return replace(one, values=np.where(one.times < end, one.values, 0.0))
        return replace(one, times=one.times[one.times < end], values=one.values[one.times < end])

    return every_other(samples, gone)


def unwatched(samples: Samples, story: Recording) -> list[Series]:
    """For five minutes, while the baseline is learned, nothing is scraped at all."""
    start = story.start.timestamp() + 480

    def without(one: Series) -> Series:
        seen = (one.times < start) | (one.times >= start + 300)
        return replace(one, times=one.times[seen], values=one.values[seen])

    return [without(one) for one in samples]


FAULTS = (late_scrapes, wrong_clocks, half_gone, unwatched)
NAMES = ("network-13", "late-gpu-20", "healthy", "stalled") if processes.FULL else ("network-13",)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_the_pages_of_a_recording_come_and_no_others(
    name: str, fault: Callable[[Samples, Recording], list[Series]]
) -> None:
    story = read_story(RECORDINGS / name)
    site = config.site(story.site, name)
    samples = [one for one in fault(read_samples(RECORDINGS / name), story) if one.times.size]
    moments = Moments.of(story, site.dump_interval, offsets=True)
    outcome = engine.replay(processes.rule_engine(), rule_files(site), samples, moments)
    assert not any(rule.failures for rule in outcome.rules)
    found = pages(outcome.alerts)
    for tier in Sensitivity:
        wanted = [each for each in story.expect.get(tier, ()) if each.alert in ("NcclJobDegraded", "NcclJobStalled")]
        ours = [each for each in found if dict(each.labels)["sensitivity"] == tier]
        assert len(ours) == len(wanted), (tier, ours)
        for page, expected in zip(ours, wanted, strict=True):
            labels = dict(page.labels)
            assert page.alert == expected.alert
            assert {key: labels.get(key, "") for key in expected.labels} == dict(expected.labels)
            (start, end), *more = page.firing
            assert not more, "one page"
            assert expected.after.timestamp() <= start <= expected.before.timestamp() + LATER
            assert end <= story.end.timestamp()


def pages(found: Sequence[Firing]) -> list[Firing]:
    return [each for each in found if each.firing and dict(each.labels)["severity"] == "critical"]


# A real Prometheus, thirty times as fast.

FACTOR = 1 / 30
"""Dumps of one second; `for`, windows and learning follow them."""
RESOLVED = 240.0
"""Seconds after which an Alertmanager takes a page for over that Prometheus does not repeat: four times a minute."""


def quick(samples: Samples, start: float, begin: float) -> list[Series]:
    """Samples that happen thirty times as fast from a moment on; values that are times move with them."""
    return [
        replace(
            one,
            times=np.round(begin + (one.times - start) * FACTOR, 3),
            values=begin + (one.values - start) * FACTOR if one.name.endswith("_mtime_seconds") else one.values,
        )
        for one in samples
    ]


class Server:
    """A Prometheus on a folder and a port of its own, which can be started again."""

    def __init__(self, folder: Path, site: Site, port: int) -> None:
        files = {"recording.yaml": rule_file(build.recording(site)), "alerts.yaml": rule_file(build.alerts(site, TIER))}
        for name, text in files.items():
            (folder / name).write_text(text)
        (folder / "prometheus.yml").write_text(json.dumps({"global": {}, "rule_files": list(files)}))
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        flags = (
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            "--web.enable-remote-write-receiver",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            f"--query.lookback-delta={300 * FACTOR:g}s",
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [processes.tool("prometheus"), *flags], cwd=self.folder, stdout=log, stderr=log
            )
        return self.process

    def ready(self) -> bool:
        return answers(f"{self.url}/-/ready")

    def send(self, samples: Samples) -> None:
        """What nobody takes is lost, as a scrape would be."""
        with suppress(OSError):
            remote.write(self.url, samples)

    def asked(self, query: str) -> list[dict[str, Any]]:
        words = urllib.parse.urlencode({"query": query})
        with processes.DIRECT.open(f"{self.url}/api/v1/query?{words}", timeout=60) as answer:
            return list(json.load(answer)["data"]["result"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with reserved_ports(1) as (port,):
        made = Server(tmp_path, Site.model_validate({"dump_interval": 1}), port)
        try:
            yield made
        finally:
            made.process.kill()
            made.process.wait()


def restart(server: Server) -> None:
    server.process.kill()
    server.process.wait()
    server.start()


def stand_still(server: Server) -> None:
    """No scrape, no rule for what is five minutes."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(300 * FACTOR)
    server.process.send_signal(signal.SIGCONT)


# When it happens, what, and how long the page may be away then, in seconds of the recording, whose fault lasts from
# 1320 to 2520. Who stands still tells nobody anything; the page is there again at the first evaluation.
EVENTS: dict[str, tuple[float, Callable[[Server], None], float]] = {
    "nothing": (0.0, lambda server: None, 60.0),
    "restarted while the baseline is learned": (600.0, restart, 60.0),
    "restarted in the fault": (1800.0, restart, RESOLVED),
    "no rule evaluated for five minutes of the fault": (1800.0, stand_still, 360.0),
    "no rule evaluated for five minutes of the baseline": (600.0, stand_still, 60.0),
}


@pytest.mark.heavy
@pytest.mark.skipif(not processes.FULL, reason="takes two minutes each; DASHGEN_FULL=1 runs it")
@pytest.mark.parametrize("event", EVENTS)
def test_a_real_prometheus_pages_once_and_recovers(server: Server, event: str) -> None:
    story, recorded = read_story(RECORDINGS / "network-13"), read_samples(RECORDINGS / "network-13")
    processes.wait_until(server.ready, said=(server.folder / "log").read_text)
    first = story.start.timestamp()
    begin = round(time.time()) + 1.0
    samples = quick(recorded, first, begin)
    moment, happens, away = EVENTS[event]
    at = begin + moment * FACTOR
    happened = None
    for now in np.unique(np.concatenate([one.times for one in samples])).tolist():
        while (wait := now - time.time()) > 0:
            time.sleep(wait)
        if now >= at and happened is None:
            happened = Thread(target=happens, args=(server,))
            happened.start()
        here = (replace(one, times=one.times[one.times == now], values=one.values[one.times == now]) for one in samples)
        server.send([one for one in here if one.times.size])
    assert happened is not None
    happened.join()
    found = server.asked('ALERTS{alertstate="firing", severity="critical"}[5m]')
    (page,) = found
    assert {key: page["metric"].get(key) for key in ("alertname", "suspect", "slurm_job_id")} == {
        "alertname": "NcclJobDegraded",
        "suspect": "network",
        "slurm_job_id": "50168",
    }
    fired = [(float(time) - begin) / FACTOR for time, _ in page["values"]]
    assert 1320 <= fired[0] <= 1620 + 300 * (moment >= 1320), fired[0]
    assert max(after - before for before, after in pairwise(fired)) < away, "one page"
    assert fired[-1] < 3000 - 30, "over when the fault is"
