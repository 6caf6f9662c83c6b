# SPDX-License-Identifier: Apache-2.0
"""Targets that Grafana's own API or provisioning reads."""
