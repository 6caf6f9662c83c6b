# SPDX-License-Identifier: Apache-2.0
"""Can the rest be believed: files that cannot be read, GPUs that share a name, garbage, losses, nodes gone dark."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit

# The job of a node whose series are missing right now is known from a moment ago.
_JOBS = """(
  group by (<job>, <node>, <instance>) (last_over_time(node:nccl_gpus:count[1d]))
  and on (<job>) job:nccl_gpus:count
)"""

SIGNALS = (
    Signal(
        name="node:nccl_textfile_error:ratio",
        question="How often could the node's textfiles not be read?",
        healthy="now and then one scrape, because files are rewritten in place",
        expr=f"""
{_JOBS}
* on (<target>) group_left ()
max by (<target>) (avg_over_time(<textfile_error>[<6 dumps>]) > 0)""",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>"),
        sources="Six dumps: one torn file is chance (5 % of reads in a stress test), most of six are not; a "
        "day back for the job of a node that is missing.",
        group=groups.TELEMETRY,
        companion="textfile",
    ),
    Signal(
        name="node:nccl_duplicates:rate",
        question="Does the node's exporter drop duplicate series?",
        healthy="0; anything else means that GPUs share a label and are silently lost",
        expr=f"""
{_JOBS}
* on (<target>) group_left ()
max by (<target>) (rate(<gathering_errors>{{cause="gathering"}}[<10 dumps>]) > 0)""",
        unit=Unit.PER_SECOND,
        labels=("<job>", "<node>", "<instance>"),
        sources="Ten dumps: a rate needs several scrapes; a day back for the job of a node that is missing.",
        group=groups.TELEMETRY,
        companion="exporter_metrics",
    ),
    Signal(
        name="node:nccl_gpus_hidden:count",
        question="How many GPUs write a file on the node but do not appear under a name of their own?",
        healthy="absent or 0",
        # Only files that are being written count: a killed job leaves its own behind.
        expr="""
count by (<target>) (
  time() - last_over_time(<mtime>{file=~"<textfile_regex>"}[<3 dumps>]) < 4 * <dump>
)
- on (<target>) group_right ()
max_over_time(node:nccl_gpus:count[<12 dumps>])
> 0
unless on (<target>) count by (<target>) (max_over_time(node:nccl_gpus:count[<12 dumps>])) > 1""",
        unit=Unit.COUNT,
        labels=("<job>", "<node>", "<instance>"),
        sources="A file is written every dump, at worst one is missed and one is late: four dumps; three looks at presence: one may meet a torn file.",
        group=groups.TELEMETRY,
        companion="textfile",
    ),
    Signal(
        name="node:nccl_telemetry_lost:bool",
        question="Which nodes of a running job have gone dark?",
        healthy="absent",
        # The job goes on reporting from other nodes, so it has not ended, and no other node has taken the place.
        expr="""
group by (<job>, <node>) (last_over_time(node:nccl_gpus:count[1d]))
unless group by (<job>, <node>) (gpu:nccl_lateness:ratio)
and on (<job>) job:nccl_transport:info
and on (<job>) job:nccl_dump_age:seconds < 3 * <dump>
and on (<job>) job:nccl_gpus:count < max_over_time(job:nccl_gpus:count[1d])""",
        unit=Unit.BOOL,
        labels=("<job>", "<node>"),
        sources="A day: longer than any fault that a job survives.",
        group=groups.TELEMETRY,
    ),
    Signal(
        name="job:nccl_series:count",
        question="About how many series does the job expose?",
        healthy="a few dozen for each GPU; growth without new GPUs is a label explosion",
        # One GPU of each node stands for all of them: counting every series costs as much as all other rules.
        expr="""
2 * (
  count by (<job>) (<exec>{<gpu>="GPU0", <selector>}) + (count by (<job>) (<p2p_exec>{<gpu>="GPU0", <selector>}) or 0 * job:nccl_gpus:count)
)
* on (<job>) job:nccl_gpus:count / on (<job>) count by (<job>) (node:nccl_gpus:count)""",
        unit=Unit.COUNT,
        labels=("<job>",),
        group=groups.PRESENCE,
    ),
    Signal(
        name="job:nccl_garbage:count",
        question="How many series of the job carry sizes that NCCL could not compute?",
        healthy="0 or absent; bytes sent as uint8 give sizes of 0B or millions of TB and are ignored everywhere else",
        expr='count by (<job>) (<busbw>{message_size=~"0B|.*TB", <selector>})',
        unit=Unit.COUNT,
        labels=("<job>",),
        group=groups.TELEMETRY,
    ),
    Signal(
        name="job:nccl_dropped:ratio",
        question="What share of the job's operations was overwritten before it was written down?",
        healthy="0; above it the numbers describe the end of each dump interval only",
        expr="""
clamp_max(
  sum by (<job>) (rate(<collectives_dropped>{<selector>}[<10 dumps>]))
  / (sum by (<job>) (rate(<collectives>{<selector>}[<10 dumps>])) > 0),
  1
)""",
        unit=Unit.RATIO,
        labels=("<job>",),
        sources="Ten dumps: drops come in bursts.",
        group=groups.TELEMETRY,
        companion="counters",
    ),
)

ALERTS = (
    Alert(
        name="NcclTextfileUnreadable",
        kind="telemetry",
        signal="node:nccl_textfile_error:ratio",
        expr="node:nccl_textfile_error:ratio > <threshold>",
        limit="more than <threshold %> of the scrapes met an unreadable file",
        summary="Metric files of {{ $labels.<node_label> }} cannot be read.",
        description="{{ $value | humanizePercentage }} of the scrapes of {{ $labels.<instance_label> }} met a metric file that could "
        "not be read. Its GPUs are missing from every verdict about job {{ $labels.<job_label> }}. Look first at the "
        "node_exporter log for the file and line.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.8, dumps=4, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=0.5, dumps=2, severity=Severity.WARNING),
        },
        sources="A reader meets a half-written file now and then; in a stress test with constant rewriting 5 % of the reads "
        "failed. More than half over six dumps is not chance.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="node_exporter cannot parse a textfile, and drops the whole file.",
            look_first=("The node_exporter log names the file and the line.",),
            tell_apart=(
                "A quote, a backslash, a line feed or bytes that are not UTF-8 in a communicator's name break the whole file.",
                "No read permission, a dangling link, or a file with timestamps do so as well.",
            ),
            act=("Correct the communicator's name or the file's rights; Inspector itself writes files of mode 0777.",),
        ),
    ),
    Alert(
        name="NcclGpusHidden",
        kind="telemetry",
        signal="node:nccl_gpus_hidden:count",
        expr="node:nccl_gpus_hidden:count > <threshold>",
        limit="more than <threshold> GPUs hidden",
        summary="GPUs of {{ $labels.<node_label> }} share a label and hide each other.",
        description="GPUs of {{ $labels.<node_label> }} that write metric files and do not appear under a name of their own: {{ $value }}. "
        "Processes that see one GPU each all call it GPU0, and node_exporter silently keeps one of them. Verdicts about "
        "single GPUs of job {{ $labels.<job_label> }} are blind there.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0, dumps=10, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=0, dumps=6, severity=Severity.WARNING),
        },
        sources="node_exporter 1.5.0: duplicates are dropped with HTTP 200 and scrape_error 0.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="The gpu label is the CUDA ordinal that the process sees. Where the launcher shows each task one GPU, "
            "all of them are GPU0 and their series collide.",
            look_first=("How many files does the node have, and how many GPUs on the telemetry board?",),
            act=("Launch tasks with all GPUs of the node visible, or relabel by the file's UUID.",),
        ),
    ),
    Alert(
        name="NcclDuplicateSeries",
        kind="telemetry",
        signal="node:nccl_duplicates:rate",
        expr="node:nccl_duplicates:rate > <threshold>",
        limit="more than <threshold> gathering errors a second",
        summary="The exporter of {{ $labels.<node_label> }} drops duplicate series.",
        description="node_exporter on {{ $labels.<instance_label> }} reports {{ $value | humanize }} gathering errors a second: it drops "
        "series that occur twice, and nothing else tells. Verdicts about job {{ $labels.<job_label> }} may be blind there. Look first whether GPUs share a label.",
        tiers={Sensitivity.HIGH: Tier(threshold=0.01, dumps=4, severity=Severity.INFO)},
        sources="One error per scrape while duplicates exist: 0.017 a second at a 60 s scrape interval.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Two series with equal labels reach node_exporter; it keeps the first and drops the others.",
            look_first=("The node_exporter log names the series.",),
            act=(
                "See NcclGpusHidden; files of other writers that declare a TYPE for nccl names do the same.",
                "A clock that stepped back makes Inspector append to its file: the older half counts until the next dump. Let chrony slew clocks instead of stepping them.",
            ),
        ),
    ),
    Alert(
        name="NcclNodeTelemetryLost",
        kind="telemetry",
        signal="node:nccl_telemetry_lost:bool",
        expr="node:nccl_telemetry_lost:bool == <threshold>",
        limit="a node of a running job has no series any more",
        summary="{{ $labels.<node_label> }} has gone dark while job {{ $labels.<job_label> }} runs on.",
        description="No series of job {{ $labels.<job_label> }} comes from {{ $labels.<node_label> }} any more although the job reports "
        "from other nodes. The exporter is gone or cannot be reached. Nothing is known of the node, and the job may be fine.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=6, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=1, dumps=3, severity=Severity.WARNING),
        },
        sources="Three dumps bridge a missed scrape and a file caught empty. Six dumps: an exporter that misses every other scrape is "
        "silent that long hardly ever.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="A node of a running job no longer exposes the job's series.",
            look_first=("`up` of the node's exporter; the node itself.", "Is the textfile directory still mounted?"),
            act=("Restart node_exporter; if the node is dead the job stalls next, and NcclJobStalled says so.",),
        ),
    ),
    Alert(
        name="NcclRecordsDropped",
        kind="telemetry",
        signal="job:nccl_dropped:ratio",
        expr="job:nccl_dropped:ratio > <threshold>",
        limit="more than <threshold %> of the operations overwritten",
        summary="Job {{ $labels.<job_label> }} overwrites operations before they are written down.",
        description="{{ $value | humanizePercentage }} of the operations of job {{ $labels.<job_label> }} are lost between two dumps: "
        "averages describe only the end of each interval.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.5, dumps=10, severity=Severity.INFO),
            Sensitivity.HIGH: Tier(threshold=0.1, dumps=4, severity=Severity.INFO),
        },
        sources="NVIDIA/nccl#2304; the ring keeps the newest 1,024 operations of a communicator.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Inspector's ring buffers are too small for the number of operations in a dump interval.",
            look_first=("Operations per second against the ring size on the telemetry board.",),
            act=("Raise NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, or NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES.",),
        ),
    ),
    Alert(
        name="NcclGarbageBuckets",
        kind="telemetry",
        signal="job:nccl_garbage:count",
        expr="job:nccl_garbage:count > <threshold>",
        limit="more than <threshold> series with impossible sizes",
        summary="Job {{ $labels.<job_label> }} exposes impossible message sizes.",
        description="Series of job {{ $labels.<job_label> }} with a size of 0B or of millions of TB: {{ $value }}. They are collectives "
        "over bytes, whose type NCCL does not name to the plugin. Every rule ignores them, so nothing is wrong with the verdicts.",
        tiers={Sensitivity.HIGH: Tier(threshold=0, dumps=10, severity=Severity.INFO)},
        sources="NVIDIA/nccl v2.30.7-1: ncclUint8 has no name, the byte count wraps to about 2^64.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Byte and bool tensors, FP8 sent as bytes and all_gather_object give sizes that wrap around.",
            look_first=("Nothing: no verdict uses these series.",),
        ),
    ),
)
