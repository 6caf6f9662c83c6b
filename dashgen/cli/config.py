# SPDX-License-Identifier: Apache-2.0
"""The commands that help to write dashgen.yaml."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dashgen.cli.terminal import OutFile, say, write
from dashgen.errors import UserError


class Document(StrEnum):
    """YAML files that people write."""

    SITE = "site"
    RECORDING = "recording"
    SCENARIO = "scenario"


def init(output: OutFile = None) -> None:
    """Print a commented dashgen.yaml in which every key has its default."""
    from dashgen.explain.words import example

    if output is not None and output.exists():
        raise UserError(f"{output}: exists already; name another file or remove it first")
    write(example(), output)


def schema(
    of: Annotated[Document, typer.Option("--of", help="the file that the schema is for")] = Document.SITE,
    output: OutFile = None,
) -> None:
    """Print the JSON Schema of dashgen.yaml, of a recording.yaml, or of a scenario."""
    import json

    from pydantic import BaseModel

    model: type[BaseModel]
    if of is Document.SITE:
        from dashgen.config.site import Site as model
    elif of is Document.RECORDING:
        from dashgen.recordings.format import Recording as model
    else:
        from dashgen.simulator.scenario import Scenario as model
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    write(json.dumps(found, indent=2) + "\n", output)


def baseline(
    files: Annotated[list[Path], typer.Argument(help="standard output of nccl-tests or rccl-tests")],
    transport: Annotated[
        str | None, typer.Option("--transport", help="nvlink, network or mixed; by default from the log's hosts")
    ] = None,
    collective: Annotated[
        str | None, typer.Option("--collective", help="instead of what the log says, for example AllGather")
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
