# SPDX-License-Identifier: Apache-2.0
"""The demo with real programs: what Alertmanager delivers of each fault, and that nothing is left of it afterwards."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE, dashgen, environment
from processes import DIRECT, FULL, tool

from dashgen.errors import UserError
from dashgen.live.demo import faults
from dashgen.live.demo.clock import Clock
from dashgen.live.demo.plan import plan, tempo
from dashgen.live.demo.server import Notification
from dashgen.live.demo.stack import Stack, running
from dashgen.live.demo.textfiles import gpu_files
from dashgen.simulator.scenario import Scenario

pytestmark = pytest.mark.usefixtures("no_proxy")


@pytest.fixture(scope="module")
def programs() -> None:
    tool("prometheus")
    tool("alertmanager", "prometheus-alertmanager")
    tool("node_exporter", "prometheus-node-exporter")


# One job a fault, all of them on one stack. Moments are dumps after the beginning.

FAULTS: dict[str, list[dict[str, Any]]] = {
    "healthy": [],
    "network": [{"kind": "network", "loss": 0.2, "dumps": (6, 30)}],
    "late": [{"kind": "late-gpu", "percent": 30.0, "gpu": 3, "dumps": (6, 30)}],
    "hang": [{"kind": "hang", "dumps": (6, 32)}],
    "killed": [],
    "gone": [{"kind": "exporter-gone", "dumps": (6, 40)}, {"kind": "dead-rank", "gpu": 3, "dumps": (6, 40)}],
}
DUMP, BEGIN = 30.0, 1800.0


def scenario(*jobs: str) -> Scenario:
    """Two nodes of four GPUs for each job."""
    made, events = [], []
    for number, job in enumerate(jobs):
        first = 2 * number + 1
        ends = {"to": f"{BEGIN + 8 * DUMP:g}s", "ends": "killed"} if job == "killed" else {}
        made.append({"id": job, "preset": "fsdp", "nodes": 2, "gpus_per_node": 4, "first_node": first, **ends})
        for event in FAULTS[job]:
            start, end = (f"{BEGIN + dumps * DUMP:g}s" for dumps in event["dumps"])
            place = {} if event["kind"] in ("network", "hang") else {"node": f"node{first + 1:02d}"}
            told = {key: value for key, value in event.items() if key != "dumps"}
            events.append({**told, **place, "job": job, "start": start, "end": end})
    return Scenario.model_validate(
        {
            "name": "end-to-end",
            "story": "Each job has a fault of its own.",
            "start": datetime(2026, 3, 17, 9, tzinfo=UTC),
            "lasts": "1h",
            "jobs": made,
            "events": events,
        }
    )


@dataclass
class OnCall:
    """Somebody who gets the notifications of a running stack, and who may start programs again meanwhile."""

    stack: Stack
    restarted: list[str] = field(default_factory=list)

    def told(self, receiver: str, job: str, status: str) -> list[Notification]:
        """The notifications about a job, as grouped."""
        said = [one.notification for one in self.stack.hub.deliveries]
        return [
            one
            for one in said
            if (one.receiver, one.groupLabels.get("slurm_job_id"), one.status) == (receiver, job, status)
        ]

    def waits_until(self, met: Callable[[], bool]) -> None:
        while not met():
            assert self.stack.elapsed < self.stack.plan.lasts, self.stack.hub.deliveries
            self.stack.act()
            time.sleep(0.05)

    def restarts(self, program: str) -> None:
        # A dump later whatever has just been said is written down.
        later = self.stack.elapsed + self.stack.plan.dump
        self.waits_until(lambda: self.stack.elapsed >= later)
        self.stack.services[program].stop()
        self.stack.services[program].start()
        self.restarted.append(program)


PAGES: dict[str, tuple[str, dict[str, str]]] = {
    "network": ("NcclJobDegraded", {"suspect": "network", "transport": "mixed"}),
    "late": ("NcclJobDegraded", {"suspect": "straggler", "gpu": "GPU3"}),
    "hang": ("NcclJobStalled", {}),
    "gone": ("NcclJobStalled", {}),
}
"""The page of a fault, and what it says of the cause."""


@pytest.mark.heavy
@pytest.mark.usefixtures("programs")
def test_each_fault_is_one_page_that_ends_with_it_whatever_is_restarted_meanwhile(tmp_path: Path) -> None:
    jobs, speed, lasts = (tuple(FAULTS), 15, 240) if FULL else (("healthy", "network", "hang"), 15, 240)
    paged = [job for job in jobs if job in PAGES]
    with running(plan(scenario(*jobs), speed=speed, lasts=lasts), tmp_path) as stack:
        on_call = OnCall(stack)
        on_call.waits_until(lambda: bool(on_call.told("pager", "network", "firing")))
        on_call.restarts("prometheus")
        on_call.waits_until(lambda: all(on_call.told("pager", job, "firing") for job in paged))
        on_call.restarts("alertmanager")
        on_call.waits_until(lambda: all(on_call.told("pager", job, "resolved") for job in paged))
        with DIRECT.open(stack.urls["boards"], timeout=PATIENCE) as boards:
            assert b"NCCL" in boards.read()
    assert on_call.restarted == ["prometheus", "alertmanager"]
    for job in paged:
        assert len(on_call.told("pager", job, "firing")) == 1, [
            (round(one.at - stack.begin), one.notification) for one in stack.hub.deliveries
        ]
        (page,) = on_call.told("pager", job, "firing")
        name, labels = PAGES[job]
        (alert,) = page.alerts
        assert page.groupLabels == {"alertname": name, "slurm_job_id": job}
        assert alert.labels["alertname"] == name
        assert labels.items() <= alert.labels.items() and alert.labels["severity"] == "critical"
        assert job in alert.annotations["summary"] and job in alert.annotations["description"]
        assert alert.annotations["runbook_url"].endswith(f"{name}.md")
        assert {each.status for each in on_call.told("pager", job, "resolved")[0].alerts} == {"resolved"}
    told = {one.notification.groupLabels["slurm_job_id"] for one in stack.hub.deliveries}
    assert told == set(paged), "nobody hears of a healthy job, or of one that was killed"


def test_what_is_written_has_the_labels_of_published_files_in_their_order(tmp_path: Path) -> None:
    made = plan(scenario("network"), lasts=30)
    folders = dict.fromkeys(made.instances, tmp_path)
    first = gpu_files(made, Clock(made.speed, 0.0), folders)[0]
    first.write(first.dumps[0])
    written = first.path.read_text().splitlines()
    published = (Path(__file__).parent / "published/nvidia-blog.prom").read_text().splitlines()
    assert {_shape(line) for line in written} == {_shape(line) for line in published if "collective=" in line}
    # Bandwidth and time of a bucket follow each other, and both say the same of it.
    assert [line.partition("{")[2].partition("}")[0] for line in written[::2]] == [
        line.partition("{")[2].partition("}")[0] for line in written[1::2]
    ]
    assert first.path.stat().st_mode & 0o777 == 0o777


def _shape(line: str) -> tuple[str, ...]:
    return line.partition("{")[0], *re.findall(r'(\w+)="', line)


@pytest.mark.parametrize(("asked", "dump", "scrape"), [(1, 30, 15), (4, 6, 3), (15, 2, 1), (30, 1, 1)])
def test_dumps_and_scrapes_take_whole_seconds_at_any_speed(asked: float, dump: int, scrape: int) -> None:
    assert tempo(30, asked) == (dump, scrape)


@pytest.mark.parametrize(
    "wrong", ["late-gpu", "late-gpu@", "nix@2m", "hang@2", "hang@1m+0s", "hang@30h", "hang@1m+2h+3"]
)
def test_a_fault_that_is_none_is_refused_in_one_line(wrong: str) -> None:
    with pytest.raises(UserError, match=r"^--inject .*") as refused:
        faults.parse(wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("wrong", ["", "nix", "../healthy", "x" * 500, "healthy\n::error::x"])
def test_a_scenario_that_is_none_is_refused_in_one_line(wrong: str, tmp_path: Path) -> None:
    done = dashgen("demo", "--scenario", wrong, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"dashgen: '.*': no built-in scenario; name one of \S.* more\n", done.stderr), done.stderr
    assert len(done.stderr) <= 301


def test_a_program_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    for name in ("prometheus", "promtool"):
        (tmp_path / name).symlink_to(tool(name))
    done = dashgen("demo", cwd=tmp_path, env=environment(PATH=str(tmp_path)))
    assert done.returncode == 2
    assert done.stderr.startswith("dashgen: alertmanager: not found; install it (Debian, Ubuntu: apt-get install ")


@pytest.mark.usefixtures("programs")
def test_an_interrupt_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dashgen", "demo", "--for", "5m", "--inject", "network@1s"]
    env = environment(TMPDIR=str(tmp_path))
    with subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, "")
        assert any("begins   network" in line for line in lines)
        assert len(_processes(tmp_path)) >= 6, "Prometheus, Alertmanager, four node_exporters"
        demo.send_signal(signal.SIGINT)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE) == 0
        assert "nothing is left running" in demo.stdout.read()
    assert not _processes(tmp_path)
    assert not list(tmp_path.iterdir())


def _processes(folder: Path) -> list[str]:
    """Command lines of programs that work in a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = each.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/dashgen-demo-" in said:
            found.append(said)
    return found
