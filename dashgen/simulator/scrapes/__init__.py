# SPDX-License-Identifier: Apache-2.0
"""What a Prometheus that comes by every few seconds reads: Inspector's files and their companions, one module each."""
