# SPDX-License-Identifier: Apache-2.0
"""What carries a communicator, and whether it has become slower than this job is used to.

``nvlink`` is within one NVLink domain (n_nodes="1"), ``network`` one rank per node, ``mixed`` everything else. NCCL counts
NVLink domains as nodes; the order of the tests is that of NVIDIA's own exporter
(plugins/profiler/inspector/exporter/example/perf_summary_exporter.py).

The last arriver waits for nobody, so the best bus bandwidth of a group is that of the path. Like is compared with like:
within a domain every node is a path of its own, across domains every GPU number (its rail).
"""

from __future__ import annotations

from dashgen.catalogue.baselines import learned, remembered
from dashgen.model import Signal, Unit

GROUP = "nccl-verdict"
CLASSES = ("nvlink", "network", "mixed")
PATH = ("<job>", "transport", "<node>", "<gpu>")

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
    group=GROUP,
)

BEST = Signal(
    name="peer:nccl_busbw:best",
    question="How fast is each path when nobody waits?",
    healthy="steady within a few percent for one message size and algorithm",
    expr="""
(
  max by (<job>, <peer>, <node>) (<busbw>{n_nodes="1", <waiting>, <selector>})
  or
  max by (<job>, <peer>, <gpu>) (<busbw>{n_nodes!="1", <waiting>, <selector>})
)
<seen>""",
    unit=Unit.GBPS,
    labels=("<job>", "<peer>", "<node>", "<gpu>"),
    group=GROUP,
)

LEARNED = learned(
    "peer:nccl_busbw",
    judged="max_over_time(peer:nccl_busbw:best{<known>}[<2 dumps - 1s>] offset <6 dumps>)",
    what="the bandwidth that a path is used to",
    unit=Unit.GBPS,
    labels=("<job>", "<peer>", "<node>", "<gpu>"),
    floor=0.02,
)

_NOW = "max_over_time(peer:nccl_busbw:best[<2 dumps - 1s>])"
_DROP = f"(1 - {_NOW} / {remembered('peer:nccl_busbw:usual')})"
_NOISE = remembered("peer:nccl_busbw:spread")
_ON_PATH = "* on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info"

SIGNALS = (
    Signal(
        name="peer:nccl_busbw_drop:ratio",
        question="How far is each path of the job below the bandwidth that it is used to?",
        healthy="around zero, or a little below",
        # All sizes, collectives and algorithms on the path, each against its own past, weighted by what they know.
        # Two dumps in a row count by the better one. A frozen file is not judged: what it says is old.
        expr=f"""
sum by (<job>, transport, <node>, <gpu>) ({_DROP} / {_NOISE} ^ 2 {_ON_PATH})
/
sum by (<job>, transport, <node>, <gpu>) ({_NOW} ^ 0 / {_NOISE} ^ 2 {_ON_PATH})
unless on (<job>) job:nccl_dump_age:seconds > 4 * <dump>""",
        unit=Unit.RATIO,
        labels=PATH,
        sources="Two dumps: dumps of different nodes are up to one apart; 2 % is the transfer noise of "
        "ByteDance's traces (0.6 to 4.3 %): floors keep z-scores from exploding (Nebius saw z = 577 on a healthy run).",
        group=GROUP,
    ),
    Signal(
        name="peer:nccl_busbw_noise:ratio",
        question="How far does the bandwidth of each path stray on its own?",
        healthy="a few percent; a noisy path needs a deeper drop before it is believed",
        expr=f"""
sum by (<job>, transport, <node>, <gpu>) ({_NOW} ^ 0 / {_NOISE} {_ON_PATH})
/
sum by (<job>, transport, <node>, <gpu>) ({_NOW} ^ 0 / {_NOISE} ^ 2 {_ON_PATH})""",
        unit=Unit.RATIO,
        labels=PATH,
        sources="As peer:nccl_busbw_drop:ratio; all sizes of a path are taken to stray together, the careful assumption.",
        group=GROUP,
    ),
)
