# SPDX-License-Identifier: Apache-2.0
"""Which GPU or node does everybody wait for, and which path is slow?"""

from __future__ import annotations

from dashgen.catalogue.baselines import LEAST, SPREAD, shown, spread
from dashgen.catalogue.boards.gpus import BESIDE_LATENESS
from dashgen.catalogue.boards.parts import FEW, GPU, JOB, NODE, NOISE_OF_GPUS, PATH, answers, link, named, says, worst
from dashgen.catalogue.boards.verdicts import VALUES, sentence, verdict
from dashgen.catalogue.signals.lateness import AS_LATE, LATEST, late_from, slower
from dashgen.model import Dashboard, Query, Row, Sensitivity, labelled

_OF_NODES = '<node_label>=~"$node", <of_job>'
_OF_GPUS = '<node_label>=~"$node", <gpu_label>=~"$gpu", <of_job>'
_NODES, _GPUS = f"{{{_OF_NODES}}}", f"{{{_OF_GPUS}}}"
_INSIDE = f'peer:nccl_busbw_drop:ratio{{transport="nvlink", <node_label>!="", {_OF_NODES}}}'
_RAILS = 'transport!="nvlink", <gpu_label>=~"$gpu", <of_job>'
_NODE = "${__data.fields.<node_label>}"
_TO_FABRIC = {"Fabric and GPUs of the node": link("fabric", job="${job}", node=_NODE)}
_TO_NODE = {"This node alone": link("outliers", job="${job}", node=_NODE), **_TO_FABRIC}

_NOISE = NOISE_OF_GPUS.expr
# What makes a GPU a suspect at any time that is shown; its mates wait for it at collectives across nodes, and are late
# themselves by half as much. Whom a verdict has named is one: what it costs helps to convince, and is not told here.
_AT_WORST = f"max by (<job>, <node>, <gpu>) (max_over_time(gpu:nccl_lateness_excess:ratio{_GPUS}[$__range]))"
_WAS_LATE = (
    f"({_AT_WORST} > on (<job>) group_left () {late_from(_NOISE)})\n"
    f"> on (<job>) group_left () {AS_LATE:g} * max by (<job>) ({_AT_WORST})\n"
    f"or\n({_AT_WORST}\nand on (<job>, <node>, <gpu>) last_over_time({verdict('<of_job>', suspect='straggler')}[$__range]))"
)
# The nodes whose GPUs are shown one by one, as nobody can read a thousand rows: those with the latest GPUs, by what they
# are used to; those about which that is not known come after all others.
_EIGHT_NODES = f"""topk(8, max by (<job>, <node>) (
  max_over_time(gpu:nccl_lateness_excess:ratio{_GPUS}[$__range] @ end())
  or max_over_time(gpu:nccl_lateness:ratio{_GPUS}[$__range] @ end()) - 2
))"""

# Grids: a column for each number of a GPU, whatever stands before the number in its name.

_NUMBERS = {f"GPU {number}": f"GPU {number}" for number in range(16)}
# A tenth makes a suspect of a GPU; its neighbours, who waited for it, are late by half as much and have a paler shade.
_SHADES = ((None, "ok"), (LEAST / 2, "info"), (0.15, "warn"), (0.5, "bad"))


def _column(query: str, title: str) -> str:
    return labelled(query, "column", title).strip()


def _by_number(query: str) -> str:
    return f'label_replace(\n  {query},\n  "column", "GPU $1", "<gpu_label>", ".*?([0-9]+)"\n)'


_NODE_GRID = answers(
    "gpu:nccl_lateness_excess:ratio",
    title="Nodes and GPUs, now",
    question="How much later than it is used to is each GPU, and how much bandwidth has each node lost inside?",
    query="\nor\n".join(
        (
            _by_number(f"max by (<job>, <node>, <gpu>) (@{_GPUS} or 0 * gpu:nccl_lateness:ratio{_GPUS})"),
            _column(
                f"max by (<job>, <node>) (@{_GPUS} or {_INSIDE} or 0 * node:nccl_gpus:count{_NODES})",
                "Worst",
            ),
            _column(f"clamp_min(max by (<job>, <node>) ({_INSIDE}), 0)", "Lost inside"),
        )
    ),
    type="table",
    instant=True,
    across="column",
    columns={"<node_label>": "Node", "Worst": "Worst", "Lost inside": "Lost inside", **_NUMBERS},
    order="-Worst",
    steps=_SHADES,
    decimals=0,
    read="One row a node, the worst on top. Click a node to see it alone.",
    healthy="no colour",
    bad="the darkest cell is a late GPU, paler ones beside it are its neighbours, who wait with it; a row of one colour is a "
    "late node; lost inside is a slow link within that node",
    links=_TO_NODE,
    no_value="the job does not report",
    width=14,
    height=10,
)

_BY_GPU = answers(
    "gpu:nccl_lateness:ratio",
    title="Lateness by GPU",
    # Rows come in the order of their labels: one that is made of both puts the node first.
    query=f'label_join(\n  @{_GPUS}\n  and on (<job>, <node>) {_EIGHT_NODES},\n  "at", " ", "<node_label>", "<gpu_label>"\n)',
    legend="{{at}}",
    type="heatmap",
    read="One row a GPU of the eight latest nodes, time to the right; bright is late. Choose a node above to see another.",
    bad="a row that turns bright is a late GPU, rows of one node together a late node; a row that was "
    "always a little brighter is its place in the ring",
    width=10,
    height=10,
    minimum=0.0,
    maximum=LATEST,
    points=FEW,
)

_LATE_GPUS = answers(
    "gpu:nccl_lateness_excess:ratio",
    title="Late GPUs",
    # Everybody is a little late now and then: only who is as late as a suspect has a row.
    query=f"topk(50,\n  {_WAS_LATE}\n)",
    type="table",
    instant=True,
    also=(
        Query(
            expr=f"max by (<job>, <node>, <gpu>) (gpu:nccl_lateness_excess:ratio{_GPUS}) and (\n  {_WAS_LATE}\n)",
            instant=True,
        ),
    ),
    read="Lateness above what the GPU is used to; the latest on top. Only GPUs "
    "that were later by a tenth and by four times their noise, and nearly as late as the latest, or that a verdict has named.",
    healthy="no row",
    bad="one row: its peers wait for this GPU; all GPUs of a node: they wait for the node. Click it for its node",
    width=6,
    columns={"<node_label>": "Node", "<gpu_label>": "GPU", "Value #A": "At worst", "Value #B": "Now"},
    order="-At worst",
    links=_TO_FABRIC,
    no_value="no GPU was late",
)

_SLOWER = answers(
    "gpu:nccl_lateness:ratio",
    title="Slowness above the usual by GPU",
    question="How much slower than it is used to is each GPU among its like, in three dumps in a row?",
    # Boards are the same for every engine, whenever it shows a result.
    query=f"{slower(_OF_GPUS, '<3 dumps>', shown)}\n"
    f"and topk(8, {shown('lateness', _OF_GPUS, ' @ end()')} - ignoring (of) min_over_time(@{_GPUS}[$__range] @ end()))",
    legend="{{<node_label>}} {{<gpu_label>}}",
    read="The eight slowest of the shown time. Who waits is slower.",
    healthy="no line above four times the noise",
    bad="lines that step up together while nobody is late alone: a few GPUs of several nodes share a slow network path; where they are whole "
    "nodes, their pipeline stage is where a path is slow or somebody late",
    minimum=-0.1,
    points=FEW,
    width=6,
    no_value="no GPU can be judged",
)

_WHO = Row(
    title="Who is late",
    panels=(
        says(
            "Verdict now",
            "Who is the suspect, since when, and who waits? The sentence is the verdict that alerts fire on. "
            "Healthy: it says so. Bad: it names a GPU, a node, a rail or a transport; or no data, then nobody watches.",
            sentence("<of_job>"),
            of=verdict("<of_job>"),
            no_value="No data: the job does not report, or has long ended",
        ),
        _NODE_GRID,
        _BY_GPU,
        answers(
            "gpu:nccl_lateness_excess:ratio",
            title="Lateness above the usual by GPU",
            query=worst(_OF_GPUS),
            legend="{{<node_label>}} {{<gpu_label>}}",
            also=(NOISE_OF_GPUS,),
            read="The eight latest of the shown time.",
            bad="one line that steps up and stays: that GPU; many that take turns: uneven work, nobody's fault",
            # Who is early is of no interest, and neither is what is still being learned.
            minimum=0.0,
            points=FEW,
            width=6,
            no_value="no GPU can be judged",
        ),
        answers(
            "gpu:nccl_lateness:ratio",
            title="Lateness by node",
            question="How late is each node, compared with its peers?",
            query=f"avg by (<job>, <node>) (@{_NODES})\nand on (<job>, <node>) {_EIGHT_NODES}",
            legend="{{<node_label>}}",
            read="The mean of the node's GPUs, for the eight latest nodes.",
            bad="one node that rises arrives late with all its GPUs; one that falls is early and innocent",
            points=FEW,
            width=6,
        ),
        _LATE_GPUS,
        _SLOWER,
    ),
)

# Slow paths, and what the ports and switches along them say.

_PORT = f"node:fabric_suspect:ratio{_NODES}"
_AWAY = f"node:fabric_port_down:state{_NODES}"
_SLOW = f"node:fabric_rate_low:bits{_NODES}"
_AT_FAULT = f"{_PORT} or {_AWAY} or {_SLOW}"
_WATCHED = "<ib_state> and on (<target>) node:nccl_gpus:count{<of_job>}"
_SWITCH = 'node:switch_errors:rate{<node_label>=~"$node", <in_cluster>}\n    and on (<host>) group by (<host>) (node:nccl_gpus:count{<of_job>})'


def _named(query: str, words: str, *labels: str, companion: str = "infiniband") -> Query:
    """Series as sentences of the colour of the network; ``words`` has the labels as $1, $2 and so on."""
    key = ", ".join(f'"{label}"' for label in labels)
    joined = f'label_join(\n  {VALUES["network"]} * ({query}) ^ 0,\n  "key", "/", {key}\n)'
    said = f'label_replace({joined}, "says", "{words}", "key", "{"/".join(["(.*)"] * len(labels))}")'
    return Query(expr=said, legend="{{says}}", instant=True, companion=companion)


_PORTS = says(
    "Ports and switches, now",
    "Is a port of the job's nodes away or slower than its like, or do errors rise on it or at the other end of its cable? Healthy: it says that "
    "there is none. Bad: a sentence that names port, node or switch: with a slow rail or network, begin there.",
    '0 * label_replace(group by (<job>) (node:nccl_gpus:count{<of_job>}), "says", '
    f'"No port of the job is away, slow or under suspicion", "", "")\nunless on () ({_AT_FAULT})\nand on () ({_WATCHED})',
    of=f"{_WATCHED} or {_AT_FAULT}",
    also=(
        _named(_PORT, "Port $1 $2 of $3: $4", "device", "port", "<node_label>", "counter"),
        _named(_AWAY, "Port $1 $2 of $3 is away", "device", "port", "<node_label>"),
        _named(_SLOW, "Port $1 $2 of $3 runs at a lower rate than its like", "device", "port", "<node_label>"),
        _named(
            _SWITCH,
            "Switch $1 port $2, at the cable of $3: $4",
            *("switch", "port", "<node_label>", "counter"),
            companion="switch_ports",
        ),
    ),
    no_value="No data: no port counters of the job",
    companion="infiniband",
    width=10,
    height=5,
)

_PATHS = Row(
    title="Slow paths",
    panels=(
        answers(
            "peer:nccl_busbw_drop:ratio",
            title="Rails, now",
            question="How far is each rail below the bandwidth that it is used to?",
            query="\nor\n".join(
                (
                    _by_number(f'clamp_min(max by (<job>, transport, <gpu>) (@{{{_RAILS}, <gpu_label>!=""}}), 0)'),
                    _column(f"clamp_min(max by (<job>, transport) (@{{{_RAILS}}}), 0)", "Worst"),
                )
            ),
            type="table",
            instant=True,
            across="column",
            columns={"transport": "Transport", "Worst": "Worst", **_NUMBERS},
            order="-Worst",
            steps=_SHADES,
            decimals=0,
            read="A rail is the GPU of one number on all nodes, with its adapters and its switch. Communicators that hold the whole job are told as one.",
            healthy="no colour",
            bad="one coloured cell: the adapters or the switch of that rail; a coloured row: the network",
            no_value="the job has no communicators across domains",
            width=14,
            height=5,
        ),
        _PORTS,
        answers(
            "peer:nccl_busbw_drop:ratio",
            title="Bandwidth lost inside each node",
            question="How far is each node's <fabric> below the bandwidth that it is used to?",
            query=named(worst(f'transport="nvlink", {_OF_NODES}'), *PATH),
            legend="{{who}}",
            type="heatmap",
            read="One row for each of the eight worst nodes of the shown time, time to the right; bright is slow.",
            bad="one bright row: a slow link inside that node; all at once: the work has changed",
            minimum=0.0,
            maximum=1.0,
            no_value="the job has no communicators within one domain",
            height=7,
        ),
        answers(
            "peer:nccl_busbw_drop:ratio",
            title="Bandwidth lost by rail",
            question="How far is each rail below the bandwidth that it is used to, over time?",
            query=named(f"@{{{_RAILS}}}", *PATH),
            legend="{{who}}",
            type="heatmap",
            read="One row a transport and GPU number, time to the right; bright is slow.",
            bad="one bright row: the adapters or the switch of that rail; all at once: the network",
            minimum=0.0,
            maximum=1.0,
            no_value="the job has no communicators across domains",
            height=7,
        ),
    ),
)

_EACH_GPU = Row(
    title="Each GPU",
    collapsed=True,
    panels=(
        BESIDE_LATENESS,
        answers(
            "gpu:nccl_lateness:ratio",
            title="Lateness of the ten latest GPUs",
            query=f"topk(10, @{_GPUS})",
            legend="{{<node_label>}} {{<gpu_label>}}",
            read="The ten latest of each moment; choose nodes and GPUs above to see others.",
            bad="one line that rises: that GPU arrives last",
            width=8,
        ),
        answers(
            SPREAD,
            title="Noise of lateness",
            question="How far does the lateness of the job's GPUs stray from what they are used to?",
            query=_NOISE,
            legend="the noisiest quarter of the GPUs",
            read="A GPU is a suspect when it is four times as much later than it is used to, and 10 % at least.",
            bad="more than a few percent: ranks are late in turn, as in uneven work, and one late GPU is hard to tell",
            minimum=0.0,
            width=8,
        ),
        answers(
            SPREAD,
            title="Noise of each path",
            question="How far does the slowness of each path stray from what it is used to?",
            # As it was learned last: of what is slow nothing is learned.
            query=named(
                f"{spread('slowness', '<of_job>')}\nand topk by (transport) (8, {spread('slowness', '<of_job>', ' @ end()')})",
                *PATH,
            ),
            legend="{{who}}",
            read="The eight noisiest of each transport.",
            bad="much more than its neighbours: a path that flaps, or traffic that changes",
            width=8,
            minimum=0.0,
        ),
    ),
)


def board(sensitivity: Sensitivity) -> Dashboard:
    """The board of late GPUs and nodes, and of slow paths."""
    del sensitivity  # the verdict has its own thresholds
    return Dashboard(
        slug="outliers",
        place=30,
        title="Rank outliers",
        question="Which GPU or node does everybody wait for?",
        variables=(JOB, NODE, GPU),
        rows=(_WHO, _PATHS, _EACH_GPU),
    )
