# SPDX-License-Identifier: Apache-2.0
"""The commands that write what a site runs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import Config, Level, OutFile, Report, say, site_of, write
from dashgen.errors import UserError
from dashgen.guard.text import counted, line, listed
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.model import Bundle
    from dashgen.output.writer import Change


class Only(StrEnum):
    """Half of a rule pack."""

    RECORDING = "recording"
    ALERTS = "alerts"


def _targets(incomplete: str) -> list[str]:
    """For shell completion."""
    from dashgen.targets import TARGETS

    return [name for name in TARGETS if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    """For shell completion."""
    from dashgen.targets import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


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
    from dashgen import build as building
    from dashgen import findings
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
    bundles: dict[bool, Bundle] = {}
    files: dict[str, str] = {}
    for name in names:
        own = TARGETS[name].site(site)
        if own.late_results not in bundles:
            bundles[own.late_results] = building.bundle(own, [sensitivity] if sensitivity else list(Sensitivity))
        try:
            files |= TARGETS[name].render(bundles[own.late_results], own)
        except UserError as error:
            raise UserError(f"--target {name}: {error}") from error
    owned = tuple(folder for name in names for folder in TARGETS[name].owned)
    found = writer.changes(output, files, owned) if check or diff else writer.write(output, files, owned)
    # The manifest lists what is told already: it is worth a line only when nothing else is.
    told = [change for change in found if change.path != writer.MANIFEST] or found
    meaning = drift.summary(told)
    if form == "text":
        _show(told, diff=check or diff)
        for each in meaning:
            say(each, err=check or diff)
    else:
        typer.echo(findings.render(drift.findings(told), form), nl=False)
    if check and found:
        say(f"{counted(len(told), 'file is', 'files are')} stale; run `dashgen build` and commit the result", err=True)
        raise typer.Exit(1)
    same = len(files) - sum(change.path in files for change in found)
    verb = "would change" if check or diff else "changed"
    say(
        f"{counted(len(files), 'file')} in {output}: {len(told)} {verb}, {same} as they were",
        err=diff or form != "text",
    )


def _show(changes: Iterable[Change], *, diff: bool) -> None:
    for change in changes:
        if diff:
            for each in change.diff():
                say(each)
        else:
            say(f"{change.kind:>8}  {change.path}")


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
    from dashgen import build as building
    from dashgen.targets import FORMATS, TARGETS, Pack

    if format not in FORMATS:
        raise UserError(f"--format {line(format, 60)}: no such form; there are {listed(FORMATS, format)}")
    site = TARGETS[format].site(site_of(config))
    bundle = building.bundle(site, [sensitivity])
    groups = () if only is Only.ALERTS else bundle.recording
    if only is not Only.RECORDING:
        groups += bundle.alerts[sensitivity]
    name = f"nccl-{only.value if only else sensitivity.value}"
    write(FORMATS[format](Pack(name, groups), bundle, site), output)
