# SPDX-License-Identifier: Apache-2.0
"""When jobs were slow or stood still, for how long, whose fault it was, and what it cost: the verdict as incidents.

The verdict says what is wrong and is careful, so it comes after the fault. When that began is read from the evidence
of the verdict's suspect: the last dump before it that still looked as usual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise, product

import numpy as np

from dashgen import build
from dashgen.catalogue.baselines import USUAL
from dashgen.catalogue.names import SINCE, VERDICT
from dashgen.catalogue.signals.fabric import SIGNALS as FABRIC
from dashgen.catalogue.signals.fabric.counters import ENOUGH, LIMITS, RETRANSMITTED
from dashgen.catalogue.signals.fabric.links import LESS_IS_WORSE
from dashgen.config.site import Site
from dashgen.live.incidents.evidence import Reading, last_learned, readings
from dashgen.live.incidents.history import History
from dashgen.recordings.format import Series

THROUGHPUT = "job:training_throughput:current"
GPUS = "job:nccl_gpus:count"
ERRORS, RETRANSMITS = "node:fabric_errors:rate", "node:tcp_retransmits:ratio"

BRIDGED = 10
"""Dumps without a verdict that do not end an incident: as long as the rules call a job recovering."""

BRIEF = 3
"""Dumps for which another suspect may be blamed in between."""

BEFORE = 12
"""Dumps before the verdict in which its fault may have begun; lateness is believed after three, a stall after six."""

LONGEST = 86400.0  # seconds for which the rules remember the last news of a job
MOST_GPUS = 10_000_000  # more is no count of GPUs

MOST_ROWS = 3  # of one kind of evidence, the worst first


@dataclass(frozen=True)
class Throughput:
    """What the job is used to achieve, and the lower medians during and right after; None where nobody says.

    ``evidence`` is who says all three: reported, collectives or tensor.
    """

    evidence: str
    before: float | None
    during: float | None
    after: float | None


@dataclass(frozen=True)
class Alarm:
    """An alert that fired, and how many seconds after the incident had begun."""

    name: str
    severity: str
    after: float


@dataclass(frozen=True, order=True)
class Evidence:
    """The worst value of a fabric series during the incident."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One job, slow or standing still from ``start`` to ``end``, in seconds since the epoch.

    ``depth`` is the deepest verdict on its suspect, at ``worst``; ``ongoing`` says that it had not ended. ``gpu_hours``
    is the work of how many hours of one GPU was lost, None where nothing tells the throughput, or what is usual.
    """

    cluster: str
    job: str
    state: str
    suspect: str
    transport: str
    node: str
    gpu: str
    start: float
    end: float
    detected: float
    worst: float
    depth: float
    ongoing: bool
    gpus: int
    throughput: Throughput | None
    gpu_hours: float | None
    fabric: tuple[Evidence, ...]
    alerts: tuple[Alarm, ...]

    @property
    def length(self) -> float:
        """Seconds."""
        return self.end - self.start


@dataclass(frozen=True)
class _Row:
    """One evaluation of the verdict of a job."""

    moment: float
    depth: float
    blamed: tuple[str, str, str, str, str]  # state, suspect, transport, node, gpu

    @property
    def state(self) -> str:
        return self.blamed[0]


def incidents(history: History, site: Site, start: float, end: float, jobs: Iterable[str] = ()) -> list[Incident]:
    """All incidents that touch [start, end], in seconds since the epoch, in the order of their begin.

    Without ``jobs`` those of every job. Raises what the history raises.
    """
    wanted = list(jobs)
    # An incident that had begun before is told from its begin on.
    first = start - BRIDGED * site.dump_interval
    rows: dict[tuple[str, str], list[_Row]] = {}
    for state, job in product(("degraded", "stalled"), wanted or [""]):
        more = {site.labels.job: job} if job else {}
        for one in history.series(VERDICT, first, end, {"state": state, **more}):
            rows.setdefault(_owner(one, site), []).extend(_rows(one, site))
    found: list[Incident] = []
    for owner, seen in rows.items():
        windows = _windows(sorted(seen, key=lambda row: row.moment), site.dump_interval)
        told = _in_turn(history, site, owner, windows, (first, end))
        untils = [*(later.start for later in told[1:]), np.inf]
        for window, timed, until in zip(windows, told, untils, strict=True):
            if window[-1].moment >= start:
                found.append(_costed(history, site, timed, until))
    return sorted(found, key=lambda one: (one.start, one.cluster, one.job, one.state))


def _owner(one: Series, site: Site) -> tuple[str, str]:
    labels = dict(one.labels)
    return labels.get(site.labels.cluster or "", ""), labels.get(site.labels.job, "")


def _rows(one: Series, site: Site) -> Iterator[_Row]:
    labels = dict(one.labels)
    names = ("state", "suspect", "transport", site.labels.node, site.labels.gpu)
    state, suspect, transport, node, gpu = (labels.get(name, "") for name in names)
    for moment, depth in zip(one.times.tolist(), one.values.tolist(), strict=True):
        yield _Row(moment, depth, (state, suspect, transport, node, gpu))


def _windows(rows: Sequence[_Row], dump: float) -> list[list[_Row]]:
    """Evaluations that belong together: the same is to blame, and pauses are short.

    Whoever is blamed for a moment in between does not end a window, and does not get one. A stall always does.
    """
    longest = (BRIDGED + 1.5) * dump
    gaps = accumulate((later.moment - row.moment > longest for row, later in pairwise(rows)), initial=0)
    parts = groupby(zip(rows, gaps, strict=True), lambda pair: (pair[0].blamed, pair[1]))
    runs = [[row for row, _ in part] for _, part in parts]
    lasting = {run[0].blamed for run in runs if len(run) > BRIEF}
    found: list[list[_Row]] = []
    for run in runs:
        near = bool(found) and run[0].moment - found[-1][-1].moment <= longest
        near = near and run[0].state == found[-1][-1].state
        same = bool(found) and (run[0].blamed == _blamed(found[-1]) or run[0].blamed not in lasting)
        brief = bool(found) and len(found[-1]) <= BRIEF
        if near and (same or brief):
            found[-1] += run
        else:
            found.append(run)
    return found


def _blamed(window: Sequence[_Row]) -> tuple[str, str, str, str, str]:
    """Who is blamed most often."""
    return Counter(row.blamed for row in window).most_common(1)[0][0]


def _detected(history: History, window: Sequence[_Row], of_job: dict[str, str], first: float, dump: float) -> float:
    """When the verdict came; where that was before the first row that was looked at, as the rules remember it."""
    moment = window[0].moment
    if moment - first > 1.5 * dump:
        return moment
    since = [float(value) for one in history.series(SINCE, moment, moment + dump, of_job) for value in one.values]
    return min([moment, *(value for value in since if value >= moment - LONGEST)])


def _in_turn(
    history: History,
    site: Site,
    owner: tuple[str, str],
    windows: Sequence[Sequence[_Row]],
    within: tuple[float, float],
) -> list[Incident]:
    """The incidents of a job's windows, none of which begins before the verdict of the one before it has ended."""
    found: list[Incident] = []
    for window, earlier in zip(windows, [[], *windows[:-1]], strict=True):
        one = _incident(history, site, owner, window, within)
        if earlier:
            last, over = found[-1], earlier[-1].moment
            if (last.state, one.state) == ("degraded", "stalled"):
                # Verdicts that come after the last news rest on what was known before.
                over = max(last.detected, min(over, one.start))
            found[-1] = replace(last, end=min(last.end, over), ongoing=False)
            one = replace(one, start=max(one.start, over))
        found.append(one)
    return found


def _of_job(site: Site, cluster: str, job: str) -> dict[str, str]:
    return {site.labels.job: job} | ({site.labels.cluster: cluster} if site.labels.cluster and cluster else {})


def _incident(
    history: History, site: Site, owner: tuple[str, str], window: Sequence[_Row], within: tuple[float, float]
) -> Incident:
    """The incident of a window, without its cost; ``within`` is the range in which verdicts were looked at."""
    cluster, job = owner
    blamed = _blamed(window)
    state, suspect, transport, node, gpu = blamed
    of_job = _of_job(site, *owner)
    dump = site.dump_interval
    worst = max((row for row in window if row.blamed == blamed), key=lambda row: row.depth)
    first, end = within
    detected = _detected(history, window, of_job, first, dump) if state == "degraded" else window[0].moment
    bare = Incident(
        cluster=cluster,
        job=job,
        state=state,
        suspect=suspect,
        transport=transport,
        node=node,
        gpu=gpu,
        start=detected,
        end=window[-1].moment,
        detected=detected,
        worst=worst.moment,
        depth=worst.depth if state == "degraded" else 1.0,
        ongoing=end - window[-1].moment < 2 * dump,
        gpus=0,
        throughput=None,
        gpu_hours=None,
        fabric=(),
        alerts=(),
    )
    return _timed(history, site, bare, of_job)


def _timed(history: History, site: Site, bare: Incident, of_job: dict[str, str]) -> Incident:
    """With begin and end as the evidence has them."""
    dump = site.dump_interval
    first = bare.detected - BEFORE * dump
    if bare.state == "stalled":
        since = [
            value for one in history.series(SINCE, bare.detected, bare.end, of_job) for value in one.values.tolist()
        ]
        # News are seen at the evaluation after they came.
        begins = [value - dump for value in since if bare.detected - LONGEST <= value <= bare.detected]
        return replace(bare, start=min([bare.detected, *begins]))
    found = readings(history, site, bare.suspect, bare.transport, bare.node, bare.gpu, of_job, first, bare.end)
    start, end = _extent(found, bare.detected, bare.end)
    return replace(bare, start=start, end=end)


def _extent(found: Sequence[Reading], detected: float, end: float) -> tuple[float, float]:
    """From the last reading before the verdict that looked as usual to the last that did not."""
    before = [each for each in found if each.moment <= detected]
    begin = detected
    for each, earlier in zip(reversed(before), [*reversed(before[:-1]), None], strict=False):
        if not each.unusual:
            break
        begin = earlier.moment if earlier else each.moment
    odd = [each.moment for each in found if each.unusual and detected <= each.moment <= end]
    return min(begin, detected), max([detected, *odd]) if odd else end


def _costed(history: History, site: Site, one: Incident, until: float) -> Incident:
    """With its cost, and what else was told of it; ``until`` is when the job's next incident begins."""
    of_job = _of_job(site, one.cluster, one.job)
    dump = site.dump_interval
    around = (one.start - BEFORE * dump, min(one.end + BEFORE * dump, until))
    counts = [float(each.values.max()) for each in history.series(GPUS, *around, of_job)]
    gpus = max((count for count in counts if 0 <= count <= MOST_GPUS), default=0.0)
    throughput, lost = _throughput(history, one, of_job, around)
    if one.state == "stalled":
        lost = one.length  # also where nothing tells the throughput
    return replace(
        one,
        gpus=int(gpus),
        throughput=throughput,
        gpu_hours=None if lost is None else lost * gpus / 3600,
        fabric=tuple(_fabric(history, site, one, of_job)),
        alerts=tuple(_alarms(history, site, one, of_job, until)),
    )


def _throughput(
    history: History, one: Incident, of_job: dict[str, str], around: tuple[float, float]
) -> tuple[Throughput | None, float | None]:
    """What the job achieved, and for how many seconds it might as well have stood still."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for each in history.series(THROUGHPUT, *around, of_job):
        of_one = seen.setdefault(dict(each.labels).get("evidence", ""), [])
        of_one += zip(each.times.tolist(), each.values.tolist(), strict=True)
    if not seen:
        return None, None
    stalled = one.state == "stalled"  # what a job that stands still reports is old

    def counts(evidence: str) -> int:
        return sum((one.start < moment <= one.end) != stalled for moment, _ in seen[evidence])

    evidence = max(sorted(seen), key=counts)
    points = sorted(seen[evidence])
    during = [] if stalled else [point for point in points if one.start < point[0] <= one.end]
    after = [] if one.ongoing else [point for point in points if point[0] > one.end]
    learned = last_learned(history, USUAL, one.start, {**of_job, "of": "throughput", "evidence": evidence})
    normal = next(iter(learned.values()), None)
    told = Throughput(evidence, normal, _middle(during), _middle(after))
    if not normal or not during:
        return told, None
    moments = [one.start, *(moment for moment, _ in during)]
    spans = [later - earlier for earlier, later in pairwise(moments)]
    lost = sum(span * min(1.0, max(0.0, 1 - value / normal)) for span, (_, value) in zip(spans, during, strict=True))
    return told, lost


def _middle(points: Sequence[tuple[float, float]]) -> float | None:
    """The lower median of the values of points."""
    return sorted(value for _, value in points)[(len(points) - 1) // 2] if points else None


def _fabric(history: History, site: Site, one: Incident, of_job: dict[str, str]) -> Iterator[Evidence]:
    """What the ports of the job's nodes said meanwhile that is beyond what is normal, the worst rows of each series."""
    hidden = {site.labels.job, site.labels.cluster, site.labels.instance}
    for signal in FABRIC:
        worst, sign = (np.min, 1.0) if signal.name in LESS_IS_WORSE else (np.max, -1.0)
        rows = [
            Evidence(
                signal.name, tuple(pair for pair in each.labels if pair[0] not in hidden), float(worst(each.values))
            )
            for each in history.series(signal.name, one.start, one.end, of_job)
        ]
        odd = [(-excess, sign * row.value, row) for row in rows if (excess := _excess(row)) > ENOUGH]
        yield from (row for *_, row in sorted(odd)[:MOST_ROWS])


def _excess(row: Evidence) -> float:
    """How many times over its published limit a value is; what has none is absent while all is well."""
    counter = {ERRORS: dict(row.labels).get("counter", ""), RETRANSMITS: RETRANSMITTED}.get(row.name, "")
    return row.value / LIMITS[counter] if counter in LIMITS else np.inf


def _alarms(history: History, site: Site, one: Incident, of_job: dict[str, str], until: float) -> Iterator[Alarm]:
    """The alerts of the job that began to fire during the incident, or right after it and before the next."""
    pause = 1.5 * build.evaluated_every(site)  # what fires has a sample in every evaluation
    last = one.end + 2 * site.dump_interval
    first: dict[tuple[str, str], float] = {}
    for each in history.series("ALERTS", one.start - pause, last, {"alertstate": "firing", **of_job}):
        labels = dict(each.labels)
        key = labels.get("alertname", ""), labels.get("severity", "")
        begins = each.times[np.diff(each.times, prepend=-np.inf) > pause]
        for moment in begins[(begins >= one.start) & (begins < until)].tolist():
            first[key] = min(first.get(key, np.inf), moment)
    for (name, severity), moment in sorted(first.items(), key=lambda item: (item[1], item[0])):
        if name.startswith("Nccl"):
            yield Alarm(name, severity, moment - one.start)
