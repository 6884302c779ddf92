"""A small HTTP client for servers that nobody has to trust: every answer has an end, in bytes and in time.

Credentials go to one origin alone: never to where a redirect leads, nor from `.netrc`, nor over plain http.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from shiftdata.data.places.hubs import check_token, is_private, origin_of
from shiftdata.data.places.multipart import Parts
from shiftdata.data.places.store import ConnectTimeout
from shiftdata.errors import IntegrityError, StorageError
from shiftdata.logs import logger

#: Seconds for a connection, for the head of an answer, and between two checks of how fast a body comes.
CONNECT, HEAD, WINDOW = 10.0, 30.0, 15.0
#: The fewest bytes that a body must give in a window.
FEWEST = 32 << 10
#: Bytes of an answer that are not its content: its head, and the frames of chunks.
OVERHEAD = 1 << 20
REDIRECTS = (301, 302, 303, 307, 308)
MOST_REDIRECTS = 5
#: Seconds for which ranges of a file are asked for where its redirect led: a Hub redirects each request.
REMEMBERED = 300.0
#: The longest unused answer that is read to its end, so that the connection can be used again.
SHORT = 64 << 10
PIECE = 1 << 20
STATUS = re.compile(rb"HTTP/1\.([0-9]) ([1-5][0-9]{2})(?: .*)?\r?\n")
TOO_SLOW = "the server is too slow, or does not end its answer"
#: Headers that a Hub gives in the redirect to a file, not in the answer that has it.
LINKED = ("x-repo-commit", "x-linked-etag", "x-linked-size")
LOG = logger(__name__)

Method = Literal["GET", "HEAD"]
Sink: TypeAlias = Callable[[bytes], object]


class NoRangesError(StorageError):
    """A server gives files as wholes only."""


class PoorAnswerError(StorageError):
    """An answer that came too slowly, or with other bytes than were asked for: another try may do better."""


class HttpError(OSError):
    """An answer that is an error."""

    def __init__(self, status: int, code: str = "") -> None:
        # Of the server's own text, nothing is shown but a name.
        name = code if code.isalnum() and code.isascii() and len(code) < 60 else ""
        super().__init__(f"status {status} {http.client.responses.get(status, '')} {name}".rstrip())
        self.status = status


@dataclass(frozen=True)
class Answer:
    """The answer of a server; `body` is empty where a `sink` took it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def size(self) -> int | None:
        """The size of the whole file, if the server says it."""
        whole = self.headers.get("content-range", "").rpartition("/")[2]
        number = whole if self.status == 206 else self.headers.get("content-length", "")
        return int(number) if number.isdecimal() and len(number) < 19 else None


class _Asked(NamedTuple):
    """A request without its URL, as `Client.get` has it."""

    most: int
    method: Method
    first: int | None
    sink: Sink | None
    parts: Parts | None

    @property
    def ranges(self) -> str:
        """The value of `Range`, if any."""
        if self.parts:
            return self.parts.header
        return "" if self.first is None else f"bytes={self.first}-{self.first + self.most - 1}"


class _Moved(NamedTuple):
    """The end of some redirects, the headers that they had, and the time until which to ask there at once."""

    url: str
    linked: Mapping[str, str]
    until: float


class Client:
    """Connections to the servers of one place, shared by threads; another process makes its own."""

    def __init__(self, url: str, token: str | Literal[False] = False) -> None:
        self._origin = origin_of(url)
        self._token = check_token(token, url)
        self._idle: list[tuple[str, _Connection]] = []
        self._moved: dict[str, _Moved] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._idle)

    def get(
        self,
        url: str,
        most: int,
        *,
        method: Method = "GET",
        first: int | None = None,
        sink: Sink | None = None,
        parts: Parts | None = None,
    ) -> Answer:
        """Ask for a file, or for `most` of its bytes from `first` on; more bytes than that are an error.

        `sink` takes the body piece by piece; `parts` asks for several ranges and takes the answer.
        """
        asked = _Asked(most, method, first, parts.take if parts else sink, parts)
        moved = self._moved.get(url) if asked.ranges else None
        if moved and time.monotonic() < moved.until:
            try:
                return self._follow(moved.url, asked, moved.linked)[0]
            except HttpError:  # an address with a signature ends after a while
                self._moved.pop(url, None)
        answer, last = self._follow(url, asked, {})
        if asked.ranges and last != url:
            linked = {name: answer.headers[name] for name in LINKED if name in answer.headers}
            self._moved[url] = _Moved(last, linked, time.monotonic() + REMEMBERED)
        return answer

    def _follow(self, url: str, asked: _Asked, linked: Mapping[str, str]) -> tuple[Answer, str]:
        """Ask, where redirects lead too; return the answer and the URL that gave it."""
        linked = dict(linked)
        most, method, first, sink, parts = asked
        for _ in range(MOST_REDIRECTS + 1):
            origin = origin_of(url)
            wanted = self._headers(origin, asked.ranges)
            connection, answer = self._ask(origin, method, url, wanted)
            # Not its query, which may be a signature.
            LOG.debug("%d %s %s %.60s", answer.status, method, url.partition("?")[0], wanted.get("Range", ""))
            try:
                headers = answer.fields
                if origin == self._origin:
                    linked |= {name: headers[name] for name in LINKED if name in headers}
                if answer.status in REDIRECTS and not (method == "HEAD" and "x-linked-size" in linked):
                    url = _redirected(url, headers.get("location", ""))
                    continue
                _check_head(url, answer)
                if first is not None:
                    _check_range(url, first, most, answer)
                if parts is not None:
                    parts.begin(answer.status, headers)
                body = b""
                if method == "GET":
                    connection.timed.expect(WINDOW, 2 * most + OVERHEAD, in_body=True)
                    body = _body(url, answer, most, sink, cut=first is not None and answer.status == 200)
                return Answer(answer.status, headers | linked, body), url
            finally:
                self._put_back(origin, connection, answer)
        raise StorageError(f"{url}: more than {MOST_REDIRECTS} redirects")

    def _headers(self, origin: str, ranges: str) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "shiftdata"}
        if ranges:
            headers["Range"] = ranges
        if self._token and origin == self._origin:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def close(self) -> None:
        """End all idle connections."""
        with self._lock:
            _close(self._idle)

    def _ask(
        self, origin: str, method: Method, url: str, headers: dict[str, str]
    ) -> tuple[_Connection, _Response]:
        """Send a request over an idle connection or, if the server has ended that one, over a new one."""
        while True:
            connection = self._take(origin)
            is_fresh = connection.sock is None
            try:
                return connection, connection.ask(method, url, headers)
            except BaseException as error:
                connection.close()
                ended = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
                if is_fresh or not isinstance(error, ended):
                    raise

    def _take(self, origin: str) -> _Connection:
        with self._lock:
            if self._process != os.getpid():  # a connection cannot be shared
                _close(self._idle)
                self._process = os.getpid()
            for number in reversed(range(len(self._idle))):
                if self._idle[number][0] == origin:
                    return self._idle.pop(number)[1]
        return (_Secure if origin.startswith("https:") else _Connection)(origin)

    def _put_back(self, origin: str, connection: _Connection, answer: _Response) -> None:
        if answer.length is not None and answer.length < SHORT:
            with suppress(OSError, http.client.HTTPException):
                answer.read()  # of an answer that was not used
        if answer.isclosed() and not answer.will_close:
            with self._lock:
                self._idle.append((origin, connection))
        else:
            connection.close()


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for a server; none for this machine: it would see the token."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc) or (parts.scheme == "http" and is_private(url)):
        return None
    return getproxies().get(parts.scheme)


def _close(idle: list[tuple[str, _Connection]]) -> None:
    while idle:
        idle.pop()[1].close()


class _Connection(http.client.HTTPConnection):
    """A connection to an origin, by the proxy of the environment if there is one."""

    timed: _Timed
    sock: Any

    def __init__(self, origin: str, **options: Any) -> None:
        server, proxy = urlsplit(origin), proxy_of(origin)
        secure = server.scheme == "https"
        port = server.port or (443 if secure else 80)
        self._login: dict[str, str] = {}
        self._whole_urls = bool(proxy) and not secure
        if not proxy:
            super().__init__(server.hostname or "", port, timeout=CONNECT, **options)
            return
        by = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if by.username:
            login = f"{unquote(by.username)}:{unquote(by.password or '')}".encode()
            self._login = {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"}
        super().__init__(by.hostname or "", by.port or 80, timeout=CONNECT, **options)
        if secure:
            self.set_tunnel(server.hostname or "", port, self._login)

    def connect(self) -> None:
        try:
            super().connect()
        except TimeoutError as error:
            raise ConnectTimeout(f"no connection within {CONNECT:g} s") from error
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self.timed = _Timed(self.sock)  # it has all that http.client uses of a socket

    def ask(self, method: Method, url: str, headers: dict[str, str]) -> _Response:
        if self.sock is None:
            self.connect()
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._whole_urls:
            path, headers = f"{parts.scheme}://{parts.netloc}{path}", headers | self._login
        lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if " " in path or not "".join(lines).isprintable():  # where a redirect leads, say
            raise http.client.InvalidURL(f"{path.partition('?')[0]!r} cannot be asked for")
        self.timed.expect(HEAD, OVERHEAD)
        self.timed.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        answer = _Response(self.sock, method=method)
        answer.begin()
        return answer


class _Response(http.client.HTTPResponse):
    """An answer that reads its head itself: `http.client` parses e-mail, which costs as much as all else."""

    fields: dict[str, str]
    _method: Method

    def begin(self) -> None:
        status, minor = 100, 1
        while status < 200:  # it announces another
            line = self._line()
            if not (match := STATUS.fullmatch(line)):
                raise http.client.BadStatusLine(repr(line[:80]))
            minor, status = int(match[1]), int(match[2])
            self.fields = self._fields()
        self.status, length = status, self.fields.get("content-length", "")
        self.chunked = self.fields.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        self.length = int(length) if length.isdecimal() and len(length) < 19 and not self.chunked else None
        if status in (204, 304) or self._method == "HEAD":
            self.length = 0
        held = self.fields.get("connection", "").lower()
        ends = "close" in held or (minor == 0 and "keep-alive" not in held)
        self.will_close = ends or (self.length is None and not self.chunked)

    def _fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while text := self._line().strip():
            name, _, value = text.decode("latin-1").partition(":")
            fields[name.lower()] = value.strip()
        return fields

    def _line(self) -> bytes:
        """Read a line; all of a head have a bound."""
        line = self.fp.readline()
        if not line:
            raise http.client.RemoteDisconnected("the server has ended the connection")
        return line


class _Secure(_Connection, http.client.HTTPSConnection):
    """The same by TLS."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin, context=_tls())


class _Timed:
    """A socket whose answers end: they come at a pace, and have a bound, the frames of chunks included."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self.expect(HEAD, OVERHEAD)

    def expect(self, seconds: float, most: int, *, in_body: bool = False) -> None:
        """Allow at most `most` bytes: a head within `seconds`, a body at a pace in each window."""
        self._until, self._left = time.monotonic() + seconds, most
        self._in_body, self._came = in_body, 0

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_File(self), 64 << 10)

    def sendall(self, data: Any) -> None:
        self._wire.settimeout(CONNECT)
        self._wire.sendall(data)

    def close(self) -> None:
        self._wire.close()

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
                    continue  # a window has ended, and enough came in it
                if self._came:
                    raise PoorAnswerError(TOO_SLOW) from None
                raise  # it may be a gap in the network
            self._left -= count
            self._came += count
            return count


class _File(io.RawIOBase):
    """The file that an answer reads from; the connection outlives it."""

    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.readinto(buffer)


def _body(url: str, answer: _Response, most: int, sink: Sink | None, *, cut: bool) -> bytes:
    """Read the content of an answer. One with more than it may have is an error, or is `cut` off."""
    pieces: list[bytes] = []
    left = most
    if not cut and (answer.length or 0) > most:
        raise IntegrityError(f"{url} gives {answer.length:,} bytes, and at most {most:,} are allowed")
    while data := answer.read(min(PIECE, left + (not cut))):
        left -= len(data)
        if left < 0:
            raise IntegrityError(f"{url} gives more than the {most:,} bytes that are allowed")
        (sink or pieces.append)(data)
    if not cut and answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces)


def _redirected(url: str, location: str) -> str:
    """Return the target of a redirect, if it may be followed."""
    target = urljoin(url, location)
    if "@" in urlsplit(target).netloc or is_private(url) > is_private(target):
        raise StorageError(f"{url} redirects to an address with a login, or out of https")
    origin_of(target)
    return target


def _check_head(url: str, answer: _Response) -> None:
    """Refuse an answer that is an error, or has a content encoding."""
    if answer.status not in (200, 206, *REDIRECTS):
        raise HttpError(answer.status, answer.fields.get("x-error-code", ""))
    if answer.fields.get("content-encoding", "identity") != "identity":
        raise StorageError(f"{url} has a content encoding that was not asked for")


def _check_range(url: str, first: int, most: int, answer: _Response) -> None:
    """Refuse an answer that begins with another byte than was asked for, or has more of them."""
    if answer.status == 206:
        given = answer.fields.get("content-range", "").removeprefix("bytes ").partition("-")[0]
        if given != str(first) or (answer.length or 0) > most:
            raise PoorAnswerError(f"{url} gives another range than was asked for")
    elif first > 0:
        raise NoRangesError(f"{url}: the server gives no byte ranges: `shiftdata fetch` the dataset")


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    with suppress(ImportError):  # the system's certificates are enough on most machines
        import certifi

        context.load_verify_locations(certifi.where())
    return context
