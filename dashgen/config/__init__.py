# SPDX-License-Identifier: Apache-2.0
"""``dashgen.yaml`` in, a checked Site out."""
