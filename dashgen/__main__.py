# SPDX-License-Identifier: Apache-2.0
"""``dashgen`` and ``python -m dashgen``."""

import sys


def main() -> None:
    """The console script; an interrupt ends it like any other moment while the command line is still being imported."""
    try:
        from dashgen.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
