# SPDX-License-Identifier: Apache-2.0
"""Catalogue and Site in, a Bundle out: finished rules, boards and runbooks, without a file or a clock."""
