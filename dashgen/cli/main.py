# SPDX-License-Identifier: Apache-2.0
"""Arguments in, exit code out; the only place that prints.

Exit codes: 0 fine, 1 findings, 2 usage, bad configuration or a missing tool. What is slow to import is imported by
the command that needs it, so that ``dashgen --help`` stays instant.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dashgen import __version__
from dashgen.cli import live as cli_live
from dashgen.cli.terminal import (
    Config,
    OutFile,
    RecordingFolder,
    bytes_progress,
    console,
    progress,
    say,
    site_of,
    utc,
    write,
)
from dashgen.errors import UserError
from dashgen.guard.text import line, listed
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.config.site import Site
    from dashgen.output.writer import Change
    from dashgen.recordings.format import Recording, Series
    from dashgen.recordings.importing import ImportReport
    from dashgen.validation.recorded import Engine

app = typer.Typer(
    name="dashgen",
    help="Grafana dashboards and Prometheus rules for NCCL Inspector metrics, proven on recorded metrics.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="A commented dashgen.yaml, and its JSON Schema for editors.", no_args_is_help=True)
import_app = typer.Typer(help="Make a recording from Inspector's own files.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(import_app, name="import")
for name, command in cli_live.COMMANDS.items():
    app.command(name, epilog=cli_live.CREDENTIALS, hidden=name in cli_live.ALIASES)(command)

# Where a checkout keeps its recordings; an installed dashgen is told where they are.
DEFAULT_RECORDINGS = Path("tests/recordings")

Level = Annotated[Sensitivity, typer.Option("--sensitivity", help="how much the on-call wants to hear")]


class Only(StrEnum):
    """Half of a rule pack."""

    RECORDING = "recording"
    ALERTS = "alerts"


class Document(StrEnum):
    """YAML files that people write."""

    SITE = "site"
    RECORDING = "recording"


class Report(StrEnum):
    """Forms of a list of findings."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


def _targets(incomplete: str) -> list[str]:
    """For shell completion."""
    from dashgen.targets import TARGETS

    return [name for name in TARGETS if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    """For shell completion."""
    from dashgen.targets import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dashgen {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and leave")
    ] = False,
) -> None:
    del version


@app.command()
def build(
    config: Config = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder to write to")] = Path(),
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="form of the output; may be repeated", autocompletion=_targets),
    ] = None,
    sensitivity: Annotated[
        Sensitivity | None, typer.Option("--sensitivity", help="write the alert pack of one tier only")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit 1 when something is stale")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="write nothing; show what would change")] = False,
    format: Annotated[Report, typer.Option("--format", help="form in which --check tells what is stale")] = Report.TEXT,
) -> None:
    """Write every dashboard, recording rule, alert pack and runbook."""
    from dashgen import findings
    from dashgen.build import bundle as building
    from dashgen.output import changes as drift
    from dashgen.output import writer
    from dashgen.targets import TARGETS

    form: findings.Format = format.value
    if form != "text" and not check:
        raise UserError(f"--format {form}: tells what is stale; add --check")
    names = target or ["files"]
    for name in names:
        if name not in TARGETS:
            raise UserError(f"--target {line(name, 60)}: no such target; there are {listed(TARGETS, name)}")
    site = site_of(config)
    bundle = building.bundle(site, [sensitivity] if sensitivity else list(Sensitivity))
    files: dict[str, str] = {}
    for name in names:
        files |= TARGETS[name].render(bundle, site)
    owned = tuple(folder for name in names for folder in TARGETS[name].owned)
    found = writer.changes(output, files, owned) if check or diff else writer.write(output, files, owned)
    # The manifest says in checksums what the files say in words: it is worth a line only when nothing else is.
    told = [change for change in found if change.path != writer.MANIFEST] or found
    meaning = drift.summary(told)
    if form == "text":
        _show(told, diff=check or diff)
        for each in meaning:
            say(each, err=check or diff)
    else:
        typer.echo(findings.render(drift.findings(told), form), nl=False)
    if check and found:
        say(f"{len(told)} files are stale; run `dashgen build` and commit the result", err=True)
        raise typer.Exit(1)
    same = len(files) - sum(change.path in files for change in found)
    verb = "would change" if check or diff else "changed"
    say(
        f"{len(files)} files in {output}: {len(told)} {verb}, {same} as they were",
        err=diff or form != "text",
    )


def _show(changes: Iterable[Change], *, diff: bool) -> None:
    for change in changes:
        if diff:
            for each in change.diff():
                say(each)
        else:
            say(f"{change.kind:>8}  {change.path}")


@app.command()
def rules(
    sensitivity: Level = Sensitivity.MEDIUM,
    format: Annotated[
        str, typer.Option("--format", help="form of the pack, as in build --target", autocompletion=_formats)
    ] = "prometheus",
    only: Annotated[Only | None, typer.Option("--only", help="half of the pack")] = None,
    output: OutFile = None,
    config: Config = None,
) -> None:
    """Print one rule pack: the recording rules and the alerts of one tier."""
    from dashgen.build import bundle as building
    from dashgen.targets import FORMATS, Pack

    if format not in FORMATS:
        raise UserError(f"--format {line(format, 60)}: no such form; there are {listed(FORMATS, format)}")
    site = site_of(config)
    bundle = building.bundle(site, [sensitivity])
    groups = () if only is Only.ALERTS else bundle.recording
    if only is not Only.RECORDING:
        groups += bundle.alerts[sensitivity]
    name = f"nccl-{only.value if only else sensitivity.value}"
    write(FORMATS[format](Pack(name, groups), bundle, site), output)


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="a signal such as job:nccl_verdict:depth, or an alert")],
    job: Annotated[
        str | None, typer.Option("--job", help="id of a job: print the values of everything behind the name for it")
    ] = None,
    prometheus: Annotated[str | None, typer.Option("--prometheus", help="address of the Prometheus to ask")] = None,
    recording: Annotated[Path | None, typer.Option("--recording", help="folder of one recording to ask")] = None,
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at", help="moment, UTC; by default now, in a recording the end of the job's first fault or of everything"
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Tell what a signal or an alert asks, how, and what to do about it; with --job, why it says what it says."""
    from dashgen.explain.words import check
    from dashgen.explain.words import explain as text

    site = site_of(config)
    if job is None:
        if prometheus or recording or at:
            raise UserError("explain: --prometheus, --recording and --at need a job; add --job ID")
        say(text(name, site))
        return
    if (prometheus is None) == (recording is None):
        raise UserError("explain: --job needs a place to look; give --prometheus URL or --recording DIR")
    check(name, site)
    asked = None if at is None else utc(at).timestamp()
    if prometheus is not None:
        from dashgen.explain.values import Subject, why
        from dashgen.live.client import api

        now = datetime.now(UTC).timestamp()
        ask = api.prometheus(prometheus).instant
        say(why(Subject(name, job, now if asked is None else asked), site, ask))
    elif recording is not None:
        say(_why_recorded(name, job, recording, asked, site))


def _why_recorded(name: str, job: str, folder: Path, asked: float | None, given: Site) -> str:
    """What the rules make of a recording, asked of a Prometheus that holds it."""
    from dashgen.build import bundle as building
    from dashgen.engine import evaluated as replay
    from dashgen.engine import prometheus
    from dashgen.explain.values import Subject, moment, why
    from dashgen.recordings.format import read_samples, read_story
    from dashgen.validation import results as scoreboard

    for tool in ("promtool", "prometheus"):
        prometheus.find(tool)
    story = read_story(folder)
    subject = Subject(name, job, replay.within(story, asked, moment(story, job)))
    ((_, site),) = scoreboard.sites([folder], given)
    bundle = building.bundle(site, list(Sensitivity))
    with progress(1, "evaluating") as step:
        played = replay.replay(bundle, story, read_samples(folder), list(Sensitivity))
        step(folder.name)
    with replay.serve(played) as server:
        return why(subject, site, server.query)


@app.command()
def baseline(
    files: Annotated[list[Path], typer.Argument(help="standard output of nccl-tests or rccl-tests")],
    transport: Annotated[
        str | None, typer.Option("--transport", help="nvlink, network or mixed; by default from the log's hosts")
    ] = None,
    collective: Annotated[
        str | None, typer.Option("--collective", help="where the log does not name the test, for example AllGather")
    ] = None,
    update: Annotated[Path | None, typer.Option("--update", help="dashgen.yaml to write the values into")] = None,
) -> None:
    """Turn nccl-tests output into the bus bandwidth that jobs are expected to reach."""
    from dashgen.config import nccl_tests as ncclperf

    carrier = ncclperf.transport(transport) if transport else None
    values = ncclperf.acceptance(files, carrier, ncclperf.collective(collective) if collective else None)
    if update is None:
        typer.echo(ncclperf.block(values), nl=False)
        return
    from dashgen.output.writer import write_file

    write_file(update, ncclperf.merge(update, values))
    say(f"{update}: {len(values)} accepted values")


@app.command()
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
    from dashgen.build import bundle as building
    from dashgen.validation import results as scoreboard
    from dashgen.validation import validate as proof

    site = site_of(config)
    tiers = sensitivity or list(Sensitivity)
    folders = scoreboard.folders(recordings)
    if report is not None and not report.absolute().parent.is_dir():
        raise UserError(f"{report}: its folder does not exist; make it, or name another file with --report")
    packs = proof.check_packs(building.bundle(site, tiers), building.exposed(site))
    jobs = [(building.bundle(own, tiers), folder) for folder, own in scoreboard.sites(folders, site)]
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


@app.command()
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
    from dashgen.validation import packs, recorded
    from dashgen.validation import score_report as scorecard

    site = site_of(config)
    jobs = scorecard.gather(recordings or [DEFAULT_RECORDINGS], site)
    if json is not None and not json.absolute().parent.is_dir():
        raise UserError(f"{json}: its folder does not exist; make it, or name another file with --json")
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
        say(f"{reason}; using promtool, which evaluates everything at one moment", err=True)
    return Engine(program, offsets and program is not None)


@app.command()
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
    from tempfile import TemporaryDirectory

    from dashgen.build import bundle as building
    from dashgen.engine import prometheus
    from dashgen.output.writer import check_own, write_file
    from dashgen.preview import commands, make, page, pictures
    from dashgen.simulator.scenario import scenario_path
    from dashgen.simulator.simulate import make_recording
    from dashgen.validation import results as scoreboard

    if screenshots is None:
        check_own(output, page.MARK)
    given = site_of(config)
    for tool in ("promtool", "prometheus", *(["chromium"] if screenshots else [])):
        prometheus.find(tool)
    with TemporaryDirectory(prefix="dashgen-") as scratch:
        folder = recording or Path(scratch) / commands.SCENARIO
        if recording is None:
            make_recording(scenario_path(commands.SCENARIO), folder)
        ((_, site),) = scoreboard.sites([folder], given)
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
    if screenshots is not None:
        for name, picture in pictures.pictures(content, wanted.boards):
            write_file(screenshots / name, picture)
            say(f"{screenshots / name}: {len(picture) / 1e3:.0f} kB")
        return
    text = page.page(content)
    write(text, output)
    say(f"{output}: {len(wanted.boards)} boards, {len(text.encode()) / 1e6:.1f} MB")


@app.command()
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


@app.command()
def simulate(
    scenario: Annotated[str, typer.Argument(help="name of a scenario that comes with dashgen, or a YAML file")],
    output: Annotated[Path, typer.Option("--output", "-o", help="folder of the recording")],
    seed: Annotated[int | None, typer.Option("--seed", help="instead of the scenario's own")] = None,
) -> None:
    """Make a recording from a scenario: a physical model of a training job, deterministic by seed."""
    from dashgen.recordings.importing import check_writable
    from dashgen.simulator.scenario import scenario_path
    from dashgen.simulator.simulate import make_recording

    check_writable(output)
    path = Path(scenario) if scenario.endswith((".yaml", ".yml")) else scenario_path(scenario)
    recording = make_recording(path, output, seed)
    span = f"{recording.start:%Y-%m-%d %H:%M} to {recording.end:%H:%M} UTC"
    say(f"{output}: {span}, {len(recording.faults)} events")


@import_app.command("json")
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


@import_app.command("textfile")
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


@config_app.command("init")
def config_init(output: OutFile = None) -> None:
    """Print a commented dashgen.yaml in which every key has its default."""
    from dashgen.explain.words import example

    if output is not None and output.exists():
        raise UserError(f"{output}: exists already; name another file or remove it first")
    write(example(), output)


@config_app.command("schema")
def config_schema(
    of: Annotated[Document, typer.Option("--of", help="the file that the schema is for")] = Document.SITE,
    output: OutFile = None,
) -> None:
    """Print the JSON Schema of dashgen.yaml, or of a recording.yaml."""
    import json

    from pydantic import BaseModel

    from dashgen.config.site import Site
    from dashgen.recordings.format import Recording

    models: dict[Document, type[BaseModel]] = {Document.SITE: Site, Document.RECORDING: Recording}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **models[of].model_json_schema()}
    write(json.dumps(schema, indent=2) + "\n", output)


def _save(output: Path, result: tuple[Recording, list[Series], ImportReport]) -> None:
    from dashgen.recordings.importing import save

    recording, series, report = result
    save(output, recording, series)
    say(f"{output}: {len(series)} series, {recording.start:%Y-%m-%d %H:%M} to {recording.end:%H:%M} UTC")
    for each in report.lines():
        say(each, err=True)


def main() -> None:
    """The console script."""
    # Rules and runbooks are UTF-8, whatever the terminal's language.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    out = sys.stdout
    # As an interrupt does: what was begun is cleaned up, and processes that were started end.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        # Without standalone mode typer leaves errors, and the exit code, to us.
        code = app(prog_name="dashgen", standalone_mode=False)
        if out is not None:
            out.flush()
    except SystemExit as end:
        # Except where typer or rich find that the reader has gone (| head), which for them is exit code 1.
        sys.exit(0 if end.code == 1 else end.code)
    except UserError as error:
        _fail(str(error))
    except typer.TyperException as error:
        # Without any argument there is no message: the help has been printed.
        if error.format_message():
            _fail(_usage(error))
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except MemoryError:
        _fail("not enough memory; give it less input, or the machine more")
    except OSError as error:
        if error.filename is not None:
            _fail(f"{os.fsdecode(error.filename)}: {error.strerror}; name another one, or mend it")
        # The interpreter must not complain as well when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if not isinstance(error, BrokenPipeError):
            _fail(f"standard output: {error.strerror}")
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _terminated(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def _usage(error: typer.TyperException) -> str:
    """A misspelt command line in one line, with the place that tells more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "dashgen"
    where = command.removeprefix("dashgen").strip()
    message = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".")
    return f"{where}: {message}; see `{command} --help`" if where else f"{message}; see `{command} --help`"


def _fail(message: str) -> NoReturn:
    # One line, whatever a file name or a configuration contains.
    typer.echo(line(f"dashgen: {message}"), err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
