# SPDX-License-Identifier: Apache-2.0
"""Arguments in, exit code out; the only place that prints.

Exit codes: 0 fine, 1 findings, 2 usage, bad configuration or a missing tool. What is slow to import is imported by
the command that needs it, so that ``dashgen --help`` stays instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen import __version__
from dashgen.errors import UserError
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.config import Site
    from dashgen.output import Change

app = typer.Typer(
    name="dashgen",
    help="Grafana dashboards and Prometheus rules for NCCL Inspector metrics, proven on recorded metrics.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="A commented dashgen.yaml, and its JSON Schema for editors.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="dashgen.yaml of the site; by default the one in this folder")
]
Level = Annotated[Sensitivity, typer.Option("--sensitivity", help="how much the on-call wants to hear")]
OutFile = Annotated[Path | None, typer.Option("--output", "-o", help="a file instead of standard output")]


class Only(StrEnum):
    """Half of a rule pack."""

    RECORDING = "recording"
    ALERTS = "alerts"


class Format(StrEnum):
    """Forms of a rule pack."""

    PROMETHEUS = "prometheus"


def _site(config: Path | None) -> Site:
    from dashgen.config import load

    return load(config)


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
    target: Annotated[list[str] | None, typer.Option("--target", help="form of the output; may be repeated")] = None,
    sensitivity: Annotated[
        Sensitivity | None, typer.Option("--sensitivity", help="write the alert pack of one tier only")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit 1 when something is stale")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="show what changes")] = False,
) -> None:
    """Write every dashboard, recording rule, alert pack and runbook."""
    from dashgen import build as building
    from dashgen import output as writer
    from dashgen.targets import TARGETS

    names = target or ["files"]
    for name in names:
        if name not in TARGETS:
            raise UserError(f"--target {name}: no such target; there are {', '.join(TARGETS)}")
    site = _site(config)
    bundle = building.bundle(site, [sensitivity] if sensitivity else list(Sensitivity))
    files: dict[str, str] = {}
    for name in names:
        files |= TARGETS[name].render(bundle, site)
    owned = tuple(folder for name in names for folder in TARGETS[name].owned)
    if check:
        found = writer.changes(output, files, owned)
        _show(found, diff=True)
        if found:
            typer.echo(f"{len(found)} of {len(files)} files are stale; run `dashgen build` and commit the result", err=True)
            raise typer.Exit(1)
        typer.echo(f"{len(files)} files are up to date")
        return
    if diff:
        _show(writer.changes(output, files, owned), diff=True)
    done = writer.write(output, files, owned)
    if not diff:
        _show(done, diff=False)
    typer.echo(f"{len(files)} files in {output}: {len(done)} changed, {len(files) - len(done)} as they were")


def _show(changes: Iterable[Change], *, diff: bool) -> None:
    for change in changes:
        if diff:
            for line in change.diff():
                typer.echo(line)
        else:
            typer.echo(f"{change.kind:>8}  {change.path}")


@app.command()
def rules(
    sensitivity: Level = Sensitivity.MEDIUM,
    format: Annotated[Format, typer.Option("--format", help="form of the pack")] = Format.PROMETHEUS,
    only: Annotated[Only | None, typer.Option("--only", help="half of the pack")] = None,
    output: OutFile = None,
    config: Config = None,
) -> None:
    """Print one rule pack: the recording rules and the alerts of one tier."""
    from dashgen import build as building
    from dashgen.targets.files import HEADER
    from dashgen.targets.rulefile import rule_file

    del format  # Prometheus is the only form so far
    site = _site(config)
    groups = () if only is Only.ALERTS else building.recording(site)
    if only is not Only.RECORDING:
        groups += building.alerts(site, sensitivity)
    _write(rule_file(groups, HEADER), output)


@app.command()
def explain(
    name: Annotated[str, typer.Argument(help="a signal such as job:nccl_degraded:bool, or an alert")],
    config: Config = None,
) -> None:
    """Tell what a signal or an alert asks, how, and what to do about it."""
    from dashgen.explain import explain as text

    typer.echo(text(name, _site(config)))


@config_app.command("init")
def config_init(output: OutFile = None) -> None:
    """Print a commented dashgen.yaml in which every key has its default."""
    from dashgen.explain import example

    if output is not None and output.exists():
        raise UserError(f"{output}: exists already; name another file or remove it first")
    _write(example(), output)


@config_app.command("schema")
def config_schema(output: OutFile = None) -> None:
    """Print the JSON Schema of dashgen.yaml."""
    import json

    from dashgen.config import Site

    _write(json.dumps(Site.model_json_schema(), indent=2) + "\n", output)


def _write(text: str, path: Path | None) -> None:
    if path is None:
        typer.echo(text, nl=False)
    else:
        from dashgen.output import write_file

        write_file(path, text)


def main() -> None:
    """The console script."""
    try:
        app()
    except UserError as error:
        typer.echo(f"dashgen: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader has gone (| head); the interpreter must not complain about it when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
