# SPDX-License-Identifier: Apache-2.0
"""The commands that make a recording without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import RecordingFolder, bytes_progress, say
from dashgen.guard.text import counted

if TYPE_CHECKING:
    from dashgen.recordings.format import Recording, Series
    from dashgen.recordings.importing import ImportReport


def simulate(
    scenario: Annotated[
        str, typer.Argument(help="name of a scenario that comes with dashgen, or a file that ends in .yaml")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder of the recording")],
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="instead of the scenario's own")
    ] = None,
) -> None:
    """Make a recording from a scenario: a physical model of a training job, deterministic by seed."""
    from dashgen.recordings.importing import check_writable
    from dashgen.simulator.scenario import scenario_path
    from dashgen.simulator.simulate import make_recording

    check_writable(output)
    path = Path(scenario) if scenario.endswith((".yaml", ".yml")) else scenario_path(scenario)
    recording = make_recording(path, output, seed)
    span = f"{recording.start:%Y-%m-%d %H:%M} to {recording.end:%H:%M} UTC"
    say(f"{output}: {span}, {counted(len(recording.faults), 'event')}")


def import_json(
    path: Annotated[Path, typer.Argument(help="dump file, or folder of .log, .jsonl and .json files, also .gz")],
    output: RecordingFolder,
    job: Annotated[str | None, typer.Option("--job", help="job id; by default from the folder's name")] = None,
) -> None:
    """From Inspector's JSON mode, aggregated as its Prometheus mode would have done."""
    from dashgen.recordings import jsonmode
    from dashgen.recordings.importing import check_writable

    check_writable(output)
    with bytes_progress("reading") as progress:
        result = jsonmode.import_json(path, job_id=job, progress=progress)
    _save(output, result)


def import_textfile(
    path: Annotated[Path, typer.Argument(help="folder of copies of Inspector's .prom files")],
    output: RecordingFolder,
) -> None:
    """From copies of Inspector's .prom files, taken over time."""
    from dashgen.recordings import textfile
    from dashgen.recordings.importing import check_writable

    check_writable(output)
    with bytes_progress("reading") as progress:
        result = textfile.import_textfile(path, progress=progress)
    _save(output, result)


def _save(output: Path, result: tuple[Recording, list[Series], ImportReport]) -> None:
    from dashgen.recordings.importing import save

    recording, series, report = result
    save(output, recording, series)
    say(f"{output}: {len(series)} series, {recording.start:%Y-%m-%d %H:%M} to {recording.end:%H:%M} UTC")
    for each in report.lines():
        say(each, err=True)
