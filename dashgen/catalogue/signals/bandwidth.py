# SPDX-License-Identifier: Apache-2.0
"""Bus bandwidth of collectives, and of Send and Recv with their times, by transport and size class: what the boards draw."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.model import Signal, Unit, indented

# Classes instead of the unbounded message_size; the label holds the lower bound of a range in 1024-based units.
_SIZE_CLASS = """
label_replace(
  label_replace(
    label_replace(
      {inner},
      "size_class", "small", "message_size", ".+[0-9](B|KB)"
    ),
    "size_class", "medium", "message_size", "([1-9]|[1-5][0-9]|6[0-3])-[0-9]+MB"
  ),
  "size_class", "large", "message_size", "(6[4-9]|[7-9][0-9]|[0-9]{{3,}})-[0-9]+MB|.+GB"
)"""


def _classed(inner: str, keep: str) -> str:
    """Aggregate the buckets first, then name their size class and transport, on few rows."""
    body = indented(_SIZE_CLASS.format(inner=" ".join(inner.split())))
    return f"""
max by (<job>, transport, {keep}, size_class) (
  {body}
  * on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info
)"""


_BUCKET = "<job>, n_nodes, nranks, collective, message_size"
_P2P_BUCKET = "<job>, n_nodes, nranks, p2p_operation, message_size"

SIGNALS = (
    Signal(
        name="job:nccl_busbw:max",
        question="What bus bandwidth does each collective reach when nobody waits?",
        healthy="steady; compare it with the nccl-tests value of the same transport only as an upper bound",
        expr=_classed(f"max by ({_BUCKET}) (peer:nccl_busbw:best)", "collective"),
        unit=Unit.GBPS,
        labels=("<job>", "transport", "collective", "size_class"),
        group=groups.BANDWIDTH,
    ),
)


P2P_SIGNALS = (
    Signal(
        name="job:nccl_p2p_busbw:max",
        question="What bandwidth do Send and Recv reach when the peer is ready?",
        healthy="steady; all-to-all traffic is seen only here",
        expr=_classed(f"max by ({_P2P_BUCKET}) (<p2p_busbw>{{<clean>, <selector>}})", "p2p_operation"),
        unit=Unit.GBPS,
        labels=("<job>", "transport", "p2p_operation", "size_class"),
        group=groups.P2P,
        companion="p2p",
    ),
    Signal(
        name="job:nccl_p2p_exec:median",
        question="How long do Send and Recv take on the median GPU, waiting for the peer included?",
        healthy="steady; a long Recv waits for its sender, a long Send for its receiver",
        expr=_classed(f"quantile by ({_P2P_BUCKET}) (0.5, <p2p_exec>{{<clean>, <selector>}})", "p2p_operation"),
        unit=Unit.MICROSECONDS,
        labels=("<job>", "transport", "p2p_operation", "size_class"),
        group=groups.P2P,
        companion="p2p",
    ),
)
