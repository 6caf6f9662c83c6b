# SPDX-License-Identifier: Apache-2.0
"""Plain data into a checked model, and what is wrong with it in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from dashgen.errors import UserError
from dashgen.guard.text import line

_Model = TypeVar("_Model", bound=BaseModel)

# Steps of a check that are no keys of the file.
_INNER = re.compile(r"\[key\]$|function-")

_WORDS = {
    "extra_forbidden": "no such key",
    "string_type": "is not text",
    "tuple_type": "is not a list",
    "model_type": "expects keys with values, one a line",
    "dict_type": "expects keys with values, one a line",
    "missing": "is missing; add it",
}


def keys(place: Iterable[int | str]) -> list[str]:
    """The keys of data on the way to a mistake, without the steps of the check itself."""
    return [str(part) for part in place if not _INNER.match(str(part))]


def checked(model: type[_Model], data: object, where: str, schema: str) -> _Model:
    """The model of some data. Raises UserError that begins with ``where`` and the key, for the first mistake found.

    ``schema`` tells where the keys are listed.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(line(part, 60) for part in keys(first["loc"]))
        message = _WORDS.get(first["type"]) or line(first["msg"].removeprefix("Value error, "), 240)
        # A semicolon begins the remedy of a message, unless it stands in what was given.
        remedied = message.count(";") > str(first["input"]).count(";")
        remedy = "" if remedied and first["type"] not in _WORDS else f"; {schema}"
        raise UserError(": ".join(part for part in (where, key, message) if part) + remedy) from error
