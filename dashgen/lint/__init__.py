# SPDX-License-Identifier: Apache-2.0
"""Dashboards in, findings out."""

Hit = tuple[str, str]
"""Where a rule found a fault, and what to do about it."""
