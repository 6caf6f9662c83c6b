# SPDX-License-Identifier: Apache-2.0
"""One verdict per job: from evidence to suspects, from suspects to what is wrong, since when, and where.

A suspect is the network, NVLink, or a late GPU or node. Its depth is what it does, its score how many times over the
evidence convinces: effect and significance in one number, weighed by what it costs. A suspect is blamed from when its
score reaches 1 on the mean of two dumps, or 0.6 on that of ten, and nobody who would explain it half convinces, until a
quarter of that is left. The verdict is the first of those, unless another convinces twice as much.
"""

from __future__ import annotations

from typing import NamedTuple

from dashgen.catalogue import groups
from dashgen.catalogue.baselines import LEAST_OF_MANY, need, strays
from dashgen.catalogue.names import SINCE, VERDICT
from dashgen.catalogue.signals.freshness import IN_THIS_DUMP
from dashgen.catalogue.signals.lateness import (
    LATEST_ALONE,
    SLOW_COMMUNICATOR,
    SOMEBODY_LATE,
    SPREAD,
    WHOLE_NODE,
    comparable,
    late_from,
)
from dashgen.catalogue.signals.stalls import BUSY, GONE, HABIT, WATCHED
from dashgen.catalogue.signals.transport import ALL, AMONG_LIKE, LOST, LOST_SOURCES, NOISE, ONE_PATH, beyond
from dashgen.model import Signal, Unit, indented, labelled

SUSPECT = ("<job>", "suspect", "transport", "<node>", "<gpu>")

_PATH_STRAYS = f"""(
  {strays("slowness")}
  or ignoring (of)
  0 * peer:nccl_slowness:ratio
)"""

_LATE_NEED = f"on (<job>) group_left () {late_from(SPREAD)}"
_COMMUNICATOR_NEED = f"on (<job>) group_left () {need('lateness', SPREAD, LEAST_OF_MANY)}"
_LATE_NODES_NEED = f"on (<job>) group_left () {need('lateness', SPREAD)}"

# Two dumps on the mean, or a little less for long, and not gone already.
_CONVINCING = """(
  sum_over_time(job:nccl_suspect:score[<2 dumps in a row>]) / <2 results> >= 1
  or
  sum_over_time(job:nccl_suspect:score[<10 dumps in a row>]) / <6 results> >= 1
)
and job:nccl_suspect:score > 0.5"""

_SOME_PATH = 'suspect="network", transport=""'  # lateness does not tell which transport
_SLOW_COMMUNICATOR = labelled(SLOW_COMMUNICATOR, "suspect", "network")
_SOMEBODY = 'suspect="straggler", <node>=""'
_SOMEBODY_LATE = labelled(SOMEBODY_LATE, "suspect", "straggler")


def _by_cost(most: float) -> str:
    """Evidence counts by what it costs, a half for each percent of throughput, ``most`` times at most."""
    return f"""* on (<job>) group_left ()
(
  clamp(50 * job:training_throughput_loss:ratio, 0.5, {most:g})
  or on (<job>)
  job:nccl_gpus:count ^ 0
)"""


# Where little is communicated, a GPU that computes one percent slower is late by half of that, and a path that is slow for a
# minute holds nobody up. But any hiccup costs throughput, which says nothing about one path among equal ones.
_BY_COST = _by_cost(1.5)
_HALF_IF_FREE = _by_cost(1)

# The best GPU, or the fast path, may be one of which nothing is heard any more, and the rest look slow.
_FEWER = "max_over_time(job:nccl_gpus:count[<2 dumps in a row>]) <= 0.9 * max_over_time(job:nccl_gpus:count[2h])"

# A slow communicator is not told where throughput is known, and is not lost. Nodes that come late together may be late in
# turn, so that it is lost must be known.
_UNLESS_FREE = "unless on (<job>) job:training_throughput_loss:ratio <= 0.05"
_WHILE_IT_COSTS = "and on (<job>) job:training_throughput_loss:ratio > 0.05"


class _Because(NamedTuple):
    """A suspect and another, the cause, which takes its place; what both share, and a condition of the cause."""

    effect: str
    shared: str
    cause: str
    but: str = ""


# Who is late explains a path whose members wait for it. A late GPU explains a whole network as well: the best bandwidth is
# often that of a GPU whose position favours it, until it waits. A late node does not, because a node whose file is older
# than the others looks late when a network becomes slow. Slow links inside a node explain why the node is late, and are
# not explained by that.
_EXPLAINS = (
    _Because('suspect="network", <gpu>!=""', "<job>", 'suspect="straggler"'),
    _Because('suspect="network"', "<job>", 'suspect="straggler", <gpu>!=""'),
    _Because('suspect="straggler"', "<job>, <node>", 'suspect="nvlink"'),
    _Because(_SOMEBODY, "<job>", 'suspect="nvlink"'),
    _Because(_SOMEBODY, "<job>", 'suspect="straggler", <node>!=""'),
    _Because(
        'suspect="nvlink", <node>!=""',
        "<job>",
        'suspect="straggler", <node>!=""',
        ' unless on (<job>, <node>) job:nccl_suspect:score{suspect="nvlink"} >= 0.5',
    ),
)

# Nobody begins to be blamed while a cause of it half convinces.
_BLAMED = (
    f"""(
  {indented(_CONVINCING)}
  """
    + "\n  ".join(
        f"""unless (
    job:nccl_suspect:score{{{each.effect}}}
    and on ({each.shared})
    (job:nccl_suspect:score{{{each.cause}}} >= 0.5{each.but})
  )"""
        for each in _EXPLAINS
    )
    + "\n)"
)

# Three dumps are what it takes to see who is late, and two to see a slow path: a late GPU takes the place of what its peers looked
# like before. So does the transport of a slow network take that of the network.
_TOLD_BETTER = (
    _Because('suspect!="straggler"', "<job>", 'suspect="straggler", <gpu>!=""'),
    _Because(_SOME_PATH, "<job>", 'suspect="network", transport!=""'),
)

# A cause that is blamed since before, or three dumps later at most; and for a moment after.
_EXPLAINED = "\n".join(
    f"""unless (
  job:nccl_suspect:since{{{each.effect}}}
  or
  job:nccl_suspect:score{{{each.effect}}} ^ 0 * time()
) > on ({each.shared}) group_left () (
  min by ({each.shared}) (
    last_over_time(job:nccl_suspect:since{{{each.cause}}}[<3 dumps>])
  )
  - 3 * <dump>
)"""
    for each in _TOLD_BETTER
)

# Of a slow node's GPUs another one may be the latest in every dump. One of a late node is told while it is blamed, if it was as soon
# as the node, and else from its third dump on.
_ITS_GPU = """unless (
  clamp_min(job:nccl_suspect:since{suspect="straggler", <gpu>=""}, time() - 3 * <dump>)
  or
  job:nccl_suspect:score{suspect="straggler", <gpu>=""} ^ 0 * time()
) > on (<job>, <node>) group_left () (
  min by (<job>, <node>) (job:nccl_suspect:since{suspect="straggler", <gpu>!=""})
  - <dump>
)"""


def _named(transports: str) -> str:
    """Slow transports or paths as suspects."""
    return f"""
label_replace(
  label_replace(
    {indented(transports, 4)},
    "suspect", "network", "transport", "network|mixed"
  ),
  "suspect", "nvlink", "transport", "nvlink"
)"""


def _late(by: str = "") -> str:
    """The node of the latest GPU as a suspect, and the GPU as another where it is alone in being late."""
    return f"""
label_replace(
  max by (<job>, <node>) (
    {indented(LATEST_ALONE + by, 4)}
  )
  or
  {indented(LATEST_ALONE + by)}
  unless on (<job>, <node>) {indented(WHOLE_NODE)},
  "suspect", "straggler", "", ""
)"""


# Who is late waits for nobody: where one path has lost nothing, more than it strays, the others wait, and their best
# bandwidth, often that of a GPU whose position favours it, has fallen for that.
_WHOLE = f"""(
  ({indented(LOST)})
  >= on (<job>, transport) (
    -2 * min by (<job>, transport) (
      {indented(beyond(), 6)}
      + ignoring (of)
      4 * {indented(_PATH_STRAYS, 6)}
    )
    or
    -1 * group by (<job>, transport) (job:nccl_transport:info)
  )
)"""
_SLOW = _named(f"{_WHOLE}\n/ on (<job>, transport) group_left () {need('bandwidth', NOISE)}")
_SLOW_PATH = _named(f"{ONE_PATH}\n/ ignoring (of) {need('slowness', _PATH_STRAYS, LEAST_OF_MANY)}")
_SLOW_AMONG_LIKE = _named(f"{AMONG_LIKE} / {LEAST_OF_MANY:g}")
_LATE = _late(f"\n/ {_LATE_NEED}")

SIGNALS = (
    Signal(
        name="job:nccl_suspect:depth",
        question="What slows each job's communication, and by how much?",
        healthy="around zero: somebody is always the slowest",
        expr="\nor".join(
            (
                _named(f"{LOST}\nor\n{ONE_PATH}\nor\n{AMONG_LIKE}"),
                _late(),
                _SLOW_COMMUNICATOR,
                _SOMEBODY_LATE,
            )
        ),
        unit=Unit.RATIO,
        labels=SUSPECT,
        sources=LOST_SOURCES
        + " More than half of the GPUs, at 0.7 of the latest: mates of one late GPU are held up across nodes only, so by half. A path without a past: a fifth in six dumps, as for lateness; "
        "the slowest of 415 random jobs that began healthy was slower by 0.32, slow adapters by 0.4 to 0.65, and slow links by 0.6 to 0.8.",
        group=groups.VERDICT,
    ),
    Signal(
        name="job:nccl_suspect:score",
        question="How many times over does the evidence against each suspect convince?",
        healthy="below a quarter",
        # Not read from the depth, which would be one step more from a sample to the verdict. Around a pause files stop one after
        # the other, and the few that are left have nobody to be compared with: most GPUs of the last three dumps must
        # report in this very one. Who is late is late among peers, and so is a path slow of which nothing is known: no past is
        # asked, so nothing is withheld where the past says nothing.
        expr=f"""
(
  (
    (
      {indented(_SLOW, 6)}
      or
      {indented(_SOMEBODY_LATE, 6)}
      / {indented(_LATE_NODES_NEED, 6)}
      {_WHILE_IT_COSTS}
    )
    {indented(_BY_COST, 4)}
    or
    {indented(_SLOW_PATH, 4)}
    {indented(_HALF_IF_FREE)}
    or
    {indented(_SLOW_COMMUNICATOR, 4)}
    / {indented(_COMMUNICATOR_NEED, 4)}
    {_UNLESS_FREE}
  )
  {indented(comparable('suspect!="straggler"', _FEWER))}
  or
  {indented(_SLOW_AMONG_LIKE)}
  or
  {indented(_LATE)}
  {indented(_BY_COST)}
)
and on (<job>) {IN_THIS_DUMP}
> 0.5 * max_over_time(job:nccl_gpus:count[<3 dumps in a row>])""",
        unit=Unit.COUNT,
        labels=SUSPECT,
        sources="Effect and significance, as Greyhound (ATC'25), which keeps changes of 10 %: a tenth, and five standard deviations for a transport, four for a late GPU; 12 % and six for "
        "one path of many, 12 % and four for one communicator of many. Half as much where throughput that is known stays, half as much again from a loss of 3 %, half of the smallest published dip: what was learned may hold the fault, so nobody is "
        "acquitted. Two hours, as for what is learned. "
        "Nine tenths of the GPUs of two hours: of 35 random jobs in which an exporter went five were told a slow network or a slow rail. "
        "Six verdicts in ten dumps: that a job does something else is noticed some dumps late, and without them 480 random jobs gave 52 alarms without a cause and not 43.",
        group=groups.VERDICT,
    ),
    Signal(
        name="job:nccl_suspect:since",
        question="Since when is each suspect blamed?",
        healthy="absent",
        # The one rule that reads itself. It ends when three quarters of the evidence are gone: what is learned first asks for much,
        # and would acquit who was late from the start. While there is no news, as in a checkpoint, it waits, and it
        # ends with the job. Of several in one dump, who convinces more was the earlier.
        expr=f"""
last_over_time(job:nccl_suspect:since[<3 dumps>]) and job:nccl_suspect:score > 0.25
or
last_over_time(job:nccl_suspect:since[<3 dumps>]) and on (<job>) job:nccl_dump_age:seconds > 2.5 * <dump>
or
time()
- clamp_max(
  {indented(_BLAMED)},
  <dump>
)""",
        unit=Unit.TIMESTAMP,
        labels=SUSPECT,
        sources="Three dumps: a missed evaluation and a noisy dump do not end it.",
        group=groups.VERDICT,
    ),
    Signal(
        name=VERDICT,
        question="What is the state of each job, who is the suspect, and how deep is it?",
        healthy='0, with state="healthy"',
        # One row a job. Who was blamed first stays, so that one incident is one page, unless another convinces twice as much: a
        # second, deeper fault. Engines that store results after the
        # evaluation know only later that somebody is blamed. Mixed communicators hold several GPU numbers, so theirs is no rail and
        # not told. Where no kernel spins, most silences are pauses, and where nothing tells whether the processes live,
        # jobs that were killed or restarted: a stall takes two minutes longer.
        expr="""
label_replace((
  """
        + indented(GONE)
        + """
) ^ 0, "state", "gone", "", "")
or on (<job>)
label_replace(
  (
    max by (<job>, <node>, <gpu>) (
      job:nccl_quiet:seconds{evidence=~"spinning|dead"} >= <pause>
      or
      job:nccl_quiet:seconds{evidence=~"idle|none"} >= <long_pause>
    )
    unless on (<job>)
    """
        + indented(HABIT, 4)
        + """
    unless on (<job>)
    """
        + BUSY
        + """
    and on (<job>)
    """
        + WATCHED
        + """
  ) ^ 0,
  "state", "stalled", "", ""
)
or on (<job>)
label_replace(
  label_replace((
    bottomk by (<job>) (1,
      (
        job:nccl_suspect:since
        and
        job:nccl_suspect:score
        > on (<job>) group_left ()
        0.5 * max by (<job>) (job:nccl_suspect:score and job:nccl_suspect:since)
        or
        (
          """
        + indented(_BLAMED, 10)
        + """
        ) ^ 0
        * time()
      )
      """
        + indented(f"{_EXPLAINED}\n{_ITS_GPU}", 6)
        + """
    )
  ) ^ 0 * job:nccl_suspect:depth, "<gpu_label>", "", "transport", "mixed"),
  "state", "degraded", "", ""
)
or on (<job>)
label_replace(
  0 * group by (<job>) (last_over_time(job:nccl_suspect:since[<10 dumps in a row>]))
  and on (<job>) job:nccl_dump_age:seconds <= 4 * <dump>,
  "state", "recovering", "", ""
)
or on (<job>)
label_replace(
  0 * (job:nccl_dump_age:seconds <= 4 * <dump> and on (<job>) last_over_time("""
        + ALL
        + """[<6 dumps in a row>])),
  "state", "healthy", "", ""
)
or on (<job>)
label_replace(0 * job:nccl_gpus:count, "state", "unknown", "", "")""",
        unit=Unit.RATIO,
        labels=("<job>", "state", *SUSPECT[1:]),
        sources="Two dumps on the mean: of 33 false verdicts in random jobs 20 lasted one dump, and 82 of 122 true ones convince twice over in their first; the mean of ten strays less than half as far. A quarter of what opens a verdict keeps it open: four first samples ask for three times as much as many do; 1.3 times the job's longest finished pause is no habit any more; PyTorch's heartbeat "
        "monitor aborts after 480 s, so a page after four or six minutes still helps.",
        group=groups.VERDICT,
    ),
    Signal(
        name=SINCE,
        question="Since when is each job in its state?",
        healthy="absent",
        # Since anybody is blamed, in whole seconds, as what convinces more was the earlier; of a silence, since its beginning. Not
        # read from the verdict, which would be a step more.
        expr="""
round(min by (<job>) (job:nccl_suspect:since and job:nccl_suspect:score))
or on (<job>)
(
  last_over_time(job:nccl_progress:timestamp[1d])
  and on (<job>) job:nccl_dump_age:seconds > 4 * <dump>
)""",
        unit=Unit.TIMESTAMP,
        labels=("<job>",),
        sources="A day: longer than any fault that a job survives.",
        group=groups.VERDICT,
    ),
)
