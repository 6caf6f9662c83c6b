# SPDX-License-Identifier: Apache-2.0
"""All that is jsonnet: the sandbox, overlays of a site, and the mixin."""
