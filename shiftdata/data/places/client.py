"""A small HTTP client for servers that nobody has to trust: every answer has an end, in bytes and in time.

Credentials go to one origin alone: never to where a redirect leads, nor from `.netrc`, nor over plain http.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from shiftdata.data.places.hubs import check_token, is_private, origin_of
from shiftdata.data.places.store import ConnectTimeout
from shiftdata.errors import IntegrityError, StorageError

#: Seconds for a connection, for the head of an answer, and between two checks of how fast a body comes.
CONNECT, HEAD, WINDOW = 10.0, 30.0, 15.0
#: The fewest bytes that a body must give in a window.
FEWEST = 32 << 10
#: Bytes of an answer beside its content: its head, and the frames of chunks.
BESIDE = 1 << 20
REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
#: The longest answer without use that is read so that the connection can be used again.
SHORT = 64 << 10
PIECE = 1 << 20
TOO_SLOW = "the server is too slow, or does not end its answer"
#: Headers of a Hub that stand in the redirect to a file, not in the answer that has it.
LINKED = ("x-repo-commit", "x-linked-etag", "x-linked-size")

Method = Literal["GET", "HEAD"]


class NoRangesError(StorageError):
    """A server gives files as wholes only."""


class PoorAnswerError(StorageError):
    """An answer that came too slowly, or with other bytes than were asked for: another try may do better."""


class HttpError(OSError):
    """An answer that is an error."""

    def __init__(self, status: int, code: str = "") -> None:
        # Of the text that the server gives, nothing is shown but a name.
        known = code if code.isalnum() and code.isascii() and len(code) < 60 else ""
        super().__init__(f"status {status} {http.client.responses.get(status, '')} {known}".rstrip())
        self.status = status


@dataclass(frozen=True)
class Answer:
    """What a server answered: `body` is empty where a `sink` took it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def size(self) -> int | None:
        """The size of the whole file, if it is said."""
        whole = self.headers.get("content-range", "").rpartition("/")[2]
        number = whole if self.status == 206 else self.headers.get("content-length", "")
        return int(number) if number.isdecimal() and len(number) < 19 else None


class Client:
    """Connections to the servers of one place, shared by threads; another process makes its own."""

    def __init__(self, url: str, token: str | Literal[False] = False) -> None:
        self._origin = origin_of(url)
        self._token = check_token(token, url)
        self._idle: list[tuple[str, _Connection]] = []
        self._process = os.getpid()
        self._lock = threading.Lock()
        weakref.finalize(self, _end, self._idle)

    def get(
        self,
        url: str,
        most: int,
        *,
        method: Method = "GET",
        first: int | None = None,
        sink: Callable[[bytes], object] | None = None,
    ) -> Answer:
        """Ask for a file, or for `most` of its bytes from `first` on; more bytes than that are an error.

        `sink` takes the body piece by piece.
        """
        linked: dict[str, str] = {}
        for _ in range(MOST_REDIRECTS + 1):
            origin = origin_of(url)
            headers = {"Accept-Encoding": "identity", "User-Agent": "shiftdata"}
            if first is not None:
                headers["Range"] = f"bytes={first}-{first + most - 1}"
            if self._token and origin == self._origin:
                headers["Authorization"] = f"Bearer {self._token}"
            connection, answer = self._ask(origin, method, url, headers)
            try:
                found = {name.lower(): value for name, value in answer.getheaders()}
                if origin == self._origin:
                    linked |= {name: found[name] for name in LINKED if name in found}
                if answer.status in REDIRECTS and not (method == "HEAD" and "x-linked-size" in linked):
                    url = _redirected(url, found.get("location", ""))
                    continue
                if answer.status not in (200, 206, *REDIRECTS):
                    raise HttpError(answer.status, found.get("x-error-code", ""))
                if first is not None:
                    _check_range(url, first, most, answer, found)
                if found.get("content-encoding", "identity") != "identity":
                    raise StorageError(f"{url} comes with a content encoding, which was not asked for")
                cut = first is not None and answer.status == 200
                body = _body(url, answer, connection, most, sink, cut) if method == "GET" else b""
                return Answer(answer.status, found | linked, body)
            finally:
                self._put_back(origin, connection, answer)
        raise StorageError(f"{url}: more than {MOST_REDIRECTS} redirects")

    def close(self) -> None:
        """End all idle connections."""
        with self._lock:
            _end(self._idle)

    def _ask(
        self, origin: str, method: Method, url: str, headers: dict[str, str]
    ) -> tuple[_Connection, http.client.HTTPResponse]:
        """Send a request, by an idle connection or, where that was ended meanwhile, by a new one."""
        while True:
            connection, is_fresh = self._connection(origin)
            try:
                return connection, connection.ask(method, url, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                connection.close()
                if is_fresh:
                    raise
            except BaseException:
                connection.close()
                raise

    def _connection(self, origin: str) -> tuple[_Connection, bool]:
        with self._lock:
            if self._process != os.getpid():  # a connection cannot be shared
                _end(self._idle)
                self._process = os.getpid()
            for number in reversed(range(len(self._idle))):
                if self._idle[number][0] == origin:
                    return self._idle.pop(number)[1], False
        return _Connection(urlsplit(origin)), True

    def _put_back(self, origin: str, connection: _Connection, answer: http.client.HTTPResponse) -> None:
        if answer.length is not None and answer.length < SHORT:
            with suppress(OSError, http.client.HTTPException):
                answer.read()  # of an answer that was not used
        if answer.isclosed() and connection.is_open:
            with self._lock:
                self._idle.append((origin, connection))
        else:
            connection.close()


def proxy_of(url: str) -> str | None:
    """The proxy of the environment for a server; none for this machine, since it would see the token."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc) or (parts.scheme == "http" and is_private(url)):
        return None
    return getproxies().get(parts.scheme)


def _end(idle: list[tuple[str, _Connection]]) -> None:
    while idle:
        idle.pop()[1].close()


class _Connection:
    """One connection to an origin, by the proxy of the environment if there is one."""

    def __init__(self, origin: SplitResult) -> None:
        host = origin.hostname or ""
        secure = origin.scheme == "https"
        proxy = proxy_of(origin.geturl())
        self._timed: _Timed | None = None
        self._by_proxy: dict[str, str] | None = None
        port = origin.port or (443 if secure else 80)
        if proxy:
            by = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            login = f"{unquote(by.username or '')}:{unquote(by.password or '')}".encode()
            own = {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"} if by.username else {}
            where, at = by.hostname or "", by.port or 80
        else:
            own, where, at = {}, host, port
        self._wire: http.client.HTTPConnection
        if secure:
            self._wire = http.client.HTTPSConnection(where, at, timeout=CONNECT, context=_tls())
            if proxy:
                self._wire.set_tunnel(host, port, own)
        else:
            self._wire = http.client.HTTPConnection(where, at, timeout=CONNECT)
            self._by_proxy = own if proxy else None

    @property
    def is_open(self) -> bool:
        return self._wire.sock is not None

    def ask(self, method: Method, url: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        if not self.is_open:
            try:
                self._wire.connect()
            except TimeoutError as error:
                raise ConnectTimeout(f"no connection within {CONNECT:g} s") from error
            self._wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._timed = _Timed(self._wire.sock)
            self._wire.sock = self._timed  # it is all that http.client asks of a socket
        assert self._timed is not None
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._by_proxy is not None:
            path, headers = f"{parts.scheme}://{parts.netloc}{path}", headers | self._by_proxy
        self._timed.begin()
        self._wire.request(method, path, headers={"Host": parts.netloc, **headers})
        return self._wire.getresponse()

    def expect(self, most: int) -> None:
        assert self._timed is not None
        self._timed.expect(most)

    def close(self) -> None:
        self._wire.close()


class _Timed:
    """A socket whose answers end: they come at a pace, and have a bound, the frames of chunks included."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.begin()

    def begin(self) -> None:
        """A head comes now."""
        self._until, self._left, self._in_body, self._came = time.monotonic() + HEAD, BESIDE, False, 0

    def expect(self, most: int) -> None:
        """A body of at most so many bytes comes now."""
        self._until, self._left, self._in_body, self._came = (
            time.monotonic() + WINDOW,
            2 * most + BESIDE,
            True,
            0,
        )

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_File(self, self._wire.makefile("rb", 0)), 64 << 10)

    def sendall(self, data: Any) -> None:
        self._wire.settimeout(CONNECT)
        self._wire.sendall(data)

    def close(self) -> None:
        self._wire.close()  # it stays open for an answer that is being read

    def readinto(self, buffer: Any) -> int:
        while True:
            now = time.monotonic()
            if now >= self._until:
                if not self._in_body or self._came < FEWEST:
                    raise PoorAnswerError(TOO_SLOW)
                self._until, self._came = now + WINDOW, 0
            if self._left <= 0:
                raise StorageError("the answer does not end")
            self._wire.settimeout(max(self._until - now, 0.01))
            try:
                count = self._wire.recv_into(buffer)
            except TimeoutError:
                if self._in_body and self._came >= FEWEST:
                    continue  # a window has ended, not the patience
                if self._came:
                    raise PoorAnswerError(TOO_SLOW) from None
                raise  # it may be a gap in the network
            self._left -= count
            self._came += count
            return count


class _File(io.RawIOBase):
    """What an answer reads from; with it, the socket counts its users."""

    def __init__(self, timed: _Timed, plain: Any) -> None:
        self._timed, self._plain = timed, plain

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.readinto(buffer)

    def close(self) -> None:
        self._plain.close()
        super().close()


def _body(
    url: str,
    answer: http.client.HTTPResponse,
    connection: _Connection,
    most: int,
    sink: Callable[[bytes], object] | None,
    cut: bool,
) -> bytes:
    """The content of an answer. One with more than it may have is an error, or is `cut` off."""
    connection.expect(most)
    pieces: list[bytes] = []
    left = most
    if not cut and (answer.length or 0) > most:
        raise IntegrityError(f"{url} gives {answer.length:,} bytes, and at most {most:,} are allowed")
    while data := answer.read(min(PIECE, left + (not cut))):
        left -= len(data)
        if left < 0:
            raise IntegrityError(f"{url} gives more than the {most:,} bytes that are allowed")
        if sink is None:
            pieces.append(data)
        else:
            sink(data)
    if not cut and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces)


def _redirected(url: str, location: str) -> str:
    """Where a redirect leads, if it may."""
    target = urljoin(url, location)
    if "@" in urlsplit(target).netloc or is_private(url) > is_private(target):
        raise StorageError(f"{url} redirects to an address with a login, or out of https")
    origin_of(target)
    return target


def _check_range(
    url: str, first: int, most: int, answer: http.client.HTTPResponse, headers: Mapping[str, str]
) -> None:
    """Whether the answer begins with the byte that was asked for, and has no more of them."""
    if answer.status == 206:
        given = headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
        if given != str(first) or (answer.length or 0) > most:
            raise PoorAnswerError(f"{url} gives another range than was asked for")
    elif first > 0:
        raise NoRangesError(
            f"{url}: the server gives no byte ranges: download the dataset and read the folder, or serve it "
            "by a server that knows Range"
        )


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        import certifi
    except ImportError:  # those of the system are enough on most machines
        return context
    context.load_verify_locations(certifi.where())
    return context
