# SPDX-License-Identifier: Apache-2.0
"""The boards of a site, drawn on a recording into one HTML file that needs neither Grafana nor a network."""
