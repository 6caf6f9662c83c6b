# SPDX-License-Identifier: Apache-2.0
"""``python -m dashgen``."""

from dashgen.cli.main import main

main()
