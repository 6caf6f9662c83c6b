# SPDX-License-Identifier: Apache-2.0
"""What every board is made of: panels that take title, unit and description from a signal, shared variables, links."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from dashgen import catalogue
from dashgen.catalogue.baselines import shown, spread
from dashgen.catalogue.boards.verdicts import STATES, VALUES, WORDS, firing
from dashgen.catalogue.names import VERDICT
from dashgen.model import Annotation, Panel, PanelType, Query, Sensitivity, Severity, Unit, Variable, indented

# The series that every job of the fleet has for as long as it reports: one a job, and one for each of its nodes.
FLEET = "job:nccl_gpus:count"
JOBS = "node:nccl_gpus:count"

# Every choice offers only what the choices before it leave.
JOB = Variable(name="job", label="<job_label>", series=f"{FLEET}{{<in_cluster>}}", multi=False, title="Job")
# By a name of its own: links would hand several over to boards that take one.
SEVERAL_JOBS = Variable(name="jobs", label="<job_label>", series=f"{FLEET}{{<in_cluster>}}", title="Job")
# By the name that NVIDIA's example gives it, so that links to that board can be turned to this one.
JOB_BY_ID = replace(JOB, name="jobid")
TRANSPORT = Variable(name="transport", label="transport", series="job:nccl_transport:info{<of_job>}", title="Transport")
COLLECTIVE = Variable(
    name="collective",
    label="collective",
    series='job:nccl_busbw:max{transport=~"$transport", <of_job>}',
    title="Collective",
)
NODE = Variable(name="node", label="<node_label>", series=f"{JOBS}{{<of_job>}}", title="Node")
GPU = Variable(
    name="gpu", label="<gpu_label>", series='gpu:nccl_lateness:ratio{<node_label>=~"$node", <of_job>}', title="GPU"
)

# The series of the chosen jobs, where several can be chosen.
OF_JOBS = '<job_label>=~"$jobs", <in_cluster>'

# The series of the job that is chosen by its id.
OF_JOB_ID = '<job_label>="$jobid", <in_cluster>'

# Points of a curve where hundreds of series are read: a coarser step for a long time, and never a wider window, as a
# least distance of points would make $__rate_interval four times as wide.
FEW = 120
FEWEST = 60

# The least distance of points where an exporter is read: its counters follow the scrapes, however rare dumps are.
SCRAPED = "30s"


def of_nodes(chosen: str) -> str:
    """To multiply series of node_exporter with: gives them the node's name, and keeps those of the chosen jobs.

    Two pods of a job may share a machine, whose series then have the name of one of them.
    """
    return f"* on (<target>) group_left (<node>) (topk by (<target>) (1, {JOBS}{{{chosen}}}) ^ 0)"


def cluster_variable(label: str) -> tuple[Variable, ...]:
    """The variable of a site that keeps several clusters in one Prometheus."""
    return (Variable(name="cluster", label=label, series=FLEET, title="Cluster"),)


def link(board: str, **variables: str) -> str:
    """The address of another board, with the time range and the data source and clusters that are chosen here."""
    chosen = "".join(f"&var-{name}={value}" for name, value in variables.items())
    return f"/d/<uid>{board}?${{__url_time_range}}&<chosen>{chosen}"


# From the row of a table, and from a line or bar.
TO_JOB = {"Open the job": link("job", job="${__data.fields.<job_label>}")}
LINE_TO_JOB = {"Open the job": link("job", job="${__field.labels.<job_label>}")}


def marks(variables: tuple[Variable, ...]) -> tuple[Annotation, ...]:
    """What is drawn over every graph: the alerts, and where one job or several are chosen their degradation windows."""
    jobs = {JOB: "<of_job>", JOB_BY_ID: OF_JOB_ID, SEVERAL_JOBS: OF_JOBS}
    chosen = next((matchers for variable, matchers in jobs.items() if variable in variables), "")
    alerts = Annotation(
        title="Alerts",
        expr=firing(chosen or "<in_cluster>"),
        heading="{{alertname}}",
        text="{{severity}} {{<job_label>}} {{<node_label>}} {{<gpu_label>}}",
        role="bad",
    )
    windows = Annotation(
        title="Degradation windows",
        expr=f'{VERDICT}{{state=~"degraded|stalled", {chosen}}} ^ 0',
        heading="{{state}} {{suspect}}",
        text="job {{<job_label>}} {{<node_label>}} {{<gpu_label>}}",
        role="warn",
    )
    return (alerts, windows) if chosen else (alerts,)


def answers(
    name: str,
    *,
    title: str,
    query: str = "",
    legend: str = "",
    bad: str,
    type: PanelType = "timeseries",
    instant: bool = False,
    read: str = "",
    **more: Any,
) -> Panel:
    """A panel that answers a signal's question: unit, description and companion come from the signal.

    ``query`` is PromQL over the signal's series, written ``@``; by default the series of the chosen job. ``read`` says
    how to read the picture, ``bad`` what a bad one looks like.
    """
    signal = catalogue.SIGNAL_BY_NAME[name]
    expr = re.sub(r"@(?! end\(\))", name, query or "@{<of_job>}")
    return Panel(
        title=title,
        description=described(more.pop("question", signal.question), read, more.pop("healthy", signal.healthy), bad),
        type=type,
        unit=more.pop("unit", signal.unit),
        queries=(Query(expr=expr, legend=legend, instant=instant), *more.pop("also", ())),
        companion=more.pop("companion", signal.companion),
        **more,
    )


def worst(chosen: str, by: str = "") -> str:
    """The eight series of a signal with the highest values in the shown time, in each ``by``: few lines, none that flicker."""
    each = f" by ({by})" if by else ""
    return f"@{{{chosen}}}\nand topk{each} (8, max_over_time(@{{{chosen}}}[$__range] @ end()))"


def named(query: str, *labels: str) -> str:
    """A query whose series carry the label ``who``, made of labels of which some may be absent."""
    joined = ", ".join(f'"{label}"' for label in labels)
    who = f'label_join(\n  {indented(query)},\n  "who", " ", {joined}\n)'
    # Where a label is absent, its space is left.
    who = f'label_replace({who}, "who", "$1", "who", " *(.*[^ ]) *")'
    return f'label_replace({who}, "who", "$1 $2", "who", "(.*[^ ])  +(.*)")'


PATH = ("transport", "<node_label>", "<gpu_label>")


def suspects(query: str) -> str:
    """A query whose series carry the label ``who``: suspect and place, and the transport unless it is the suspect."""
    who = named(query, "suspect", *PATH)
    return f'label_replace(\n  {indented(who)},\n  "who", "$1", "who", "(?:network|nvlink) ((?:network|nvlink).*)"\n)'


NOISE_OF_GPUS = Query(expr=spread("lateness", "<of_job>"), legend="usual noise of a GPU")
"""How far the lateness of the job's GPUs strays, to be drawn beside it."""

# Jobs whose values are new: what a silent job showed last is no value of today.
FRESH = "and on (<job>) job:nccl_dump_age:seconds{<of_job>} <= 4 * <dump>"


def throughput(bad: str, **more: Any) -> Panel:
    """What the job achieves, beside what it is used to, in the unit of whoever says so.

    The axis begins where the curve does: a dip of six percent is a ripple on one that begins at zero.
    """
    usual = Query(expr=shown("throughput", "<of_job>"), legend="usual {{evidence}}")
    names = {evidence: WORDS[evidence] for evidence in ("tensor", "collectives", "reported")}
    return answers(
        "job:training_throughput:current",
        title="Throughput",
        legend="{{evidence}}",
        also=(usual,),
        read="Shaded are the degradation windows and the alerts.",
        bad=bad,
        lowest_first=True,
        line_units={
            "reported": "<throughput_unit>",
            "collectives": Unit.PER_SECOND.value,
            "tensor": Unit.RATIO.value,
        },
        line_colours=dict.fromkeys(names, "nvlink"),
        line_names={**names, **{f"usual {evidence}": f"usual, {name}" for evidence, name in names.items()}},
        **more,
    )


def described(question: str, read: str, healthy: str, bad: str) -> str:
    """What every description says: the question, how to read the answer, what good and bad look like."""
    return " ".join(part for part in (question, read, f"Healthy: {healthy}.", f"Bad: {bad}.") if part)


def threshold(alert: str, sensitivity: Sensitivity) -> float:
    """The value at which an alert of the tier fires, or of the next tier that has the alert."""
    tiers = catalogue.ALERT_BY_NAME[alert].tiers
    order = list(Sensitivity)
    later = order[order.index(sensitivity) :]
    return next(tiers[level].threshold for level in later if level in tiers)


def steps(alert: str, sensitivity: Sensitivity) -> tuple[tuple[float | None, str], ...]:
    """Panel thresholds where the alert of the tier fires."""
    found = catalogue.ALERT_BY_NAME[alert]
    severities = {tier.severity for tier in found.tiers.values()}
    role = "bad" if Severity.CRITICAL in severities else "warn"
    value = threshold(alert, sensitivity)
    return ((None, "ok"), (value, role)) if found.rises else ((None, role), (value, "ok"))


def number(title: str, expr: str, description: str, *, of: str = "", **more: Any) -> Panel:
    """A number at the top of a board, which is neither good nor bad.

    ``of`` is what there is to be counted: where that is there and ``expr`` is not, the number is 0. Where that is
    missing too, nobody knows, and the panel says so.
    """
    return Panel(
        title=title,
        description=description,
        type="stat",
        unit=more.pop("unit", Unit.COUNT),
        queries=(Query(expr=f"{expr}\nor\n0 * count({of})" if of else expr, instant=True),),
        decimals=0,
        **{"width": 4, "height": 4, "steps": ((None, "info"),), **more},
    )


def says(
    title: str, description: str, *queries: str, of: str, no_value: str, also: tuple[Query, ...] = (), **more: Any
) -> Panel:
    """Sentences: what the label ``says`` of each series says, coloured by the state that is its value.

    ``of`` is what there is to be said something about; where that is missing, the sentence is ``no_value``: of a stat
    that shows names, Grafana shows no words for an empty answer.
    """
    nobody = f'label_replace({VALUES["no data"]} * absent({of}), "says", "{no_value}", "", "")'
    return Panel(
        title=title,
        description=description,
        type="stat",
        unit=Unit.NONE,
        queries=(*(Query(expr=query, legend="{{says}}", instant=True) for query in (*queries, nobody)), *also),
        states=STATES,
        steps=((None, "neutral"),),
        sentence=True,
        **{"width": 24, "height": 3, **more},
    )


def count(title: str, expr: str, description: str, *, of: str, role: str = "bad", **more: Any) -> Panel:
    """A number at the top of a board; it turns bad from a value on, and is grey where there is none."""
    return number(title, expr, description, of=of, steps=((None, "neutral"), (0, "ok"), (1, role)), **more)
