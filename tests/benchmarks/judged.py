# SPDX-License-Identifier: Apache-2.0
"""Judge the packs on worlds of random jobs, as ``dashgen/docs/judged.md`` and the README tell.

Run: python tests/benchmarks/judged.py [--seeds 801-839/2 racks:201-239/2 ...] [--jobs N]

Makes a world of random jobs for each span of seeds, a wide one where none is named, and has ``dashgen score`` judge
all of them. What it found replaces judged.json beside this file, which the tables of the documentation are derived
from: ``python tests/readme.py``. The first span is the youngest wide world, which no rule was chosen on, as none was on
that of racks; the others were looked at.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from worlds import seed_list, written

JUDGED = Path(__file__).with_name("judged.json")
SPANS = (
    *("1521-1599/2", "racks:621-659/2", "slow-dumps:773-811/2", "few-gpus:81-119/2", "requeues:161-239/2"),
    *("1441-1519/2", "racks:581-619/2", "slow-dumps:733-771/2", "few-gpus:1-79/2"),
    *("1361-1439/2", "racks:541-579/2", "slow-dumps:693-731/2"),
    *("1281-1359/2", "racks:501-539/2", "slow-dumps:653-691/2"),
    *("1241-1279/2", "racks:481-499/2", "slow-dumps:613-631/2"),
    *("1161-1239/2", "racks:441-479/2", "slow-dumps:573-611/2"),
)


def main() -> int:
    """Judge every span of seeds, and keep what was found."""
    parser = argparse.ArgumentParser(description="Judge the packs on worlds of random jobs.")
    parser.add_argument("--seeds", nargs="+", default=SPANS, help=f"spans of seeds (default: {' '.join(SPANS)})")
    parser.add_argument("--jobs", type=int, default=2, help="processes that simulate (default: 2)")
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder, found = Path(name), Path(name) / "found.json"
        command = [sys.executable, "-m", "dashgen", "score", "--json", str(found)]
        for span in given.seeds:
            world, _, seeds = span.rpartition(":")
            target = folder / "-".join((*filter(None, [world]), seeds.partition("/")[0]))
            for _ in written(world or "wide", target, seed_list(seeds), given.jobs):
                pass
            command += ["--recordings", str(target)]
        subprocess.run(command, check=True)
        judged = json.loads(found.read_text(encoding="utf-8"))
    # Seconds of this machine are no result.
    for world in (*judged["worlds"].values(), judged["total"]):
        del world["rule_seconds"]
    text = json.dumps({"worlds": judged["worlds"], "total": judged["total"]}, indent=1)
    JUDGED.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
