# SPDX-License-Identifier: Apache-2.0
"""Who is late: the GPU or node that everybody else waits for.

Execution time includes waiting for peers and ranks end together, so the late one has the SHORTEST time of its group.
The slowest execution time is the earliest arriver and never to blame. Here bigger is later.
"""

from __future__ import annotations

from collections.abc import Callable

from dashgen.catalogue import baselines, groups
from dashgen.catalogue.baselines import ANOTHER, LEAST, Evidence, need, unfamiliar, usual, without_past
from dashgen.catalogue.signals.freshness import MOVED, NEW, SEEN, SEEN_SOURCES, STAYED
from dashgen.catalogue.signals.transport import ACROSS_NODES, LIKE, held_up
from dashgen.model import Signal, Unit, indented

GPU = ("<job>", "<node>", "<gpu>")

_SHAPE = "<job>, <node>, <gpu>, n_nodes, nranks"

LATEST = 0.75
"""Beyond four times as fast as its peers everybody is equally late."""
AS_LATE = 0.7
"""A part of the excess of the latest GPU, from which on others are about as late."""

# Less than half of what convinces is nobody's fault: most GPUs stay below it, and are not recorded.
_NOTABLE = LEAST / 2

# The mean: where a node holds several communicators, as of tensor-parallel pairs, the members of one wait, and the median is
# none of them.
_IN_NODE = 'by (<job>, <node>, n_nodes, nranks, kinds) (gpu:nccl_exec:sum{n_nodes="1"})'
_OF_NODE = f"avg {_IN_NODE}"
# Files that hold as many kinds as another may hold others, as those of processes that serve models: of a few GPUs nobody knows.
_MOST_OF_NODE = f"""count {_IN_NODE}
> on (<job>, <node>, n_nodes, nranks) group_left ()
0.5 * count by (<job>, <node>, n_nodes, nranks) (
  group by ({_SHAPE}) (last_over_time(gpu:nccl_exec:sum{{n_nodes="1"}}[<10 dumps>]))
)"""

TIME = Signal(
    name="gpu:nccl_exec:sum",
    question="How long does each GPU spend in collectives, one of each kind, by shape of communicator?",
    healthy="about equal for the ranks of a communicator; who is late spends the least",
    # Rounded, so that the order in which an engine adds is no news. A step may take longer than a dump, whose file then
    # holds some kinds of it: files of as many kinds are like.
    expr=f"""
(round(sum by ({_SHAPE}) (<exec>{{<waiting>, <selector>}}), 0.0001) > 0)
* on ({_SHAPE}) group_left (kinds)
count_values by ({_SHAPE}) ("kinds", count by ({_SHAPE}) (<exec>{{<waiting>, <selector>}}))
{STAYED}
{SEEN}""",
    unit=Unit.MICROSECONDS,
    labels=("<job>", "<node>", "<gpu>", "n_nodes", "nranks", "kinds"),
    sources=SEEN_SOURCES
    + " In random jobs whose steps take longer than a dump, sums over whatever a file held differed by 40 % between GPUs that are alike.",
    group=groups.VERDICT,
)

LATENESS = Signal(
    name="gpu:nccl_lateness:ratio",
    question="Which part of the time that its peers spend in collectives does each GPU save, because they wait for it?",
    healthy="near its own usual value, which a fixed position in the ring may put 20 % off 0",
    # Its own time against that of its peers: within a domain the mean of its node, across domains the median of its
    # communicator's shape. Where one domain holds the whole job, as a rack of NVL72 may, a late node is seen there alone:
    # its peers are those of its node, or all, whoever waits longer. A job that talks within its nodes alone for an evaluation
    # is none. Time decides, so the first synchronisation point, which absorbs the wait, decides. Communicator shapes count
    # alike: inside its node a late GPU is alone, while across nodes its mates, who waited for it, are late with it. Beyond
    # four times as fast everybody is equally late: in a pipeline the innocent look even more extreme.
    expr=f"""
avg by (<job>, <node>, <gpu>) (
  clamp(
    1
    - (
      gpu:nccl_exec:sum{{n_nodes="1"}}
      / on (<job>, <node>, n_nodes, nranks, kinds) group_left ()
      (
        {_OF_NODE} ^ 0
        * on ({LIKE}) group_left ()
        (
          quantile by ({LIKE}) (0.5, gpu:nccl_exec:sum{{n_nodes="1"}})
          unless on (<job>) last_over_time(job:nccl_transport:info{{transport!="nvlink"}}[2h])
        )
        > {_OF_NODE}
        or
        {_OF_NODE}
      )
      and on (<job>, <node>, n_nodes, nranks, kinds)
      {indented(_MOST_OF_NODE, 6)}
      or
      gpu:nccl_exec:sum{{n_nodes!="1"}}
      / on ({LIKE}) group_left ()
      quantile by ({LIKE}) (0.5, gpu:nccl_exec:sum{{n_nodes!="1"}})
    ),
    -{LATEST:g}, {LATEST:g}
  )
)""",
    unit=Unit.RATIO,
    labels=GPU,
    sources="0.75 is a quarter of the time: ByteDance's traces, where innocent stages show 0.01 of the median and the late one 0.16. Most of those that talked inside their node "
    "within ten dumps: of processes that served models in random jobs one to four of eight had a large message in a dump.",
    group=groups.VERDICT,
)


def _lasting(offset: str = "") -> str:
    """The lateness that lasts: what two dumps have and what three have count half each."""
    return f"""(
  min_over_time(gpu:nccl_lateness:ratio[<2 dumps in a row>]{offset})
  + min_over_time(gpu:nccl_lateness:ratio[<3 dumps in a row>]{offset})
) / 2"""


LASTED = _lasting(" offset <believed_after>")
"""The lateness that was judged a moment ago, of each GPU."""
TURNS = "turns"
"""What is recorded beside how far lateness strays: how late GPUs are in turn."""
_LATE_NODES = 'sum_over_time(job:nccl_suspect:depth{suspect="straggler", <node>!="", <gpu>=""}[2h])'
IN_TURN = f"""(sum by (<job>) ({_LATE_NODES}) - max by (<job>) ({_LATE_NODES}))
/ on (<job>)
count_over_time(job:nccl_gpus:count[2h])"""
"""How late all nodes but one were lately, on the mean: where one after the other is for minutes, its verdicts keep that from being learned."""
SPREAD = f"""sum by (<job>) (
  {baselines.last(f'{baselines.SPREAD}{{of=~"lateness|{TURNS}"}}')}
  or
  0 * job:nccl_gpus:count
)"""
"""How far the lateness of the job's GPUs strays; nothing before it is known."""


def late_from(spread: str) -> str:
    """The excess from which on a GPU is a suspect, where the lateness of the job's GPUs strays by ``spread``.

    However much it strays, the latest that a GPU can be convinces.
    """
    return f"clamp_max({need('lateness', spread)}, {LATEST:g})"


def comparable(chosen: str, otherwise: str = "") -> str:
    """Not the suspects of jobs that do something else, are elsewhere, or for which ``otherwise`` holds, unless the verdict has named one
    of the ``chosen`` in six of ten dumps."""
    named = f'job:nccl_verdict:depth{{state="degraded", {chosen}}}'
    unlike = "\nor on (<job>)\n".join(filter(None, (unfamiliar(), ANOTHER, MOVED, otherwise)))
    return f"""unless on (<job>) (
  (
    {indented(unlike, 4)}
  )
  unless on (<job>)
  count_over_time({named}[<10 dumps in a row>]) >= <6 results>
)"""


def slower(chosen: str = "", over: str = "<3 dumps in a row>", known: Callable[[Evidence, str], str] = usual) -> str:
    """How much slower than it is used to is each of the chosen GPUs among its peers, in three dumps in a row.

    Who waits for a late GPU is slower as well. Where nobody is late, some communicators among equal ones have a slow path
    or somebody late; Inspector does not tell which GPUs are their members, so who it is stays open.
    """
    lateness = f"gpu:nccl_lateness:ratio{{{chosen}}}"
    return f"{known('lateness', chosen)} - ignoring (of) max_over_time({lateness}[{over}])"


# How late is the second of the nodes, which is the first as well where two come equally late.
_SECOND = """min by (<job>) (topk by (<job>) (2, max by (<job>, <node>) (gpu:nccl_lateness_excess:ratio)))
and on (<job>) count by (<job>) (group by (<job>, <node>) (gpu:nccl_lateness_excess:ratio)) > 1"""
LATEST_ALONE = f"""(
  (max by (<job>, <node>, <gpu>) (gpu:nccl_lateness_excess:ratio) >= on (<job>) group_left () max by (<job>) (gpu:nccl_lateness_excess:ratio))
  - on (<job>) group_left ()
  (
    {indented(_SECOND, 4)}
    or on (<job>)
    0 * job:nccl_gpus:count
  )
)"""
"""One GPU is later than anybody on any other node: whoever is as late as another is only held up, or late in turn."""
WHOLE_NODE = f"""(
  count by (<job>, <node>) (
    gpu:nccl_lateness_excess:ratio
    > on (<job>) group_left ()
    {AS_LATE:g} * max by (<job>) (gpu:nccl_lateness_excess:ratio)
  )
  > clamp_min(0.5 * max by (<job>, <node>) (<present>), 1)
)"""
"""More than half of the GPUs of a node, two at least, are about as late: the node is."""

SLOW_COMMUNICATOR = f"""min by (<job>) (topk by (<job>) (2, {slower()}))
> on (<job>)
2 * max by (<job>) (min by (<job>, <node>) ({slower(over="<2 dumps in a row>")}))
{NEW}"""
"""Two GPUs at least have become slower than their like, and no node has GPUs that are all slower, not even half as much: those
who are share a communicator whose network is slow.

A late GPU or node holds up every communicator of its stage, and so all GPUs of the stage's other nodes. They begin to be
slower in another dump than it: two dumps are enough to say so.
"""
SOMEBODY_LATE = f"""(
  {indented(_SECOND)}
)
and on (<job>)
count by (<job>) (
  max by (<job>, <node>) (gpu:nccl_lateness_excess:ratio)
  > on (<job>) group_left ()
  {AS_LATE:g} * max by (<job>) (gpu:nccl_lateness_excess:ratio)
)
<= on (<job>)
0.5 * count by (<job>) (group by (<job>, <node>) (<present>))"""
"""Several nodes come equally late, and as many do not: one of them holds up the others, as of a stage of a pipeline.

Who waits is later than the rest as well. A slow network makes nobody come later than he is used to.
"""

# A domain may span several nodes: those that wait in it arrive late at other domains together with the one they wait for.
_WAITS = f"""max by (<job>, <node>) (
  clamp_min({held_up()}, 0)
  and on (<job>) {indented(ACROSS_NODES)}
)
or
0 * max by (<job>, <node>) (<present>)"""

SIGNALS = (
    Signal(
        name="gpu:nccl_lateness_excess:ratio",
        question="How much later than it is used to is each GPU, in two and in three dumps in a row?",
        healthy='absent, or a few percent now and then; what is within a twentieth is left out; past="none" is of a GPU that is compared with what a fixed position explains',
        # Who was early and comes in time is not late. Without a past a fixed position may explain a fifth, and six dumps are
        # asked for; so it is while the job does something else, where a position may count for more of the time. A scrape
        # that failed takes one of the three dumps, and not what the others say.
        expr=f"""
(
  (
    {indented(_lasting(), 4)}
    - ignoring (of) clamp_min({usual("lateness")}, 0)
    {indented(comparable('suspect="straggler"'), 4)}
    or on (<job>, <node>, <gpu>)
    label_replace({without_past("gpu:nccl_lateness:ratio")}, "past", "none", "", "")
  )
  - on (<job>, <node>) group_left ()
  (
    {indented(_WAITS, 4)}
  )
) > {_NOTABLE:g}
and on (<job>, <node>, <gpu>) count_over_time(gpu:nccl_lateness:ratio[<3 dumps in a row>]) >= <2 results>
{NEW}""",
        unit=Unit.RATIO,
        labels=(*GPU, "past"),
        sources="Three dumps, as Nebius and the rule of 0.67 on ByteDance's traces: who is late in turn is now and then late twice in a row. Two dumps count half, so one GPU that is twice as late as convinces waits for no third. Fixed positions "
        "take 20 % (healthy Megatron runs: rank 0 was first in 12 of 13 communicators). NCCL counts an NVLink "
        "domain as one node, and a rack of NVL72 is one domain of eighteen.",
        group=groups.VERDICT,
    ),
)
