# SPDX-License-Identifier: Apache-2.0
"""A recording played live, many times as fast as it was recorded, into VictoriaMetrics under vmalert."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import processes
from engines import remote

from dashgen.recordings.format import Series

DUMP = 4.0  # seconds between dumps, live: results must be stored within one


def quickened(samples: Iterable[Series], start: float, begin: float, factor: float) -> list[Series]:
    """Samples that happen in a ``factor`` of the time, from ``begin`` on; values that are times move with them."""
    found = []
    for one in samples:
        values = begin + (one.values - start) * factor if one.name.endswith("_mtime_seconds") else one.values
        found.append(replace(one, times=np.rint(begin + (one.times - start) * factor), values=values))
    return found


def play(url: str, samples: Sequence[Series]) -> None:
    """Write every sample when its time has come; a series that ends leaves a marker, as after a scrape."""
    moments = np.unique(np.concatenate([one.times for one in samples]))
    for moment in moments.tolist():
        while (wait := moment - time.time()) > 0:
            time.sleep(wait)
        now = (
            replace(one, times=one.times[at], values=one.values[at]) for one in samples for at in [one.times == moment]
        )
        remote.write(url, (one for one in now if one.times.size))


@contextmanager
def victoria(folder: Path) -> Iterator[str]:
    """VictoriaMetrics, with what is a dump of thirty seconds by default as a dump of live."""
    flags = (f"-storageDataPath={folder}/data", "-httpListenAddr=127.0.0.1:PORT", f"-search.latencyOffset={DUMP:g}s")
    program = processes.tool("victoria-metrics")
    with processes.serving(program, *flags, "-loggerLevel=ERROR", ready="/health", log=folder / "vm.log") as url:
        yield url


@contextmanager
def vmalert(folder: Path, rules: str, url: str) -> Iterator[str]:
    """vmalert with rules on a VictoriaMetrics."""
    (folder / "rules.yaml").write_text(rules)
    flags = (
        f"-rule={folder}/rules.yaml",
        *(f"-{name}.url={url}" for name in ("datasource", "remoteWrite", "remoteRead")),
        "-notifier.url=http://127.0.0.1:9",
        f"-evaluationInterval={DUMP:g}s",
        "-remoteWrite.flushInterval=200ms",
        "-httpListenAddr=127.0.0.1:PORT",
        "-loggerLevel=ERROR",
    )
    with processes.serving(processes.tool("vmalert"), *flags, ready="/health", log=folder / "vmalert.log") as address:
        yield address


def stored(url: str, selector: str) -> list[Series]:
    """All samples that a VictoriaMetrics holds of some series."""
    query = urllib.parse.urlencode({"match[]": selector})
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
