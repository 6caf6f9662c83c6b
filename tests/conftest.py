# SPDX-License-Identifier: Apache-2.0
"""Which tests a plain ``pytest`` leaves to continuous integration, so that it takes a minute and a half."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

# Files in which most tests run real programs on whole recordings, or many processes. What takes longest comes first, so
# that no worker is left with it while the others have nothing to do.
HEAVY = (
    "test_hard_trials",
    "test_trials",
    "test_overlay",
    "test_hostile",
    "test_doctor",
    "test_boards_read",
    "test_faults",
    "test_hostile_overlays",
    "test_cli",
    "test_preview",
    "test_engines",
    "test_incidents",
    "test_score",
    "test_demo",
    "test_strange_servers",
    "test_preview_story",
    "test_targets",
    "test_explain",
    "test_examples",
    "test_fabric",
    "test_annotations",
    "test_record",
    "test_mixin",
    "test_traces",
    "test_supply_chain",
    "test_live_faults",
    "test_hostile_commands",
    "test_extras",
    "test_proof",
    "test_clusters",
)


ALL = ""
MOST_WORKERS = 4
"""Each of them may start servers of its own."""


def named(config: pytest.Config) -> bool:
    """Whether somebody asked for files or tests by name."""
    return config.args_source is pytest.Config.ArgsSource.ARGS


def pytest_configure(config: pytest.Config) -> None:
    """Who names a file wants all of it. A worker of xdist reads the arguments anew, and is told what came of them."""
    # What a shell starts in the background ignores interrupts, and so would the programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        config.option.markexpr = config.workerinput["markexpr"]
    elif named(config) and config.option.markexpr == "not heavy":
        config.option.markexpr = ALL


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["markexpr"] = node.config.option.markexpr


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker a core, or as many as are asked for; none, and none to be started, for tests that somebody names."""
    asked = os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", os.cpu_count() or 1)
    return 0 if named(config) else min(int(asked), MOST_WORKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(HEAVY)}
    for item in items:
        if item.path.stem in places:
            item.add_marker(pytest.mark.heavy)
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of a test are on this machine, whatever stands between it and the world."""
    monkeypatch.setenv("no_proxy", "*")
