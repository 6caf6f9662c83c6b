# SPDX-License-Identifier: Apache-2.0
"""The one way to compare evidence with its own past: what it is used to, and how far it usually strays from that."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

Evidence = Literal["bandwidth", "slowness", "time", "lateness", "throughput"]
"""What is compared with its past, in the label ``of``."""

HEALTHY: Final = "peer:nccl_evidence:healthy"
USUAL: Final = "peer:nccl_evidence:usual"
REMEMBERED: Final = "peer:nccl_evidence:remembered"
SPREAD: Final = "peer:nccl_evidence:spread"
SPREAD_OF: Final = "spread of "
"""In the label ``of``, before the evidence of which a remembered spread is."""

MEMORY = "1d"
"""How long what was learned is remembered without a healthy sample."""

LEAST = 0.1
"""The least effect that convinces, however steady the evidence is: Greyhound (ATC'25) keeps changes of 10 %."""

LEAST_OF_MANY = 0.12
"""The least effect of one path that convinces: many are looked at."""

DEVIATIONS: Final[Mapping[Evidence, float]] = MappingProxyType({"bandwidth": 5, "slowness": 6, "lateness": 4})
"""Standard deviations that convince: Greyhound (ATC'25) asks for effect and significance; more of one path, as many are looked at."""

POSITION = 0.2
"""What a fixed position explains before anything is learned: healthy Megatron runs, where rank 0 was first in 12 of 13 communicators."""


def usual(of: Evidence, chosen: str = "") -> str:
    """What evidence, or the ``chosen`` series of it, was last used to. Matched with its values ``ignoring (of)``."""
    learned = f"last_over_time({only(USUAL, of, chosen)}[<last_learned>])"
    remembered = f"last_over_time({only(REMEMBERED, of, chosen)}[<slow_result>])"
    return f"({learned} or {remembered})"


def strays(of: Evidence) -> str:
    """How far evidence strayed last, as ``spread``, but read from what is remembered. Matched with its values ``ignoring (of)``."""
    learned = f"last_over_time({only(SPREAD, of)}[<last_learned>])"
    remembered = f'last_over_time({REMEMBERED}{{of="{SPREAD_OF}{of}"}}[<slow_result>])'
    return f"({learned} or ignoring (of) {remembered})"


def shown(of: Evidence, chosen: str = "", when: str = "") -> str:
    """What evidence was last used to, for boards: as one series, whose window hangs on no engine."""
    return last(only(USUAL, of, chosen), when)


def spread(of: Evidence, chosen: str = "", when: str = "") -> str:
    """How far evidence, or the ``chosen`` series of it, strayed last; for lateness the same for all GPUs of a job."""
    return last(only(SPREAD, of, chosen), when)


def need(of: Evidence, noise: str, least: float = LEAST) -> str:
    """What evidence must reach to convince: so many standard deviations, and an effect."""
    return f"clamp_min({DEVIATIONS[of]:g} * {noise}, {least:g})"


def last(series: str, when: str = "") -> str:
    """What was last learned, within a day."""
    return f"last_over_time({series}[{MEMORY}]{when})"


def only(series: str, of: Evidence, chosen: str = "") -> str:
    """What a series says of one kind of evidence."""
    return f'{series}{{of="{of}"{chosen and f", {chosen}"}}}'


_FAMILIAR = "job:nccl_familiar:ratio"
ANOTHER: Final = f"""({usual("bandwidth")} unless on (<job>) {_FAMILIAR})"""
"""Jobs that do nothing of what they are used to, as another program under the same id: that says nothing of them."""


def unfamiliar(within: str = "<3 dumps in a row>") -> str:
    """Jobs that did something else, as in an evaluation: three quarters of what they do most of the time, or less.

    What they are used to says nothing of that, nor for as long afterwards as evidence looks back. Jobs whose phases take turns, as
    in reinforcement learning, never do all at once.
    """
    return f"min_over_time({_FAMILIAR}[{within}]) <= 0.75 * quantile_over_time(0.5, {_FAMILIAR}[2h])"


def without_past(series: str) -> str:
    """How far beyond what a fixed position explains ``series`` has been in six dumps: what is judged before anything is learned."""
    return f"min_over_time({series}[<6 dumps in a row>]) - {POSITION:g}"
