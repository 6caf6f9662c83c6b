# SPDX-License-Identifier: Apache-2.0
"""Signals and alerts in, words out: what they are made of, and why one fired."""
