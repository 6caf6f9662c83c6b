# SPDX-License-Identifier: Apache-2.0
"""The demo's own server on the loopback interface: emulated exporters, receivers of alerts, and the live page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

MOST_BYTES = 4 << 20
"""Of one notification; Alertmanager's hold some kilobytes for each alert."""


REFRESH = 15
"""Seconds after which a browser asks for the page again; to draw it takes some seconds of a processor."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Told(_Model):
    """One alert of a notification."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    annotations: dict[str, str]
    startsAt: str
    endsAt: str


class Notification(_Model):
    """What Alertmanager tells a receiver (prometheus/alertmanager notify/webhook, version 4)."""

    receiver: str
    status: Literal["firing", "resolved"]
    groupLabels: dict[str, str]
    alerts: tuple[Told, ...]


@dataclass(frozen=True)
class Delivery:
    """A notification and when it came, in seconds since the epoch."""

    at: float
    notification: Notification


@dataclass
class Hub:
    """The server, for as long as the ``with`` block runs; ``port`` is where it listens from the beginning on.

    ``metrics`` are exporters by path, ``page`` makes the live page. ``deliveries`` grow while alerts come in.
    """

    metrics: Mapping[str, Callable[[], str | None]] = field(default_factory=dict)
    page: Callable[[], str] = lambda: ""
    deliveries: list[Delivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/":
                    self._answer(200, hub.page(), "text/html; charset=utf-8", Refresh=str(REFRESH))
                    return
                exporter = hub.metrics.get(self.path)
                said = exporter() if exporter else None
                self._answer(404 if said is None else 200, said or "", "text/plain; version=0.0.4; charset=utf-8")

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not (length.isdecimal() and int(length) <= MOST_BYTES and self.path.startswith("/told/")):
                    self.close_connection = True
                    self._answer(400, "", "text/plain")
                    return
                self._answer(200 if hub._told(self.rfile.read(int(length))) else 400, "", "text/plain")

            def _answer(self, status: int, text: str, kind: str, **headers: str) -> None:
                body = text.encode()
                with suppress(ConnectionError):
                    self.send_response(status)
                    for name, value in {"Content-Type": kind, **headers}.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="hub", daemon=True)

    def _told(self, body: bytes) -> bool:
        try:
            self.deliveries.append(Delivery(time.time(), Notification.model_validate_json(body)))
        except ValidationError:
            return False
        return True

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
