# SPDX-License-Identifier: Apache-2.0
"""Targets that are Kubernetes objects."""
