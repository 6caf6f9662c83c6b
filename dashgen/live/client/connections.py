# SPDX-License-Identifier: Apache-2.0
"""Connections that end when their time is over, however slowly a server keeps talking.

A timeout of a socket counts from one byte to the next, so a server that sends one now and then would never be late.
"""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

MOST_AT_ONCE = 8  # connections kept for one server

_current = threading.local()
_ongoing: set[Callable[[], None]] = set()


class _Plain(HTTPConnection):
    def request(self, *args: Any, **options: Any) -> None:
        _current.connection = self
        super().request(*args, **options)


class _Secure(HTTPSConnection):
    def request(self, *args: Any, **options: Any) -> None:
        _current.connection = self
        super().request(*args, **options)


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


def manager(proxy: str, tls: ssl.SSLContext | None) -> urllib3.PoolManager:
    """The connections to one server, through a proxy unless that is empty; threads may share them."""
    made: urllib3.PoolManager
    if proxy:
        parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        login = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            if parts.username
            else None
        )
        address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        headers = urllib3.make_headers(proxy_basic_auth=login)
        made = urllib3.ProxyManager(address, proxy_headers=headers, ssl_context=tls, maxsize=MOST_AT_ONCE)
    else:
        made = urllib3.PoolManager(ssl_context=tls, maxsize=MOST_AT_ONCE)
    made.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
    return made


@contextmanager
def hung_up_after(seconds: float) -> Iterator[threading.Event]:
    """Shut down the connection of this thread's request when the block takes longer; the event says that it did."""
    _current.connection = None
    over = threading.Event()
    holder = _current.__dict__

    def hang_up() -> None:
        over.set()
        connection = holder.get("connection")
        sock = getattr(connection, "sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    _ongoing.add(hang_up)
    try:
        yield over
    finally:
        _ongoing.discard(hang_up)
        timer.cancel()
        _current.connection = None


def hang_up_all() -> None:
    """Shut down the connections of all threads, so that whoever has to end need not wait for a server."""
    for hang_up in tuple(_ongoing):
        hang_up()
