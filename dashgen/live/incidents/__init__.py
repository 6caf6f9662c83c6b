# SPDX-License-Identifier: Apache-2.0
"""A server in, degradation windows and stalls out."""
