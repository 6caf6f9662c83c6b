# SPDX-License-Identifier: Apache-2.0
"""The one exception that a user sees, and what its texts have in common."""


class UserError(Exception):
    """Bad input or a missing tool: one line that names the file, the key and the remedy.

    The command line prints it on stderr and exits with 2.
    """


def one_line(text: object) -> str:
    """Fold a library's many-line message into one line for a UserError."""
    return " ".join(str(text).split())


def with_extra(extra: str) -> str:
    """The remedy where a small installation lacks what an extra of pyproject.toml brings."""
    return f"install dashgen with its extra [{extra}], as dashgen/docs/installing.md says"
