# SPDX-License-Identifier: Apache-2.0
"""The one HTTP client: every answer is bounded in size and time, and no secret leaves for a host it was not meant for.

A request either gives the body of a successful answer or raises UserError with one line that says what to do.
"""

from __future__ import annotations

import re
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, LocationParseError, NewConnectionError, SSLError, TimeoutError

from dashgen import __version__
from dashgen.errors import UserError
from dashgen.guard.text import line
from dashgen.live.client.access import Access
from dashgen.live.client.connections import hung_up_after, manager

LARGEST = 8_000_000
"""Bytes of an answer, unpacked: 50,000 series at a moment, or 350,000 samples; forty times that in memory."""

MOST_TRIES = 3
LONGEST_WAIT = 10.0  # seconds between two tries, whatever Retry-After says
MOST_REDIRECTS = 3
_BUSY = (429, 503)
_MOVED = (301, 302, 307, 308)
_PIECE = 65536
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^()]*)")
_CONNECTION = re.compile(r"^\w+\(host=[^)]*\): ")
_LONGEST = 500  # characters of an address
_SHOWN = 200  # characters of what a server says


Parameters = Mapping[str, str | Sequence[str]]


class TooLarge(UserError):
    """The answer is larger than the client takes: ask for less."""


class Refused(UserError):
    """The server answered, and refused: ``status`` is HTTP's, ``body`` the beginning of what it said."""

    def __init__(self, message: str, status: int, body: bytes) -> None:
        super().__init__(message)
        self.status, self.body = status, body


@dataclass(frozen=True)
class Limits:
    """How long one request may take in all, in seconds, and how many bytes its answer may have."""

    seconds: float = 60.0
    largest: int = LARGEST


@dataclass
class Client:
    """Requests to one server. ``url`` is what a browser would open, with a path prefix if there is one.

    May be used by several threads. Raises UserError for an address that is none; also where it holds credentials,
    which would be shown.
    """

    url: str
    access: Access = field(default_factory=Access)
    limits: Limits = Limits()
    what: str = "a Prometheus"

    def __post_init__(self) -> None:
        self.url = _checked(self.url, self.what)
        self._managers: dict[str, urllib3.PoolManager] = {}

    def get(self, path: str, parameters: Parameters | None = None) -> bytes:
        """The body of the answer to a GET. Raises as ``request``."""
        query = f"?{_encoded(parameters)}" if parameters else ""
        return self.request("GET", path + query)

    def post(self, path: str, parameters: Parameters) -> bytes:
        """The body of the answer to a form, for queries that are too long for an address. Raises as ``request``."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.request("POST", path, _encoded(parameters).encode(), kind)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The body of a successful answer.

        A busy server is asked again, a redirect is followed on the same host. Raises Refused for any other answer,
        TooLarge for one of more bytes than ``limits`` allow, UserError when none comes in time.
        """
        deadline = time.monotonic() + self.limits.seconds
        at = self.url + path
        for _ in range(MOST_REDIRECTS + 1):
            status, answer, moved = self._patiently(method, at, body, headers or {}, deadline)
            if status not in _MOVED:
                break
            at = self._followed(at, moved)
        else:
            raise UserError(f"{self.url}: redirects in a circle; give the address it leads to")
        if not 200 <= status < 300:
            remedy = _REMEDIES.get(status, f"is this {self.what}?")
            raise Refused(f"{self.url}: HTTP {status}: {self._reason(answer)}; {remedy}", status, answer)
        return answer

    def clean(self, text: object) -> str:
        """What a server said, in one short line without anything secret."""
        said = str(text)
        for secret in self.access.secrets:
            said = said.replace(secret, "***")
        return line(said, _SHOWN)

    def _patiently(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> tuple[int, bytes, str]:
        """Status, body and new address; asked again while the server is busy and there is time."""
        for left in reversed(range(MOST_TRIES)):
            status, answer, header = self._once(method, url, body, headers, deadline)
            if status not in _BUSY:
                break
            wait = min(_seconds(header.get("Retry-After", "")), LONGEST_WAIT)
            if not left or time.monotonic() + wait >= deadline:
                break
            time.sleep(wait)
        return status, answer, header.get("Location", "")

    def _once(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], deadline: float
    ) -> tuple[int, bytes, Mapping[str, str]]:
        sent = {"User-Agent": f"dashgen/{__version__}", "Accept-Encoding": "gzip", **self.access.headers, **headers}
        left = max(0.001, deadline - time.monotonic())
        reading = False
        with hung_up_after(left) as over:
            try:
                answer = self._manager(url).request(
                    method,
                    url,
                    body=body,
                    headers=sent,
                    timeout=urllib3.Timeout(total=left),
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                reading = True
                try:
                    found = answer.status, self._body(answer), answer.headers
                finally:
                    answer.close()
            except (HTTPError, OSError, ValueError) as error:
                late = isinstance(error, TimeoutError) and not isinstance(error, NewConnectionError)
                raise self._late() if late or over.is_set() else self._broken(error, reading) from error
            # An answer that was cut short may look like a whole one.
            if over.is_set():
                raise self._late()
        return found

    def _late(self) -> UserError:
        return UserError(f"{self.url}: no answer within {self.limits.seconds:g} s; ask for less, or give it more time")

    def _broken(self, error: Exception, reading: bool) -> UserError:
        said = self.clean(_cause(error))
        if isinstance(error, SSLError):
            return UserError(f"{self.url}: TLS fails: {said}; check CA, certificate and address")
        if reading:
            return UserError(f"{self.url}: the answer breaks off: {said}; try again")
        return UserError(f"{self.url}: not reachable: {said}; check the address")

    def _body(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        pieces, size = [], 0
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > self.limits.largest:
                # The error keeps this frame, and who asks for less keeps the error.
                pieces.clear()
                raise TooLarge(f"{self.url}: an answer of more than {self.limits.largest / 1e6:g} MB; ask for less")
        return b"".join(pieces)

    def _followed(self, at: str, moved: str) -> str:
        """Where a redirect leads, on the same host and never from TLS to plain text."""
        try:
            old, new = urllib.parse.urlsplit(at), urllib.parse.urlsplit(urllib.parse.urljoin(at, moved))
            safe = new.scheme == old.scheme or (old.scheme, new.scheme) == ("http", "https")
            same = safe and new.hostname == old.hostname and (new.port == old.port or new.scheme != old.scheme)
        except ValueError:
            same = False
        if not moved or not same or "@" in new.netloc:
            where = self.clean(moved)
            raise UserError(f"{self.url}: redirects to another server ({where}); give its address if you trust it")
        return new.geturl()

    def _reason(self, answer: bytes) -> str:
        """What an error says, without the markup of an error page."""
        text = answer[:10_000].decode(errors="replace")
        return "an HTML page" if looks_like_html(answer) else self.clean(text) or "no text"

    def _manager(self, url: str) -> urllib3.PoolManager:
        """The connections, through the proxy of the environment if there is one for this address."""
        parts = urllib.parse.urlsplit(url)
        proxy = urllib.request.getproxies().get(parts.scheme, "")
        if proxy and urllib.request.proxy_bypass(parts.hostname or ""):
            proxy = ""
        if proxy not in self._managers:
            self._managers[proxy] = manager(proxy, self.access.tls)
        return self._managers[proxy]


_REMEDIES = {
    401: "give credentials: `dashgen record --help` says how",
    403: "give credentials that may read",
    404: "check the address and its path prefix",
    429: "it is busy; try again later",
    503: "it is busy or starting; try again later",
}


def _checked(url: str, what: str) -> str:
    """An address without its last slash. Raises UserError, which repeats no credentials."""
    try:
        parts = urllib.parse.urlsplit(url)
        if "@" in parts.netloc:
            raise UserError(f"the address of {what} holds a user name; give credentials by the environment or a file")
        if parts.query or parts.fragment:
            raise UserError(f"the address of {what} has a ? or a #; leave them out, give a token by the environment")
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        url.encode("ascii")
        if not sound or not url.isprintable() or " " in url or len(url) > _LONGEST:
            raise ValueError
        urllib3.util.parse_url(url)
    except (ValueError, LocationParseError) as error:
        shown = "".join(each if each.isprintable() else "?" for each in url)[:_SHOWN]
        raise UserError(f"{shown}: not an http:// or https:// address; give the address of {what}") from error
    return url.rstrip("/")


def _encoded(parameters: Parameters) -> str:
    try:
        return urllib.parse.urlencode(parameters, doseq=True, errors="strict")
    except UnicodeEncodeError as error:
        raise UserError("the question is not UTF-8 text; look at the job, its label and the extra metrics") from error


def _seconds(after: str) -> float:
    """What a Retry-After asks for; nonsense counts as a second."""
    try:
        return max(0.0, urllib3.Retry().parse_retry_after(after)) if after else 1.0
    except (InvalidHeader, ValueError, OverflowError):
        return 1.0


def _cause(error: BaseException) -> str:
    """The reason below urllib3's wrapping, without the address, which is said already."""
    text = str(getattr(error, "reason", None) or error)
    if match := _ERRNO.search(text):
        return match[1]
    return _CONNECTION.sub("", text) or type(error).__name__


def looks_like_html(body: bytes) -> bool:
    """Whether a body is a web page, as of a login or of a proxy."""
    return any(mark in body[:1000].lower() for mark in (b"<html", b"<!doctype"))
