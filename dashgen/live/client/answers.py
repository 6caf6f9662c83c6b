# SPDX-License-Identifier: Apache-2.0
"""What a Prometheus answers, checked: one model for every answer of its HTTP API.

JSON is read straight into these models, so nothing of a wrong type gets any further. Times are finite and of this
century; a value may be NaN or infinite, because Prometheus' may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, Strict, ValidationError

from dashgen.errors import UserError
from dashgen.guard.models import keys
from dashgen.live.client.http import looks_like_html
from dashgen.recordings.format import LATEST

Time = Annotated[float, Strict(), Field(allow_inf_nan=False, ge=0, le=LATEST)]
Sample = tuple[Time, float]
Lasts = Annotated[float, Field(allow_inf_nan=False)]
Metric = dict[str, str]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, cache_strings="all")


class OnePoint(_Model):
    """A series at a moment."""

    metric: Metric
    value: Sample


class Points(_Model):
    """A series over time; Prometheus adds ``histograms`` for native ones, which no rule here reads."""

    metric: Metric
    values: tuple[Sample, ...] = ()


class Vector(_Model):
    resultType: Literal["vector"]
    result: tuple[OnePoint, ...]


class Matrix(_Model):
    resultType: Literal["matrix"]
    result: tuple[Points, ...]


class Scalar(_Model):
    resultType: Literal["scalar"]
    result: Sample


class Values(RootModel[Annotated[Vector | Matrix | Scalar, Field(discriminator="resultType")]]):
    """What a query gives."""


class Rule(_Model):
    """A rule as a server has it; ``type`` is recording or alerting."""

    name: str
    query: str = ""
    duration: Lasts = 0.0
    labels: Metric = Field(default_factory=dict)
    type: str = ""
    health: str = ""
    lastError: str = ""
    evaluationTime: Lasts = 0.0


class Group(_Model):
    """A group of rules; times in seconds."""

    name: str
    file: str = ""
    interval: Lasts = 0.0
    evaluationTime: Lasts = 0.0
    lastEvaluation: str = ""
    rules: tuple[Rule, ...] = ()


class Rules(_Model):
    groups: tuple[Group, ...] = ()


class Alertmanager(_Model):
    url: str


class Alertmanagers(_Model):
    activeAlertmanagers: tuple[Alertmanager, ...] = ()


T = TypeVar("T")


class Answer(_Model, Generic[T]):
    """The envelope of every answer."""

    status: Literal["success", "error"]
    data: T | None = None
    error: str = ""


def read(body: bytes, data: type[T], url: str, clean: Callable[[str], str]) -> T:
    """The data of an answer. Raises UserError, which names the server and the place, for anything else.

    ``clean`` makes one line without secrets of what the server said.
    """
    try:
        answer = Answer[data].model_validate_json(body)  # type: ignore[valid-type]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if looks_like_html(body):
            raise UserError(
                f"{url}: answers with a web page; is it a login? Give the address of the Prometheus"
            ) from error
        place = ".".join(keys(first["loc"]))
        said = f"{place}: {first['msg']}" if place else first["msg"]
        raise UserError(f"{url}: not the answer of a Prometheus: {clean(said)}; is this a Prometheus?") from error
    if answer.status != "success" or answer.data is None:
        raise UserError(f"{url}: answers with an error: {clean(answer.error) or 'no data'}; look at its log")
    return answer.data
