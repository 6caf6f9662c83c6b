# SPDX-License-Identifier: Apache-2.0
"""Arguments in, exit code out; the only package that prints."""
