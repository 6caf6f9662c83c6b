# SPDX-License-Identifier: Apache-2.0
"""What Grafana's own published models make of a dashboard: the nearest thing to a Grafana that a test can run."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

# The models fill in these defaults. They would also drop, without a word, any key they do not know.
DEFAULTS_OF_THE_MODELS = re.compile(
    r"\.annotations\.list\.(placement|builtIn)"
    r"|\.links\.placement"
    r"|(\.panels)+\.(repeatDirection|transparent)"
    r"|(\.panels)+\.fieldConfig\.defaults\.links\.(asDropdown|icon|includeVars|keepTime|placement|tags|tooltip|type)"
    r"|(\.panels)+\.fieldConfig\.defaults\.custom\.inspect"
    r"|(\.panels)+\.options\.(footer|frameIndex|showTypeIcons|selectionMode|perPage)"
    r"|\.templating\.list\.(auto|auto_count|auto_min|skipUrlSync|allowCustomValue)"
    r"|\.templating\.list\.current\.(text|value)"
)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What is not the same in two pieces of JSON, a line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key in before and key in after:
                yield from differences(before[key], after[key], f"{path}.{key}")
            else:
                yield f"{'lost' if key in before else 'added'} {path}.{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, two in zip(before, after, strict=True):
            yield from differences(one, two, path)
    elif before != after:
        yield f"changed {path}: {before} to {after}"


def misread(board: dict[str, Any]) -> list[str]:
    """What the models change on a round trip, beside the defaults that are known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # they would rather have v2, which files cannot carry yet
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard as Model

        register_default_plugins()
        back = json.loads(json.dumps(Model.from_json(board), cls=JSONEncoder))
    found = differences(board, back)
    return [each for each in found if not DEFAULTS_OF_THE_MODELS.fullmatch(each.removeprefix("added "))]


@cache
def units() -> frozenset[str]:
    """The ids of all units that Grafana knows."""
    from grafana_foundation_sdk.models import units as module

    return frozenset(
        value for name, value in vars(module).items() if not name.startswith("_") and isinstance(value, str)
    )
