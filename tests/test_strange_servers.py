# SPDX-License-Identifier: Apache-2.0
"""Whatever a server says, the commands that ask it give an answer or one line; and no text of it becomes PromQL."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command import dashgen
from hostile import examples
from hypothesis import example, given
from hypothesis import strategies as st
from processes import FULL
from servers import Reply, answering, vector

from dashgen import promql
from dashgen.catalogue.metrics import upstream
from dashgen.config import site as config
from dashgen.cost import table as bills
from dashgen.cost.advice import advice
from dashgen.cost.forecast import forecast
from dashgen.cost.survey import survey
from dashgen.errors import UserError
from dashgen.explain.values import Subject, why
from dashgen.guard.text import LONGEST
from dashgen.live.client.api import Prometheus
from dashgen.live.client.http import Client
from dashgen.live.doctor.probe import Probe
from dashgen.live.doctor.table import cure, examine
from dashgen.live.incidents import look
from dashgen.live.incidents.annotate import annotate
from dashgen.live.incidents.windows import VERDICT, Incident
from dashgen.live.recorder import selection
from dashgen.live.recorder.record import record

SEED = os.environ.get("DASHGEN_SEED", str(random.SystemRandom().randrange(1 << 32)))
SITE = config.Site()
END = datetime(2026, 3, 19, 15, tzinfo=UTC)
START = END - timedelta(minutes=20)

NASTY = ['"} or vector(1) #', "a\\", "\n", "<busbw>", "{{ $labels }}", "é", "", "1", "\u202e", "nan", "x" * 300]
LABELS = ["slurm_job_id", "node", "gpu", "instance", "file", "message_size", "state", "suspect", "transport", "n_nodes"]
NAMES = [
    VERDICT,
    upstream("busbw"),
    upstream("mtime"),
    "ALERTS",
    "job:nccl_gpus:count",
    "target_info",
]
VALUES = ["1", "0", "1e307", "NaN", "+Inf", "-Inf", "1e308", "-5", "1773931290"]


class Strange(Client):
    """A client whose server draws its answers: well formed, nearly so, or not at all."""

    def __init__(self, seed: int, broken: float) -> None:
        super().__init__("http://strange")
        self._random, self._broken = random.Random(seed), broken

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        if path.startswith("/api/annotations"):
            made = [self._maybe({"time": self._random.choice([1, "x"]), "text": self._random.choice(NASTY)})]
            return json.dumps(self._maybe(made)).encode()
        moment = float(body.decode().rpartition("time=")[2]) if body and b"time=" in body else END.timestamp()
        return json.dumps(self._maybe({"status": "success", "data": self._data(path, body or b"", moment)})).encode()

    def _data(self, path: str, body: bytes, moment: float) -> object:
        draw = self._random
        if "/label/" in path:
            return self._maybe(draw.choices(NASTY, k=draw.randrange(4)))
        if "rules" in path:
            rule = {"name": draw.choice([VERDICT, "NcclJobDegraded"]), "query": draw.choice(NASTY), "type": "recording"}
            group = {
                "name": "g",
                "interval": draw.choice([0, 30]),
                "rules": [rule],
                "lastEvaluation": draw.choice(NASTY),
            }
            return self._maybe({"groups": [self._maybe(group)]})
        if "alertmanagers" in path:
            return self._maybe({"activeAlertmanagers": []})
        if "%5B" in body.decode().rpartition("&time")[0][-12:]:
            return self._maybe(
                {"resultType": "matrix", "result": [self._series(moment) for _ in range(draw.randrange(4))]}
            )
        found = [
            self._maybe({"metric": self._labels(), "value": [moment, draw.choice(VALUES)]})
            for _ in range(draw.randrange(4))
        ]
        return self._maybe({"resultType": "vector", "result": found})

    def _series(self, moment: float) -> Any:
        draw = self._random
        times = sorted(draw.uniform(moment - 400, moment + 5) for _ in range(draw.randrange(6)))
        values = [[each, draw.choice(VALUES)] for each in times]
        return self._maybe({"metric": self._labels(), "values": values})

    def _labels(self) -> dict[str, str]:
        draw = self._random
        labels = {name: draw.choice(NASTY) for name in draw.sample(LABELS, draw.randrange(len(LABELS)))}
        labels |= {"state": draw.choice(["degraded", "stalled"]), "slurm_job_id": draw.choice(["7", *NASTY])}
        return {"__name__": draw.choice(NAMES), **labels}

    def _maybe(self, value: object) -> object:
        """The value, or now and then something else."""
        if self._random.random() >= self._broken:
            return value
        return self._random.choice([None, [], {}, "text", 1, -1e400, True, {"metric": None}, [None], {"values": [[1]]}])


def one_line(error: UserError) -> None:
    assert "\n" not in str(error) and len(str(error)) < 900, error


def _incidents(strange: Callable[[], Strange], jobs: list[str]) -> None:
    told = look.on_server(Prometheus(strange()), SITE, END.timestamp() - 300, END.timestamp(), jobs)
    assert isinstance(told.incidents, tuple)


def _doctor(strange: Callable[[], Strange]) -> None:
    cure(examine(Probe(Prometheus(strange()), SITE, END.timestamp(), strange())))


def _cost(strange: Callable[[], Strange]) -> None:
    found = survey(Probe(Prometheus(strange()), SITE, END.timestamp()), 15.0)
    bill, lines = forecast(found.fleet, SITE), advice(SITE, found.fleet, found.by_size, found.by_metric)
    assert bills.as_json(found.fleet, bill, found.bill, lines) and bills.table(bill, found.bill)


def _explain(strange: Callable[[], Strange]) -> None:
    assert why(Subject("NcclJobDegraded", "7", END.timestamp()), SITE, Prometheus(strange()).instant)


def _record(strange: Callable[[], Strange], out: Path) -> None:
    try:
        record(Prometheus(strange()), ["7"], START, END, out=out, site=SITE)
    except UserError:
        assert not out.exists()
        raise


ENDED = Incident(
    cluster="",
    job="7",
    state="degraded",
    suspect="network",
    transport="mixed",
    node="",
    gpu="",
    start=END.timestamp() - 600,
    end=END.timestamp() - 60,
    detected=END.timestamp() - 540,
    worst=END.timestamp() - 300,
    depth=0.4,
    ongoing=False,
    gpus=8,
    throughput=None,
    gpu_hours=None,
    fabric=(),
    alerts=(),
)

ANSWERED: dict[str, Callable[[Callable[[], Strange], Path], object]] = {
    "incidents": lambda strange, _: _incidents(strange, []),
    "incidents --job": lambda strange, _: _incidents(strange, ["7"]),
    "doctor": lambda strange, _: _doctor(strange),
    "cost": lambda strange, _: _cost(strange),
    "explain": lambda strange, _: _explain(strange),
    "record": lambda strange, folder: _record(strange, folder / "out"),
    "incidents --annotate": lambda strange, _: annotate(strange(), [ENDED]),
}


@pytest.mark.parametrize("command", ANSWERED)
def test_no_answer_of_a_server_ends_in_a_traceback(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An hour of rules that are replayed takes seconds, and meets the same answers as ten minutes.
    monkeypatch.setattr(look, "WARM_UP", 300.0)

    @examples(1 / len(ANSWERED))
    # Series with the job's label, none of which the catalogue knows.
    @example(seed=16374204, broken=0.0)
    @given(seed=st.integers(0, 2**32), broken=st.sampled_from([0.0, 0.02, 0.2]))
    def check(seed: int, broken: float) -> None:
        try:
            ANSWERED[command](lambda: Strange(seed, broken), tmp_path)
        except UserError as error:
            one_line(error)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)

    check()


pytestmark = pytest.mark.usefixtures("no_proxy")


ASKING = [
    ["record", "--job", "7", "--since", "1h", "-o", "out"],
    ["incidents", "--since", "1h"],
    ["incidents", "--since", "1h", "--job", "7"],
    ["doctor"],
    ["cost"],
    ["explain", "NcclJobDegraded", "--job", "7"],
]
ONE_SERIES = (
    b'{"metric":{"__name__":"up","slurm_job_id":"7","instance":"node-0000000.example.org:9100"},"value":[1,"1"]},'
)
REPLIES: dict[str, tuple[Reply, str]] = {
    "a web page": (Reply(b"<!DOCTYPE html><html>login</html>"), "answers with a web page"),
    "no credentials": (Reply(b"who are you?", 401), "give credentials"),
    "too busy": (Reply(b"", 429, {"Retry-After": "0"}), "try again later"),
    "half an answer": (Reply(vector(({}, 1.0)).body[:-10], length=1000), "the answer breaks off"),
    "a million series": (
        Reply(b'{"status":"success","data":{"resultType":"vector","result":[' + ONE_SERIES * 1_000_000),
        "more than 8 MB",
    ),
}
MEMORY = 500 << 20


def asks_in_vain(tmp_path: Path, url: str, message: str) -> None:
    """Each command ends with one line that names the server, in half a gigabyte, and leaves nothing."""
    print(f"DASHGEN_SEED={SEED}")
    for command in ASKING if FULL else random.Random(f"{SEED} {message}").sample(ASKING, 2):
        done = dashgen(
            *command,
            *("--prometheus", url, "--timeout", "1"),
            cwd=tmp_path,
            before=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (command, done)
        assert done.stderr.startswith(f"dashgen: {url}: ") and message in done.stderr, (command, done.stderr)
        assert len(done.stderr) <= LONGEST + 1
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reply", REPLIES)
def test_every_command_tells_in_one_line_why_a_server_cannot_be_used(reply: str, tmp_path: Path) -> None:
    said, message = REPLIES[reply]
    with answering(lambda _: said) as (url, _):
        asks_in_vain(tmp_path, url, message)


def test_every_command_leaves_a_server_that_never_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asks_in_vain(tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}", "no answer within 1 s")


def test_every_command_tells_that_a_server_is_not_there(tmp_path: Path) -> None:
    asks_in_vain(tmp_path, "http://127.0.0.1:9", "not reachable")


@given(st.lists(st.text(), min_size=1, max_size=3), st.dictionaries(st.sampled_from(LABELS), st.text(), max_size=6))
def test_no_name_that_a_user_or_a_server_gives_becomes_promql(jobs: list[str], labels: dict[str, str]) -> None:
    keys = [(upstream("busbw"), tuple(sorted(labels.items())))]
    for asked in [selection.of_jobs(jobs, SITE), *selection.beside(keys, jobs, SITE)]:
        (found,) = promql.selectors(promql.parse(asked))
        assert {each.label for each in found.matchers} <= {*LABELS, "__name__", "job_id", "Hostname", "hostname"}


@pytest.mark.parametrize("name", ["\ud800", "a\ud800b"])
def test_what_is_not_text_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not UTF-8 text"):
        record(Prometheus(Client("http://127.0.0.1:1")), [name], START, END, out=tmp_path / "out", site=SITE)
