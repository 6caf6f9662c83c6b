# SPDX-License-Identifier: Apache-2.0
"""Generated texts in, files out: the only writer, and what a change means."""
