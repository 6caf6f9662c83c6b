# SPDX-License-Identifier: Apache-2.0
"""The commands that ask running servers: arguments in, exit code out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import (
    Config,
    OutFile,
    RecordingFolder,
    Tenant,
    Timeout,
    bytes_progress,
    console,
    needs,
    progress,
    say,
    site_of,
    utc,
    write,
)
from dashgen.errors import UserError
from dashgen.guard.text import counted, listed

if TYPE_CHECKING:
    from dashgen.config.site import Site
    from dashgen.live.client.http import Client
    from dashgen.live.incidents.look import Found

CREDENTIALS = """Credentials come from the environment: DASHGEN_PROMETHEUS_TOKEN, _TOKEN_FILE, _USER, _PASSWORD,
_PASSWORD_FILE, _CA_FILE, _CERT_FILE, _KEY_FILE, _TENANT, or _HTTP_CONFIG, a file as of promtool --http.config.file."""

Url = Annotated[
    str, typer.Option("--prometheus", help="address of the Prometheus; credentials from DASHGEN_PROMETHEUS_*")
]
_HERE = "http://localhost:9090"
Start = Annotated[datetime | None, typer.Option("--start", help="begin, UTC unless it says otherwise")]
End = Annotated[datetime | None, typer.Option("--end", help="end, UTC unless it says otherwise; by default now")]
Since = Annotated[str | None, typer.Option("--since", help="instead of --start: how long before the end, such as 2h")]


def span(start: datetime | None, end: datetime | None, since: str | None) -> tuple[datetime, datetime]:
    """Begin and end of what is asked about. Raises UserError unless exactly one option says when it begins."""
    from dashgen import durations

    if (start is None) == (since is None):
        raise UserError("--start, --since: give one of them, for example --since 2h")
    until = utc(end) if end else datetime.now(UTC)
    if start is not None:
        return utc(start), until
    try:
        asked = durations.seconds(since or "")
    except ValueError as error:
        raise UserError(f"--since: {error}; write it as 90s, 30m, 2h or 7d") from error
    if not asked:
        raise UserError(f"--since {since}: no time at all; write it as 90s, 30m, 2h or 7d")
    return until - timedelta(seconds=asked), until


def record(
    job: Annotated[list[str], typer.Option("--job", help="id of a job; may be repeated")],
    output: RecordingFolder,
    start: Start = None,
    end: End = None,
    since: Since = None,
    prometheus: Url = _HERE,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    extra: Annotated[
        list[str] | None, typer.Option("--extra", help="a further metric or selector; may be repeated")
    ] = None,
    pseudonyms: Annotated[
        bool, typer.Option("--pseudonyms", help="rename hosts, jobs, GPUs and communicators")
    ] = False,
    config: Config = None,
) -> None:
    """Make a recording of jobs from a live Prometheus; run it again to go on where it was interrupted."""
    from dashgen.live.client import api
    from dashgen.live.recorder.record import record as recorded

    site = site_of(config)
    begin, stop = span(start, end, since)
    server = api.prometheus(prometheus, tenant=tenant, seconds=timeout)
    with bytes_progress("fetching") as step:
        _, series, report = recorded(
            server,
            list(dict.fromkeys(job)),
            begin,
            stop,
            out=output,
            site=site,
            pseudonyms=pseudonyms,
            extra=extra or (),
            progress=step,
        )
    say(f"{output}: {len(series)} series, {counted(report.used, 'sample')}")


class Form(StrEnum):
    """Forms of a list of incidents."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


def incidents(
    prometheus: Annotated[
        str | None,
        typer.Option("--prometheus", help="address of the Prometheus; credentials from DASHGEN_PROMETHEUS_*"),
    ] = None,
    recording: Annotated[Path | None, typer.Option("--recording", help="folder of one recording instead")] = None,
    job: Annotated[list[str] | None, typer.Option("--job", help="id of a job; may be repeated; by default all")] = None,
    start: Start = None,
    end: End = None,
    since: Annotated[str | None, typer.Option("--since", help="instead of --start; by default 24h")] = None,
    format: Annotated[Form, typer.Option("--format", help="form of the answer")] = Form.TABLE,
    output: OutFile = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="write them into Grafana (--grafana, DASHGEN_GRAFANA_TOKEN)")
    ] = False,
    grafana: Annotated[
        str | None, typer.Option("--grafana", help="Grafana's address; by default dashgen.yaml's")
    ] = None,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    config: Config = None,
) -> None:
    """Tell when jobs were slow or stood still, whose fault it was, and what it cost."""
    if (prometheus is None) == (recording is None):
        raise UserError("incidents: needs one place to look; give either --prometheus URL or --recording DIR")
    if recording is not None and (start or end or since):
        raise UserError("--start, --end, --since: a recording is looked at as a whole; leave them out")
    _check_form(format, output)
    site = site_of(config)
    target = _grafana(grafana or site.grafana.url, timeout) if annotate else None
    place = _Place(list(dict.fromkeys(job or [])), tenant, timeout)
    if recording is not None:
        found, site, title = place.recorded(recording, site)
    else:
        found, title = place.live(prometheus or "", site, *span(start, end, since or (None if start else "24h")))
    for line in found.notes:
        say(line, err=True)
    if format is Form.HTML:
        _review(found, site, title, (prometheus or "").rstrip("/"), output)
    else:
        _tell(found, site, format, output)
    if target is not None:
        from dashgen.live.incidents.annotate import annotate as annotated

        say(f"{target.url}: {counted(annotated(target, found.incidents), 'annotation')} written", err=True)


def _check_form(form: Form, output: Path | None) -> None:
    """Before anything is asked: a review needs a file, and not somebody else's."""
    if form is Form.TABLE and output is not None:
        raise UserError("--output: a table is for the terminal; add --format json, csv or html")
    from dashgen.output.writer import check_file, check_own

    if form is not Form.HTML:
        if output is not None:
            check_file(output, "-o")
        return
    needs("plotly")
    from dashgen.engine.programs import find
    from dashgen.live.incidents.review import MARK

    if output is None:
        raise UserError("--format html: needs a file; add -o review.html")
    check_own(output, MARK)
    for tool in ("promtool", "prometheus"):
        find(tool)


def _grafana(url: str, timeout: float) -> Client:
    from dashgen.live.incidents.annotate import grafana

    if not url:
        raise UserError("--annotate: needs a Grafana; add --grafana URL, or grafana.url to dashgen.yaml")
    return grafana(url, seconds=timeout)


def _tell(found: Found, site: Site, form: Form, output: Path | None) -> None:
    from dashgen.live.incidents import report as incident_report

    if form is Form.JSON:
        write(incident_report.as_json(found.incidents), output)
    elif form is Form.CSV:
        write(incident_report.as_csv(found.incidents), output)
    else:
        console().print(incident_report.table(found.incidents, site))
        say(incident_report.summary(found.incidents))


def _review(found: Found, site: Site, title: str, link: str, output: Path | None) -> None:
    from dashgen.live.incidents.report import summary
    from dashgen.live.incidents.review import MOST, review

    with progress(min(len(found.incidents), MOST), "drawing") as step:
        write(review(found, site, title, link, step), output)
    say(f"{output}: {summary(found.incidents)}")


@dataclass(frozen=True)
class _Place:
    """Where incidents of some jobs are looked for."""

    jobs: list[str]
    tenant: str | None
    timeout: float

    def recorded(self, folder: Path, given: Site) -> tuple[Found, Site, str]:
        """In a recording, at the site that it was made at."""
        from dashgen.live.incidents import look
        from dashgen.recordings.sites import made_at

        site = made_at(folder, given)
        with progress(1, "evaluating") as step:
            found = look.in_recording(folder, site, self.jobs)
            step(folder.name)
        return found, site, f"Incidents of the recording {folder.resolve().name}"

    def live(self, url: str, site: Site, begin: datetime, stop: datetime) -> tuple[Found, str]:
        """On a server."""
        from dashgen.live.client import api
        from dashgen.live.incidents import look

        if stop <= begin:
            raise UserError(f"end {stop.isoformat()} is not after start {begin.isoformat()}")
        server = api.prometheus(url, tenant=self.tenant, seconds=self.timeout)
        with bytes_progress("replaying the rules") as step:
            found = look.on_server(server, site, begin.timestamp(), stop.timestamp(), self.jobs, step)
        return found, f"Incidents from {begin:%Y-%m-%d %H:%M} to {stop:%Y-%m-%d %H:%M} UTC"


class DoctorForm(StrEnum):
    """Forms of what doctor finds."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def doctor(
    prometheus: Url = _HERE,
    grafana: Annotated[
        str | None,
        typer.Option("--grafana", help="address of a Grafana whose boards are compared; DASHGEN_GRAFANA_TOKEN"),
    ] = None,
    at: Annotated[datetime | None, typer.Option("--at", help="moment at which a job ran, UTC; by default now")] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, max=10**7, help="forecast what so many GPUs cost, without a server")
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, max=10**6, help="with --gpus: so many jobs")] = None,
    format: Annotated[DoctorForm, typer.Option("--format", help="form of the findings")] = DoctorForm.TEXT,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    config: Config = None,
) -> None:
    """Tell what makes the packs blind or wrong at a site, and the lines of dashgen.yaml that cure it."""
    if gpus is not None:
        asks = {"--prometheus": prometheus != _HERE, "--grafana": grafana, "--at": at, "--tenant": tenant}
        if unheard := [option for option, given in asks.items() if given]:
            raise UserError(f"{unheard[0]}: --gpus asks no server; leave one of them out")
        _forecast(gpus, jobs, format, config)
        return
    if jobs is not None:
        raise UserError("--jobs: belongs to a forecast; add --gpus")
    from dashgen import findings
    from dashgen.live.client import api
    from dashgen.live.doctor import table
    from dashgen.live.doctor.probe import Probe
    from dashgen.live.incidents.annotate import grafana as grafana_at

    site = site_of(config)
    server = api.prometheus(prometheus, tenant=tenant, seconds=timeout)
    boards = grafana_at(grafana, seconds=timeout) if grafana else None
    moment = (utc(at) if at else datetime.now(UTC)).timestamp()
    with progress(len(table.CONDITIONS), "looking at") as step:
        found = table.examine(Probe(server, site, moment, boards), step)
    about = {each.name: each.about for each in table.CONDITIONS}
    typer.echo(findings.render([each.finding for each in found], format.value, about), nl=False)
    lines = table.cure(found)
    if format is DoctorForm.TEXT:
        if lines:
            say("\nLines for dashgen.yaml; then run `dashgen build`, and load and provision the result:\n")
            say(lines.rstrip())
        elif not found:
            say(f"{server.url}: nothing is wrong in any of {len(table.CONDITIONS)} conditions")
    if found:
        raise typer.Exit(1)


def _forecast(gpus: int, jobs: int | None, form: DoctorForm, config: Path | None) -> None:
    """As ``dashgen cost`` has it."""
    from dashgen.cli.cost import CostForm, cost

    if form.value not in set(CostForm):
        raise UserError(f"--format {form.value}: tells findings, and a forecast has none; use {listed(CostForm)}")
    cost(gpus, jobs, format=CostForm(form.value), config=config)
