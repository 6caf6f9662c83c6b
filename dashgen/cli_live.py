# SPDX-License-Identifier: Apache-2.0
"""The commands that ask running servers: arguments in, exit code out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from dashgen.errors import UserError
from dashgen.terminal import Config, RecordingFolder, bytes_progress, site_of, utc

CREDENTIALS = """Credentials come from the environment: DASHGEN_PROMETHEUS_TOKEN, _TOKEN_FILE, _USER, _PASSWORD,
_PASSWORD_FILE, _CA_FILE, _CERT_FILE, _KEY_FILE, _TENANT, or _HTTP_CONFIG, a file as of promtool --http.config.file."""

Url = Annotated[
    str, typer.Option("--prometheus", help="address of the Prometheus; credentials from DASHGEN_PROMETHEUS_*")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="tenant of a Mimir or Cortex: X-Scope-OrgID")]
Timeout = Annotated[float, typer.Option("--timeout", min=1, max=3600, help="seconds for one answer")]
Start = Annotated[datetime | None, typer.Option("--start", help="begin, UTC unless it says otherwise")]
End = Annotated[datetime | None, typer.Option("--end", help="end, UTC unless it says otherwise; by default now")]
Since = Annotated[str | None, typer.Option("--since", help="instead of --start: how long before the end, such as 2h")]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def span(start: datetime | None, end: datetime | None, since: str | None) -> tuple[datetime, datetime]:
    """Begin and end of what is asked about. Raises UserError unless exactly one option says when it begins."""
    if (start is None) == (since is None):
        raise UserError("--start, --since: give one of them, for example --since 2h")
    until = utc(end) if end else datetime.now(UTC)
    if start is not None:
        return utc(start), until
    match = re.fullmatch(r"(\d{1,6})([smhd])", since or "")
    if match is None or not int(match[1]):
        raise UserError(f"--since {since}: not a duration; write it as 90s, 30m, 2h or 7d")
    try:
        return until - timedelta(**{_UNITS[match[2]]: int(match[1])}), until
    except OverflowError as error:
        raise UserError(f"--since {since}: begins before there were clocks; record a shorter time") from error


def record(
    job: Annotated[list[str], typer.Option("--job", help="id of a job; may be repeated")],
    output: RecordingFolder,
    start: Start = None,
    end: End = None,
    since: Since = None,
    prometheus: Url = "http://localhost:9090",
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
    from dashgen.live import api
    from dashgen.live.record import record as recorded

    site = site_of(config)
    begin, stop = span(start, end, since)
    server = api.prometheus(prometheus, tenant=tenant, seconds=timeout)
    with bytes_progress("fetching") as progress:
        _, series, report = recorded(
            server,
            list(dict.fromkeys(job)),
            begin,
            stop,
            out=output,
            site=site,
            pseudonyms=pseudonyms,
            extra=extra or (),
            progress=progress,
        )
    typer.echo(f"{output}: {len(series)} series, {report.used} samples")


COMMANDS = (record,)
