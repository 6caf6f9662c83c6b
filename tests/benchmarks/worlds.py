# SPDX-License-Identifier: Apache-2.0
"""Write the recordings of a world of random jobs, to choose rules on or to judge any pack by.

Run: python tests/benchmarks/worlds.py WORLD -o DIR [--seeds 0-78/2] [--jobs N]

Each recording is a folder ``<family>-<seed>``. Same world and seed, same bytes. Even seeds are for choosing rules, odd
seeds are held out. Worlds are ``trials`` (the narrow priors of the benchmark of detection) and those of
``dashgen.worlds.worlds``: what is drawn how often is data there and in ``dashgen.worlds.priors``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from dashgen.recordings.format import write_samples, write_story
from dashgen.worlds.worlds import TRIALS


def write(world: str, folder: Path, seed: int) -> str:
    """Make one recording of a world; its name."""
    one = TRIALS[world](seed)
    target = folder / f"{one.family}-{seed}"
    target.mkdir(parents=True, exist_ok=True)
    write_samples(target, one.series)
    write_story(target, one.recording)
    return target.name


def seed_list(text: str) -> list[int]:
    """The seeds of ``7``, ``0-39`` or ``0-78/2`` (each second one)."""
    span, _, step = text.partition("/")
    first, _, last = span.partition("-")
    return list(range(int(first), int(last or first) + 1, int(step or 1)))


def written(world: str, folder: Path, seeds: Iterable[int], jobs: int) -> Iterator[str]:
    """Write the recordings of some seeds of a world below a folder; the name of each that is done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        yield from pool.map(partial(write, world, folder), seeds)


def main() -> int:
    """Write all seeds that were asked for."""
    parser = argparse.ArgumentParser(description="Write the recordings of a world of random jobs.")
    parser.add_argument("world", choices=sorted(TRIALS))
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder of the recordings")
    parser.add_argument("--seeds", type=seed_list, default=seed_list("0-78/2"), help="7, 0-39 or (default) 0-78/2")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    given = parser.parse_args()

    for name in written(given.world, given.output, given.seeds, given.jobs):
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
