# SPDX-License-Identifier: Apache-2.0
"""Runbook text that several alerts share: how the causes differ, and the field's own tools in the order they pay."""

from __future__ import annotations

from dashgen.model import Runbook

COMMUNICATION = (
    "Network: mixed and network transports are down, the transport within the domain is flat, and nobody is later than usual.",
    "Link inside a domain: the domain's transport is down on one node; the other nodes wait for that node.",
    "Late GPU or node: bandwidth of the fastest member is unchanged, one GPU has the SHORTEST time in collectives "
    "and everybody else a longer one. The longest time is the first to arrive and never to blame.",
    "Shared cause (clocks, power, placement): every transport is down alike, and nobody is later than usual.",
    "Application: message sizes or the algorithm mix changed at the same moment; a new batch size is not a fault.",
)

# How each collective hangs, for whoever reads the application's code next.
HANGS = (
    "AllReduce: a ring cannot form, or shapes differ between ranks. AllGather: memory runs out at a large world size. "
    "ReduceScatter: unequal chunks, often together with a hung AllGather. Broadcast: its root is late, everybody waits. "
    "Send and Recv: both sides send first, or sizes do not match.",
    "A hang before any collective (`unhandled system error` at the start) is ring initialisation: firewall, "
    "NCCL_SOCKET_IFNAME, name resolution.",
    "Works on two nodes and fails on eight: an MTU mismatch on one hop is the first suspect, see NcclFabricMtuMismatch.",
)

# One process a GPU; started alone it would be one rank, which has nobody to talk to.
_NCCL_TESTS = (
    "`srun -N 2 --ntasks-per-node=8 --gpus-per-node=8 all_reduce_perf -b 1M -e 1G -f 2 -g 1` (built with MPI=1), inside "
    "one node `all_reduce_perf -b 1M -e 1G -f 2 -g 8`"
)

TOOLS = (
    "Job and processes: `scontrol show job JOB` or `kubectl get pods -o wide`, `ps`, `nvidia-smi`, `dmesg | grep -i xid` on the suspect node.",
    "NCCL log: `NCCL_DEBUG=INFO` (WARN in production, TRACE for two GPUs at most), "
    "`NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH,COLL,TUNING,ENV` as needed, `NCCL_DEBUG_FILE=/path/nccl-%h-%p.log`; compare the "
    "last opCount of every rank. Different values: ranks are in different operations. Equal and unfinished: the "
    "collective itself, go to the network. Look for NET/Socket where NET/IB should be, and for a forced NCCL_ALGO or NCCL_PROTO.",
    "PyTorch: Flight Recorder (`TORCH_FR_BUFFER_SIZE`, formerly `TORCH_NCCL_TRACE_BUFFER_SIZE`; "
    "`TORCH_NCCL_DUMP_ON_TIMEOUT=1`) keeps the last collectives of every rank and names the one that diverges; "
    "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names unused parameters at the time-out.",
    "Per operation: Inspector's JSON mode on the job (Prometheus mode off for that run), then `dashgen import json`.",
    "Fabric, on each suspect node: `ibstat` (Active, LinkUp), `ibv_devinfo | grep mtu`, `perfquery -x`, `ibtracert`; "
    "the runbook of NcclFabricSuspect has the counter table.",
    "Raw bandwidth: `ib_write_bw -d HCA` pairwise, `iperf3 -P 4` (about 94 % of the line rate), `ping -M do -s 8972` end "
    "to end where the MTU is 9000, `p2pBandwidthLatencyTest` inside the node.",
    f"nccl-tests on suspect against healthy nodes: {_NCCL_TESTS}; more than 20 % below the accepted value: do not use the "
    "node. `dashgen baseline` keeps the accepted values.",
    "Compute or communication: `torch.profiler` on one good and one suspect rank over five steps; NCCL kernels that are "
    "long on all ranks but one mean that this one is late.",
    "Act: `scontrol update nodename=NODE state=drain reason=…` or `kubectl cordon NODE`, restart from the checkpoint without the node, and open the "
    "vendor's case with the times of the degradation windows.",
)

ROCM = {
    "`nvidia-smi -q -d CLOCK,PERFORMANCE`": "`rocm-smi --showclocks --showperflevel`",
    "nvidia-smi nvlink -e and -s": "rocm-smi --showxgmierr",
    "nvidia-smi -L": "rocm-smi --showuniqueid",
    "nvidia-smi": "rocm-smi",
    "grep -i xid": "grep -i amdgpu",
    "XIDs": "driver errors",
    "p2pBandwidthLatencyTest": "rocm-bandwidth-test",
    "is CUDA's": "is HIP's",
    "CUDA's number": "HIP's number",
    "nccl-tests": "rccl-tests",
}
"""What the tools of texts are called where the GPUs are AMD's."""

# What each counter of a port means and what to do about it, by its value of the label counter.
COUNTERS = {
    "symbol_errors": "SymbolErrors rising: signal trouble; cable, transceiver.",
    "receive_errors": "PortRcvErrors rising: packets arrive with errors; look at the far port.",
    "discards": "PortXmitDiscards rising: a queue overflows; congestion, switch, QoS or PFC.",
    "link_downed": "LinkDowned above 0: the link went away and came back; cable seating, port.",
    "link_recoveries": "LinkErrorRecovery rising: the link retrains itself; cable, transceiver, then adapter.",
    "integrity_errors": "LocalLinkIntegrityErrors above 0: more link errors than the port tolerates; as symbol errors.",
    "buffer_overruns": "ExcessiveBufferOverrunErrors above 0: credit flow control failed; MTU mismatch, firmware.",
    "ack_timeouts": "local_ack_timeout_err rising: a peer does not answer; its link, PFC storms on the way.",
    "rnr_retries": "rnr_nak_retry_err above 0: the receiver was not ready; an overloaded or stuck peer.",
    "slow_restarts": "roce_slow_restart rising: loss on a path that should lose nothing; PFC and ECN settings, incast.",
    "carrier_changes": "carrier_changes rising: the interface loses its carrier; cable, transceiver, far port.",
}

FABRIC_TOOLS = (
    "State: `ibstat` (Active and LinkUp, rate as the neighbours have it), `ibv_devinfo | grep mtu`, `ip -s link show`.",
    "Counters: `perfquery -x` on both ends of the cable, twice, a minute apart: only what rises counts. RoCE: "
    "`grep . /sys/class/infiniband/DEVICE/ports/1/hw_counters/*` and `ethtool -S INTERFACE`.",
    "Path: `ibtracert SOURCE DESTINATION`, `iblinkinfo`; `ping -M do -s 8972` end to end where the MTU is 9000.",
    "Raw bandwidth: `ib_write_bw -d HCA` between the suspect and a healthy node, then between two healthy ones (HDR about "
    "200 Gb/s); `iperf3 -P 4` for TCP (about 94 % of the line rate).",
    f"nccl-tests with and without the node: {_NCCL_TESTS}; more than 20 % below the accepted value: do not use the node.",
    "Cable: `mlxlink -d DEVICE -m -c` on both ends shows optical power and error rates.",
)

LATE = Runbook(
    meaning="Somebody arrives late at the job's collectives, and all others wait. The late one waits for nobody, so it "
    "shows the shortest time in collectives and the highest bus bandwidth of its group.",
    look_first=(
        "Outlier board: which GPU or node, since when, and by how much later than it is used to.",
        "The host: `nvidia-smi -q -d CLOCK,PERFORMANCE` for throttling, `dmesg | grep -i xid`, CPU and storage load. The GPU's "
        "number is CUDA's, and nvidia-smi may count otherwise: `grep -l 'gpu=\"GPU3\"' DIR/nccl_inspector_metrics_*.prom` gives the "
        "UUID of GPU3, which `nvidia-smi -L` knows.",
        "The job: does this rank do more work than the others (data, sequence length, an expert)?",
    ),
    tell_apart=(
        "One GPU of a node is late: the GPU, its process or its data. All GPUs of a node: the host or the links inside.",
        "The GPU that is late changes from dump to dump: imbalance of the work, not hardware.",
        "With pipeline parallelism the stages behind a late one look late as well: the first of them is the cause.",
    ),
    act=(
        "Drain the node at once where the host says why, by XIDs, throttling or a clock below its peers; else note it, and drain "
        "it when the next job on it is late as well: `scontrol update nodename=NODE state=drain reason=…`, or `kubectl cordon NODE`.",
    ),
)
