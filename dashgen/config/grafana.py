# SPDX-License-Identifier: Apache-2.0
"""The ``grafana`` section of dashgen.yaml: how boards appear there, and where it is."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from dashgen.config.sections import Section
from dashgen.config.values import (
    MOST_LABELS,
    Pattern,
    literal,
)


class Datasource(Section):
    """The dashboard variable that picks the Prometheus."""

    variable: Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9_]*$")] = "datasource"
    regex: Pattern = Field("", description="offers only data sources whose name matches")
    default: str = Field("", description="name or uid of the data source chosen at first")


def _address(text: str) -> str:
    if found := re.search("[?#]", text):
        raise ValueError(f"paths of boards are put behind it; give the address without what begins with {found[0]}")
    if re.match("https?://[^/]*@", text):
        raise ValueError("every page would carry that name and password; give the address without them")
    return literal(text)


class Grafana(Section):
    """How dashboards appear in Grafana."""

    folder: str = Field("NCCL", min_length=1, max_length=100)
    uid_prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{0,20}$")] = "dashgen-nccl-"
    title_prefix: str = Field("NCCL / ", max_length=100)
    tags: tuple[str, ...] = Field(("nccl", "dashgen"), max_length=MOST_LABELS)
    datasource: Datasource = Datasource()
    url: Annotated[str, AfterValidator(_address)] = Field(
        "", pattern=r"^(https?://\S+)?$", description="Grafana's address; alerts then link to boards"
    )
    alertmanager: str = Field(
        "", description="data source of the Alertmanager in which the fleet board silences, `grafana` for Grafana's own"
    )
    path: str = Field(
        "/var/lib/grafana/dashboards/nccl", description="where the provisioning file finds the dashboards"
    )
