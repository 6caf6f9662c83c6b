# SPDX-License-Identifier: Apache-2.0
"""What nccl-tests printed -> the bus bandwidth that a site may expect, by collective, transport and size class.

Reads the tables of nccl-tests 2.0 to 2.19 and of rccl-tests as they stand in logs: with or without in-place columns,
with or without redop and root, ``#wrong`` or ``error``, N/A where nothing was checked, several runs in one file, and
lines that mpirun, srun or a log collector prefixed. Sizes are those of NCCL Inspector: for AllGather and ReduceScatter
the piece of one rank, which nccl-tests calls count, not the whole buffer, which it calls size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import get_args

import yaml

from dashgen.catalogue.metrics.inspector import MIN_SIZE
from dashgen.config import site as config
from dashgen.config.site import MOST_GBPS, Collective, SizeClass
from dashgen.errors import UserError
from dashgen.guard.files import parse_yaml, read_bytes, read_text
from dashgen.model import TRANSPORTS, Transport

Key = tuple[Collective, Transport, SizeClass]

_KINDS: Mapping[str, Collective] = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
}
# Those that NCCL makes of Send and Recv: Inspector never sees them as collectives.
_OTHERS = ("alltoallv", "alltoall", "sendrecv", "gather", "scatter", "hypercube")

_TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "int", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}

_MB = 1024**2

_NAMES = "|".join((*_KINDS, *_OTHERS))
_TEST = re.compile(rf"(?<![a-z])({_NAMES})_perf")
_TEST_OF_FILE = re.compile(rf"(?<![a-z])({_NAMES})(?![a-z])")
_START = re.compile(r"\bnThread\s+\d+\s+nGpus\s+\d+\s+minBytes\b")
_RANK = re.compile(r"\bRank\s+\d+\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\b")
_HEADER = re.compile(r"\bsize\s+count\s(?:.*\s)?(?:cpu)?time\s(?:.*\s)?busbw\b")
_ROW = re.compile(r"(?:^|[\s>:|])(\d+)\s+(\d+)\s+([a-z][a-z0-9_]*)\s+(\S.*)$")
_WRONG = re.compile(r"Out of bounds values\s*:\s*(\d+)\s+FAILED")


@dataclass
class Run:
    """One run of one test: which, on which host each rank ran, and what it reached.

    ``rows`` are pairs of a size as Inspector counts it and the bus bandwidth in GB/s.
    """

    line: int
    test: str | None = None
    hosts: list[str] = field(default_factory=list)
    rows: list[tuple[int, float]] = field(default_factory=list)

    @property
    def transport(self) -> Transport | None:
        """By ranks and hosts, where each host is a domain of its own; None where the log does not list them."""
        hosts = len(set(self.hosts))
        if hosts < 2:
            return "nvlink" if hosts else None
        return "network" if hosts == len(self.hosts) else "mixed"


def size_class(size: int) -> SizeClass:
    """The class of a message size in bytes."""
    return "small" if size < _MB else "medium" if size < 64 * _MB else "large"


def transport(name: str) -> Transport:
    """A transport by the word that somebody typed. Raises UserError for an unknown one."""
    known: dict[str, Transport] = {each: each for each in TRANSPORTS}
    if name.lower() not in known:
        raise UserError(f"--transport {name}: no such transport; there are {', '.join(known)}")
    return known[name.lower()]


def collective(name: str) -> Collective:
    """A collective by NCCL's name or that of its test. Raises UserError for an unknown one."""
    known: dict[str, Collective] = {each.lower(): each for each in _KINDS.values()}
    word = name.lower().removesuffix("_perf").replace("_", "")
    if word not in known:
        raise UserError(f"--collective {name}: no such collective; there are {', '.join(_KINDS.values())}")
    return known[word]


def read(path: Path) -> list[Run]:
    """The runs in a file.

    Raises UserError, with file and line, when the file is unreadable, has no table, has a row that does not fit its
    header, or a run that computed wrong values.
    """
    text = read_bytes(path, remedy="name a file with the output of nccl-tests").decode("utf-8", errors="replace")
    runs: list[Run] = []
    columns: list[str] = []
    test = _test(_TEST_OF_FILE, path.stem)
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path}:{number}"
        test = _test(_TEST, line) or test
        if _START.search(line):
            runs.append(Run(line=number, test=test))
            columns = []
        elif rank := _RANK.search(line):
            # Of several equal communicators beside each other (NCCL_TESTS_SPLIT) the first counts.
            if runs and (rank[1] or "0") == "0":
                runs[-1].hosts.append(rank[2])
        elif _HEADER.search(line):
            columns = line[line.index("size") :].split()
            if not runs or runs[-1].rows:
                runs.append(Run(line=number, test=test))
        elif wrong := _WRONG.search(line):
            raise _computed_wrongly(where, wrong[1])
        elif columns and (row := _ROW.search(line)):
            _add_row(runs[-1], row, columns, where)
    found = [run for run in runs if run.rows]
    for run in runs:
        if len(run.hosts) == 1:
            raise UserError(
                f"{path}:{run.line}: one rank only, so nothing was sent; build nccl-tests with MPI=1 for several hosts"
            )
    if not found:
        raise UserError(f"{path}: no table of nccl-tests (size, count, type ... busbw); give its standard output")
    return found


def _test(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _computed_wrongly(where: str, count: str) -> UserError:
    return UserError(f"{where}: {count} results were wrong; hardware that computes wrongly is not accepted")


def _add_row(run: Run, row: re.Match[str], columns: list[str], where: str) -> None:
    kind, rest = row[3], row[4].split()
    timed = columns[next(place for place, name in enumerate(columns) if name.endswith("time")) :]
    # Columns before the times may be blank, those of the times never are.
    if not len(timed) <= len(rest) <= len(columns) - 3:
        raise UserError(f"{where}: {len(rest) + 3} values under {len(columns)} columns; is the log damaged?")
    middle, values = rest[: -len(timed)], rest[-len(timed) :]
    try:
        size, count = int(row[1]), int(row[2])
        reached = min(float(value) for name, value in zip(timed, values, strict=True) if name == "busbw")
    except ValueError as error:
        raise UserError(f"{where}: {error}; is the log damaged?") from error
    if not reached < MOST_GBPS:
        raise UserError(f"{where}: busbw {reached:g} is no bandwidth in GB/s; is the log damaged?")
    for name, value in zip(timed, values, strict=True):
        if name == "#wrong" and value not in ("0", "N/A"):
            raise _computed_wrongly(where, value)
    piece = count * _TYPE_BYTES[kind] if kind in _TYPE_BYTES else size
    run.test = run.test or _guess(middle, piece, size)
    if reached > 0:
        run.rows.append((piece, reached))


def _guess(middle: list[str], piece: int, size: int) -> str | None:
    """The test by redop and root, and by whether one rank's piece is all; AllGather and all-to-all look alike."""
    reduces = any(re.fullmatch(r"[a-z]+", word) and word != "none" for word in middle)
    if any(word.isdigit() for word in middle):
        return ("reduce" if reduces else "broadcast") if piece == size else None
    if not reduces:
        return None
    return "all_reduce" if piece == size else "reduce_scatter"


def acceptance(
    files: Iterable[Path], carrier: Transport | None = None, operation: Collective | None = None
) -> dict[Key, float]:
    """What a job may be expected to reach at least, from all runs of all files, in GB/s.

    Of a run the lowest value of each size class counts, in place or not: larger messages are faster, and a job that
    sends the smallest of the class must not look defective. Of several runs of one kind the median counts, so that one
    bad node does not lower what is expected of all. ``carrier`` and ``operation`` override what the logs say.
    Raises UserError as ``read``, and when a log does not tell its collective or transport.
    """
    lowest: dict[Key, list[float]] = {}
    for path in files:
        for run in read(path):
            where = f"{path}:{run.line}"
            if run.test in _OTHERS and operation is None:
                continue
            kind = operation or _KINDS.get(run.test or "")
            if kind is None:
                raise UserError(f"{where}: the log does not name its test; say --collective, for example AllGather")
            how = carrier or run.transport
            if how is None:
                raise UserError(f"{where}: the log does not list its ranks; say --transport nvlink, network or mixed")
            for each in get_args(SizeClass):
                reached = [busbw for size, busbw in run.rows if size >= MIN_SIZE and size_class(size) == each]
                if reached:
                    lowest.setdefault((kind, how, each), []).append(min(reached))
    if not lowest:
        tests = ", ".join(f"{test}_perf" for test in _KINDS)
        raise UserError(f"no message of 8 KB or more of a collective that NCCL Inspector times; run {tests}")
    return {key: float(f"{median(reached):.4g}") for key, reached in lowest.items()}


# dashgen.yaml.


def _nested(values: Mapping[Key, float]) -> dict[str, dict[str, dict[str, float]]]:
    """As the configuration has it: collective, transport, size class, each in the usual order."""
    nested: dict[str, dict[str, dict[str, float]]] = {}
    for kind in get_args(Collective):
        for how in TRANSPORTS:
            sizes = {each: values[kind, how, each] for each in get_args(SizeClass) if (kind, how, each) in values}
            if sizes:
                nested.setdefault(kind, {})[how] = sizes
    return nested


def block(values: Mapping[Key, float]) -> str:
    """The key ``acceptance`` as it stands in dashgen.yaml."""
    lines = ["acceptance:"]
    for kind, transports in _nested(values).items():
        lines.append(f"  {kind}:")
        for how, sizes in transports.items():
            lines.append(f"    {how}: {{{', '.join(f'{each}: {value:g}' for each, value in sizes.items())}}}")
    return "\n".join(lines) + "\n"


_BY_HAND = "acceptance cannot be replaced there; run without --update and write it in by hand"


def merge(path: Path, values: Mapping[Key, float]) -> str:
    """The text of a dashgen.yaml with these values in it; everything else stays as it is, comments too.

    Raises UserError when the file is no configuration, or is written so that the key cannot be replaced safely, as with
    comments in it.
    """
    before = config.load(path, "--update").acceptance if path.exists() else {}
    both: dict[Key, float] = {
        (kind, how, each): value
        for kind, transports in before.items()
        for how, sizes in transports.items()
        for each, value in sizes.items()
    }
    both |= values
    text = read_text(path, config.MOST_BYTES) if path.exists() else ""
    try:
        start, end = _place(text)
    except yaml.YAMLError:  # PyYAML's own parser knows where things stand, and refuses tabs that libyaml accepts
        raise UserError(f"{path}: {_BY_HAND}") from None
    break_before = "" if text[:start].endswith("\n") or not start else "\n"
    changed = text[:start] + break_before + block(both) + text[end:]
    if "#" in text[start:end] or _data(changed) != {**_data(text), "acceptance": _nested(both)}:
        raise UserError(f"{path}: {_BY_HAND}")
    return changed


def _data(text: str) -> dict[str, object]:
    try:
        return dict(parse_yaml(text) or {})
    except ValueError:
        return {}


def _place(text: str) -> tuple[int, int]:
    """Where ``acceptance`` begins and ends, its last line included; the end of the text where it is not there."""
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in document.value if isinstance(document, yaml.MappingNode) else ():
        if key.value == "acceptance":
            line_end = text.find("\n", _end(value))
            return key.start_mark.index, len(text) if line_end < 0 else line_end + 1
    return len(text), len(text)


def _end(node: yaml.Node) -> int:
    """Where a value ends: PyYAML counts the comments below a block as part of it, but not those below a scalar."""
    while isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        node = node.value[-1][1]
    return int(node.end_mark.index)
