# SPDX-License-Identifier: Apache-2.0
"""A seed in, a scenario out: random jobs, healthy and faulty, by the wide or the narrow priors of a world."""
