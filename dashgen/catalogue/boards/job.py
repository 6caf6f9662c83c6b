# SPDX-License-Identifier: Apache-2.0
"""When exactly was this job slow, and whose fault was it?"""

from __future__ import annotations

from dashgen.catalogue.baselines import LEAST_OF_MANY, spread
from dashgen.catalogue.boards.job_details import CHOSEN, DETAILS
from dashgen.catalogue.boards.parts import (
    COLLECTIVE,
    FEW,
    FEWEST,
    FRESH,
    JOB,
    NOISE_OF_GPUS,
    PATH,
    TRANSPORT,
    answers,
    link,
    named,
    says,
    steps,
    suspects,
    throughput,
    worst,
)
from dashgen.catalogue.boards.verdicts import (
    STATES,
    WHAT,
    WORDS,
    depths,
    lasts,
    or_nobody,
    sentence,
    since,
    state,
    verdict,
)
from dashgen.catalogue.names import VERDICT
from dashgen.catalogue.signals.transport import ALL, by_half
from dashgen.model import TRANSPORTS, Dashboard, Panel, Query, Row, Sensitivity, Unit

_WHERE = {
    "nvlink": "within one <fabric> domain",
    "network": "across domains, one rank per node (network)",
    "mixed": "across domains, several ranks per node (mixed)",
}


_NOISE = by_half(spread("bandwidth", "<of_job>"), '{transport=~"$transport"}')


def _bandwidth(transport: str) -> Panel:
    """Title and query come from the same transport, so that one cannot say what the other does not show.

    The usual line is the median of the healthy moments of the last six hours, read once for the whole graph.
    """
    series = f'job:nccl_busbw:max{{transport="{transport}", {CHOSEN}}}'
    hurt = f'{VERDICT}{{state!~"healthy|unknown", <of_job>}}'
    usual = Query(
        expr=f"quantile_over_time(0.5,\n  ({series} unless on (<job>) {hurt})[6h:<4 dumps>] @ end()\n)",
        legend="usual {{collective}} {{size_class}}",
    )
    accepted = Query(
        expr=f'job:nccl_busbw:expected{{transport="{transport}", {CHOSEN}}}',
        legend="expected {{collective}} {{size_class}}",
        companion="acceptance",
    )
    # The best of all paths hides the one that is slow.
    drop = f'peer:nccl_busbw_drop:ratio{{transport="{transport}", <of_job>}}'
    slowest = Query(
        expr=f"({series}\n{FRESH})\n* on (<job>) group_left ()\n(\n  min by (<job>) ((1 - {drop}) / on (<job>, transport) group_left () (1 - {ALL}))\n"
        f"  and on (<job>) max by (<job>) (max_over_time({drop}[$__range] @ end())) > {LEAST_OF_MANY:g}\n)",
        legend="slowest path {{collective}} {{size_class}}",
    )
    return answers(
        "job:nccl_busbw:max",
        title=f"Bandwidth {_WHERE[transport]}",
        query=f"{series}\n{FRESH}",
        legend="{{collective}} {{size_class}}",
        read="Dashed is what this job is used to, and what acceptance promised where that is known. A path that is slow "
        "alone has a dotted line, drawn from what it has lost.",
        bad="a step down that the other transports do not share",
        also=(usual, slowest, accepted),
        width=8,
        minimum=0.0,
        lowest_first=True,
        no_value="the job has no such communicators",
    )


_SENTENCE = says(
    "Verdict now",
    "How is the job, since when, by whose fault, and at what price? The sentence is the verdict that alerts fire on. "
    "Healthy: it says so. Bad: it names a suspect, and what is untouched; or no data, then nobody watches.",
    sentence("<of_job>"),
    of=verdict("<of_job>"),
    no_value="No data: the job does not report, or has long ended",
)


def _figures(sensitivity: Sensitivity) -> Panel:
    return answers(
        VERDICT,
        title="Verdict in figures",
        query=depths("<of_job>"),
        type="table",
        instant=True,
        also=(
            Query(expr=since("<of_job>"), instant=True),
            Query(expr=lasts("<of_job>"), instant=True),
            Query(
                # A job that pauses for a checkpoint does no work either: what is lost is told beside a verdict.
                expr="max by (<job>) (job:training_throughput_loss:ratio{<of_job>})\n"
                f'and on (<job>) {VERDICT}{{state=~"degraded|recovering", <of_job>}}',
                instant=True,
            ),
            Query(
                expr=f'max by (<job>) (max_over_time({VERDICT}{{state=~"degraded|stalled", <of_job>}}[$__range]))\n'
                f"and on (<job>) {VERDICT}{{<of_job>}}",
                instant=True,
            ),
        ),
        read="The depth is how much slower the suspect makes communication, or how late it is; the peak is the deepest in "
        "the shown time.",
        healthy="state healthy, no suspect",
        bad="a suspect. Straggler: open the rank outliers; network or nvlink: open the fabric. Stalled: collect "
        "stacks before the watchdog ends the job",
        width=24,
        height=3,
        columns={
            "<job_label>": "Job",
            **WHAT,
            "Value #B": "Since",
            "Value #C": "For",
            "Value #A": "Depth",
            "Value #D": "Throughput lost",
            "Value #E": "Peak",
        },
        column_units={
            "Value #A": Unit.RATIO,
            "Value #B": Unit.TIMESTAMP,
            "Value #C": Unit.SECONDS,
            "Value #E": Unit.RATIO,
        },
        steps=steps("NcclJobDegraded", sensitivity),
        links={
            "Who is late": link("outliers", job="${job}"),
            "Fabric and GPUs of its nodes": link("fabric", job="${job}"),
            "Send and Recv": link("p2p", job="${job}"),
        },
        words=WORDS,
        no_value="the job does not report",
    )


_TIMELINE = answers(
    VERDICT,
    title="State and cause",
    question="When was the job in which state, and who was the suspect?",
    query=or_nobody(f"max by (<job>) (\n{state('<of_job>')}\n)", "<of_job>", "<job_label>", "$job"),
    legend="job",
    also=(Query(expr=suspects(state("<of_job>", "network <fabric> late")), legend="{{who}}"),),
    type="state-timeline",
    unit=Unit.NONE,
    read="The first line is the job; each suspect has a line of its own for as long as the verdict named it; others may be as bad meanwhile.",
    states=STATES,
    healthy="one line, healthy from end to end",
    bad="network alone is the fabric, nvlink a link inside a node, a straggler one late GPU or node; "
    "silent is a job that stands still",
    width=24,
    height=6,
)

_PATHS = answers(
    "peer:nccl_busbw_drop:ratio",
    title="Bandwidth lost by path",
    query=named(worst('transport=~"$transport", <of_job>', "transport"), *PATH),
    legend="{{who}}",
    also=(
        Query(
            expr=f"max by (transport) ({_NOISE})",
            legend="usual noise {{transport}}",
        ),
    ),
    line_colours={f"usual noise {transport}": transport for transport in TRANSPORTS},
    read="Inside a domain every node is a path, across domains every GPU number is (its rail). Drawn are the "
    "eight worst of each transport in the shown time.",
    bad="all paths of a transport step up together: the network; one of them alone: that node or rail",
    width=8,
    minimum=-0.1,
    points=FEW,
)

_LATENESS = answers(
    "gpu:nccl_lateness_excess:ratio",
    title="Lateness of GPUs above the usual",
    query=worst("<of_job>"),
    legend="{{<node_label>}} {{<gpu_label>}}",
    also=(NOISE_OF_GPUS,),
    read="The part of their waiting time that the others spend on this GPU; bigger is later. Drawn are the eight "
    "latest of the shown time.",
    bad="one line far above the others: everybody waits for that GPU; those of one node together: the node",
    # Who is early is of no interest, and neither is what is still being learned.
    minimum=0.0,
    width=8,
    points=FEW,
    no_value="no GPU can be judged",
)


def _verdict(sensitivity: Sensitivity) -> Row:
    return Row(
        title="Verdict",
        panels=(
            _SENTENCE,
            _figures(sensitivity),
            _TIMELINE,
            _PATHS,
            _LATENESS,
            throughput("a step below the usual line at the time of a verdict; evidence says what is measured", width=8),
        ),
    )


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of one job."""
    return Dashboard(
        slug="job",
        place=20,
        title="Job",
        question="When exactly was this job slow, and whose fault was it?",
        variables=(JOB, TRANSPORT, COLLECTIVE),
        rows=(
            _verdict(sensitivity),
            Row(
                title="Bus bandwidth of the best path, where nobody waits",
                panels=tuple(map(_bandwidth, TRANSPORTS)),
            ),
            Row(
                title="Execution time of the median GPU",
                panels=(
                    answers(
                        "gpu:nccl_exec:sum",
                        title="Time in collectives",
                        question="How long does the median GPU spend in collectives, one of each kind, waiting included?",
                        query="max by (transport) (\n"
                        "  quantile by (<job>, n_nodes, nranks) (0.5, @{<of_job>})\n"
                        '  * on (<job>, n_nodes, nranks) group_left (transport) job:nccl_transport:info{transport=~"$transport", <of_job>}\n'
                        f"  {FRESH}\n)",
                        legend="{{transport}}",
                        bad="a rise while the bandwidth holds: somebody is late",
                        points=FEWEST,
                        minimum=0.0,
                        width=24,
                    ),
                ),
            ),
            *DETAILS,
        ),
    )
