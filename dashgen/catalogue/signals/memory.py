# SPDX-License-Identifier: Apache-2.0
"""Do the processes of a silent job still hold their memory, on the GPUs (DCGM) and on the hosts (node_exporter)?"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.signals.dcgm import on_nodes
from dashgen.catalogue.signals.freshness import SEEN_SOURCES
from dashgen.model import Signal, Unit, labelled

_COMMUNICATES = "and on (<job>) job:nccl_dump_age:seconds <= 2.5 * <dump>"

# In the mean: a node whose processes died is not the job, nor is one that another job has taken.
_ON_GPUS = on_nodes("avg", "1048576 * max by (<in><dcgm_host>) (<memory_used>)").strip()


def _on_hosts(available: str) -> str:
    """The memory in use on a host of the job, in the mean."""
    return f"""
avg by (<job>) (
  group by (<job>, <node>, <instance>) (<present>)
  * on (<target>) group_left ()
  max by (<target>) (<host_memory_total> - {available})
)""".strip()


MEMORY = Signal(
    name="job:memory_used:bytes",
    question="How much memory does the job hold on the GPUs and on the host of a node while it communicates?",
    healthy="steady, with peaks of the host in checkpoints",
    expr="<branches>",
    branches=(
        ("dcgm", labelled(f"{_ON_GPUS}\n{_COMMUNICATES}", "of", "gpu")),
        ("host_memory", labelled(f"{_on_hosts('<host_memory_available>')}\n{_COMMUNICATES}", "of", "host")),
    ),
    join="or",
    unit=Unit.BYTES,
    labels=("<job>", "of"),
    sources=SEEN_SOURCES + " 2.5 dumps: what is silent for longer pauses, and memory says why.",
    group=groups.STALLS,
)


def _half_of_usual(of: str) -> str:
    """Half of what the job held most of the time: a checkpoint may double it."""
    return f'on (<job>) 0.5 * quantile_over_time(0.5, job:memory_used:bytes{{of="{of}"}}[1d])'


HELD = f"{_ON_GPUS}\n> {_half_of_usual('gpu')}"
"""Jobs whose processes still hold the memory of a GPU."""
FREED = f"""{_on_hosts("max_over_time(<host_memory_available>[<freed_within>])")}
< {_half_of_usual("host")}
and on (<job>) job:nccl_gpus:count offset <freed_within>"""
"""Jobs whose hosts got their memory back since the job was there: another one may have taken it by now."""
