# SPDX-License-Identifier: Apache-2.0
"""A scenario in, a recording of a job that never ran out."""
