# SPDX-License-Identifier: Apache-2.0
"""What carries a communicator: ``nvlink`` (n_nodes="1"), ``network`` (one rank per node) or ``mixed``.

NCCL counts NVLink domains as nodes, so the classes say "within one domain" and "across domains", not hosts. The order
of the tests is that of NVIDIA's own exporter (plugins/profiler/inspector/exporter/example/perf_summary_exporter.py).
"""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"
CLASSES = ("nvlink", "network", "mixed")

PEERS = (
    Signal(
        name="peer:nccl_exec:median",
        question="How long does each kind of collective take on the median GPU, waiting included?",
        healthy="steady for one message size and algorithm",
        expr="quantile by (<job>, <peer>) (0.5, <exec>{<large>, <selector>})",
        unit=Unit.MICROSECONDS,
        labels=("<job>", "<peer>"),
        group=GROUP,
    ),
)

SIGNALS = (
    Signal(
        name="job:nccl_shape:info",
        question="Which communicator shapes does the job use?",
        healthy="constant for the life of a job",
        expr="""
group by (<job>, n_nodes, nranks) (
  peer:nccl_exec:median
  or
  <exec>{<small>, <selector>}
  or
  <p2p_exec>{<clean>, <selector>}
)""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_transport:info",
        question="Over which transport does each communicator shape of the job run?",
        healthy="constant for the life of a job; n_nodes that rises means that a domain was split",
        # Two labels are equal where a row made from one of them twice exists; `or on` keeps the first class found.
        expr="""
label_replace(job:nccl_shape:info{n_nodes="1"}, "transport", "nvlink", "", "")
or
label_replace(
  job:nccl_shape:info{n_nodes!="1"}
  and
  label_replace(group by (<job>, nranks) (job:nccl_shape:info), "n_nodes", "$1", "nranks", "(.+)"),
  "transport", "network", "", ""
)
or on (<job>, n_nodes, nranks)
label_replace(job:nccl_shape:info{n_nodes!="1"}, "transport", "mixed", "", "")""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks", "transport"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_siblings:info",
        question="Which communicator shapes across nodes are smaller than the job, so that there can be several of them?",
        healthy="constant for the life of a job",
        # A communicator is alone where it has as many ranks as the job has GPUs. The largest number of the last hour
        # counts: a node that goes dark for a moment does not change what the job is.
        expr="""
job:nccl_shape:info{n_nodes!="1"}
unless on (<job>, nranks)
count_values by (<job>) ("nranks", max_over_time(job:nccl_gpus:count[1h]))""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks"),
        sources="An hour, as the baselines.",
        group=GROUP,
    ),
)
