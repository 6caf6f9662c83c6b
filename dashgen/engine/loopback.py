# SPDX-License-Identifier: Apache-2.0
"""The loopback interface, over which the programs that the engine starts are reached."""

from __future__ import annotations

import http.client
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Final

UNANSWERED: Final = (OSError, http.client.HTTPException, ValueError)
"""What is raised where a program ends before it has answered whole, the JSON that breaks off included."""


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Ports of the loopback interface, all different, which nobody else is given while the ``with`` block runs.

    They stay bound, and nobody listens: Linux lets a server that sets SO_REUSEADDR, as those written in Go do, listen
    on such a port, and gives it to nobody who asks for any. Elsewhere they are free when the block begins.
    """
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            if sys.platform == "linux":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
        found = [int(probe.getsockname()[1]) for probe in probes]
        if sys.platform != "linux":
            stack.close()
        yield found


@cache
def opener() -> urllib.request.OpenerDirector:
    """What opens an address directly: a proxy of the environment is not for the loopback interface."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(address: str) -> bool:
    """Whether an address answers within two seconds, and not with an error."""
    try:
        with opener().open(address, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        # It holds the connection, and Python 3.14 warns of one that nobody closes.
        error.close()
    except OSError:
        pass
    return False
