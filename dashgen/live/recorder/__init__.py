# SPDX-License-Identifier: Apache-2.0
"""A server in, a recording out."""
