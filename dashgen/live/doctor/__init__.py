# SPDX-License-Identifier: Apache-2.0
"""What makes the packs blind or wrong at a real site, and the lines that cure it; nothing is changed."""
