# SPDX-License-Identifier: Apache-2.0
"""Has the job itself changed its shape: lost an NVLink domain, switched algorithms, or exploded into labels?

None of these is a slow link, and a baseline cannot see them: a communicator of another shape or algorithm is another
one to it, which has no past.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit, indented

_BUCKET = "<job>, comm_name, n_nodes, nranks, collective, message_size"


def _domains(operation: str, shapes: str) -> str:
    """The number that the label n_nodes holds, over all shapes of one size.

    histogram_quantile is the one function of PromQL that reads a number out of a label: the maximum of a histogram
    that has everything in one bucket is the upper bound of that bucket.
    """
    return f"""{operation} by (<job>, nranks) (
  histogram_quantile(1,
    label_replace({shapes}, "le", "$1", "n_nodes", "(.+)")
    or
    label_replace({shapes}, "le", "+Inf", "", "")
  )
)"""


_NARROWEST = _domains("min", "last_over_time(job:nccl_transport:info[<4 dumps>])")

SIGNALS = (
    Signal(
        name="job:nccl_domains:max",
        question="Over how many <fabric> domains does the widest communicator of each size stretch?",
        healthy="constant for the life of a job",
        expr=_domains("max", "job:nccl_transport:info{<known>}"),
        unit=Unit.COUNT,
        labels=("<job>", "nranks"),
        group=groups.SHAPE,
    ),
    Signal(
        name="job:nccl_algorithm_changed:count",
        question="For how many kinds of collectives has NCCL just switched to another algorithm?",
        healthy="absent; a change is shown for twenty evaluations",
        # New within the last twenty evaluations, while one that was seen ten times is gone and no old one remains: sizes
        # that share a bucket may use two algorithms side by side.
        expr=f"""
count by (<job>, collective, algo_proto) (
  (peer:nccl_busbw:best{{<known>}} and count_over_time(peer:nccl_busbw:best[<120 dumps>]) <= <20 results>)
  and on ({_BUCKET}) (
    count_over_time(peer:nccl_busbw:best[<120 dumps>]) >= <10 results>
    unless
    last_over_time(peer:nccl_busbw:best[<4 dumps>])
  )
  unless on ({_BUCKET}) (
    peer:nccl_busbw:best and count_over_time(peer:nccl_busbw:best[<120 dumps>]) > <20 results>
  )
)""",
        unit=Unit.COUNT,
        labels=("<job>", "collective", "algo_proto"),
        sources="Ten samples: five minutes; twenty evaluations, ten minutes, is how long a change is news.",
        group=groups.SHAPE,
    ),
)

ALERTS = (
    Alert(
        name="NcclNvlinkDomainLost",
        kind="telemetry",
        signal="job:nccl_domains:max",
        # Even the narrowest communicator of a size is now wider than once the widest was. So communicators of one size
        # that come and go, as in evaluation, do not look like it.
        expr=f"""
max by (<job>) (
  {indented(_NARROWEST)}
  / on (<job>, nranks)
  min_over_time(job:nccl_domains:max[6h])
) > <threshold>""",
        limit="domains of a communicator multiplied by more than <threshold>",
        summary="Job <this_job>: communicators that fitted into fewer <fabric> domains are split.",
        description="Communicators of job <this_job> stretch over {{ $value | humanize }} times as many <fabric> "
        "domains as communicators of the same size did before: what went over <fabric> now goes over the network. Look "
        "first at the communicator shapes on the job board, then at the state of the fabric on the nodes.",
        tiers={
            Sensitivity.LOW: Tier(threshold=1, dumps=6, severity=Severity.WARNING, keep_firing=4),
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=4, severity=Severity.WARNING, keep_firing=4),
            Sensitivity.HIGH: Tier(threshold=1, dumps=2, severity=Severity.WARNING, keep_firing=4),
        },
        sources="NVIDIA/nccl src/init.cc: n_nodes counts NVLink domains, and counts hosts when multi-node NVLink is off. Any "
        "growth is wrong; four dumps outlast a restart in which communicators appear one after the other.",
        dashboard="job",
        runbook=Runbook(
            meaning="n_nodes counts NVLink domains, not hosts. It has grown for communicators of an unchanged number of ranks, "
            "within one job id: NCCL no longer uses multi-node NVLink, or the job was placed across more domains. "
            "Nothing fails, the job is just much slower.",
            look_first=(
                "Job board, Shape and placement: which size of communicator, and since when? Most often since a restart.",
                "Job board: traffic has moved from the panels within a domain to those across domains.",
                "`nvidia-smi -q | grep -A4 Fabric` on every node: State Completed, Status Success, the same clique.",
            ),
            tell_apart=(
                "Multi-node NVLink off: NCCL_MNNVL_ENABLE=0 or NCCL_CUMEM_ENABLE=0 in the environment, the fabric not in state "
                "Completed, or IMEX down. The log of NCCL_DEBUG=INFO says MNNVL 0 or 1.",
                "Placement: the same number of ranks on more hosts or in more racks; compare the node list of both runs.",
                "NCCL_MNNVL_CROSS_CLIQUE=1 shows several domains although NVLink is used: bandwidth then has not fallen.",
            ),
            act=(
                "Stop the job and drain the nodes that are not Completed: what follows ends every job on them. Restart nvidia-imex there, and the fabric "
                "manager where it runs: on the nodes of an HGX system, on the switch trays of a rack such as NVL72. Then start the job again.",
                "Placement: ask for segments (`--segment` in Slurm's block topology) and restart the job.",
            ),
        ),
    ),
    Alert(
        name="NcclAlgorithmChanged",
        kind="telemetry",
        signal="job:nccl_algorithm_changed:count",
        expr="job:nccl_algorithm_changed:count > <threshold>",
        limit="more than <threshold> kinds of collectives switched",
        summary="Job <this_job>: {{ $labels.collective }} has switched to {{ $labels.algo_proto }}.",
        description="{{ $labels.collective }} of job <this_job> now uses {{ $labels.algo_proto }} where it used "
        "another algorithm before. Combinations of size and ranks that have changed: {{ $value }}. Old and new bandwidth cannot be "
        "compared, so there is no verdict about slow transport for a while. Look first at the algorithm and protocol mix on the job board.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0, dumps=3, severity=Severity.INFO),
            Sensitivity.HIGH: Tier(threshold=0, dumps=1, severity=Severity.INFO),
        },
        sources="NCCL chooses by size, ranks and topology, all of which are equal here, so any change has a cause outside. "
        "Three dumps outlast files of which some are old.",
        dashboard="job",
        runbook=Runbook(
            meaning="For the same collective, size and number of ranks NCCL chooses another algorithm or protocol than before. "
            "Its choice follows from topology, tuning and environment; one of them has changed.",
            look_first=(
                "Job board, Algorithm and protocol mix: which collectives, all at the same moment?",
                "Job board: is the throughput lower since then?",
            ),
            tell_apart=(
                "Environment: NCCL_ALGO, NCCL_PROTO, NCCL_NVLS_ENABLE or a tuner plugin, set in a job script or a system-wide "
                "nccl.conf. NCCL_DEBUG_SUBSYS=ENV,TUNING shows them.",
                "Hardware: NVLS or CollNet (SHARP) no longer available makes NCCL fall back to RING or TREE.",
                "A new NCCL version or container tunes differently.",
            ),
            act=("Take back the change of the environment, or ask why NVLS or SHARP is gone; then restart the job.",),
        ),
    ),
    Alert(
        name="NcclCardinalityHigh",
        kind="telemetry",
        signal="job:nccl_series:count",
        expr="job:nccl_series:count / on (<job>) job:nccl_gpus:count / <cardinality_budget> > <threshold>",
        limit="more than <threshold %> of `cardinality_budget` used",
        summary="Job <this_job> exposes more series than its GPUs are worth.",
        description="Job <this_job> exposes {{ $value | humanizePercentage }} of its budget of <cardinality_budget> "
        "series for each GPU. Message sizes or communicator names that keep changing make new series with every dump. Look "
        "first at the telemetry board, series by job.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=10, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=1, dumps=4, severity=Severity.WARNING),
        },
        sources="cardinality_budget of dashgen.yaml; by default 200, four times the 48 series of a GPU with two dozen buckets. "
        "NVIDIA/nccl inspector_prom.cc writes two series a bucket, and its size ranges allow thousands of buckets.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Every combination of collective, size range, algorithm and communicator name is two series for each GPU. This "
            "job makes so many that Prometheus pays for it.",
            look_first=(
                '`topk(10, count by (message_size) (<busbw>{<job_label>="JOB"}))`: do sizes explode?',
                "The same by comm_name: does the application number its communicators?",
            ),
            tell_apart=(
                "Sizes: variable sequence lengths or expert parallelism without padding; small ones are the most numerous.",
                "Names: a communicator name with a step number or an address in it.",
            ),
            act=(
                "Raise NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES: small messages make most of the ranges and no verdict needs them.",
                "Drop ranges of B and KB with metric_relabel_configs; shorten the retention of the raw series.",
                "Or accept it: raise cardinality_budget in dashgen.yaml.",
            ),
        ),
    ),
)
