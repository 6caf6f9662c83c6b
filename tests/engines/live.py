# SPDX-License-Identifier: Apache-2.0
"""A recording played live, many times as fast as it was recorded, into VictoriaMetrics under vmalert."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import processes
from engines import remote

from dashgen.engine.loopback import reserved_ports
from dashgen.recordings.format import Series

DUMP = 4.0  # seconds between dumps, live: results must be stored within one
STALE = np.array([0x7FF0000000000002], np.uint64).view(np.float64)[0]  # Prometheus' value.StaleNaN


def quickened(samples: Iterable[Series], start: float, begin: float, factor: float) -> list[Series]:
    """Samples that happen in a ``factor`` of the time, from ``begin`` on; values that are times move with them."""
    found = []
    for one in samples:
        values = begin + (one.values - start) * factor if one.name.endswith("_mtime_seconds") else one.values
        found.append(replace(one, times=np.rint(begin + (one.times - start) * factor), values=values))
    return found


def marked(samples: Iterable[Series], step: float) -> Iterator[Series]:
    """Samples with a stale marker where a series is missed for the first time, a step after its last sample."""
    for one in samples:
        gone = np.append(np.flatnonzero(np.diff(one.times) > 1.5 * step), one.times.size - 1)
        times = np.insert(one.times, gone + 1, one.times[gone] + step)
        yield replace(one, times=times, values=np.insert(one.values, gone + 1, STALE))


def play(samples: Sequence[Series], *urls: str, before: Callable[[float], None] = lambda moment: None) -> None:
    """Write every sample to all servers when its time has come. A server that is away misses it, as it misses a scrape.

    ``before`` hears of every moment before its samples are written.
    """
    names, rows = [remote.names(one) for one in samples], [remote.rows(one) for one in samples]
    times = np.concatenate([one.times for one in samples])
    which = np.repeat(np.arange(len(samples)), [one.times.size for one in samples])
    place = np.concatenate([np.arange(one.times.size) for one in samples])
    order = np.argsort(times, kind="stable")
    for now in np.split(order, np.flatnonzero(np.diff(times[order])) + 1):
        moment = float(times[now[0]])
        before(moment)
        while (wait := moment - time.time()) > 0:
            time.sleep(wait)
        written = [names[k] + rows[k][i].tobytes() for k, i in zip(which[now], place[now], strict=True)]
        for url in urls:
            with suppress(ConnectionError, urllib.error.URLError):
                remote.post(url, written)


@contextmanager
def prometheus(
    folder: Path, rules: str, *flags: str, program: str = "prometheus", labels: str = ""
) -> Iterator[tuple[processes.Service, str]]:
    """A Prometheus with rules that samples are written to; started again it has its past."""
    folder.mkdir()
    (folder / "rules.yaml").write_text(rules)
    (folder / "prometheus.yml").write_text(f"global: {{external_labels: {{{labels}}}}}\nrule_files: [rules.yaml]\n")
    own = (
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--web.listen-address=127.0.0.1:PORT",
        "--web.enable-remote-write-receiver",
        "--log.level=error",
    )
    with processes.server(program, *own, *flags, ready="/-/ready", log=folder / "log") as server:
        yield server


@contextmanager
def thanos(folder: Path, rules: str, program: str) -> Iterator[tuple[str, str]]:
    """Thanos Ruler above a Prometheus: where samples are written to, and where all is asked."""
    folder.mkdir()
    (folder / "rules.yaml").write_text(rules)
    with ExitStack() as stack:
        sidecar, ruler, own = stack.enter_context(reserved_ports(3))
        _, source = stack.enter_context(prometheus(folder / "source", "{}", labels="source: a"))

        def component(name: str, *flags: str) -> str:
            own = ("--http-address=127.0.0.1:PORT", "--log.level=warn")
            log = folder / f"{name}.log"
            return stack.enter_context(processes.serving(program, name, *own, *flags, ready="/-/ready", log=log))

        component("sidecar", f"--prometheus.url={source}", f"--grpc-address=127.0.0.1:{sidecar}")
        stores = (f"--endpoint=127.0.0.1:{port}" for port in (sidecar, ruler))
        replicas = (f"--query.replica-label={name}" for name in ("source", "ruler"))
        query = component("query", f"--grpc-address=127.0.0.1:{own}", *stores, *replicas)
        component(
            "rule",
            f"--grpc-address=127.0.0.1:{ruler}",
            f"--data-dir={folder}/ruler",
            f"--rule-file={folder}/rules.yaml",
            f"--query={query}",
            f"--eval-interval={DUMP:g}s",
            '--label=ruler="a"',
        )
        yield source, query


def found(url: str, name: str, begin: float, end: float) -> list[Series]:
    """The samples that a Prometheus holds of the series of one name."""
    query = urllib.parse.urlencode({"query": f"{name}[{end - begin:.0f}s]", "time": end})
    answer = json.loads(processes.DIRECT.open(f"{url}/api/v1/query?{query}", timeout=300).read())
    series = []
    for one in answer["data"]["result"]:
        times, values = zip(*one["values"], strict=True)
        labels = tuple(sorted((key, value) for key, value in one["metric"].items() if key != "__name__"))
        series.append(Series(name, labels, np.array(times, float), np.array(values, float)))
    return series


@contextmanager
def victoria(folder: Path) -> Iterator[str]:
    """VictoriaMetrics, with what is a dump of thirty seconds by default as a dump of live."""
    flags = (f"-storageDataPath={folder}/data", "-httpListenAddr=127.0.0.1:PORT", f"-search.latencyOffset={DUMP:g}s")
    program = processes.tool("victoria-metrics")
    with processes.serving(program, *flags, "-loggerLevel=ERROR", ready="/health", log=folder / "vm.log") as url:
        yield url


@contextmanager
def vmagent(folder: Path, sent: Mapping[str, str]) -> Iterator[str]:
    """vmagent, which sends on what it gets: to each address what its relabelling, as YAML, leaves."""
    flags = [f"-remoteWrite.tmpDataPath={folder}/agent", "-remoteWrite.flushInterval=200ms"]
    for number, (url, relabelling) in enumerate(sent.items()):
        (folder / f"relabel-{number}.yaml").write_text(relabelling)
        flags += [
            f"-remoteWrite.url={url}/api/v1/write",
            f"-remoteWrite.urlRelabelConfig={folder}/relabel-{number}.yaml",
        ]
    more = ("-httpListenAddr=127.0.0.1:PORT", "-loggerLevel=ERROR")
    with processes.serving(processes.tool("vmagent"), *flags, *more, ready="/health", log=folder / "agent.log") as url:
        yield url


@contextmanager
def vmalert(folder: Path, rules: str, url: str, write: str = "") -> Iterator[str]:
    """vmalert with rules on a VictoriaMetrics, or with results that go elsewhere first."""
    (folder / "rules.yaml").write_text(rules)
    flags = (
        f"-rule={folder}/rules.yaml",
        *(f"-{name}.url={url}" for name in ("datasource", "remoteRead")),
        f"-remoteWrite.url={write or url}",
        "-notifier.url=http://127.0.0.1:9",
        f"-evaluationInterval={DUMP:g}s",
        "-remoteWrite.flushInterval=200ms",
        "-httpListenAddr=127.0.0.1:PORT",
        "-loggerLevel=ERROR",
    )
    with processes.serving(processes.tool("vmalert"), *flags, ready="/health", log=folder / "vmalert.log") as address:
        yield address


def evaluated(url: str, name: str, until: float) -> None:
    """Wait until results of a moment are stored; newer versions of vmalert evaluate the past of 30 seconds ago."""
    processes.wait_until(lambda: bool(stored(url, name, until)), 90, said=lambda: f"no {name} at {until}")


def stored(url: str, selector: str, begin: float = 0.0) -> list[Series]:
    """All samples from a moment on that a VictoriaMetrics holds of some series."""
    query = urllib.parse.urlencode({"match[]": selector, "start": begin})
    answer = processes.DIRECT.open(f"{url}/api/v1/export?{query}", timeout=300).read().decode()
    found = []
    for line in answer.splitlines():
        one = json.loads(line)
        name = one["metric"].pop("__name__")
        values = np.array([np.nan if value is None else value for value in one["values"]], float)
        there = ~np.isnan(values)
        labels = tuple(sorted(one["metric"].items()))
        found.append(Series(name, labels, np.array(one["timestamps"], float)[there] / 1000, values[there]))
    return found
