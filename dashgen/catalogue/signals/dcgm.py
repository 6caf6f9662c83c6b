# SPDX-License-Identifier: Apache-2.0
"""What dcgm-exporter says of a job's nodes: its series know hosts, not jobs."""

from __future__ import annotations


def on_nodes(operation: str, by_host: str) -> str:
    """A DCGM series of the job's nodes, by host called as Inspector calls the node, as one value of the job."""
    return f"""
{operation} by (<job>) (
  group by (<job>, <node>) (<present>)
  * on (<host>) group_left ()
  max by (<host>) (
    label_replace(
      {by_host},
      "<node_label>", "$1", "<dcgm_host>", "(.+)"
    )
  )
)"""


UTILISATION = on_nodes("avg", "max by (<in><dcgm_host>) (min_over_time(<gpu_util>[<until_known>]))").strip()
"""The least of some time: at the end of a pause kernels run before anything is known of it. Of all nodes: another job may have some of them."""
TENSOR_ACTIVE = on_nodes(
    "avg", "avg by (<in><dcgm_host>) (max by (<in><dcgm_host>, <dcgm_uuid>) (<tensor_active>))"
).strip()

_RESTING = "max by (<in><dcgm_host>, <dcgm_gpu>) (<gpu_util> < 10)"
LONELY = on_nodes("count", f"count by (<in><dcgm_host>) ({_RESTING}) == 1").strip()
"""How many nodes of the job have one GPU that rests alone."""
ALONE = f"""
group by (<job>, <node>) (<present>)
* on (<host>) group_left (<gpu_label>)
label_replace(
  label_replace(
    {_RESTING}
    unless on (<in><dcgm_host>)
    count by (<in><dcgm_host>) ({_RESTING}) > 1,
    "<gpu_label>", "GPU$1", "<dcgm_gpu>", "(.+)"
  ),
  "<node_label>", "$1", "<dcgm_host>", "(.+)"
)""".strip()
"""GPUs that rest alone on one of the job's nodes, numbered as the driver does: a dead process has no number any more."""
