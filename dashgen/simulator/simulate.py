# SPDX-License-Identifier: Apache-2.0
"""A recording of a training job that never ran: what Prometheus would have scraped, and what was really wrong.

Same scenario and seed, same bytes. How a job computes and communicates is in physics.py, how it lives
in lifecycle.py, what Inspector writes in dumps.py, and what a scraper finds in scrapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

from dashgen.config.site import Site
from dashgen.errors import UserError
from dashgen.recordings.format import Fault, Recording, Series, selector
from dashgen.recordings.importing import save
from dashgen.recordings.inspector import transport
from dashgen.simulator.dumps import Run, run_job
from dashgen.simulator.events import DeadRank, Event, Hang, LateGpu, Network, Nic, Nvlink, SlowNode
from dashgen.simulator.physics import unit_effect
from dashgen.simulator.scenario import Scenario, load_scenario, scenario_names, scenario_path
from dashgen.simulator.scrapes.gpus import driver_index
from dashgen.simulator.scrapes.scrape import scrape

__all__ = ["load_scenario", "make_recording", "scenario_names", "scenario_path", "simulate"]


def simulate(scenario: Scenario, seed: int | None = None) -> tuple[Recording, list[Series]]:
    """The recording of a scenario; ``seed`` overrides the scenario's own."""
    chosen = scenario.seed if seed is None else seed
    runs = [run_job(scenario, number, chosen) for number in range(len(scenario.jobs))]
    series = scrape(scenario, runs, chosen)
    recording = Recording(
        format=1,
        story=scenario.story,
        source="simulated",
        made_by=f"dashgen simulate {scenario.name}" + ("" if chosen == scenario.seed else f" --seed {chosen}"),
        start=scenario.start,
        end=scenario.start + timedelta(seconds=scenario.lasts),
        scrape_interval=scenario.scrape_interval,
        site=_rhythm(scenario) | scenario.site,
        boards=scenario.boards,
        faults=(*_truths(scenario, runs), *scenario.faults),
        expect=scenario.expect,
    )
    return recording, series


def together(parts: Sequence[tuple[Recording, list[Series]]]) -> tuple[Recording, list[Series]]:
    """One recording of several that a single Prometheus made at the same time; their labels keep them apart.

    Raises UserError when two of them have a series in common.
    """
    first = parts[0][0]
    series = sorted((one for _, ours in parts for one in ours), key=lambda each: (each.name, each.labels))
    for one, following in pairwise(series):
        if (one.name, one.labels) == (following.name, following.labels):
            raise UserError(f"{selector(one.name, one.labels)}: two recordings have it; give each labels of its own")
    faults = tuple(fault for recording, _ in parts for fault in recording.faults)
    return first.model_copy(update={"faults": faults}), series


def make_recording(scenario: Path, folder: Path, seed: int | None = None) -> Recording:
    """Write the recording of a scenario file to a folder, which is replaced as a whole.

    Raises UserError when the scenario is bad.
    """
    recording, series = simulate(load_scenario(scenario), seed)
    save(folder, recording, series)
    return recording


def _rhythm(scenario: Scenario) -> dict[str, str]:
    """The dump interval, which all times of a site follow, as its dashgen.yaml would say it."""
    return {} if scenario.dump_interval == Site().dump_interval else {"dump_interval": f"{scenario.dump_interval}s"}


def _truths(scenario: Scenario, runs: list[Run]) -> Iterator[Fault]:
    """What was really wrong, event by event; a benign event is a fault of kind none."""
    for place, event in enumerate(scenario.events):
        for run in _concerned(scenario, runs, event):
            start = max(event.start, run.begin, 0.0)
            end = min(event.until, run.end, scenario.lasts)
            if isinstance(event, Network) and event.profile:
                start, end = event.profile[0][0], event.profile[-1][0]
            if end <= start:
                continue
            yield Fault(
                kind="none" if event.benign else event.kind,
                start=scenario.start + timedelta(seconds=start),
                end=scenario.start + timedelta(seconds=end),
                job=run.job.id,
                transport=_transports(scenario, run, event),
                suspect=_suspect(event),
                node=getattr(event, "node", None),
                gpu=_gpu(scenario, event),
                cluster=scenario.labels.get("cluster"),
                throughput_loss=1.0 if isinstance(event, Hang | DeadRank) else _rounded(run.pulse.loss.get(place)),
            )
    for run in runs:
        if run.job.ends == "killed" and run.end < scenario.lasts:
            # Until it is requeued under its own id.
            again = (each.begin for each in runs if each.job.id == run.job.id and each.begin >= run.end)
            yield Fault(
                kind="kill",
                start=scenario.start + timedelta(seconds=run.end),
                end=scenario.start + timedelta(seconds=min((*again, scenario.lasts))),
                job=run.job.id,
                cluster=scenario.labels.get("cluster"),
            )


def _gpu(scenario: Scenario, event: Event) -> str | None:
    """The GPU to look at. A dead process counts none any more: its GPU has the driver's number where that is known."""
    gpu = getattr(event, "gpu", None)
    if gpu is None or isinstance(event, Nic):
        return None
    if isinstance(event, DeadRank) and scenario.companions.dcgm:
        gpu = driver_index(scenario, scenario.nodes.index(event.node), event.gpu)
    return f"GPU{gpu}"


def _concerned(scenario: Scenario, runs: list[Run], event: Event) -> list[Run]:
    """The jobs that an event is about: those that it names, of which it has to be on a node."""
    telemetry = event.kind in ("exporter-gone", "exporter-flap", "unreadable")
    concerned = runs if telemetry else [run for run in runs if event in scenario.events_of(run.job)]
    if not (node := getattr(event, "node", None)):
        return concerned
    number = scenario.nodes.index(node) + 1
    return [run for run in concerned if 0 <= number - run.job.first_node < run.job.nodes]


def _suspect(event: Event) -> str | None:
    match event:
        case _ if event.benign:
            return None
        case Network() | Nic():
            return "network"
        case Nvlink():
            return "nvlink"
        case LateGpu() | SlowNode():
            return "straggler"
        case _:
            return None


def _transports(scenario: Scenario, run: Run, event: Event) -> tuple[str, ...]:
    """The classes of communicators whose large transfers an event slows."""
    plan = run.pulse.plans[0]
    effect = None if event.benign else unit_effect(run.job, plan, event, scenario.nodes)
    if effect is None:
        return ()
    found = set()
    for each, mask in zip(plan.operations, effect.slow, strict=True):
        if mask.any() and not each.p2p and each.size >= 1024**2:
            found.add(transport(each.comm.n_nodes, each.comm.nranks))
    return tuple(sorted(found))


def _rounded(loss: float | None) -> float | None:
    return None if loss is None else round(max(0.0, loss), 4)
