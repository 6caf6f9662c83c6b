# SPDX-License-Identifier: Apache-2.0
"""Who is there, and how old is what we see: the ground that every verdict stands on.

An idle or hung job's file is not rewritten, so its values stay as they were. Presence is never health.
"""

from __future__ import annotations

from textwrap import indent

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"


def _file_age(of: str) -> str:
    """Seconds since the newest file of the job's nodes was written: on the ``max`` (newest) or ``min`` (oldest) node."""
    return f"""\
time() - {of} by (<job>) (
  0 * node:nccl_gpus:count
  + on (<instance>) group_left ()
  max by (<instance>) (last_over_time(<mtime>{{file=~"<textfile_regex>"}}[5m]))
)"""


SIGNALS = (
    Signal(
        name="node:nccl_gpus:count",
        question="How many GPUs of each node report for the job?",
        healthy="the number of GPUs that the job has on the node",
        # The counters stay when an idle GPU's bandwidth lines disappear, so a hung job stays visible through them.
        expr="""
count by (<job>, <node>, <instance>) (
  <branches>
)""",
        branches=(
            ("", "gpu:nccl_exec:relative"),
            ("", "group by (<job>, <node>, <instance>, <gpu>) (<exec>{<small>, <selector>})"),
            ("", "group by (<job>, <node>, <instance>, <gpu>) (<exec>{<rooted>, <clean>, <selector>})"),
            ("", "group by (<job>, <node>, <instance>, <gpu>) (<p2p_exec>{<clean>, <selector>})"),
            ("counters", "group by (<job>, <node>, <instance>, <gpu>) (<collectives>{<selector>})"),
        ),
        join="or",
        unit=Unit.COUNT,
        labels=("<job>", "<node>", "<instance>"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_gpus:count",
        question="How many GPUs report for the job?",
        healthy="the number of GPUs of the job",
        expr="sum by (<job>) (node:nccl_gpus:count)",
        unit=Unit.COUNT,
        labels=("<job>",),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_collectives:max",
        question="How many collectives has the busiest GPU of the job completed?",
        healthy="climbs with every dump; a flat line means that nothing completes",
        # The largest and not the sum: a node that is missed by one scrape must not look like progress.
        expr="max by (<job>) (<collectives>{<selector>})",
        unit=Unit.COUNT,
        labels=("<job>",),
        group=GROUP,
        companion="counters",
    ),
    Signal(
        name="job:nccl_collectives:rate",
        question="How many collectives a second does the job complete?",
        healthy="steady; zero for longer than a checkpoint is a stall",
        expr="sum by (<job>) (rate(<collectives>{<selector>}[<3 dumps>]))",
        unit=Unit.PER_SECOND,
        labels=("<job>",),
        sources="Three dumps: a rate over fewer is broken by one missed scrape.",
        group=GROUP,
        companion="counters",
    ),
    Signal(
        name="job:nccl_dump_age:seconds",
        question="How long ago did any GPU of the job last report new communication?",
        healthy="below two dump intervals",
        # First the counters: with them files are rewritten although nothing happens. Then, where two jobs share a
        # node and its newest file may be the other job's, the last change of a value. Else the newest file's age.
        expr="<branches>",
        branches=(
            (
                "counters",
                """
(
  time() - max_over_time(timestamp(changes(job:nccl_collectives:max[<2 dumps - 1s>]) > 0)[1h:<1 dumps>])
  and on (<job>)
  job:nccl_gpus:count
)""",
            ),
            (
                "",
                """
(
  time() - max_over_time(timestamp(max by (<job>) (changes(peer:nccl_exec:median[<2 dumps - 1s>])) > 0)[1h:<1 dumps>])
  and on (<job>)
  (node:nccl_gpus:count and on (<instance>) count by (<instance>) (node:nccl_gpus:count) > 1)
)""",
            ),
            (
                "textfile",
                "(\n" + indent(_file_age("max"), "  ") + "\n)",
            ),
        ),
        unit=Unit.SECONDS,
        labels=("<job>",),
        sources="A dump may come a scrape late, hence changes over two; an hour is longer than any pause that is "
        "judged; node_exporter is asked for the last five minutes, as Prometheus looks back.",
        group=GROUP,
    ),
    Signal(
        name="job:nccl_oldest_dump:seconds",
        question="How long ago did the job's slowest node report new communication?",
        healthy="below two dump intervals",
        expr=_file_age("min"),
        unit=Unit.SECONDS,
        labels=("<job>",),
        sources="Five minutes, as Prometheus looks back.",
        group=GROUP,
        companion="textfile",
    ),
    Signal(
        name="job:nccl_unsettled:bool",
        question="Is what we see of the job old, or of different moments, so that it must not be judged?",
        healthy="absent",
        # The last dumps of a job that stops cover different numbers of steps. A node that stays silent for longer is
        # no reason to look away from the others.
        expr="""
1 + 0 * (job:nccl_dump_age:seconds > 2.5 * <dump>)
or on (<job>)
1 + 0 * (job:nccl_oldest_dump:seconds > 2.5 * <dump> < 8 * <dump>)""",
        unit=Unit.BOOL,
        labels=("<job>",),
        sources="2.5 dumps are one missed dump, one scrape and one evaluation; after eight a node is lost, which "
        "NcclNodeTelemetryLost tells.",
        group=GROUP,
    ),
)
