# SPDX-License-Identifier: Apache-2.0
"""The one HTTP client, and what a Prometheus answers."""
