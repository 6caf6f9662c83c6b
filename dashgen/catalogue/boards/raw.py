# SPDX-License-Identifier: Apache-2.0
"""What do the counters say, before any verdict?

The same questions as the example dashboard that NVIDIA ships with Inspector: bandwidth and time of five operations, within
and across domains, by message size and ranks. Its answer to each is an average over ranks, which mixes a slow path with
the waiting for a late rank. Here the fastest rank stands for the path, as it waited for nobody, the median for what
the job sees, and what lies between the two for the wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashgen.catalogue.boards.parts import FEWEST, JOB_BY_ID, OF_JOB_ID, described
from dashgen.catalogue.metrics.inspector import WAITING
from dashgen.model import Dashboard, Panel, Query, Row, Sensitivity, Unit, Variable

_OPERATION = Variable(
    name="operation",
    label="collective",
    series=f"peer:nccl_busbw:best{{{OF_JOB_ID}}}",
    multi=False,
    title="Operation",
)

# Whose shortest time is named: four fifths of the median's at most, among four ranks or more and in messages from a megabyte on.
_CLEARLY = 0.8
_TELLING = '<large>, nranks!~"[123]"'


@dataclass(frozen=True)
class _Where:
    """A side of the domain: in words, as a matcher, and with the labels that tell communicators apart."""

    words: str
    matcher: str
    by: str


@dataclass(frozen=True)
class _Operations:
    """Operations that share their series: what they are called, which label tells them apart, and the series.

    ``best`` is the recorded series of their best bandwidths, one for all ranks, where there is one.
    """

    title: str
    label: str
    chosen: str
    bandwidth: str
    time: str
    best: str = ""

    @property
    def together(self) -> bool:
        """Whether all ranks begin and end together, so that they wait for each other; those of Send and Recv are pairs."""
        return bool(self.best)

    def of(self, key: str, where: _Where, chosen: str) -> str:
        """A raw series of the chosen job, without sizes that NCCL could not compute."""
        return f"<{key}>{{{chosen}, {where.matcher}, <clean>, {OF_JOB_ID}, <selector>}}"

    def bests(self, where: _Where, chosen: str) -> str:
        """The best bandwidths, or all where only those are known."""
        if not self.best:
            return self.of(self.bandwidth, where, chosen)
        return f"{self.best}{{{chosen}, {where.matcher}, {OF_JOB_ID}}}"


_WITHIN = _Where("within one <fabric> domain", 'n_nodes="1"', "message_size, nranks")
_ACROSS = _Where("across domains", 'n_nodes!="1"', "message_size, nranks, n_nodes")
_COLLECTIVES = _Operations(
    "Collectives",
    "collective",
    f'collective=~"{WAITING}"',
    "busbw",
    "exec",
    "peer:nccl_busbw:best",
)
_POINT_TO_POINT = _Operations("Send and Recv", "p2p_operation", 'p2p_operation=~"Send|Recv"', "p2p_busbw", "p2p_exec")


def _table(these: _Operations, where: _Where, width: int, height: int) -> Panel:
    """Everything of now: a row for each operation, size and shape of communicator."""
    by = f"{these.label}, {where.by}"
    bandwidths, times = (these.of(key, where, these.chosen) for key in (these.bandwidth, these.time))
    best = f"max by ({by}) ({these.bests(where, these.chosen)})"
    median, time = (f"quantile by ({by}) (0.5, {each})" for each in (bandwidths, times))
    asked = [best, median, time]
    waiting: dict[str, str] = {}
    if these.together:
        telling = these.of(these.time, where, f"{these.chosen}, {_TELLING}")
        asked += [
            # Bandwidth is bytes by time, so this is also the part of the median's time that the shortest one saves.
            f"1 - {median} / {best}",
            f"bottomk by ({by}) (1, {telling}) < on ({by}) group_left () {_CLEARLY} * {time}",
        ]
        waiting = {"Value #D": "Waiting", "<node_label>": "Shortest time", "<gpu_label>": "GPU"}
        words = described(
            f"How fast is each operation {where.words}, and how long do its ranks wait?",
            "Best is the fastest rank, which waited for nobody: the path. The median is what the job sees. Waiting is the part "
            "of the median's time that the shortest time saves. Whose that is stands there where it is a fifth or more, among four "
            "ranks or more: who is late, or whose place in the ring is a short one. The rank outliers compare with the past.",
            "best and median alike, little waiting",
            "a low best is a slow path; a median far below the best is a late rank",
        )
    else:
        words = described(
            f"How fast are Send and Recv {where.words}?",
            "Best is the fastest pair of ranks, the median what the job sees. Pairs differ by their paths, so nobody is named.",
            "steady",
            "a low best is a slow path, or operations that are recorded in part",
        )
    return Panel(
        title=f"{these.title} {where.words}, now",
        description=words,
        type="table",
        unit=Unit.GBPS,
        queries=tuple(Query(expr=expr, instant=True) for expr in asked),
        columns={
            these.label: "Operation",
            "message_size": "Message size",
            "nranks": "Ranks",
            **({"n_nodes": "<fabric> domains"} if where is _ACROSS else {}),
            "Value #A": "Best",
            "Value #B": "Median",
            "Value #C": "Time, median",
            **waiting,
        },
        column_units={"Value #C": Unit.MICROSECONDS, **({"Value #D": Unit.RATIO} if waiting else {})},
        order="-Waiting" if waiting else "-Time, median",
        width=width,
        height=height,
        no_value="nothing was recorded",
    )


def _curve(title: str, description: str, unit: Unit, expr: str, by: str) -> Panel:
    """A line for each combination of the labels ``by``."""
    return Panel(
        title=title,
        description=description,
        type="timeseries",
        unit=unit,
        queries=(Query(expr=expr, legend=" ".join(f"{{{{{label}}}}}" for label in by.split(", "))),),
        minimum=0.0,
        points=FEWEST,
        width=12,
        height=8,
        no_value="nothing was recorded",
    )


def _curves(what: str, where: _Where, by: str, bandwidths: str, times: str) -> tuple[Panel, Panel]:
    """Bandwidth and time of an operation."""
    return (
        _curve(
            f"{what} bandwidth {where.words}",
            described(
                f"How fast is {what} {where.words} when nobody waits?",
                "The fastest rank of each message size and shape of communicator.",
                "steady within a few percent",
                "a step down is a slow path; a line that comes or goes is another message size",
            ),
            Unit.GBPS,
            f"max by ({by}) ({bandwidths})",
            by,
        ),
        _curve(
            f"{what} time {where.words}",
            described(
                f"How long does {what} take the median rank {where.words}, waiting included?",
                "One line for each message size and shape of communicator.",
                "steady",
                "a rise while the bandwidth holds: somebody is late; a rise while it falls: the path is slow",
            ),
            Unit.MICROSECONDS,
            f"quantile by ({by}) (0.5, {times})",
            by,
        ),
    )


def _of_operation(where: _Where) -> tuple[Panel, Panel]:
    """Curves of the chosen collective."""
    chosen = 'collective="$operation"'
    times = _COLLECTIVES.of(_COLLECTIVES.time, where, chosen)
    return _curves("$operation", where, where.by, _COLLECTIVES.bests(where, chosen), times)


def _of_pipeline(where: _Where) -> tuple[Panel, Panel]:
    these = _POINT_TO_POINT
    by = f"{these.label}, {where.by}"
    times = these.of(these.time, where, these.chosen)
    return _curves(these.title, where, by, these.bests(where, these.chosen), times)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of the raw series of one job."""
    del sensitivity
    return Dashboard(
        slug="raw",
        place=70,
        title="Raw",
        question="What do the counters say, before any verdict?",
        variables=(JOB_BY_ID, _OPERATION),
        rows=(
            Row(
                title="Now, by message size and ranks",
                panels=(
                    _table(_COLLECTIVES, _WITHIN, 24, 8),
                    _table(_COLLECTIVES, _ACROSS, 24, 8),
                    _table(_POINT_TO_POINT, _WITHIN, 12, 5),
                    _table(_POINT_TO_POINT, _ACROSS, 12, 5),
                ),
            ),
            Row(title="$operation over time", panels=(*_of_operation(_WITHIN), *_of_operation(_ACROSS))),
            Row(
                title="Send and Recv over time",
                collapsed=True,
                panels=(*_of_pipeline(_WITHIN), *_of_pipeline(_ACROSS)),
            ),
        ),
    )
