# SPDX-License-Identifier: Apache-2.0
"""Has the job stopped: hung, ended, killed, checkpointing and blind are five things, and only the first one pages.

PyTorch's heartbeat monitor aborts after 480 s and its watchdog after 600 s: a page is useful only well before.
"""

from __future__ import annotations

from dashgen.catalogue import groups
from dashgen.catalogue.names import VERDICT
from dashgen.catalogue.runbooks import HANGS
from dashgen.catalogue.signals.degradation import SINCE
from dashgen.catalogue.signals.freshness import FIRST, FORGOTTEN, IN_THIS_DUMP, LATELY
from dashgen.catalogue.signals.hosts import ABANDONED, ALONE, HELD, LONELY, MEMORY, TENSOR_ACTIVE, UTILISATION, freed
from dashgen.model import Alert, Runbook, Sensitivity, Severity, Signal, Tier, Unit, indented, labelled

_WATCHDOG = 480
"""Seconds after which PyTorch's heartbeat monitor ends a job that hangs."""
_LONGEST = "max_over_time(job:nccl_pause:seconds[1d])"
HABIT = f"""(
  job:nccl_dump_age:seconds < clamp_max(1.3 * {_LONGEST}, {_WATCHDOG})
  or
  job:nccl_dump_age:seconds < {_LONGEST}
  unless on (<job>) job:nccl_quiet:seconds{{evidence="spinning"}}
)"""
"""A silence not much longer than the job's own pauses, as long as nobody ends a job that hangs.

Who has survived a longer pause has no watchdog, and waits before its kernels.
"""
BUSY = 'last_over_time(job:nccl_quiet:seconds{evidence="working"}[<long_pause_range>])'
"""Jobs that worked in silence until a moment ago, as in a long evaluation: only since then do they stand still."""
_GONE_NOW = 'max by (<job>) (job:nccl_quiet:seconds{evidence="gone"} >= <pause>)'
GONE = f"""{_GONE_NOW}
or on (<job>)
job:nccl_dump_age:seconds > 4 * <dump>
and on (<job>)
last_over_time((time() - {_GONE_NOW})[1d:10m])
> time() - job:nccl_dump_age:seconds - 4 * <dump>"""
"""Jobs that are gone, or were since their last news: whoever has their GPUs and hosts by now is somebody else.

Every ten minutes of a day are looked at: what was freed is remembered for longer.
"""
WATCHED = "count_over_time(job:nccl_gpus:count[<long_pause_range>]) * <every> >= 0.75 * <long_pause>"
"""Jobs that were in sight for most of the time that makes a stall: while Prometheus was away, nobody was silent."""
_QUIET = "job:nccl_dump_age:seconds > 2.5 * <dump>"
_NOT_FORGOTTEN = f"{_QUIET} < {FORGOTTEN}"
_KNOWN = 'label_replace(<job_info>, "<job_label>", "$1", "<slurm_id>", "(.+)")'
_RUNNING = 'label_replace(<job_info>{<slurm_state>=~"<slurm_running>"}, "<job_label>", "$1", "<slurm_id>", "(.+)")'


# All kernels spin; where one GPU rests meanwhile, its process is dead or has not come to the collective.
_SPINNING = f"""
(
  (
    {indented(ALONE, 4)}
  ) ^ 0
  * on (<job>) group_left ()
  (
    {_QUIET}
    and on (<job>) {indented(LONELY, 4)} == 1
  )
  or on (<job>)
  {_QUIET}
)
and on (<job>) {indented(UTILISATION)} > 90""".strip()


# With Inspector's counters on, a process that lives writes its file every dump, and without communication only the
# counters are left in it. Files that still say what was measured last have nobody who writes them.
_LEFT_BEHIND = f"""
(
  {IN_THIS_DUMP}
  > 0.5 * sum by (<job>) (<present>)
  and on (<job>) <collectives>{{{FIRST}, <selector>}}
)""".strip()


# One file alone still says what was measured last, while the processes of the others have written theirs without it. For some
# time, as of GPUs that rest, and not just now: when a pause ends, one file is the first that says anything.
_COMMUNICATED = "group by (<job>, <node>, <gpu>) (last_over_time(gpu:nccl_exec:sum[<until_known>] offset <result_ago>))"
_UNWRITTEN = f"""
(
  {_COMMUNICATED}
  and on (<job>) count by (<job>) ({_COMMUNICATED}) == 1
  and on (<job>) <collectives>{{{FIRST}, <selector>}}
  unless on (<job>) {indented(_LEFT_BEHIND)}
)
* on (<job>) group_left () (
  {_NOT_FORGOTTEN}
)""".strip()

_LIVES = (
    '{{ range query "job:nccl_quiet:seconds" }}{{ if <same_job> }}'
    '{{ if eq .Labels.evidence "spinning" }}Its kernels spin, as in a collective that hangs. '
    "{{ with .Labels.<gpu_label> }}{{ . }} of {{ end }}{{ with .Labels.<node_label> }}{{ . }}, as nvidia-smi counts, rests while all others spin: "
    "its process is dead or has not come to the collective. {{ end }}"
    '{{ else if eq .Labels.evidence "dead" }}{{ .Labels.<gpu_label> }} of {{ .Labels.<node_label> }} (CUDA\'s number) no longer writes its file, '
    "and all others have written theirs since: its process is dead, and they wait for it. "
    '{{ else if eq .Labels.evidence "idle" }}Its processes live, and nothing says that its kernels spin. '
    '{{ else if eq .Labels.evidence "none" }}Nothing tells whether its processes live: it may have been killed. '
    "{{ end }}{{ end }}{{ end }}"
)
"""What an alert about a silent job says of its processes."""

# Two looks at presence, of which one may meet a scrape that failed.
_VANISHED = (
    f'{{{{ range query "{LATELY} unless on (<job>, <node>) max_over_time(node:nccl_gpus:count[<6 dumps>])" }}}}'
    "{{ if <same_job> }}Since then nothing has been scraped from {{ .Labels.<node_label> }}: it may be down. {{ end }}{{ end }}"
)
"""The nodes whose series ended with the job's news: a node that dies hangs the others, and takes its exporters with it."""


def _evidence(word: str, expr: str) -> str:
    """How long a job has been quiet, with what is known about its processes."""
    return labelled(expr, "evidence", word)


QUIET = Signal(
    name="job:nccl_quiet:seconds",
    question="How long has the job been quiet, and do its processes still live?",
    healthy="below two dump intervals",
    # spinning: kernels run and tensor cores rest, as in a hung collective, with the one GPU that rests. dead: one file alone is no longer written. working: tensor cores are busy, only the
    # dumps have stopped. idle: nothing is known to run but the processes are there. gone: nothing is there, or nobody writes. none: nobody
    # can tell. What nobody sees alive is forgotten within two hours.
    expr="<branches>",
    branches=(
        ("slurm", _evidence("gone", f"{_NOT_FORGOTTEN}\nunless on (<job>) {_RUNNING}\nand on (<job>) {_KNOWN}")),
        ("dcgm", _evidence("gone", f"{_NOT_FORGOTTEN}\nand on (<job>)\n{freed('gpu')}")),
        ("host_memory", _evidence("gone", f"{_NOT_FORGOTTEN}\nand on (<job>)\n{freed('host')}")),
        ("dcgm", _evidence("working", f"{_QUIET}\nand on (<job>) {TENSOR_ACTIVE} > 0.05")),
        ("dcgm", _evidence("spinning", _SPINNING)),
        ("counters", _evidence("dead", _UNWRITTEN)),
        ("slurm", _evidence("idle", f"{_QUIET} and on (<job>) {_RUNNING}")),
        (
            "throughput",
            _evidence("idle", f'{_QUIET} and on (<job>) job:training_throughput:current{{evidence="reported"}}'),
        ),
        ("dcgm", _evidence("gone", f"{_NOT_FORGOTTEN}\nand on (<job>) {ABANDONED}")),
        ("dcgm", _evidence("idle", f"{_QUIET}\nand on (<job>)\n{HELD}")),
        ("counters", _evidence("gone", f"{_NOT_FORGOTTEN}\nand on (<job>) {_LEFT_BEHIND}")),
        (
            "throughput",
            _evidence(
                "gone",
                f'{_NOT_FORGOTTEN}\nand on (<job>) last_over_time(job:training_throughput:current{{evidence="reported"}}[2h])',
            ),
        ),
        ("dcgm", _evidence("gone", f"{_NOT_FORGOTTEN}\nand on (<job>) {UTILISATION} < 50")),
        ("", _evidence("none", f"{_NOT_FORGOTTEN}")),
    ),
    unit=Unit.SECONDS,
    labels=("<job>", "evidence", "<node>", "<gpu>"),
    sources="Tensor cores rest below 5 %, a resting GPU reads below 10 % and a spinning kernel reads 100 % GPU utilisation (companions of a "
    "hung collective in DCGM); a dead process gives its memory back, of the GPU and of the host, a living one keeps more than half; with Inspector's counters on, files of an idle "
    "process are written every dump, without lines of bandwidth (inspector_prom.cc); half: of a job that stands still some nodes may spin while the others rest; 2.5 dumps are one "
    f"missed dump, one scrape and one evaluation; {FORGOTTEN:,} s: ten minutes below two hours.",
    # In the group of the verdict, which would read it an evaluation late otherwise.
    group=groups.VERDICT,
)

_PAUSE = "(max_over_time(job:nccl_dump_age:seconds[<3 dumps>]) > 3 * <dump>)"

SIGNALS = (
    MEMORY,
    Signal(
        name="job:nccl_pause:seconds",
        question="How long have the job's finished pauses been?",
        healthy="a row when a checkpoint or an evaluation has ended",
        # Only finished ones, so that a hang never excuses itself, and none that may have been a hang which somebody ended, so
        # that it does not excuse the next: where processes ended, their memory was free for a moment.
        expr=f"""
(
  <branches>
)
and
job:nccl_dump_age:seconds < max_over_time(job:nccl_dump_age:seconds[<3 dumps>])
and on (<job>) {WATCHED}""",
        branches=(
            ("", f"{_PAUSE} < {_WATCHDOG}"),
            ("dcgm", f"{_PAUSE}\nand on (<job>) {HELD}\nunless on (<job>)\n{freed('gpu')}"),
        ),
        join="or",
        unit=Unit.SECONDS,
        labels=("<job>",),
        sources="Three dumps of silence: shorter ones are a missed dump. Three dumps back: the last samples of the pause. 480 s: from then on "
        "PyTorch's heartbeat monitor ends a hung job, which may start again under the same id. "
        "Three quarters of the time that makes a stall: evaluations are missed now and then.",
        group=groups.STALLS,
    ),
)

_TOLD = (
    "Hung: files old, processes alive, GPUs at 100 % (kernels spin) or 0 % (waiting before the kernel).",
    "Ended: Inspector removes its files; the job is gone from the boards.",
    "Killed: files stay and age, the memory of GPUs and hosts is free, the scheduler does not know the job as running; with Inspector's counters on, "
    "bandwidths stay in the files, while those of a hang hold counters alone.",
    "Checkpoint or evaluation: GPUs idle for one to three minutes, then dumps go on.",
    "Dump thread dead (disk full, permission): files old, tensor cores busy. The job is fine, and nothing is known of its communication.",
    "Exporter gone: the series are gone, not old; NcclNodeTelemetryLost says so.",
)

ALERTS = (
    Alert(
        name="NcclJobStalled",
        kind="stall",
        signal=VERDICT,
        expr='job:nccl_verdict:depth{state="stalled"} >= <threshold>',
        limit="the verdict says that the job stands still",
        summary="Job <this_job> has stopped communicating.",
        description="No GPU of job <this_job> has reported new communication"
        + SINCE
        + ", longer than it pauses. "
        + _VANISHED
        + _LIVES
        + "PyTorch aborts a hung job after 8 to 10 "
        "minutes: collect evidence now. Look first whether the processes live, then compare the last opCount of all ranks.",
        tiers={
            Sensitivity.LOW: Tier(threshold=1, dumps=0, severity=Severity.CRITICAL, keep_firing=2),
            Sensitivity.MEDIUM: Tier(threshold=1, dumps=0, severity=Severity.CRITICAL, keep_firing=2),
            Sensitivity.HIGH: Tier(threshold=1, dumps=0, severity=Severity.CRITICAL, keep_firing=2),
        },
        sources="PyTorch's heartbeat monitor aborts after 480 s; checkpoint pauses last 60 to 180 s, and a dump is up to "
        "30 s old when the pause begins.",
        dashboard="job",
        runbook=Runbook(
            meaning="Every file of the job has stopped changing although its processes seem to live: a hung collective, "
            "usually one rank that is one operation behind.",
            look_first=(
                "Where the alert names a node and a GPU: that process. All others wait for it.",
                "Where it says that a node is scraped no more: is that node up? What does its management controller log?",
                "Ages of the files: a GPU whose file is new while those of its peers are old has not come to the collective.",
                "Is it alive? `scontrol show job`, `ps`, `nvidia-smi` on one node: 100 % utilisation does not mean work.",
                "Where the job logs with NCCL_DEBUG=INFO: the last opCount of every rank; the rank that is behind is the one to look at.",
                "Where it was started with TORCH_FR_BUFFER_SIZE and TORCH_NCCL_DUMP_ON_TIMEOUT=1: leave it to its watchdog, which then "
                "writes down the last collectives of every rank.",
            ),
            tell_apart=(*_TOLD, *HANGS),
            act=(
                "Collect stacks (`py-spy dump --pid PID`) of the rank that is behind, then restart from the checkpoint without its node.",
                "A collective inside `if rank == 0:` hangs for ever and silently: look at the code of the last change.",
            ),
        ),
    ),
    Alert(
        name="NcclJobQuiet",
        kind="stall",
        explained_by={"NcclJobStalled": "job"},
        signal="job:nccl_quiet:seconds",
        expr=f"""
job:nccl_quiet:seconds{{evidence=~"spinning|dead|idle|none"}} >= <threshold> * <pause>
unless on (<job>) {HABIT}
unless on (<job>) {BUSY}
unless on (<job>) job:nccl_verdict:depth{{state=~"stalled|gone"}}""",
        limit="silence for <threshold %> of the time that makes a stall, and for longer than the job pauses or since it worked; no stall yet",
        summary="Job <this_job> has been quiet for some time.",
        description="No GPU of job <this_job> has reported new communication for "
        "{{ $value | humanizeDuration }} (evidence: {{ $labels.evidence }}). A checkpoint or an evaluation looks the same "
        "for up to three minutes; where the evidence is none, so does a job that was killed. Look first whether the processes live.",
        tiers={
            Sensitivity.HIGH: Tier(threshold=1, dumps=0, severity=Severity.INFO),
        },
        sources="A checkpoint, a dump and an evaluation: the silence that is a stall where kernels spin. Where they do not, most are pauses in "
        "random jobs, so nobody is called; NcclJobStalled follows two minutes later.",
        dashboard="job",
        runbook=Runbook(
            meaning="The job has stopped reporting communication. Most often it writes a checkpoint or evaluates. Where neither "
            "DCGM, Slurm, a throughput metric, Inspector's counters nor the memory of its hosts tell whether its processes live, it may as well hang, or have been killed.",
            look_first=(
                "Does the job's log go on, do its processes live?",
                "Processes alive and no news for four minutes: treat it as NcclJobStalled.",
            ),
            tell_apart=_TOLD,
        ),
    ),
    Alert(
        name="NcclStaleFiles",
        kind="telemetry",
        signal="job:nccl_quiet:seconds",
        expr='job:nccl_quiet:seconds{evidence="gone"} > <threshold> * <dump>',
        limit="files older than <threshold dumps> while nothing tells that the processes live, and something that they do not",
        summary="Job <this_job> is gone but its metric files are still exported.",
        description="The files of job <this_job> are {{ $value | humanizeDuration }} old and nobody writes them: "
        "the job was killed and left them. Nobody needs to get up. Remove the files, best in the scheduler's epilog.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=40, dumps=0, severity=Severity.INFO),
            Sensitivity.HIGH: Tier(threshold=20, dumps=0, severity=Severity.INFO),
        },
        sources="Twenty dumps are the ten minutes after which PyTorch's watchdog has ended any hung job.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="A process that is killed does not remove its textfiles; node_exporter goes on exporting the last values.",
            look_first=("Does the scheduler still know the job?",),
            tell_apart=_TOLD,
            act=("Remove `nccl_inspector_metrics_*.prom` of the job's GPUs in the scheduler's epilog.",),
        ),
    ),
    Alert(
        name="NcclTelemetryFrozen",
        kind="telemetry",
        signal="job:nccl_quiet:seconds",
        # After a hang the first step may end before the first file is written. A long evaluation may be a habit.
        expr="""
job:nccl_quiet:seconds{evidence="working"} > <threshold> * <dump>
and on (<job>) job:nccl_quiet:seconds{evidence="working"} offset <4 dumps>
unless on (<job>) """
        + HABIT,
        limit="files older than <threshold dumps>, and for longer than the job pauses, while tensor cores work",
        summary="Job <this_job> computes but reports no communication.",
        description="The files of job <this_job> are {{ $value | humanizeDuration }} old while its tensor cores "
        "work: it communicates in a way that Inspector does not see, or the dump thread died (disk full, permission). "
        "No verdict about this job is possible. Look first at free space and rights of the dump directory.",
        tiers={
            Sensitivity.MEDIUM: Tier(threshold=20, dumps=0, severity=Severity.WARNING),
            Sensitivity.HIGH: Tier(threshold=12, dumps=0, severity=Severity.WARNING),
        },
        sources="Evaluation phases without tracked communication last minutes; twelve dumps are six of them.",
        dashboard="telemetry",
        runbook=Runbook(
            meaning="Inspector's dump thread ends for good after a write error, and the job runs on unseen.",
            look_first=(
                "Free space and permissions of the dump directory; the job's log with NCCL_DEBUG_SUBSYS=PROFILE.",
            ),
            tell_apart=_TOLD,
        ),
    ),
)
