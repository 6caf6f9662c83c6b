# SPDX-License-Identifier: Apache-2.0
"""Who is there, and how old is what we see: the ground that every verdict stands on.

An idle or hung job's file is not rewritten, so its values stay as they were. Presence is never health.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.model import Signal, Unit, indented

FORGOTTEN = 6600
"""Seconds after its last news in which a job is forgotten that nobody sees alive: ten minutes below two hours."""

SEEN = """and on (<job>) (
  <present>
  or
  <seen>
)"""
"""What is recorded of a job from raw series: only while the job is present, so that nothing outlives it."""
SEEN_SOURCES = "Presence is looked at every four dumps."

LATELY = "max_over_time(node:nccl_gpus:count[<20 dumps>])"
"""The nodes of each job and their GPUs, by five looks at presence: some of them may meet a torn file or a scrape that failed."""


def _left(offset: str = "") -> str:
    return f"last_over_time(node:nccl_gpus:left[<slow_result>]{offset})"


def _counted(offset: str = "") -> str:
    return f"last_over_time(node:nccl_gpus:count[<24 dumps>]{offset})"


def _ever(offset: str = "") -> str:
    return f"({_counted(offset)} or {_left(offset)})"


EVER = _ever()
"""The nodes that each job had within a day, and their GPUs; a look longer than it takes until they count as left."""

STAYED = f"unless on (<job>, <node>) {_left()}"
"""Not the nodes that a job has left: it was killed there, goes on elsewhere under its id, and its old files stay."""

ON_NODES = f"""count_values by (<job>) (
  "nodes",
  count by (<job>) (group by (<job>, <node>) ({EVER} or gpu:nccl_exec:sum))
)"""
"""Each job with the number of nodes that it had within a day as a label: it changes in the dump in which it comes to another one."""


def _moved(known: str) -> str:
    return f"""(
  group by (<job>, <node>) (gpu:nccl_exec:sum)
  unless on (<job>, <node>) {known}
  and on (<job>) {known}
)"""


MOVED = _moved(_ever(" offset <8 dumps>"))
"""Jobs that have come to a node on which they were not eight dumps ago, as one that was requeued: they have no past there yet.

What is usual is looked at every four dumps, and read for as long.
"""


def _goes_on(offset: str = "") -> str:
    return f"last_over_time(job:nccl_progress:timestamp[<2 dumps in a row>]{offset})"


WENT_ON = f"and on (<job>) {_goes_on(' offset <believed_after>')}"
"""Whose evidence may be learned: a job that went on when it was seen, as one sample seen twice is one sample."""
_NOT_FIRST = "count_over_time(job:nccl_progress:timestamp[<4 dumps in a row>]) >= 2"
NEW = f"and on (<job>) ({_goes_on()} and {_NOT_FIRST})"
"""What is judged: a job that goes on, so that the last dump before a pause does not count again and again, and not its first news.

Where only every other dump is scraped, and all nodes in the same half of the time, every other evaluation has no news.
"""

IN_THIS_DUMP = "count by (<job>) (gpu:nccl_lateness:ratio)"
"""How many GPUs of a job are seen in collectives now."""

FIRST = '<gpu>=~"GPU0|0"'
"""The first GPU of each node, which tells for all of them at an eighth of the cost; the first of the job where ranks are numbers."""

# A value that changed is news. With Inspector's counters on, files are rewritten although nothing happens, and values
# disappear: both are no news.
_NEWS = f"""(
    changes(<exec>{{{FIRST}, <clean>, <selector>}}[<6 dumps>]) > 0
    or
    changes(<p2p_exec>{{{FIRST}, <clean>, <selector>}}[<6 dumps>]) > 0
  )"""

PRESENCE = Signal(
    name="node:nccl_gpus:count",
    question="How many GPUs of each node report for the job?",
    healthy="the number of GPUs that the job has on the node",
    # The counters stay when an idle GPU's bandwidth lines disappear, so a hung job stays visible through them. Left out
    # is a node that has a first GPU without news, while other nodes of the job have some or where the job was not seen before: files
    # that a job left behind when it ended.
    expr=f"""
count by (<job>, <node>, <instance>) (
  <branches>
)
unless on (<job>, <node>) (
  (
    <exec>{{{FIRST}, <selector>}}
    or
    <p2p_exec>{{{FIRST}, <selector>}}
    or
    <collectives>{{{FIRST}, <selector>}}
  )
  unless on (<job>, <node>)
  {_NEWS}
  unless on (<job>) (
    (
      <seen>
    )
    unless on (<job>) job:nccl_dump_age:seconds <= 4 * <dump>
  )
)""",
    branches=(
        ("", "group by (<job>, <node>, <instance>, <gpu>) (<exec>{<clean>, <selector>})"),
        ("", "group by (<job>, <node>, <instance>, <gpu>) (<p2p_exec>{<clean>, <selector>})"),
        ("counters", "group by (<job>, <node>, <instance>, <gpu>) (<collectives>{<selector>})"),
    ),
    join="or",
    unit=Unit.COUNT,
    labels=("<job>", "<node>", "<instance>"),
    sources="Six dumps: the four since the last look, one that came a scrape late and one more.",
    group=groups.PRESENCE,
)

LEFT = Signal(
    name="node:nccl_gpus:left",
    question="Which nodes has the job left, or lost, and with how many GPUs?",
    healthy="absent",
    # Here, and not wherever it is asked for: a day is much to read in every dump. Whoever has come to another node has left the one
    # whose files are there and do not count, at once, and until presence alone says so; around a pause a node may miss a look.
    expr=f"""
last_over_time(node:nccl_gpus:count[1d])
unless on (<job>, <node>) (
  {LATELY}
  unless on (<job>, <node>) (
    <exec>{{{FIRST}, <selector>}}
    unless on (<job>, <node>) node:nccl_gpus:count
    and on (<job>) {indented(_moved(_counted(" offset <20 dumps>")), 4)}
  )
)
{SEEN}""",
    unit=Unit.COUNT,
    labels=("<job>", "<node>", "<instance>"),
    sources="Twenty dumps are five looks at presence: of an exporter that misses half of its scrapes they hardly ever miss all. "
    f"A day is longer than files should stay, and than any fault that a job survives. {SEEN_SOURCES}",
    group=groups.PRESENCE,
)

SIGNALS = (
    Signal(
        name="job:nccl_gpus:count",
        question="How many GPUs report for the job?",
        healthy="the number of GPUs of the job",
        # Those that are seen in collectives now, on the nodes that the last look at presence found where it found any, else all
        # that it found while anything of the job is there: once another job has overwritten its files, nobody is silent any more.
        expr=f"""
count by (<job>) (
  gpu:nccl_lateness:ratio
  and on (<job>, <node>)
  <present>
)
or on (<job>)
{IN_THIS_DUMP}
or on (<job>)
(
  sum by (<job>) (<present>)
  and on (<job>) (
    <branches>
  )
)""",
        branches=(
            ("", "peer:nccl_busbw:best"),
            ("", "<p2p_exec>{<clean>, <selector>}"),
            ("counters", "<collectives>{<selector>}"),
        ),
        join="or",
        unit=Unit.COUNT,
        labels=("<job>",),
        sources=SEEN_SOURCES,
        group=groups.VERDICT,
    ),
    Signal(
        name="job:nccl_progress:timestamp",
        question="When did any GPU of the job last report new communication?",
        healthy="now; absent in a dump without news, at most one in a row",
        # Healthy values of six digits hardly ever repeat. GPU by GPU: where a file is missed, the best of those that are
        # left is another, which is no news. A file of other kinds is another series, so sums are compared and no changes
        # counted, rounded because the order in which an engine adds is none. Only a job whose messages are all small is left
        # with that. Jobs without an id share one: nobody knows who of them goes on, and without progress nothing is judged.
        expr="""
0 * max by (<job>) (
  round(sum by (<job>, <node>, <gpu>) (gpu:nccl_exec:sum{<known>}), 0.0001)
  !=
  round(sum by (<job>, <node>, <gpu>) (gpu:nccl_exec:sum offset <result_ago>), 0.0001)
  or
  changes(peer:nccl_busbw:best{<known>}[<this_and_last>]) > 0
  unless on (<job>)
  peer:nccl_busbw:best{<waiting>}
  or
  changes(<p2p_exec>{<clean>, <known>, <selector>}[<3 dumps>]) > 0
) + time()""",
        unit=Unit.TIMESTAMP,
        labels=("<job>",),
        sources="One dump: between this evaluation and the one before.",
        group=groups.VERDICT,
    ),
    Signal(
        name="job:nccl_dump_age:seconds",
        question="How long ago did any GPU of the job last report new communication?",
        healthy="below two dump intervals",
        # After Prometheus itself was away, three dumps must be seen before silence means anything.
        expr="""
<now> - last_over_time(job:nccl_progress:timestamp[1d])
and on (<job>) count_over_time(job:nccl_gpus:count[<3 dumps in a row>]) >= <3 results>""",
        unit=Unit.SECONDS,
        labels=("<job>",),
        sources="A day: longer than any fault that a job survives; three dumps, as every verdict.",
        group=groups.VERDICT,
    ),
)
