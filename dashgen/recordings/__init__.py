# SPDX-License-Identifier: Apache-2.0
"""Recordings: the format, and where they come from: a simulator, Inspector's own files, a live Prometheus."""
