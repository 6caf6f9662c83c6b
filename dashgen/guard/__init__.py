# SPDX-License-Identifier: Apache-2.0
"""What others wrote, checked before it goes on: files within limits, data as models, names parsed, text cleaned."""
