# SPDX-License-Identifier: Apache-2.0
"""What the packs cost a Prometheus: known beforehand, compared with a site, and how to pay less."""
