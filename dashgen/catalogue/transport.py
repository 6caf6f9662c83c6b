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
        name="job:nccl_series:count",
        question="How many series does each communicator shape of the job expose?",
        healthy="in proportion to GPUs × message sizes; growth without new GPUs is a label explosion",
        expr="""
count by (<job>, n_nodes, nranks) (
  <exec>{<clean>, <selector>}
  or
  <p2p_exec>{<clean>, <selector>}
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
label_replace(0 * job:nccl_series:count{n_nodes="1"} + 1, "transport", "nvlink", "", "")
or
label_replace(
  0 * job:nccl_series:count{n_nodes!="1"} + 1
  and
  label_replace(group by (<job>, nranks) (job:nccl_series:count), "n_nodes", "$1", "nranks", "(.+)"),
  "transport", "network", "", ""
)
or on (<job>, n_nodes, nranks)
label_replace(0 * job:nccl_series:count{n_nodes!="1"} + 1, "transport", "mixed", "", "")""",
        unit=Unit.BOOL,
        labels=("<job>", "n_nodes", "nranks", "transport"),
        group=GROUP,
    ),
)
