# SPDX-License-Identifier: Apache-2.0
"""Recordings: the format, and where they come from: a simulator, or Inspector's own files; live/ asks a Prometheus."""
