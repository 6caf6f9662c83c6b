# SPDX-License-Identifier: Apache-2.0
"""Rules and recordings in, evaluated series and alerts out: the only package that starts programs."""
