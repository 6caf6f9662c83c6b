# SPDX-License-Identifier: Apache-2.0
"""What dcgm-exporter says of a job's GPUs. DCGM counts them in another order than CUDA, so that GPU 3 may be another."""

from __future__ import annotations

from dashgen.catalogue.boards.parts import FEW, SCRAPED, described, link
from dashgen.model import Panel, Query, Row, Unit


def _gpu(title: str, description: str, key: str, unit: Unit, *, relative: bool = False, rate: bool = False) -> Panel:
    """A panel of dcgm-exporter's series. DCGM counts GPUs in another order than CUDA, so the legend says whose number."""
    low_is_bad = key in ("gpu_util", "tensor_active", "sm_clock", "nvlink_traffic")
    series = f'<{key}>{{<dcgm_host>=~"$node", <in_cluster>}}'
    expr = f"rate({series}[$__rate_interval])" if rate else series
    if relative:
        expr = f"{expr}\n/ on () group_left () quantile(0.5, {series})"
    return Panel(
        title=title,
        description=description,
        type="timeseries",
        unit=unit,
        queries=(
            Query(
                expr=expr,
                legend="{{<dcgm_host>}} DCGM GPU {{gpu}}" + (" {{clock_event}}" if key == "clock_events" else ""),
            ),
        ),
        companion="clock_events" if key == "clock_events" else "dcgm",
        points=FEW,
        interval=SCRAPED,
        width=8,
        height=7,
        # A percent of the clock is a ripple on an axis that begins at zero.
        minimum=None if relative else 0.0,
        lowest_first=low_is_bad,
    )


GPUS = Row(
    title="GPUs (dcgm-exporter)",
    collapsed=True,
    panels=(
        _gpu(
            "GPU utilisation",
            "Do kernels run? Healthy: near 100 %. Bad: one GPU below the others; a hung collective reads 100 % as well.",
            "gpu_util",
            Unit.PERCENT,
        ),
        _gpu(
            "Tensor core activity",
            "Do tensor cores work? Healthy: steady and alike. Bad: zero at full utilisation is a hang, one GPU lower or "
            "longer than the others is the late one.",
            "tensor_active",
            Unit.RATIO,
        ),
        _gpu(
            "SM clock relative to peers",
            "Is a GPU clocked lower than the median GPU of the job's nodes? Healthy: 100 %. Bad: a line below 95 % that "
            "stays; throttle reasons are not exposed by default, so this is the evidence there is.",
            "sm_clock",
            Unit.RATIO,
            relative=True,
        ),
        _gpu(
            "Last XID by GPU",
            "Which XID error came last? Healthy: 0. Bad: any other; the code stays until the next one, so look when it "
            "changed. 74 is NVLink, 79 a GPU that fell off the bus, 94 and 95 are memory.",
            "xid",
            Unit.COUNT,
        ),
        _gpu(
            "NVLink traffic by GPU",
            "How much goes over NVLink, where DCGM exposes it? Healthy: alike on all GPUs. Bad: one GPU or node below "
            "the others. The unit differs between drivers: compare GPUs only with each other.",
            "nvlink_traffic",
            Unit.PER_SECOND,
            rate=True,
        ),
        _gpu(
            "Clock events by GPU and reason",
            "Why were clocks held back, where a custom counters file exposes it? Healthy: gpu_idle alone. Bad: "
            "hw_slowdown, hw_thermal, hw_power_brake or sw_thermal.",
            "clock_events",
            Unit.COUNT,
        ),
    ),
)
"""The row of the fabric board."""

_OF_NODES = '<node_label>=~"$node", <of_job>'
# The lateness of each node, under the name that DCGM has for it; what is above the usual counts for more.
_LATENESS = f"""label_replace(
    max by (<host>) (gpu:nccl_lateness_excess:ratio{{{_OF_NODES}}})
    or 0 * max by (<host>) (node:nccl_gpus:count{{{_OF_NODES}}}),
    "<dcgm_host>", "$1", "<node_label>", "(.+)"
  )"""


def _beside(key: str) -> Query:
    """A series of the GPUs of the eight nodes that are latest."""
    return Query(
        expr=f"max by (<in><dcgm_host>, gpu) (<{key}>{{<in_cluster>}})\n"
        f"and on (<in><dcgm_host>) topk(8, max by (<in><dcgm_host>) (\n  {_LATENESS}\n))",
        instant=True,
    )


BESIDE_LATENESS = Panel(
    title="GPUs of the latest nodes, now",
    description=described(
        "Is the GPU that everybody waits for hot, short of power, or unlike the others in memory?",
        "The GPUs of the eight latest nodes. DCGM counts GPUs in another order than CUDA, so GPU 3 may be another than above.",
        "alike in temperature, power and memory",
        "a GPU of a late node that is hotter, or draws less power than its neighbours: cooling or a power cap; less tensor "
        "activity at the same power: look at its clocks and its XID",
    ),
    type="table",
    unit=Unit.RATIO,
    queries=(
        Query(
            expr=f"0 * max by (<in><dcgm_host>, gpu) (<gpu_util>{{<in_cluster>}})\n"
            f"+ on (<in><dcgm_host>) group_left () topk(8, max by (<in><dcgm_host>) (\n  {_LATENESS}\n))",
            instant=True,
        ),
        *map(_beside, ("gpu_temperature", "gpu_power", "memory_used", "tensor_active")),
    ),
    columns={
        "<dcgm_host>": "Node",
        "gpu": "DCGM GPU",
        "Value #A": "Lateness of the node",
        "Value #B": "Temperature",
        "Value #C": "Power",
        "Value #D": "Memory",
        "Value #E": "Tensor activity",
    },
    column_units={
        "Value #B": Unit.CELSIUS,
        "Value #C": Unit.WATTS,
        "Value #D": Unit.MEBIBYTES,
        "Value #E": Unit.RATIO,
    },
    order="-Lateness of the node",
    links={"Fabric and GPUs of the node": link("fabric", job="${job}", node="${__data.fields.<dcgm_host>}")},
    companion="dcgm",
    width=24,
    no_value="dcgm-exporter says nothing of these nodes",
)
"""What else is known of the GPUs that are late, for the board that says which are."""
