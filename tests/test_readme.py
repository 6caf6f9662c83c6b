# SPDX-License-Identifier: Apache-2.0
"""The documentation is tested: what it lists exists, and what exists it lists."""

from __future__ import annotations

import re

from readme import README, filled

from dashgen.targets import TARGETS


def test_the_tables_of_the_readme_are_those_of_the_catalogue() -> None:
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text, "run: python tests/readme.py"


def test_every_file_that_the_readme_links_to_exists() -> None:
    for link in re.findall(r"\]\((?!https?://)([^)#]+)\)", README.read_text(encoding="utf-8")):
        assert (README.parent / link).exists(), link


def test_every_target_is_named_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    for target in TARGETS:
        assert f"`{target}`" in text, target
