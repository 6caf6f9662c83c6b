# SPDX-License-Identifier: Apache-2.0
"""``dashgen cost``: arguments in, exit code out."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dashgen.cli.terminal import Config, Tenant, Timeout, console, progress, say, site_of
from dashgen.errors import UserError

if TYPE_CHECKING:
    from dashgen.config.site import Site
    from dashgen.cost.survey import Survey

JOB = 256  # GPUs of a job where nobody says how many jobs there are


class CostForm(StrEnum):
    """Forms of a bill."""

    TEXT = "text"
    JSON = "json"


def cost(
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, max=10**7, help="GPUs of the fleet")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, max=10**6, help="jobs at a time; by default one for 256 GPUs")
    ] = None,
    series: Annotated[
        float | None, typer.Option("--series", min=1, max=10**5, help="series of Inspector a GPU; by default 48")
    ] = None,
    scrape: Annotated[float, typer.Option("--scrape", min=1, max=600, help="seconds between two scrapes")] = 15.0,
    days: Annotated[float, typer.Option("--days", min=0.1, max=3650, help="days that samples are kept")] = 15.0,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", help="address of a live Prometheus to compare with")
    ] = None,
    tenant: Tenant = None,
    timeout: Timeout = 60.0,
    format: Annotated[CostForm, typer.Option("--format", help="form of the bill")] = CostForm.TEXT,
    config: Config = None,
) -> None:
    """Tell what a fleet costs its Prometheus: series, samples, rule seconds, memory and disk."""
    from dataclasses import replace

    from dashgen.cost import table
    from dashgen.cost.advice import advice
    from dashgen.cost.forecast import forecast, usual

    if gpus and jobs and jobs > gpus:
        raise UserError(f"--jobs {jobs}: more jobs than GPUs; give {gpus} at most")
    site = site_of(config)
    found = _survey(prometheus, site, days, tenant, timeout) if prometheus else None
    if gpus:
        fleet = usual(gpus, jobs or max(1, gpus // JOB), scrape, days)
    elif found:
        fleet = found.fleet
    else:
        raise UserError("cost: needs a fleet; give --gpus N, or --prometheus URL")
    fleet = replace(fleet, nccl=series) if series else fleet
    bill = forecast(fleet, site)
    live = found.bill if found and gpus is None else None
    listed = advice(site, fleet, found.by_size if found else {}, found.by_metric if found else {})
    if format is CostForm.JSON:
        typer.echo(table.as_json(fleet, bill, live, listed), nl=False)
    else:
        say(
            f"{fleet.gpus:,} GPUs, {fleet.jobs:,} jobs, {fleet.nccl:.0f} + {fleet.companions:.0f} series a GPU, "
            f"a scrape every {fleet.scrape:g} s, kept {fleet.days:g} days"
        )
        console().print(table.table(bill, live))
        say("\nTo pay less, in the scrape job of Inspector's files:\n\n" + table.advised(listed))
    if found and found.fleet.nccl > site.cardinality_budget:
        budget = f"{found.fleet.nccl:.0f} series a GPU are over cardinality_budget, {site.cardinality_budget}"
        say(f"\n{prometheus}: {budget}; drop some as above, or raise it in dashgen.yaml", err=True)
        raise typer.Exit(1)


def _survey(url: str, site: Site, days: float, tenant: str | None, timeout: float) -> Survey:
    from dashgen.cost.survey import survey
    from dashgen.live.client import api
    from dashgen.live.doctor.probe import Probe

    server = api.prometheus(url, tenant=tenant, seconds=timeout)
    with progress(1, "asking") as step:
        found = survey(Probe(server, site, datetime.now(UTC).timestamp()), days)
        step(server.url)
    return found
