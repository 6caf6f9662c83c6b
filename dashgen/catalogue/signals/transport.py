# SPDX-License-Identifier: Apache-2.0
"""What carries a communicator, and whether it has become slower than this job is used to.

``nvlink`` is within one NVLink domain (n_nodes="1"), ``network`` one rank per node, ``mixed`` everything else. NCCL counts
NVLink domains as nodes; the order of the tests is that of NVIDIA's own exporter
(plugins/profiler/inspector/exporter/example/perf_summary_exporter.py).

The last arriver waits for nobody, so the best bus bandwidth of a group is that of the path. Like is compared with like:
within a domain every node is a path of its own, across domains every GPU number (its rail).
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.baselines import strays, usual, without_past
from dashgen.catalogue.signals.freshness import LATELY, NEW, SEEN, SEEN_SOURCES, STAYED
from dashgen.model import Signal, Unit, indented, labelled

PATH = ("<job>", "transport", "<node>", "<gpu>")
LIKE = "<job>, n_nodes, nranks, kinds"
"""Whose times are compared: those of one shape of communicator whose files hold as many kinds of collectives."""

SHAPE = Signal(
    name="job:nccl_transport:info",
    question="Which communicator shapes does the job use, and over which transport do they run?",
    healthy="constant for the life of a job; n_nodes that rises means that a domain was split",
    # Two labels are equal where a row made from one of them twice exists; `or on` keeps the first class found.
    expr="""
label_replace(
  group by (<job>, n_nodes, nranks) (peer:nccl_busbw:best{n_nodes="1"}),
  "transport", "nvlink", "", ""
)
or
label_replace(
  group by (<job>, n_nodes, nranks) (peer:nccl_busbw:best{n_nodes!="1"})
  and
  label_replace(group by (<job>, nranks) (peer:nccl_busbw:best), "n_nodes", "$1", "nranks", "(.+)"),
  "transport", "network", "", ""
)
or on (<job>, n_nodes, nranks)
label_replace(
  group by (<job>, n_nodes, nranks) (peer:nccl_busbw:best{n_nodes!="1"}),
  "transport", "mixed", "", ""
)""",
    unit=Unit.BOOL,
    labels=("<job>", "n_nodes", "nranks", "transport"),
    # It does not change, so it need not be known in the same moment.
    group=groups.SHAPE,
)

BEST = Signal(
    name="peer:nccl_busbw:best",
    question="How fast is each kind of collective when nobody waits?",
    healthy="steady within a few percent for one message size and algorithm",
    # A bucket of zeros has measured nothing, and nothing can be divided by it.
    expr=f"""
max by (<job>, <peer>) (
  max by (<job>, <node>, <peer>) (<busbw>{{<clean>, <selector>}})
  {STAYED}
) > 0
{SEEN}""",
    unit=Unit.GBPS,
    labels=("<job>", "<peer>"),
    sources=SEEN_SOURCES,
    group=groups.VERDICT,
)

BANDWIDTH = "max_over_time(peer:nccl_busbw:best{<waiting>}[<2 dumps in a row>] offset <believed_after>)"
"""The bandwidth that was judged a moment ago, of each kind of collective."""
SLOW_PATHS = "min_over_time(peer:nccl_slowness:ratio[<2 dumps in a row>] offset <believed_after>)"
"""The slowness that was judged a moment ago, of each path."""

# Two dumps in a row count by the better one.
_NOW = "max_over_time(peer:nccl_busbw:best[<2 dumps in a row>])"
_ON_PATH = "* on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info"


def by_half(each: str, chosen: str = "") -> str:
    """What half of the kinds of collectives of each transport, or of the ``chosen`` ones, say.

    One of them that comes and goes, as the messages of experts do, is as steady as any until it goes.
    """
    return f"quantile by (<job>, transport) (0.5, {each} {_ON_PATH}{chosen})"


def _middle(when: str = "") -> str:
    """The time that the GPU in the middle spends in collectives, waiting included, of two dumps the longer."""
    return f"quantile by ({LIKE}) (0.5, max_over_time(gpu:nccl_exec:sum[<2 dumps in a row>]{when}))"


TIME = _middle(" offset <believed_after>")
"""The time in collectives that was judged a moment ago."""
# A slow wire holds up the GPU in the middle as well. Where it spends no longer than usual in collectives and only the best has
# fallen, somebody for whom all had to wait comes in time now.
_HELD_UP = f"""on (<job>, n_nodes, nranks) group_left ()
max by (<job>, n_nodes, nranks) (
  {_middle()} > bool ignoring (of) {usual("time")}
)"""

# All sizes, collectives and algorithms, each against its own past. A frozen file is not judged: what it says is old.
LOST = f"""{by_half(f"(1 - {_NOW} / ignoring (of) {usual('bandwidth')}) * {_HELD_UP}")}
{NEW}"""
"""How far each transport of a job is below the bandwidth that it is used to."""
LOST_SOURCES = (
    "Two dumps: dumps of different nodes are up to one apart; a tenth is five times the transfer noise of "
    "ByteDance's traces (2 %; 0.6 to 4.3 %): floors keep z-scores from exploding (Nebius saw z = 577 on a healthy run). Half of the kinds: in a job of a "
    "foreign simulator one message of four fell to a third in every other dump, and a mean weighted by what each knows believed it alone."
)
NOISE = by_half(f"({strays('bandwidth')} and ignoring (of) {_NOW})")
"""How far the bandwidth of each transport strays on its own, of kinds that are told now."""
WHOLE = 'transport!="", <node>="", <gpu>=""'
"""A whole transport among the suspects, not one of its paths."""
ALL = f"job:nccl_suspect:depth{{{WHOLE}}}"
"""What each transport has lost, as recorded among the suspects."""

# The last arriver, who waits for nobody. Within a domain every node is a path, across domains every GPU number: its rail. A
# communicator that holds the whole job has none: its ranks end together, and a GPU number only tells who came last.
_LEAST = f"""(
      min by ({LIKE}, <node>) (gpu:nccl_exec:sum{{n_nodes="1"}})
      or
      min by ({LIKE}, <gpu>) (gpu:nccl_exec:sum{{n_nodes!="1"}})
      unless on (<job>, nranks)
      count_values by (<job>) ("nranks", sum by (<job>) ({LATELY}))
    )"""

FAMILIAR = Signal(
    name="job:nccl_familiar:ratio",
    question="How much of its usual communication does the job do now?",
    healthy="steady, for most jobs near 1; an evaluation does less than the job does most of the time, and is not compared with the past",
    expr=f"""
count by (<job>) (max_over_time(peer:nccl_busbw:best[<2 dumps in a row>]) and ignoring (of) {usual("bandwidth")})
/
count by (<job>) (max_over_time(peer:nccl_busbw:best[<20 dumps>]) and ignoring (of) {usual("bandwidth")})""",
    unit=Unit.RATIO,
    labels=("<job>",),
    sources="Two dumps, as paths are judged: a step may be longer than a dump; twenty: a job that does something else for ten minutes has changed for good.",
    group=groups.VERDICT,
)

SLOWNESS = Signal(
    name="peer:nccl_slowness:ratio",
    question="How much slower is each path than the faster quarter of its like?",
    healthy="near its own usual value: cables differ, pipeline stages send other sizes",
    expr=f"""
avg by (<job>, transport, <node>, <gpu>) (
  (
    1
    - quantile by ({LIKE}) (0.25, {_LEAST})
    / on ({LIKE}) group_right ()
    {_LEAST}
  )
  {_ON_PATH}
)""",
    unit=Unit.RATIO,
    labels=PATH,
    sources="The faster quarter: with two paths it is nearly the faster one, with many no single path decides.",
    group=groups.VERDICT,
)


def _slowness(chosen: str, dumps: int = 2) -> str:
    return f"min_over_time(peer:nccl_slowness:ratio{chosen and f'{{{chosen}}}'}[<{dumps} dumps in a row>])"


def beyond(chosen: str = "") -> str:
    """What each of the chosen paths has lost beyond its like, in two dumps in a row.

    One that was faster than most, as where somebody always comes late, and no longer is, is not slow.
    """
    return f"{_slowness(chosen)} - ignoring (of) clamp_min({usual('slowness', chosen)}, 0)"


def held_up(dumps: int = 2) -> str:
    """How much longer than it is used to each node waits inside its NVLink domain, in so many dumps in a row.

    The nodes of a domain of several wait for each other, so a node may be used to waiting for less than most.
    """
    nvlink = 'transport="nvlink"'
    return f"{_slowness(nvlink, dumps)} - ignoring (of) {usual('slowness', nvlink)}"


# Communicators within one node have as many ranks as it has GPUs, a half or a quarter of them.
_WITHIN_A_NODE = "\nor\n".join(
    f'count_values by (<job>) ("nranks", max by (<job>, <node>) (<present>) / {part})' for part in (1, 2, 4)
)
ACROSS_NODES = f"""(
  job:nccl_transport:info{{transport="nvlink"}}
  unless on (<job>, nranks) (
    {indented(_WITHIN_A_NODE, 4)}
  )
)"""
"""Jobs with an NVLink domain of several nodes, as in a rack."""

ONE_PATH = f"""(
  (
    {beyond()}
    unless on (<job>, transport) {indented(ACROSS_NODES, 4)}
    or
    {held_up(dumps=3)}
  )
  {NEW}
)"""
"""What one path has lost beyond its like. The nodes of a domain of several wait for each other, so their links take as many dumps as
it takes to see who is late.
"""

# Jobs whose nodes talk to each other, but all of them in no communicator, as those of several stages: some nodes compute for longer
# between collectives, and come together less closely. A domain of several nodes counts as one, so of those nobody knows.
_IN_STAGES = f"""
group by (<job>) (gpu:nccl_exec:sum{{n_nodes!="1"}})
unless on (<job>) (
  group by (<job>, n_nodes) (gpu:nccl_exec:sum)
  and on (<job>, n_nodes)
  count_values by (<job>) (
    "n_nodes",
    count by (<job>) (group by (<job>, <node>) (last_over_time(gpu:nccl_exec:sum[<2 dumps in a row>])))
  )
)
unless on (<job>) {ACROSS_NODES}"""

_SHAPE = "<job>, n_nodes, nranks"
# Only transports over which all GPUs of the job send the same: as stages of a pipeline and groups of experts, some may send other
# sizes than the others. Each then has fewer kinds of collectives than all have together, and a path that is slower may just send
# more. A GPU may have several communicators of one shape whose names are told, or each group of GPUs one with a name of its own.
# The links of nodes need one stage, too.
_ALIKE = f"""unless on (<job>, transport) (
  (
    group by ({LIKE}) (gpu:nccl_exec:sum)
    unless on ({LIKE}) (
      count_values by ({_SHAPE}) ("kinds", count by ({_SHAPE}) (peer:nccl_busbw:best{{<waiting>}}))
      or
      count_values by ({_SHAPE}) (
        "kinds",
        count by ({_SHAPE}) (group by ({_SHAPE}, collective, message_size, algo_proto) (peer:nccl_busbw:best{{<waiting>}}))
      )
    )
  )
  {_ON_PATH}
  or
  {indented(labelled(_IN_STAGES, "transport", "nvlink"))}
)"""

_SLOWNESS = "peer:nccl_slowness:ratio"
# One number of mixed communicators may always come early and look slow; a slow adapter slows all numbers of its communicator.
AMONG_LIKE = f"""(
  {without_past(_SLOWNESS)} > 0
  and count_over_time({_SLOWNESS}[<3 dumps in a row>]) >= <2 results>
  unless ignoring (of) {usual("slowness")}
  unless on (<job>, transport)
  count by (<job>, transport) ({without_past(f'{_SLOWNESS}{{transport="mixed"}}')} > 0) == 1
  {indented(_ALIKE)}
  {NEW}
)"""
"""How much slower than its like each path is of which nothing is known, beyond what a fixed position explains.

A fault that is there from the start would be learned. In the first minutes two dumps are enough, as for who is late.
"""

DROP = Signal(
    name="peer:nccl_busbw_drop:ratio",
    question="How far is each path of the job below the bandwidth that it is used to?",
    healthy="around zero, or a little below",
    # What its transport has kept, and what the path has kept of that.
    expr=f"""
1
- (1 - {ALL})
* on (<job>, transport) group_right ()
(1 - ({beyond()}))
or on (<job>, transport)
max by (<job>, transport) ({ALL})""",
    unit=Unit.RATIO,
    labels=PATH,
    sources="Two dumps, as for a whole transport.",
    group=groups.VERDICT,
)
