# SPDX-License-Identifier: Apache-2.0
"""Runbook text that several alerts share: how the causes differ, and the field's own tools in the order they pay."""

from __future__ import annotations

from dashgen.model import Runbook

COMMUNICATION = (
    "Network: mixed and network transports are down, the transport within the domain is flat, skew is flat.",
    "Link inside a domain: the domain's transport is down on one node; the other nodes wait for that node.",
    "Late GPU or node: bandwidth of the fastest member is unchanged, one GPU has the SHORTEST time in collectives "
    "and everybody else a longer one. The longest time is the first to arrive and never to blame.",
    "Shared cause (clocks, power, placement): every transport is down alike and skew is flat.",
    "Application: message sizes or the algorithm mix changed at the same moment; a new batch size is not a fault.",
)

TOOLS = (
    "Job and processes: `scontrol show job JOB`, `ps`, `nvidia-smi`, `dmesg | grep -i xid` on the suspect node.",
    "NCCL log: `NCCL_DEBUG=INFO`, `NCCL_DEBUG_SUBSYS=INIT,NET,COLL`, `NCCL_DEBUG_FILE=/path/nccl-%h-%p.log`; compare the "
    "last opCount of every rank. Different values: ranks are in different operations. Equal and unfinished: the "
    "collective itself, go to the network.",
    "PyTorch: Flight Recorder (`TORCH_FR_BUFFER_SIZE`, `TORCH_NCCL_DUMP_ON_TIMEOUT=1`) names the rank that diverges; "
    "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names unused parameters.",
    "Per operation: Inspector's JSON mode on the job (Prometheus mode off for that run).",
    "Fabric: `ibstat` (Active, LinkUp), `ibv_devinfo | grep mtu`, `perfquery -x`.",
    "Raw bandwidth: `ib_write_bw` pairwise, `iperf3 -P 4`, `ping -M do -s 8972` end to end where the MTU is 9000.",
    "nccl-tests on suspect against healthy nodes: `all_reduce_perf -b 1M -e 1G -f 2 -g 1`; more than 20 % below the "
    "accepted value: do not use the node.",
    "Compute or communication: `torch.profiler` on one good and one suspect rank over five steps.",
)

LATE = Runbook(
    meaning="Somebody arrives late at the job's collectives, and all others wait. The late one waits for nobody, so it "
    "shows the shortest time in collectives and the highest bus bandwidth of its group.",
    look_first=(
        "Outlier board: which GPU or node, since when, how far below its usual share.",
        "The host: `nvidia-smi -q -d CLOCK,PERFORMANCE` for throttling, `dmesg | grep -i xid`, CPU and storage load.",
        "The job: does this rank do more work than the others (data, sequence length, an expert)?",
    ),
    tell_apart=(
        "One GPU of a node is late: the GPU, its process or its data. All GPUs of a node: the host or the links inside.",
        "The GPU that is late changes from dump to dump: imbalance of the work, not hardware.",
        "With pipeline parallelism the stages behind a late one look late as well: the first of them is the cause.",
    ),
    act=("Drain the node when the next job on it is late as well: `scontrol update nodename=NODE state=drain reason=…`.",),
)
