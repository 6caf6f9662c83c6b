# SPDX-License-Identifier: Apache-2.0
"""Panels of the model in, JSON as Grafana writes it out, and back again: the only package that knows Grafana."""
