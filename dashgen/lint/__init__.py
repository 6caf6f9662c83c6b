# SPDX-License-Identifier: Apache-2.0
"""Dashboards in, findings out."""
