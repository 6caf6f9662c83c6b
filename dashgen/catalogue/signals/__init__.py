# SPDX-License-Identifier: Apache-2.0
"""What is recorded and alerted on, one concern a module."""
