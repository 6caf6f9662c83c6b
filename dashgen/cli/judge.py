# SPDX-License-Identifier: Apache-2.0
"""The commands that run rules on recordings and judge what they said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import Config, console, progress, say, site_of, write
from dashgen.errors import UserError
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.validation.recorded import Engine

# Where a checkout keeps its recordings; an installed dashgen is told where they are.
DEFAULT_RECORDINGS = Path("tests/recordings")


def validate(
    recordings: Annotated[
        Path, typer.Option("--recordings", help="folder of recordings, or one recording")
    ] = DEFAULT_RECORDINGS,
    sensitivity: Annotated[
        list[Sensitivity] | None, typer.Option("--sensitivity", help="prove one tier only; may be repeated")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="write the scoreboard as JSON")] = None,
    config: Config = None,
) -> None:
    """Run every rule and every panel against recordings on real promtool and Prometheus."""
    from dashgen import build as building
    from dashgen.output.writer import check_file
    from dashgen.recordings import sites
    from dashgen.validation import results as scoreboard
    from dashgen.validation import validate as proof

    site = site_of(config)
    tiers = sensitivity or list(Sensitivity)
    folders = sites.folders(recordings)
    if report is not None:
        check_file(report, "--report")
    packs = proof.check_packs(building.bundle(site, tiers), building.exposed(site))
    made = [(folder, sites.made_at(folder, site)) for folder in folders]
    jobs = [(building.bundle(own, tiers), folder, own.labels.job) for folder, own in made]
    with progress(len(jobs), "proving") as step:
        proofs = proof.prove_all(jobs, tiers, building.panel_needs(site), lambda done: step(done.name))
    # A single recording is not meant to fill every board.
    board = proof.Scoreboard(
        packs=tuple(packs),
        proofs=tuple(proofs),
        unproven=tuple(proof.unproven(proofs)) if recordings == DEFAULT_RECORDINGS else (),
    )
    console().print(scoreboard.table(board, tiers))
    for each in scoreboard.findings(board):
        say(each)
    say(scoreboard.summary(board))
    if report is not None:
        write(board.to_json(), report)
    if not board.ok:
        raise typer.Exit(1)


def score(
    recordings: Annotated[
        list[Path] | None,
        typer.Option("--recordings", help="a recording, or a folder of recordings: a world; may be repeated"),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="folder of anybody's rule files; by default dashgen's own packs")
    ] = None,
    sensitivity: Annotated[
        list[Sensitivity] | None, typer.Option("--sensitivity", help="judge one tier only; may be repeated")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="write every incident and alarm as JSON")] = None,
    offsets: Annotated[
        bool, typer.Option(help="scrape every target and evaluate every group at its own moment, as it is in life")
    ] = True,
    config: Config = None,
) -> None:
    """Judge an alert pack, dashgen's or anybody's, on recordings whose truth is known."""
    from dashgen.output.writer import check_file
    from dashgen.validation import packs, recorded
    from dashgen.validation import score_report as scorecard

    site = site_of(config)
    jobs = scorecard.gather(recordings or [DEFAULT_RECORDINGS], site)
    if json is not None:
        check_file(json, "--json")
    judged = packs.own(sensitivity or list(Sensitivity)) if rules is None else packs.theirs(rules, sensitivity or [])
    using = _engine(offsets)
    using.check(judged)
    with progress(len(jobs), "judging") as step:
        found = recorded.judge_all(jobs, judged, using, step)
    card = scorecard.Scorecard(judged.names, using.name, using.offsets, tuple(found))
    for table in scorecard.tables(card):
        console().print(table)
        typer.echo()
    for each in card.errors:
        say(each)
    if json is not None:
        write(card.to_json(), json)
    if card.errors:
        raise typer.Exit(1)


def _engine(offsets: bool) -> Engine:
    """The rule engine that is there, or can be built; else promtool, and why in a line."""
    from dashgen.engine import scheduled as engine
    from dashgen.engine.programs import find
    from dashgen.validation.recorded import Engine

    program = engine.engine()
    reason = "no dashgen-replay on PATH, and no Go to build it from a checkout"
    if program is None and engine.buildable():
        with progress(1, "building") as step:
            try:
                program = engine.build()
            except UserError as error:
                reason = str(error)
            step("dashgen-replay")
    if program is None:
        find("promtool")
        say(f"{reason}; using promtool, which evaluates everything at one moment", err=True)
    return Engine(program, offsets and program is not None)
