# SPDX-License-Identifier: Apache-2.0
"""A whole stack on this machine: an emulated Inspector, and the real programs that watch it."""
