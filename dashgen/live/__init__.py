# SPDX-License-Identifier: Apache-2.0
"""What is asked of running servers: one client for all of them, recordings, incidents, and what a site lacks."""
