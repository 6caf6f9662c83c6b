# SPDX-License-Identifier: Apache-2.0
"""The ``targets`` section of ``dashgen.yaml``: what objects are called, which labels select them, where they go.

Which keys there are, the targets say themselves: each module below dashgen/targets has the model of its own keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from pydantic import Field, GetJsonSchemaHandler, ValidatorFunctionWrapHandler, create_model, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dashgen.config.sections import Section
from dashgen.config.values import MOST_LABELS, Label, LabelValue

_Keys = TypeVar("_Keys", bound=Section)


class Labelling(Section):
    """Keys of rule groups that may add labels to what they make."""

    labels: dict[Label, LabelValue] | None = Field(
        None, max_length=MOST_LABELS, description="labels of everything the group makes"
    )


class Targets(Section):
    """The forms of `dashgen build --target NAME`; each section says how its objects are named and selected."""

    def of(self, keys: type[_Keys]) -> _Keys:
        """What the site asks of a target, by the model of its keys; the defaults where it asks for nothing."""
        return next((section for _, section in self if type(section) is keys), keys())

    def group_labels(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Labels that rule groups add to what they make, each with the key where they stand."""
        for name, section in self:
            for key, value in section:
                if isinstance(value, Labelling):
                    yield f"targets.{name}.{key}.labels", value.labels or {}

    def __eq__(self, other: object) -> bool:
        """A section that is left out equals one that has its defaults."""
        if not isinstance(other, Targets):
            return False
        return all(
            self.of(keys) == other.of(keys) for keys in {type(found) for each in (self, other) for _, found in each}
        )

    @model_validator(mode="wrap")
    @classmethod
    def _complete(cls, data: Any, handler: ValidatorFunctionWrapHandler) -> Targets:
        known = cls is not Targets or not data or isinstance(data, Targets)
        found: Targets = handler(data) if known else complete().model_validate(data)
        return found

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(complete().__pydantic_core_schema__ if cls is Targets else schema)


@cache
def complete() -> type[Targets]:
    """The section with the keys of every target.

    Targets read the configuration and stand above it. So they are asked by name, and only when somebody writes or wants
    to see the section, as plug-ins are.
    """
    sections: Callable[[], dict[str, type[Section]]] = import_module("dashgen.targets").sections
    fields: dict[str, Any] = {name: (model, model()) for name, model in sections().items()}
    return create_model("Targets", __base__=Targets, __doc__=Targets.__doc__, **fields)
