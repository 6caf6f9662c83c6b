# SPDX-License-Identifier: Apache-2.0
"""Servers for tests that say exactly what they are told to, also what no sound server would say."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Reply:
    """One answer; ``length`` is what the header claims, by default the truth."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def success(data: object) -> Reply:
    """An answer of Prometheus."""
    return Reply(json.dumps({"status": "success", "data": data}).encode())


def vector(*values: tuple[dict[str, str], float]) -> Reply:
    """An instant vector."""
    result = [{"metric": metric, "value": [1.0, str(value)]} for metric, value in values]
    return success({"resultType": "vector", "result": result})


@contextmanager
def answering(reply: Callable[[Asked], Reply], tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[Asked]]]:
    """A server, its address and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(Asked(self.command, self.path, dict(self.headers), body))
            said = reply(asked[-1])
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body) if said.length is None else said.length))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(said.body)
            self.close_connection = said.length is not None

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None: ...

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None: ...

    with Quiet(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def dripping(begin: bytes, drop: bytes) -> Iterator[str]:
    """A server that begins an answer and then sends a little every few milliseconds, for ever."""
    over = threading.Event()

    def talk(listener: socket.socket) -> None:
        with suppress(OSError), listener.accept()[0] as talking:
            talking.recv(65536)
            talking.sendall(begin)
            while not over.wait(0.01):
                talking.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()
