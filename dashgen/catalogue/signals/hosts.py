# SPDX-License-Identifier: Apache-2.0
"""What dcgm-exporter and node_exporter say of a job's nodes: their series know hosts, not jobs."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.signals.freshness import LATELY, SEEN_SOURCES
from dashgen.model import Signal, Unit, indented, labelled

_NODES = f"group by (<job>, <node>) ({LATELY})"


def _on_nodes(operation: str, by_host: str, nodes: str = _NODES) -> str:
    """A DCGM series of the job's nodes, by host called as Inspector calls the node, as one value of the job."""
    return f"""
{operation} by (<job>) (
  {indented(nodes)}
  * on (<host>) group_left ()
  max by (<host>) (
    label_replace(
      {indented(by_host, 6)},
      "<node_label>", "$1", "<dcgm_host>", "(.+)"
    )
  )
)""".strip()


def _nodes(those: str, known: str = _NODES) -> str:
    """The job's nodes, ``unless`` several of the ``known`` jobs are on them, or those alone ``and`` no others."""
    return f"""(
  {_NODES}
  {those} on (<host>)
  count by (<host>) ({known}) > 1
)"""


# Whose GPUs work on a node that two jobs are on, nobody can tell. A silent job, whose files may be left over, is present now and then.
_ALONE_ON = _nodes("unless", "group by (<job>, <node>) (<present>)")
UTILISATION = _on_nodes("avg", "max by (<in><dcgm_host>) (min_over_time(<gpu_util>[<until_known>]))", _nodes("unless"))
"""The least of some time: at the end of a pause kernels run before anything is known of it."""
TENSOR_ACTIVE = _on_nodes(
    "avg", "avg by (<in><dcgm_host>) (max by (<in><dcgm_host>, <dcgm_uuid>) (<tensor_active>))", _ALONE_ON
)
"""How busy the tensor cores are now."""

# For some time, so that a scrape which fails does not take back the name of a GPU.
_RESTING = "max by (<in><dcgm_host>, <dcgm_gpu>) (max_over_time(<gpu_util>[<until_known>]) < 10)"
LONELY = _on_nodes("count", f"count by (<in><dcgm_host>) ({_RESTING}) == 1")
"""How many nodes of the job have one GPU that rests alone."""
ALONE = f"""
{_NODES}
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

# A file is named after its GPU. Where a neighbour writes its own, those that nobody writes are of jobs that are silent.
_FILES_AT_REST = """label_replace(
  changes(<mtime>{file=~"<textfile_regex>"}[<4 dumps>]) == 0,
  "<dcgm_uuid>", "GPU-$1", "file", ".*_(.+)[.]prom"
)"""
_KEPT = f"""max by (<in><dcgm_host>) (
  <memory_used> / max_over_time(<memory_used>[<alive_within>])
  and on (<in><dcgm_uuid>) {indented(_FILES_AT_REST)}
)"""
ABANDONED = _on_nodes("max", _KEPT, _nodes("and")) + " < 0.5"
"""Jobs that share their nodes with others, and whose GPUs have given their memory back."""

# In the mean: a node whose processes died is not the job, nor is one that another job has taken.
_ON_GPUS = _on_nodes("avg", "1048576 * max by (<in><dcgm_host>) (<memory_used>)")
_ON_HOSTS = f"""
avg by (<job>) (
  group by (<job>, <node>, <instance>) ({LATELY})
  * on (<target>) group_left ()
  max by (<target>) (<host_memory_total> - <host_memory_available>)
)""".strip()


def _communicating(used: str) -> str:
    return f"{used}\nand on (<job>) job:nccl_dump_age:seconds <= 2.5 * <dump>"


MEMORY = Signal(
    name="job:memory_used:bytes",
    question="How much memory is in use on a GPU and on a host of the job, at any time and while it communicates?",
    healthy="steady, with peaks of the host in checkpoints",
    expr="<branches>",
    branches=(
        ("dcgm", labelled(_ON_GPUS, "of", "gpu")),
        ("dcgm", labelled(_communicating(_ON_GPUS), "of", "communicating gpu")),
        ("host_memory", labelled(_ON_HOSTS, "of", "host")),
        ("host_memory", labelled(_communicating(_ON_HOSTS), "of", "communicating host")),
    ),
    join="or",
    unit=Unit.BYTES,
    labels=("<job>", "of"),
    sources=SEEN_SOURCES + " 2.5 dumps: what is silent for longer pauses, and memory says why.",
    group=groups.STALLS,
)


def _half_of_usual(of: str) -> str:
    """Half of what was in use most of the time that the job communicated: a checkpoint may double it."""
    return f'on (<job>) 0.5 * quantile_over_time(0.5, job:memory_used:bytes{{of="communicating {of}"}}[1d])'


def freed(of: str) -> str:
    """Jobs whose GPUs or hosts have got their memory back; another job may have taken it by now, or this one again."""
    return f'min_over_time(job:memory_used:bytes{{of="{of}"}}[<freed_within>])\n< {_half_of_usual(of)}'


HELD = f'job:memory_used:bytes{{of="gpu"}} > {_half_of_usual("gpu")}'
"""Jobs whose processes still hold the memory of their GPUs."""
