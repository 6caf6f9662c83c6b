# SPDX-License-Identifier: Apache-2.0
"""What carries a communicator: ``nvlink`` (n_nodes="1"), ``network`` (one rank per node) or ``mixed``.

NCCL counts NVLink domains as nodes, so the classes say "within one domain" and "across domains", not hosts. The order
of the tests is that of NVIDIA's own exporter (plugins/profiler/inspector/exporter/example/perf_summary_exporter.py).
"""

from __future__ import annotations

from dashgen.model import Signal, Unit

GROUP = "nccl-detection"
CLASSES = ("nvlink", "network", "mixed")

SIGNALS = (
    Signal(
        name="job:nccl_shape_gpus:count",
        question="How many GPUs take part in each communicator shape of the job?",
        healthy="constant for the life of a job",
        expr="""
count by (<job>, n_nodes, nranks) (
  group by (<job>, n_nodes, nranks, <node>, <gpu>) (<exec>{<clean>, <selector>})
  or
  group by (<job>, n_nodes, nranks, <node>, <gpu>) (<p2p_exec>{<clean>, <selector>})
)""",
        unit=Unit.COUNT,
        labels=("<job>", "n_nodes", "nranks"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_transport:info",
        question="Over which transport does each communicator shape of the job run?",
        healthy="constant for the life of a job; n_nodes that rises means that a domain was split",
        # Two labels are equal where a row made from one of them twice exists; `or on` keeps the first class found.
        expr="""
label_replace(0 * job:nccl_shape_gpus:count{n_nodes="1"} + 1, "transport", "nvlink", "", "")
or
label_replace(
  0 * job:nccl_shape_gpus:count{n_nodes!="1"} + 1
  and
  label_replace(group by (<job>, nranks) (job:nccl_shape_gpus:count), "n_nodes", "$1", "nranks", "(.+)"),
  "transport", "network", "", ""
)
or on (<job>, n_nodes, nranks)
label_replace(0 * job:nccl_shape_gpus:count{n_nodes!="1"} + 1, "transport", "mixed", "", "")""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks", "transport"),
        group=GROUP,
    ),
    Signal(
        name="job:nccl_siblings:info",
        question="Which communicator shapes across nodes does the job have several of?",
        healthy="constant for the life of a job",
        # One communicator holds all GPUs of the shape where their number is the number of ranks. The largest number of
        # the last hour counts: a node that goes dark for a moment does not change what the job is.
        expr="""
0 * job:nccl_shape_gpus:count{n_nodes!="1"} + 1
unless
count_values by (<job>, n_nodes) ("nranks", max_over_time(job:nccl_shape_gpus:count{n_nodes!="1"}[1h]))""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks"),
        group=GROUP,
    ),
)
