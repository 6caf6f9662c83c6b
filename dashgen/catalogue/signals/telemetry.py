# SPDX-License-Identifier: Apache-2.0
"""Can the rest be believed: files that cannot be read, GPUs that share a name, losses, nodes gone dark."""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.signals.freshness import EVER, FIRST, LATELY
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit, labelled

# To multiply what a target says with: the job of a node whose series are missing right now is known from a moment ago.
_OF_JOBS = f"""(
  group by (<job>, <node>, <instance>) ({EVER})
  and on (<job>) job:nccl_gpus:count
)
* on (<target>) group_left ()"""

# What tells, how telemetry is lost, and which share of it: of scrapes, of files that are being written (a killed job
# leaves its own behind), of operations, and all. The job of a dark node goes on reporting from other nodes, so it has
# not ended, and as many GPUs are missing as the node has: no other has taken the place. Where a communicator across nodes
# spans just as many as are heard, or there is none and one node is heard, the job goes on without the node. Where a node rests while
# others of its job work, as those that generate and those that train, what it says is small, but it is present.
_FAULTS = (
    (
        "textfile",
        "unreadable",
        # One value tells of all files of a node, whoever writes them: where no GPU is missing, it is no file of Inspector's.
        f"""{_OF_JOBS}
max by (<target>) (avg_over_time(<textfile_error>[<6 dumps>]) > 0)
unless on (<job>, <node>)
count by (<job>, <node>) (gpu:nccl_lateness:ratio)
>= on (<job>) group_left ()
max by (<job>) ({LATELY})""",
    ),
    (
        "exporter_metrics",
        "duplicate",
        f"""{LATELY} ^ 0
* on (<target>) group_left ()
max by (<target>) (
  changes(<gathering_errors>{{cause="gathering"}}[<10 dumps>])
  / count_over_time(<gathering_errors>{{cause="gathering"}}[<10 dumps>])
  > 0
)""",
    ),
    (
        "textfile",
        "hidden",
        f"""1
- {LATELY}
/ on (<target>) group_left ()
count by (<target>) (
  group by (<target>, file) (time() - last_over_time(<mtime>{{file=~"<textfile_regex>"}}[<3 dumps>]) < 4 * <dump>)
)
> 0
unless on (<target>) count by (<target>) ({LATELY}) > 1""",
    ),
    (
        "counters",
        "overwritten",
        """clamp_max(
  sum by (<job>, <node>, <instance>) (rate(<collectives_dropped>{<selector>}[<10 dumps>]))
  / (sum by (<job>, <node>, <instance>) (rate(<collectives>{<selector>}[<10 dumps>])) > 0)
  > 0,
  1
)""",
    ),
    (
        "",
        "dark",
        f"""group by (<job>, <node>) (
  {EVER}
  <= on (<job>) group_left ()
  (
    quantile_over_time(0.9, job:nccl_gpus:count[1d])
    - on (<job>)
    sum by (<job>) (node:nccl_gpus:heard)
  )
)
unless on (<job>, <node>) (node:nccl_gpus:heard or <present>)
and on (<job>) job:nccl_transport:info
unless on (<job>)
(job:nccl_domains:max > 1 or on (<job>) job:nccl_domains:max)
== on (<job>) group_left ()
count by (<job>) (node:nccl_gpus:heard)
and on (<job>) job:nccl_dump_age:seconds < 3 * <dump>""",
    ),
)

SIGNALS = (
    Signal(
        name="node:nccl_gpus:heard",
        question="How many GPUs of each node have said something new lately?",
        healthy="the number of GPUs that the job has on the node",
        # Where Inspector can no longer write, files stay as they were.
        expr="""
count by (<job>, <node>) (
  group by (<job>, <node>, <gpu>) (changes(gpu:nccl_exec:sum[<10 dumps>]) > 0)
)""",
        unit=Unit.COUNT,
        labels=("<job>", "<node>"),
        sources="Ten dumps: what a GPU says changes several times within them, however many scrapes fail.",
        group=groups.TELEMETRY,
    ),
    Signal(
        name="node:nccl_telemetry_lost:ratio",
        question="What share of a node's telemetry is lost, and how?",
        healthy="absent, but for a scrape now and then that meets a file while it is rewritten",
        expr="<branches>",
        branches=tuple((companion, labelled(expr, "fault", fault)) for companion, fault, expr in _FAULTS),
        join="or",
        unit=Unit.RATIO,
        labels=("<job>", "<node>", "<instance>", "fault"),
        sources="Six dumps: one torn file is chance (5 % of reads in a stress test), most of six are not. Ten: drops and "
        "duplicates come in bursts. A file is written every dump, at worst one is missed and one is late: four dumps; "
        "twenty are five looks at presence, some of which may meet a torn file. A day: longer than any fault that a job survives. As many GPUs as in a tenth of it are the job's: around a restart on other nodes the old files count as well.",
        group=groups.TELEMETRY,
    ),
    Signal(
        name="job:nccl_series:count",
        question="About how many series does the job expose?",
        healthy="a few dozen for each GPU; growth without new GPUs is a label explosion",
        # One GPU of each node stands for all of them: counting every series costs as much as all other rules.
        expr=f"""
2 * (
  count by (<job>) (<exec>{{{FIRST}, <selector>}}) + (count by (<job>) (<p2p_exec>{{{FIRST}, <selector>}}) or 0 * job:nccl_gpus:count)
)
* on (<job>) job:nccl_gpus:count / on (<job>) count by (<job>) (group by (<job>, <node>) (<exec>{{{FIRST}, <selector>}}))""",
        unit=Unit.COUNT,
        labels=("<job>",),
        group=groups.PRESENCE,
    ),
)

ALERTS = (
    Alert(
        name="NcclTextfileUnreadable",
        kind="telemetry",
        signal="node:nccl_telemetry_lost:ratio",
        expr='node:nccl_telemetry_lost:ratio{fault="unreadable"} > <threshold>',
        companion="textfile",
        limit="more than <threshold %> of the scrapes met an unreadable file",
        summary="Metric files of {{ $labels.<node_label> }} cannot be read.",
        description="{{ $value | humanizePercentage }} of the scrapes of {{ $labels.<instance_label> }} met a metric file that could "
        "not be read. GPUs of it are missing from every verdict about job <this_job>. Look first at the "
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
                "Files of other writers count as well; GPUs of the job are missing meanwhile, so one of Inspector's is broken too.",
                "No read permission, a dangling link, or a file with timestamps do so as well.",
            ),
            act=("Correct the communicator's name or the file's rights; Inspector itself writes files of mode 0777.",),
        ),
    ),
    Alert(
        name="NcclGpusHidden",
        kind="telemetry",
        signal="node:nccl_telemetry_lost:ratio",
        expr='node:nccl_telemetry_lost:ratio{fault="hidden"} > <threshold>',
        companion="textfile",
        limit="more than <threshold %> of the GPUs hidden",
        summary="GPUs of {{ $labels.<node_label> }} share a label and hide each other.",
        description="{{ $value | humanizePercentage }} of the GPUs of {{ $labels.<node_label> }} write metric files and do not appear under a name of their own. "
        "Processes that see one GPU each all call it GPU0, and node_exporter silently keeps one of them. Verdicts about "
        "single GPUs of job <this_job> are blind there. Look first at how many GPUs each task sees.",
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
            act=("Launch tasks with all GPUs of the node visible.",),
        ),
    ),
    Alert(
        name="NcclDuplicateSeries",
        kind="telemetry",
        signal="node:nccl_telemetry_lost:ratio",
        expr='node:nccl_telemetry_lost:ratio{fault="duplicate"} > <threshold>',
        companion="exporter_metrics",
        limit="duplicates in more than <threshold %> of the scrapes",
        summary="The exporter of {{ $labels.<node_label> }} drops duplicate series.",
        description="In {{ $value | humanizePercentage }} of its scrapes node_exporter on {{ $labels.<instance_label> }} drops "
        "series that occur twice, and nothing else tells. Verdicts about job <this_job> may be blind there. Look first whether GPUs share a label.",
        tiers={Sensitivity.HIGH: Tier(threshold=0.5, dumps=4, severity=Severity.INFO)},
        sources="One error per scrape while duplicates exist.",
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
        signal="node:nccl_telemetry_lost:ratio",
        expr='node:nccl_telemetry_lost:ratio{fault="dark"} == <threshold>',
        limit="a node of a running job has no series any more, or none that change",
        summary="{{ $labels.<node_label> }} has gone dark while job <this_job> runs on.",
        description="Nothing new of job <this_job> comes from {{ $labels.<node_label> }} any more although the job reports "
        "from other nodes. The exporter cannot be reached, or Inspector can no longer write there (disk full, permission). "
        "Nothing is known of the node, and the job may be fine. Look first whether the node answers, then its exporter, then "
        "free space and rights of the dump directory.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=6, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=1, dumps=6, severity=Severity.WARNING),
        },
        sources="Six dumps after the first ten: of an exporter that misses three scrapes of four, two dumps in ten are hardly ever missed for that long.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="A node of a running job no longer exposes the job's series, or exposes what it said long ago.",
            look_first=(
                "`up` of the node's exporter; the node itself.",
                "Is the textfile directory still mounted, and does its disk have space? Are its files old, or empty?",
            ),
            tell_apart=(
                "`up` is 0: the exporter is gone, or the node.",
                "`up` is 1, files old or empty: Inspector's dump threads ended after a write error, and start again with the job only.",
                "The job was started again without the node: remove its files there.",
                "The job goes on under its id with fewer nodes, as a last step that evaluates, or those that train wait for those that generate: nothing is wrong.",
            ),
            act=("Restart node_exporter; if the node is dead the job stalls next, and NcclJobStalled says so.",),
        ),
    ),
    Alert(
        name="NcclRecordsDropped",
        kind="telemetry",
        signal="node:nccl_telemetry_lost:ratio",
        expr='max by (<job>) (node:nccl_telemetry_lost:ratio{fault="overwritten"}) > <threshold>',
        companion="counters",
        limit="more than <threshold %> of the operations overwritten",
        summary="Job <this_job> overwrites operations before they are written down.",
        description="On the worst of its nodes {{ $value | humanizePercentage }} of the operations of job <this_job> are lost between two dumps: "
        "averages describe only the end of each interval.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=0.5, dumps=10, severity=Severity.INFO),
            Sensitivity.HIGH: Tier(threshold=0.1, dumps=4, severity=Severity.INFO),
        },
        sources="NVIDIA/nccl#2304; the ring keeps the newest 1,024 operations of a communicator.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Inspector's ring buffers are too small for the number of operations in a dump interval.",
            look_first=("Telemetry board: on which nodes, and since when?",),
            act=("Raise NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, or NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES.",),
        ),
    ),
)
