# SPDX-License-Identifier: Apache-2.0
"""The commands that look at dashboards."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import Config, Report, needs, progress, say, site_of, utc, write
from dashgen.guard.text import counted
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.preview.page import Page


def preview(
    config: Config = None,
    recording: Annotated[
        Path | None,
        typer.Option("--recording", help="folder of one recording; by default a network fault, simulated on the spot"),
    ] = None,
    board: Annotated[
        list[str] | None, typer.Option("--board", help="slug or uid of a board; may be repeated; by default all")
    ] = None,
    sensitivity: Annotated[
        Sensitivity | None, typer.Option("--sensitivity", help="tier of the alerts; by default that of dashgen.yaml")
    ] = None,
    at: Annotated[
        datetime | None,
        typer.Option("--at", help="moment at which the boards are opened, UTC; by default the worst one"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write")] = Path("preview.html"),
    screenshots: Annotated[
        Path | None,
        typer.Option("--screenshots", help="write pictures of the boards into this folder instead of an HTML file"),
    ] = None,
) -> None:
    """Draw the boards on a recording, without Grafana, into one HTML file that opens anywhere."""
    _check(output, screenshots)
    from tempfile import TemporaryDirectory

    from dashgen import build as building
    from dashgen.preview import commands, make, pictures
    from dashgen.recordings.sites import made_at
    from dashgen.simulator.scenario import scenario_path
    from dashgen.simulator.simulate import make_recording

    given = site_of(config)
    with TemporaryDirectory(prefix="dashgen-") as scratch:
        folder = recording or Path(scratch) / commands.SCENARIO
        if recording is None:
            make_recording(scenario_path(commands.SCENARIO), folder)
        site = made_at(folder, given)
        if sensitivity is not None:
            site = site.model_copy(update={"sensitivity": sensitivity})
        bundle = building.bundle(site, [site.sensitivity])
        wanted = make.Wanted(
            tier=site.sensitivity,
            boards=make.chosen(bundle, board or []),
            moment=None if at is None else utc(at).timestamp(),
            commands=commands.again(recording, config, board or [], sensitivity, at and utc(at)),
        )
        if screenshots is not None:
            pictures.check_own(screenshots, wanted.boards)
        with progress(1 + len(wanted.boards), "drawing") as step:
            content = make.content(bundle, folder, wanted, building.panel_needs(site), step)
    if screenshots is None:
        _write_page(content, wanted.boards, output)
    else:
        _write_pictures(content, wanted.boards, screenshots)


def _check(output: Path, screenshots: Path | None) -> None:
    """Before anything is made: what it takes to draw is there, and no file of somebody else's is in the way."""
    needs("plotly")
    from dashgen.engine.programs import find
    from dashgen.output.writer import check_own
    from dashgen.preview.page import MARK

    if screenshots is None:
        check_own(output, MARK)
    for tool in ("promtool", "prometheus", *(["chromium"] if screenshots else [])):
        find(tool)


def _write_page(content: Page, boards: tuple[str, ...], output: Path) -> None:
    from dashgen.preview import page

    text = page.page(content)
    write(text, output)
    say(f"{output}: {counted(len(boards), 'board')}, {len(text.encode()) / 1e6:.1f} MB")


def _write_pictures(content: Page, boards: tuple[str, ...], folder: Path) -> None:
    from dashgen.output.writer import write_file
    from dashgen.preview import pictures

    for name, picture in pictures.pictures(content, boards):
        write_file(folder / name, picture)
        say(f"{folder / name}: {len(picture) / 1e3:.0f} kB")


def lint(
    paths: Annotated[list[Path], typer.Argument(help="dashboard JSON files, or folders of them")],
    format: Annotated[Report, typer.Option("--format", help="form of the findings")] = Report.TEXT,
) -> None:
    """Check Grafana dashboards, also other people's, for what makes them break or mislead."""
    from dashgen.lint import foreign
    from dashgen.lint import rules as linting

    findings = [
        replace(found, file=str(path)) for path, data in foreign.dashboards(paths) for found in linting.lint(data)
    ]
    typer.echo(linting.render(findings, format.value), nl=False)
    if findings:
        raise typer.Exit(1)
