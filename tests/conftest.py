# SPDX-License-Identifier: Apache-2.0
"""Which tests a plain ``pytest`` leaves to continuous integration, so that it takes a minute and a half."""

from __future__ import annotations

import pytest

# Files in which most tests run real programs on whole recordings, or many processes.
HEAVY = {
    "test_boards_read",
    "test_cli",
    "test_demo",
    "test_doctor",
    "test_examples",
    "test_explain",
    "test_extras",
    "test_fabric",
    "test_faults",
    "test_hard_trials",
    "test_hostile",
    "test_hostile_commands",
    "test_incidents",
    "test_mixin",
    "test_overlay",
    "test_preview",
    "test_preview_story",
    "test_proof",
    "test_record",
    "test_score",
    "test_strange_servers",
    "test_supply_chain",
    "test_targets",
    "test_traces",
    "test_trials",
}


def pytest_configure(config: pytest.Config) -> None:
    """Who names a file wants all of it."""
    worker = hasattr(config, "workerinput")
    if not worker and config.args_source is pytest.Config.ArgsSource.ARGS and config.option.markexpr == "not heavy":
        config.option.markexpr = ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in HEAVY:
            item.add_marker(pytest.mark.heavy)
