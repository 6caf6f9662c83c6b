# SPDX-License-Identifier: Apache-2.0
"""The command that tells what a name means, and why it says what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import Config, Tenant, Timeout, progress, say, site_of, utc
from dashgen.errors import UserError
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from dashgen.config.site import Site


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
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
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
        raise UserError("explain: --job needs one place to look; give either --prometheus URL or --recording DIR")
    check(name, site)
    asked = None if at is None else utc(at).timestamp()
    if prometheus is not None:
        from dashgen.explain.values import Subject, why
        from dashgen.live.client import api

        now = datetime.now(UTC).timestamp()
        ask = api.prometheus(prometheus, tenant=tenant, seconds=timeout).instant
        say(why(Subject(name, job, now if asked is None else asked), site, ask))
    elif recording is not None:
        say(_why_recorded(name, job, recording, asked, site))


def _why_recorded(name: str, job: str, folder: Path, asked: float | None, given: Site) -> str:
    """What the rules make of a recording, asked of a Prometheus that holds it."""
    from dashgen import build as building
    from dashgen.engine import evaluated as replay
    from dashgen.engine.programs import find
    from dashgen.explain.values import Subject, moment, why
    from dashgen.recordings.format import read_samples, read_story
    from dashgen.recordings.sites import made_at

    for tool in ("promtool", "prometheus"):
        find(tool)
    story = read_story(folder)
    subject = Subject(name, job, replay.within(story, asked, moment(story, job)))
    site = made_at(folder, given)
    bundle = building.bundle(site, list(Sensitivity))
    with progress(1, "evaluating") as step:
        played = replay.replay(bundle, story, read_samples(folder), list(Sensitivity))
        step(folder.name)
    with replay.serve(played) as server:
        return why(subject, site, server.query)
