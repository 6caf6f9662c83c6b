# SPDX-License-Identifier: Apache-2.0
"""What boards say of a verdict, all of it from the one series: a state, a sentence, a table's columns, since when."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dashgen.catalogue.names import SINCE, VERDICT
from dashgen.model import indented

# What a state timeline draws: the matchers of a verdict, its word and its colour role. A row's place is its value: the
# larger, the more it matters.
_STATES = (
    ('state="healthy"', "healthy", "ok"),
    ('state="unknown"', "unknown", "neutral"),
    ('state="gone"', "gone", "neutral"),
    ('state="recovering"', "recovering", "info"),
    ('state="degraded", suspect="network"', "network", "network"),
    ('state="degraded", suspect="nvlink"', "<fabric>", "nvlink"),
    ('state="degraded", suspect="straggler"', "late", "warn"),
    ('state="stalled"', "silent", "bad"),
)
_NOBODY = len(_STATES)
STATES: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        **{value: (word, role) for value, (_, word, role) in enumerate(_STATES)},
        _NOBODY: ("no data", "neutral"),
    }
)

# The value of a word.
VALUES: Mapping[str, int] = MappingProxyType({word: value for value, (word, _) in STATES.items()})

# The words of verdicts that a fleet is told of, and the states behind them.
TOLD = "network <fabric> late silent recovering gone"
TOLD_STATES = "degraded|stalled|recovering|gone"

# The columns of a table that say what is wrong and where, and what their labels mean.
WHAT: Mapping[str, str] = MappingProxyType(
    {
        "state": "State",
        "suspect": "Suspect",
        "transport": "Transport",
        "<node_label>": "Node",
        "<gpu_label>": "GPU",
    }
)
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "nvlink": "<fabric>",
        "straggler": "late (straggler)",
        "tensor": "tensor cores (DCGM)",
        "collectives": "completed collectives",
        "reported": "reported by the job",
        "none": "none",
    }
)


def verdict(chosen: str, **equal: str) -> str:
    """The verdicts of the chosen jobs with these labels."""
    return of(VERDICT, chosen, **equal)


def of(series: str, chosen: str, **equal: str) -> str:
    """A series of the chosen jobs with these labels."""
    return series + "{" + ", ".join([*(f'{name}="{value}"' for name, value in equal.items()), chosen]) + "}"


def firing(chosen: str) -> str:
    """The alerts about the chosen jobs that want a human and fire."""
    return f'ALERTS{{alertname=~"Nccl.+", alertstate="firing", severity!="info", {chosen}}}'


def depths(chosen: str) -> str:
    """The verdicts of the chosen jobs with their depths; a job that has ended has none."""
    return f"""{VERDICT}{{state!="gone", {chosen}}}
or
0 * {VERDICT}{{state="gone", {chosen}}}"""


def since(chosen: str) -> str:
    """When the present state of the chosen jobs began, in the milliseconds that a table wants."""
    return f"1000 * {SINCE}{{{chosen}}}"


def lasts(chosen: str) -> str:
    """For how many seconds the present state of the chosen jobs has lasted."""
    return f"time() - {SINCE}{{{chosen}}}"


def state(chosen: str, only: str = "") -> str:
    """The verdicts of the chosen jobs as the values of STATES; ``only`` are the words to keep, all by default."""
    parts = (
        # A depth may be 0, and x ^ 0 is 1 for every x.
        f"{value} * {VERDICT}{{{matchers}, {chosen}}} ^ 0"
        for value, (matchers, word, _) in enumerate(_STATES)
        if not only or word in only.split()
    )
    return "\nor\n".join(parts)


def or_nobody(query: str, chosen: str, label: str, name: str) -> str:
    """A timeline with a line of no data where nothing is known of the chosen jobs in all of the shown time.

    Grafana says "Data does not have a time field" of an empty timeline, whatever words the panel has for that.
    """
    nobody = f"vector({_NOBODY}) unless on () last_over_time({verdict(chosen)}[$__range] @ end())"
    return f'{query}\nor\nlabel_replace({nobody}, "{label}", "{name}", "", "")'


# Sentences.

# What a verdict is called, by state, suspect, transport, node and GPU, and what stands behind its duration.
_SAID = (
    ("healthy/.*", "Healthy: nobody is slower than usual", ""),
    ("unknown/.*", "Unknown: silent, too young, or nothing can be judged", ""),
    ("recovering/.*", "Recovering: the suspect is gone, the state is watched for some minutes", ""),
    ("degraded/network/(.+)//", "Network slow ($1) for", ""),
    ("degraded/network///", "Some network paths slow for", ""),
    ("degraded/network/(.*)//(.+)", "Rail $2 slow ($1) for", ""),
    ("degraded/nvlink/.*//.*", "<fabric> slow for", ""),
    ("degraded/nvlink/.*/(.+)/.*", "<fabric> of $1 slow for", ""),
    ("degraded/straggler/.*/(.*)/(.+)", "Late GPU $1 $2 for", ""),
    ("degraded/straggler/.*/(.+)/", "Late node $1 for", ""),
    ("degraded/straggler///", "Several nodes late for", ""),
    ("stalled/.*", "Silent for", ""),
    ("stalled/.*/(.+)/(.+)", "Silent ($2 of $1, as nvidia-smi or CUDA counts) for", ""),
    ("gone/.*", "Ended", " ago, files left behind"),
)


def sentence(chosen: str, only: str = "", named: bool = False) -> str:
    """The verdicts of the chosen jobs as sentences in the label ``says``; values are those of STATES.

    ``only`` are the words of STATES to keep, all by default; ``named`` puts the job in front.
    """
    said = f'label_join(\n  {indented(state(chosen, only))},\n  "key", "/", "state", "suspect", "transport", "<node_label>", "<gpu_label>"\n)'
    for key, words, rest in _SAID:
        said = f'label_replace({said}, "what", "{words}", "key", "{key}")'
        said = f'label_replace({said}, "rest", "{rest}", "key", "{key}")' if rest else said
    said = f'label_replace({said}, "who", "Job $1: ", "<job_label>", "(.+)")' if named else said
    parts = {"lasts": _lasts(chosen), "cost": _cost(chosen), "beside": _beside(chosen)}
    for label, query in parts.items():
        # A job about which this part says nothing stays, without it.
        said += f"\n* on (<job>) group_left ({label})\n(\n  {indented(query)}\n  or on (<job>)\n  group by (<job>) ({verdict(chosen)})\n)"
    return f'label_join(\n  {indented(said)},\n  "says", "", "who", "what", "lasts", "rest", "cost", "beside"\n)'


def at_best(chosen: str) -> str:
    """The value that jobs have together of which none is hurt: healthy where one is, unknown where none can be judged."""
    return f"(0 * group({verdict(chosen, state='healthy')}) or group({verdict(chosen)}))"


def nobody_hurt(chosen: str) -> str:
    """The sentence about jobs of which none is hurt: how many they are, and how many of them nobody can judge."""
    jobs, unknown = verdict(chosen), verdict(chosen, state="unknown")
    said = f"""label_join(
  count_values("jobs", count({jobs}))
  * on () group_left (unjudged) count_values("unjudged", count({unknown}) or 0 * group({jobs}))
  * on () group_left () {at_best(chosen)},
  "key", "/", "jobs", "unjudged"
)"""
    for key, rest in (("(.+)/(.+)", "; cannot be judged: $2"), ("(.+)/0", "")):
        said = f'label_replace({said}, "says", "No job is hurt; jobs that report: $1{rest}", "key", "{key}")'
    return said


def _lasts(chosen: str) -> str:
    minutes = f'count_values by (<job>) ("minutes", floor(({lasts(chosen)}) / 60))'
    said = f'label_replace({minutes}, "lasts", " $1 min", "minutes", "(.+)")'
    return f'label_replace({said}, "lasts", " less than a minute", "minutes", "0")'


def _cost(chosen: str) -> str:
    lost = (
        f"max by (<job>) ({of('job:training_throughput_loss:ratio', chosen)} > 0.02)\n"
        f"and on (<job>) {verdict(chosen, state='degraded')}"
    )
    return (
        f'label_replace(\n  count_values by (<job>) ("lost", round(100 * (\n    {indented(lost, 4)}\n  ))),\n'
        '  "cost", ", $1 % of throughput lost", "lost", "(.+)"\n)'
    )


def _beside(chosen: str) -> str:
    """Who waits, what is untouched, what the processes of a silent job do, and how much is told of a healthy one."""
    late, node, alike, network, silent = (
        verdict(f'<node>!="", {chosen}', suspect="straggler"),
        verdict(f'<gpu>="", {chosen}', suspect="straggler"),
        verdict(f'<node>="", {chosen}', suspect="straggler"),
        verdict(chosen, suspect="network"),
        verdict(chosen, state="stalled"),
    )
    sound = f"max by (<job>) ({of('job:nccl_suspect:depth', chosen, suspect='nvlink')}) < 0.05"
    processes = "\nor on (<job>)\n".join(
        f"label_replace(group by (<job>) ({of('job:nccl_quiet:seconds', chosen, evidence=evidence)} "
        f'and on (<job>) {silent}), "beside", "{words}", "", "")'
        for evidence, words in (
            ("spinning", ", kernels spin: hung"),
            ("dead", ", its process is dead"),
            ("idle", ", its processes live"),
            ("none", ", nothing tells whether it lives"),
        )
    )
    return f"""label_replace(
  count_values by (<job>) (
    "others",
    sum by (<job>) (job:nccl_gpus:count{{{chosen}}})
    - on (<job>)
    (
      sum by (<job>) (node:nccl_gpus:count{{{chosen}}} and on (<job>, <node>) {node})
      or on (<job>)
      group by (<job>) ({late})
    )
  ),
  "beside", ", $1 others wait", "others", "(.+)"
)
or on (<job>)
label_replace(group by (<job>) ({sound} and on (<job>) {network}), "beside", "; <fabric> untouched", "", "")
or on (<job>)
label_replace(group by (<job>) ({alike}), "beside", "; one of them holds up the others", "", "")
or on (<job>)
{processes}
or on (<job>)
label_replace(
  count_values by (<job>) ("alerts", count by (<job>) ({firing(chosen)}) and on (<job>) {verdict(chosen, state="healthy")}),
  "beside", "; but alerts fire: $1", "alerts", "(.+)"
)"""
