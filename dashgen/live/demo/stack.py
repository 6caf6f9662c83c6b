# SPDX-License-Identifier: Apache-2.0
"""The running stack of a demo: started in order, acted upon while it runs, and ended as a whole."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dashgen import build
from dashgen.engine.loopback import reserved_ports
from dashgen.engine.programs import missing
from dashgen.engine.prometheus import make_blocks
from dashgen.engine.services import Service
from dashgen.errors import UserError
from dashgen.live.demo import configs, history, programs
from dashgen.live.demo.clock import Clock
from dashgen.live.demo.exporters import NODE, exporters
from dashgen.live.demo.page import Painter
from dashgen.live.demo.plan import Action, Plan
from dashgen.live.demo.server import Hub
from dashgen.live.demo.textfiles import HOST_FILE, Host, Writer, gpu_files
from dashgen.model import Bundle

LEAD = 3.0
"""Seconds in which Prometheus is made ready for the moment at which the history ends."""


@dataclass(frozen=True, eq=False)
class Stack:
    """Everything that runs: programs by name, node_exporters by node. ``begin`` is in seconds since the epoch."""

    plan: Plan
    bundle: Bundle
    folder: Path
    begin: float
    services: dict[str, Service]
    nodes: dict[str, Service]
    hub: Hub
    writer: Writer
    urls: dict[str, str]
    _due: list[Action] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.time() - self.begin

    def act(self) -> list[Action]:
        """Do what is due to programs of the stack, and tell what was done. Raises UserError when one has ended."""
        done = []
        while self._due and self._due[0].at <= self.elapsed:
            action = self._due.pop(0)
            service = self.nodes[action.node] if action.node else self.services[action.program]
            if action.what != "start":
                service.stop()
            if action.what != "stop":
                service.start()
            done.append(action)
        self._check()
        return done

    def _check(self) -> None:
        for each in (*self.services.values(), *self.nodes.values()):
            if each.died:
                raise UserError(f"{each.name}: has ended by itself: {each.said()}; its log is {each.log}")
        if self.writer.failed is not None:
            raise UserError(f"{self.folder}: cannot be written: {self.writer.failed.strerror}; make room")


@contextmanager
def running(plan: Plan, folder: Path, progress: Callable[[str], None] = lambda step: None) -> Iterator[Stack]:
    """The stack of a plan, for as long as the ``with`` block runs; all its files are below ``folder``.

    ``progress`` hears of every step. Raises UserError when a program is missing, does not start, or refuses what it is
    given; then its log stays in ``folder``.
    """
    programs.check()
    bundle = build.bundle(plan.site, [plan.site.sensitivity])
    progress("rules on the history")
    known = history.remembered(plan, bundle)
    with ExitStack() as stack:
        hub = stack.enter_context(Hub())
        folders = {node: folder / "textfiles" / node for node in plan.instances}
        for each in folders.values():
            each.mkdir(parents=True)
            each.chmod(0o777)
        names = ("prometheus", "alertmanager", "grafana", *folders)
        ports = dict(zip(names, stack.enter_context(reserved_ports(len(names))), strict=True))
        _configure(plan, bundle, folder, ports, hub.port)
        made = programs.servers(folder, ports, plan.speed)
        services = {name: stack.enter_context(one) for name, one in made.items()}
        nodes = {node: stack.enter_context(programs.node_exporter(folder, node, ports[node])) for node in folders}
        progress("exporters and Alertmanager")
        early = (*nodes.values(), services["alertmanager"])
        for one in early:
            one.launch()
        for one in early:
            one.wait()
        progress("history as blocks")
        begin = math.ceil(time.time() + LEAD)
        if known:
            make_blocks(folder / "data", history.moved(plan, known, begin, str(folder / "textfiles")))
        progress("Prometheus")
        writer = stack.enter_context(_emulation(plan, hub, folders, begin))
        services["prometheus"].start()
        urls = {name: f"http://127.0.0.1:{ports[name]}" for name in services}
        if not missing("grafana"):
            progress("Grafana")
            programs.provision(bundle, plan.site, urls["prometheus"], folder / "grafana")
            services["grafana"] = stack.enter_context(programs.grafana(folder / "grafana", ports["grafana"]))
            services["grafana"].start()
            urls = {"boards": f"http://127.0.0.1:{ports['grafana']}/dashboards", **urls}
        else:
            hub.page = Painter(plan, bundle, begin, dict(urls))
            urls = {"boards": f"http://127.0.0.1:{hub.port}/", **urls}
        yield Stack(plan, bundle, folder, begin, services, nodes, hub, writer, urls, list(plan.actions))


def _emulation(plan: Plan, hub: Hub, folders: Mapping[str, Path], begin: float) -> Writer:
    """Everything that the demo itself says, ready to begin; the server answers for the other exporters at once."""
    clock = Clock(plan.speed, begin - plan.begin / plan.speed)
    scrapes = int(plan.lasts / plan.scrape) + 1
    series = clock.compressed(plan.scenario, plan.series)
    made = exporters(series, begin, plan.scrape, scrapes, plan.scenario.labels)
    hub.metrics = {configs.path(each.job, each.instance): each.text for each in made if each.job != NODE}
    nodes = {instance: node for node, instance in plan.instances.items()}
    hosts = [Host(folders[nodes[each.instance]] / HOST_FILE, each.text) for each in made if each.job == NODE]
    return Writer(gpu_files(plan, clock, folders), hosts, begin, plan.scrape)


def _configure(plan: Plan, bundle: Bundle, folder: Path, ports: Mapping[str, int], hub: int) -> None:
    nodes = {plan.instances[node]: ports[node] for node in plan.instances}
    files = configs.rule_files(plan, bundle)
    files["prometheus.yml"] = configs.prometheus(plan, nodes, hub, ports["alertmanager"])
    files["alertmanager.yml"] = configs.alertmanager(bundle, hub)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
