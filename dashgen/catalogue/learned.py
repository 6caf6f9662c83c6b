# SPDX-License-Identifier: Apache-2.0
"""What evidence is used to: its healthy samples, their median, and how far they stray from that.

A sample is believed only when a minute later nobody objects: nothing is learned around a verdict or a pause, so
a fault teaches nothing however long it lasts, and nothing while the job does something else, as in an evaluation. While
somebody is called late in a job without a past, the lateness of those who are not late is learned, so that a wrong
verdict does not keep up itself. What was learned last is remembered for a day. A job that comes to other nodes is
learned anew. All evidence learns in the same way; the label ``of`` says which it is.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.baselines import (
    HEALTHY,
    REMEMBERED,
    SPREAD,
    SPREAD_OF,
    USUAL,
    Evidence,
    last,
    only,
    spread,
    unfamiliar,
)
from dashgen.catalogue.signals import lateness, throughput, transport
from dashgen.catalogue.signals.freshness import MOVED, ON_NODES, SEEN, SEEN_SOURCES, WENT_ON
from dashgen.model import Signal, Unit, indented, labelled

# What is learned is what is judged.
_JUDGED: dict[Evidence, str] = {
    "bandwidth": transport.BANDWIDTH,
    "slowness": transport.SLOW_PATHS,
    "time": transport.TIME,
}
_THROUGHPUT = labelled(throughput.REACHED, "of", "throughput")
_SAMPLES = "\nor".join(labelled(promql, "of", of) for of, promql in _JUDGED.items())
_OF_LATENESS = labelled(lateness.LASTED, "of", "lateness")
_LABELS = ("<job>", "of", "<peer>", "kinds", "transport", "<node>", "<gpu>")


def _enough(healthy: str) -> str:
    """How many samples there are. While nothing is learned, nothing is forgotten either."""
    return f"(count_over_time({healthy}[2h]) >= <4 results> and last_over_time({healthy}[<4 dumps>]))"


def _strays(of: Evidence) -> str:
    """How far healthy samples stray. The fewer there are, the less they know."""
    healthy = only(HEALTHY, of)
    return f"""
max without (nodes) (
  (quantile_over_time(0.84, {healthy}[2h]) - quantile_over_time(0.16, {healthy}[2h])) / 2
  * (1 + <10 results> / {_enough(healthy)})
)"""


def _objected(to: str) -> str:
    """Verdicts of a moment ago."""
    return f"last_over_time(job:nccl_verdict:depth{{{to}}}[<objected_within>])"


_CALLED_LATE = _objected('suspect="straggler"')

_TURNS = labelled(f"{lateness.IN_TURN}\n{SEEN}", "of", lateness.TURNS)

_MOST_PATHS = f"""on (<job>, transport) group_left ()
quantile by (<job>, transport) (
  0.5,
  {indented(_strays("slowness"))}
)"""

# Of everything that is told by kind or by path; of lateness there is one row a job, which is cheap to read over a day.
_MANY_SPREADS = f'{SPREAD}{{of=~"bandwidth|slowness"}}'

SIGNALS = (
    Signal(
        name=HEALTHY,
        question="Which samples may teach what evidence is used to?",
        healthy="a value for every dump, with gaps around verdicts and pauses",
        # On other nodes the collectives of a job run another way: what they say is another series then, of which nothing is known. What
        # the job gets done should be the same.
        expr=f"""
(
  (
    (
      {indented(_SAMPLES, 6)}
    )
    unless on (<job>) {_CALLED_LATE}
    or
    {indented(_OF_LATENESS, 4)}
    unless on (<job>) ({_CALLED_LATE} and on (<job>) {spread("lateness")})
    unless on (<job>, <node>, <gpu>) (
      last_over_time(gpu:nccl_lateness_excess:ratio[<objected_within>])
      and on (<job>) {_CALLED_LATE}
    )
  )
  * on (<job>) group_left (nodes) {indented(ON_NODES)}
  or
  {indented(_THROUGHPUT)}
  unless on (<job>) {_CALLED_LATE}
)
unless on (<job>) {_objected('state!~"healthy|unknown", suspect!="straggler"')}
and on (<job>) max_over_time(job:nccl_dump_age:seconds[<objected_within>]) <= 4 * <dump>
unless on (<job>) {unfamiliar("<objected_within>")}
{WENT_ON}""",
        unit=Unit.COUNT,
        labels=(*_LABELS, "nodes", "evidence"),
        sources="Two dumps, a minute: most verdicts take no longer, and two more around it; four dumps of age "
        "are one missed dump, one scrape and one evaluation.",
        group=groups.HEALTHY,
    ),
    Signal(
        name=USUAL,
        question="What is evidence used to: bandwidth, time in collectives, the slowness of paths, the lateness of GPUs, throughput?",
        healthy="a slow line in the middle of the samples",
        expr=f"max without (nodes) (quantile_over_time(0.5, {HEALTHY}[2h]) and {_enough(HEALTHY)})",
        unit=Unit.COUNT,
        labels=(*_LABELS, "evidence"),
        sources="Two hours hold a checkpoint of any habit; four samples, two minutes, come before any verdict, and the fewer there are the more they must say.",
        group=groups.USUAL,
    ),
    Signal(
        name=SPREAD,
        question="How far does evidence stray from what it is used to?",
        healthy="small, and steady",
        # Bandwidth is told as a share. A path that was quiet for two hours was lucky: it strays as far as most of its like. Of
        # lateness, the noisiest quarter of a job's GPUs counts for all of them, and beside it how late they are in turn.
        expr=f"""
({indented(_strays("bandwidth"), 1)})
/ {USUAL}
or
clamp_min(
  {indented(_strays("slowness"))}
  - {indented(_MOST_PATHS)},
  0
)
+ {_MOST_PATHS}
or
quantile by (<job>, of) (
  0.75,
  {indented(_strays("lateness"))}
)
or
{_TURNS.strip()}""",
        unit=Unit.RATIO,
        labels=_LABELS,
        sources="Between the 16th and the 84th percentile lie two standard deviations of normal noise, and no outlier counts; ten samples tell half of what many do.",
        group=groups.USUAL,
    ),
    Signal(
        name=REMEMBERED,
        question="What was evidence used to, and how far did it stray, when anything was last learned of it?",
        healthy="absent; a row for everything of which nothing is learned now",
        # Here, and not wherever it is asked for: a day of every GPU is much to read in every dump.
        expr=f"""
(
  {last(USUAL)}
  unless {USUAL}
  or
  label_replace(
    {last(_MANY_SPREADS)}
    unless {_MANY_SPREADS},
    "of", "{SPREAD_OF}$1", "of", "(.+)"
  )
)
unless on (<job>) {MOVED}
{SEEN}""",
        unit=Unit.COUNT,
        labels=(*_LABELS, "evidence"),
        sources=f"A day: longer than any fault that a job survives. {SEEN_SOURCES}",
        group=groups.USUAL,
    ),
)
