# SPDX-License-Identifier: Apache-2.0
"""Grafana dashboards and Prometheus rules for NCCL Inspector metrics, proven on recorded metrics."""

__version__ = "0.1.0"
