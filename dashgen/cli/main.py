# SPDX-License-Identifier: Apache-2.0
"""The command line: which commands there are, in the order in which ``dashgen --help`` tells them.

What is slow to import is imported by the command that needs it, so that ``dashgen --help`` stays instant.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dashgen import __version__
from dashgen.cli import boards, build, config, cost, demo, exits, explain, judge, live, recordings

app = typer.Typer(
    name="dashgen",
    help="Grafana dashboards and Prometheus rules for NCCL Inspector metrics, proven on recorded metrics.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="A commented dashgen.yaml, and its JSON Schema for editors.")
import_app = typer.Typer(help="Make a recording from Inspector's own files.")

app.command("build")(build.build)
app.command("rules")(build.rules)
app.command("explain", epilog=live.CREDENTIALS)(explain.explain)
app.command("validate")(judge.validate)
app.command("score")(judge.score)
app.command("preview")(boards.preview)
app.command("lint")(boards.lint)
app.command("demo")(demo.demo)
app.command("doctor", epilog=live.CREDENTIALS)(live.doctor)
app.command("cost", epilog=live.CREDENTIALS)(cost.cost)
app.command("incidents", epilog=live.CREDENTIALS)(live.incidents)
app.command("windows", epilog=live.CREDENTIALS, hidden=True)(live.incidents)
app.command("record", epilog=live.CREDENTIALS)(live.record)
app.add_typer(import_app, name="import")
import_app.command("json")(recordings.import_json)
import_app.command("textfile")(recordings.import_textfile)
app.command("simulate")(recordings.simulate)
app.command("baseline")(config.baseline)
app.add_typer(config_app, name="config")
config_app.command("init")(config.init)
config_app.command("schema")(config.schema)


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


def main() -> None:
    """The command line, to its end."""
    exits.run(app)
