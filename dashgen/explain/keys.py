# SPDX-License-Identifier: Apache-2.0
"""The keys of dashgen.yaml as Markdown tables, derived from the model that checks them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dashgen.config.alerts import AlertOverride, TierOverride
from dashgen.config.site import Site
from dashgen.config.targets import Targets, complete
from dashgen.explain.pages import table
from dashgen.explain.words import scalar

HEAD = ("key", "default", "what it is for")


def keys() -> str:
    """Every key of dashgen.yaml: those of the file itself, then a section for each section."""
    own = [(name, field) for name, field in Site.model_fields.items() if not _section(field)]
    sections = [(name, field) for name, field in Site.model_fields.items() if _section(field)]
    parts = ["## Keys of the file", table(HEAD, (_row(name, field) for name, field in own))]
    # What is said of each target stands on the page of the targets.
    for name, field in (each for each in sections if each[0] != "targets"):
        parts += _described(name, _section(field))
    return "\n\n".join(parts)


def overrides() -> str:
    """The keys of a change to one alert, and of one tier of it."""
    alert = [_row(name, field) for name, field in AlertOverride.model_fields.items() if not _section(field)]
    tier = [_row(f"TIER.{name}", field) for name, field in TierOverride.model_fields.items()]
    return table(HEAD, alert + tier)


def section(path: str) -> str:
    """The keys below a section that is named by its path, such as ``targets.mimir``; empty where there is none."""
    model: type[BaseModel] | None = Site
    for name in path.split("."):
        model = _section(model.model_fields[name]) if model is not None and name in model.model_fields else None
    return table(HEAD, _rows(path, model)) if model is not None else ""


def _described(name: str, model: type[BaseModel] | None) -> Iterator[str]:
    assert model is not None
    yield f"## {name}"
    if model.__doc__:
        yield " ".join(model.__doc__.split())
    flat = [(key, field) for key, field in model.model_fields.items() if not _section(field)]
    if flat:
        yield table(HEAD, (_row(f"{name}.{key}", field) for key, field in flat))
    for key, field in model.model_fields.items():
        inner = _section(field)
        if inner is not None:
            yield f"### {name}.{key}"
            yield " ".join((inner.__doc__ or "").split())
            yield table(HEAD, _rows(f"{name}.{key}", inner))


def _rows(prefix: str, model: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    for key, field in model.model_fields.items():
        inner = _section(field)
        if inner is None:
            yield _row(f"{prefix}.{key}", field)
        else:
            yield from _rows(f"{prefix}.{key}", inner)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = complete() if field.annotation is Targets else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _row(key: str, field: FieldInfo) -> tuple[str, str, str]:
    default = field.get_default(call_default_factory=True, validated_data={})
    shown = "" if default is PydanticUndefined or default is None else f"`{_default(default)}`"
    choices = _choices(field.annotation)
    about = [field.description] if field.description else []
    about += [f"one of {', '.join(f'`{choice}`' for choice in choices)}"] if choices else []
    return f"`{key}`", shown, "; ".join(about)


def _default(value: object) -> str:
    return value.value if isinstance(value, Enum) else scalar(value)


def _choices(kind: object) -> list[str]:
    """What a key may be where only a few words are allowed; that it may be empty is no word."""
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind) if each != ""]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(each.value) for each in kind]
    return [choice for part in get_args(kind) if get_origin(kind) is not dict for choice in _choices(part)]
