# SPDX-License-Identifier: Apache-2.0
"""Further keys of rule groups that several targets let a site set."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from dashgen.config.sections import Section
from dashgen.config.targets import Labelling
from dashgen.config.values import Switch, Whole
from dashgen.durations import Duration
from dashgen.guard.text import quoted

MOST_OF_A_RULE = 2**31 - 1
"""The largest ``limit`` that Go reads on any machine."""


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]+: ?[^\r\n]*", text):
        raise ValueError(f"{quoted(text)} is not a header such as Name: value")
    return text


Header = Annotated[str, AfterValidator(_header)]
Limit = Annotated[int, Field(ge=0, le=MOST_OF_A_RULE)]


class GroupKeys(Section):
    """Keys that every group of a target's rules carries beside its name, its interval and its rules."""

    limit: Limit | None = Field(None, description="most series or alerts of one rule")

    def data(self) -> dict[str, Any]:
        """What is set, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)


class PrometheusGroup(Labelling, GroupKeys):
    """Keys of a rule group of Prometheus (prometheus.io/docs: Recording rules)."""

    query_offset: Duration | None = Field(None, description="evaluates so far in the past")


PartialResponse = Literal["warn", "abort"]


class VmGroup(Labelling, GroupKeys):
    """Keys of a rule group of vmalert and of a VMRule (docs.victoriametrics.com/vmalert)."""

    concurrency: Whole | None = Field(None, ge=1, le=10_000, description="rules evaluated at once")
    eval_alignment: Switch | None = None
    eval_delay: Duration | None = None
    eval_offset: Duration | None = None
    headers: tuple[Header, ...] | None = Field(None, description="Name: value")
    notifier_headers: tuple[Header, ...] | None = Field(None, description="Name: value")
    params: dict[str, tuple[str, ...]] | None = Field(None, description="arguments of the query's address")
    tenant: str | None = None
    type: Literal["prometheus"] | None = None

    @model_validator(mode="after")
    def _one(self) -> VmGroup:
        if self.eval_offset and self.eval_delay:
            raise ValueError("vmalert refuses eval_offset together with eval_delay; set one of them")
        return self

    def data(self) -> dict[str, Any]:
        """What is set, and that VictoriaMetrics shall not answer of ``-search.latencyOffset`` ago.

        An answer of any moment but the one that was asked for makes a window hold one result more or less.
        """
        return {**super().data(), "params": {"nocache": ["1"], **(self.params or {})}}
