# SPDX-License-Identifier: Apache-2.0
"""The demo: a live stack on this machine, shown at the terminal while it runs."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dashgen.cli.terminal import needs, say
from dashgen.errors import UserError
from dashgen.guard.text import visible
from dashgen.model import Sensitivity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dashgen.live.demo.plan import Plan
    from dashgen.live.demo.stack import Stack
    from dashgen.live.demo.watch import News, Watch

USUAL = "healthy-fsdp"
STORY = ("network@20s+45s", "late-gpu@2m+1m", "hang@4m+1m")
"""What happens where nobody says anything: the network, then one GPU, then a job that stands still."""

LOOK_SECONDS = 0.5
SHOWN = 14  # lines of news at the terminal


def demo(
    scenario: Annotated[
        str | None, typer.Option("--scenario", help="a scenario that comes with dashgen, from shortly before it hurts")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", min=1, max=30, help="how much faster than life")] = 15.0,
    lasts: Annotated[str, typer.Option("--for", help="how long, on your clock, such as 90s or 10m")] = "10m",
    inject: Annotated[
        list[str] | None,
        typer.Option("--inject", help="a fault on your clock: late-gpu@2m, network@30s+1m; may be repeated"),
    ] = None,
    sensitivity: Annotated[
        Sensitivity, typer.Option("--sensitivity", help="how much the on-call wants to hear")
    ] = Sensitivity.MEDIUM,
) -> None:
    """Run a whole stack on this machine: an emulated Inspector, node_exporter, Prometheus, Alertmanager, boards."""
    needs("plotly")
    from dashgen.live.demo.faults import duration, parse
    from dashgen.live.demo.plan import plan
    from dashgen.live.demo.programs import check
    from dashgen.simulator.scenario import load_scenario, scenario_path

    for_seconds = duration(lasts, "--for")
    if inject is None and scenario is None:
        injections = tuple(each for each in map(parse, STORY) if each.at < for_seconds)
    else:
        injections = tuple(map(parse, inject or ()))
    story = load_scenario(scenario_path(USUAL if scenario is None else scenario))
    check()
    made = plan(story, speed=speed, lasts=for_seconds, injections=injections, sensitivity=sensitivity)
    with _ended_once():
        _run(made)


@contextmanager
def _ended_once() -> Iterator[None]:
    """The first interrupt, or a terminal that is closed, ends the demo; a second one does not disturb its end."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number: int, frame: object) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        say("the demo has ended; nothing is left running")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(plan: Plan) -> None:
    """Run the stack in a folder that stays where something went wrong."""
    from dashgen.live.client.api import prometheus
    from dashgen.live.demo.stack import running
    from dashgen.live.demo.watch import Watch

    folder = Path(tempfile.mkdtemp(prefix="dashgen-demo-"))
    try:
        with running(plan, folder, lambda step: say(f"starting: {step}", err=True)) as stack:
            watch = Watch(stack, prometheus(stack.urls["prometheus"]))
            (_show if sys.stdout.isatty() else _tell)(stack, watch)
    except UserError as error:
        raise UserError(f"{error}; logs are in {folder}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    say("the demo is over; --for makes it longer")


def _tell(stack: Stack, watch: Watch) -> None:
    """A line for everything that happens, where nobody watches."""
    for line in _about(stack):
        say(line)
    while stack.elapsed < stack.plan.lasts:
        for each in watch.news():
            say(_line(each))
        time.sleep(LOOK_SECONDS)


def _show(stack: Stack, watch: Watch) -> None:
    """What is wrong, what fires and where to look, drawn again and again."""
    from rich.live import Live

    told: deque[News] = deque(maxlen=SHOWN)
    with Live(_screen(stack, watch, told), screen=False, auto_refresh=False) as live:
        while stack.elapsed < stack.plan.lasts:
            told.extend(watch.news())
            live.update(_screen(stack, watch, told), refresh=True)
            time.sleep(LOOK_SECONDS)


def _about(stack: Stack) -> list[str]:
    plan = stack.plan
    lines = [
        f"{plan.scenario.name} at {plan.speed:g} times its speed: a dump every {plan.dump} s, "
        f"{len(plan.instances)} nodes, alerts of sensitivity {plan.site.sensitivity}",
    ]
    return lines + [f"{name:<13} {url}" for name, url in stack.urls.items()]


def _line(one: News) -> str:
    minutes, seconds = divmod(max(0, int(one.at)), 60)
    return visible(f"{minutes:02d}:{seconds:02d}  {one.kind:<8} {one.text}")


def _screen(stack: Stack, watch: Watch, told: deque[News]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = Table.grid(padding=(0, 2))
    for name, lines in (("injected", watch.wrong or ["nothing is wrong"]), ("fires", watch.firing or ["nothing"])):
        now.add_row(Text(name, style="bold"), Text("\n".join(map(visible, lines))))
    left = max(0, int(stack.plan.lasts - stack.elapsed))
    head = [*_about(stack), f"Ctrl-C ends it; {left // 60}:{left % 60:02d} left", ""]
    return Group(Text("\n".join(head)), now, Text(""), *(Text(_line(each)) for each in told))
