# SPDX-License-Identifier: Apache-2.0
"""The loopback interface, over which the programs that the engine starts are reached."""

from __future__ import annotations

import socket
import urllib.request
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def opener() -> urllib.request.OpenerDirector:
    """What opens an address directly: a proxy of the environment is not for the loopback interface."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))
