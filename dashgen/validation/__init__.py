# SPDX-License-Identifier: Apache-2.0
"""Recordings with their truth and packs in, what fired against what was wrong out."""
