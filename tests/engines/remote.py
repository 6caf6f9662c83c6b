# SPDX-License-Identifier: Apache-2.0
"""Samples into a running server by Prometheus' remote write, version 1: protobuf in snappy, neither of them a package.

The message is prometheus/prompb/remote.proto: WriteRequest{timeseries = 1}, TimeSeries{labels = 1, samples = 2},
Label{name = 1, value = 2}, Sample{value = 1, timestamp = 2}. Snappy allows a block to be one literal, uncompressed.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import processes
from numpy.typing import NDArray

from dashgen.recordings.format import Series

SERIES = 2000  # of a request
PATIENCE = 300.0  # seconds


def write(url: str, series: Iterable[Series]) -> int:
    """Send samples to a server; how many there were."""
    sent = 0

    def encoded() -> Iterator[bytes]:
        nonlocal sent
        for one in series:
            sent += one.times.size
            yield names(one) + rows(one).tobytes()

    post(url, encoded())
    return sent


def post(url: str, series: Iterable[bytes]) -> None:
    """Send series that are written already: what ``names`` gives, and some of what ``rows`` gives."""
    left = iter(series)
    while some := list(islice(left, SERIES)):
        body = _snappy(b"".join(_field(1, each) for each in some))
        headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
        request = urllib.request.Request(f"{url}/api/v1/write", body, headers, method="POST")
        try:
            with processes.DIRECT.open(request, timeout=PATIENCE) as answer:
                assert answer.status in (200, 204)
        except urllib.error.HTTPError as error:
            with error:
                raise


def names(one: Series) -> bytes:
    """The labels of a series."""
    labels = sorted([("__name__", one.name), *one.labels])
    return b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)


def rows(one: Series) -> NDArray[np.uint8]:
    """Its samples, a row each: 18 bytes, as a time in this century takes six bytes of seven bits."""
    found = np.empty((one.times.size, 18), np.uint8)
    found[:, :3] = (0x12, 16, 0x09)  # samples = 2, sixteen bytes; value = 1, a double
    found[:, 3:11] = np.ascontiguousarray(one.values, "<f8").view(np.uint8).reshape(-1, 8)
    found[:, 11] = 0x10  # timestamp = 2, a varint
    milliseconds = np.rint(one.times * 1000).astype(np.uint64)
    for place in range(6):
        bits = milliseconds >> np.uint64(7 * place) & np.uint64(0x7F)
        found[:, 12 + place] = bits | np.uint64(0x80 if place < 5 else 0)
    return found


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _snappy(content: bytes) -> bytes:
    return _varint(len(content)) + b"\xfc" + (len(content) - 1).to_bytes(4, "little") + content
