# SPDX-License-Identifier: Apache-2.0
"""One board with a panel of every type, as the catalogue would define it."""

from dashgen.catalogue.metrics import upstream
from dashgen.model import Annotation, Dashboard, Panel, Query, Row, Unit, Variable

JOB = 'slurm_job_id=~"$job"'
BANDWIDTH = Query(expr=f"job:nccl_bandwidth:best{{{JOB}}}", legend="{{transport}}")
JOBS = Query(expr=f"count(job:nccl_bandwidth:best{{{JOB}}})", legend="jobs")

NUMBERS = (
    Panel(
        title="Bandwidth now",
        description="Low in one transport only: look there.",
        type="stat",
        unit=Unit.GBPS,
        queries=(BANDWIDTH,),
        width=6,
        height=4,
        steps=((None, "bad"), (0.5, "ok")),
        decimals=1,
    ),
    Panel(
        title="Jobs now",
        description="Compare with yesterday.",
        type="stat",
        unit=Unit.COUNT,
        queries=(JOBS,),
        width=18,
        height=4,
    ),
)

CURVES = (
    Panel(
        title="Bandwidth by transport",
        description="A dip in one line.",
        type="timeseries",
        unit=Unit.GBPS,
        queries=(BANDWIDTH,),
        minimum=0,
        maximum=0.5,
        links={"This job": "/d/dashgen-nccl-job?${__url_time_range}&var-job=${__field.labels.slurm_job_id}"},
    ),
    Panel(
        title="Bandwidth by GPU",
        description="A dark stripe is a slow GPU.",
        type="heatmap",
        unit=Unit.RATIO,
        queries=(Query(expr=f"gpu:nccl_ratio:now{{{JOB}}}", legend="{{node}} {{gpu}}"),),
        minimum=0.5,
        maximum=1.0,
    ),
    Panel(
        title="State",
        description="When the job was slow.",
        type="state-timeline",
        unit=Unit.BOOL,
        queries=(Query(expr=f"job:nccl_degraded:now{{{JOB}}} or vector(2)", legend="{{slurm_job_id}}"),),
        width=24,
        states={0: ("healthy", "ok"), 1: ("degraded", "bad"), 2: ("no data", "neutral")},
    ),
)

DETAILS = (
    Panel(
        title="Slowest GPUs",
        description="Compare with yesterday.",
        type="bargauge",
        unit=Unit.RATIO,
        queries=(Query(expr=f"bottomk(5, gpu:nccl_ratio:now{{{JOB}}})", legend="{{node}} {{gpu}}", instant=True),),
        steps=((None, "bad"), (0.8, "warn"), (0.95, "ok")),
        minimum=0,
        maximum=1,
    ),
    Panel(
        title="Jobs",
        description="One line per job.",
        type="table",
        unit=Unit.GBPS,
        queries=(
            Query(expr=f"max by (slurm_job_id) (job:nccl_bandwidth:best{{{JOB}}})"),
            Query(expr=f"max by (slurm_job_id) (job:nccl_degraded:now{{{JOB}}})"),
        ),
        columns={"slurm_job_id": "Job", "Value": "Bandwidth", "Value #B": "Degraded"},
        column_units={"Value #B": Unit.BOOL},
        steps=((None, "bad"), (100, "ok")),
        order="-Bandwidth",
        links={"Open": "/d/dashgen-nccl-job?${__url_time_range}&var-job=${__data.fields.slurm_job_id}"},
    ),
)

BOARD = Dashboard(
    slug="job",
    title="Job",
    question="Which transport of this job is slow?",
    rows=(
        Row(title="", panels=NUMBERS),
        Row(title="Curves", panels=CURVES),
        Row(title="Details", panels=DETAILS, collapsed=True),
        Row(
            title="After the fold",
            panels=(Panel(title="Last", description="See there.", type="stat", unit=Unit.COUNT, queries=(JOBS,)),),
        ),
    ),
    variables=(Variable(name="job", label="slurm_job_id", series="job:nccl_bandwidth:best", title="Job"),),
    annotations=(
        Annotation(
            title="Alerts",
            expr=f'ALERTS{{alertstate="firing",{JOB}}}',
            heading="{{alertname}}",
            text="{{slurm_job_id}}",
            role="bad",
        ),
    ),
)

OTHER = Dashboard(slug="fleet", title="Fleet", question="Which job is slow?", rows=(), variables=())

SERIES = {
    "job:nccl_bandwidth:best": ("slurm_job_id", "transport"),
    "job:nccl_degraded:now": ("slurm_job_id",),
    "gpu:nccl_ratio:now": ("slurm_job_id", "node", "gpu"),
    upstream("collectives"): ("slurm_job_id", "transport", "node", "gpu"),
}
