"""HTTP/1.1 over sockets, read by h11: strict with what clients send, and with how long they make it wait.

The server only reads, so a request is a head and at most a short body, in one piece: chunks are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import IO, Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message

from shiftdata.serve.names import LOG, Refusal

#: Descriptors that are not for connections; each connection may need two, one of them for a file.
OTHER_FILES = 256
MAX_FILES = 65_536
BACKLOG = 4096

#: Bytes of answers that wait in this process for slow clients, all together, and of one piece of an answer.
BUFFERED = 32 << 20
MIN_PIECE, MAX_PIECE = 8 << 10, 256 << 10

#: Bytes that are received at once, of a head, and of a body: those of all connections fit into memory.
RECEIVE, MAX_HEAD, MAX_BODY = 16 << 10, 32 << 10, 64 << 10

#: Where all are taken, a connection that made the server wait this many seconds makes room for a new one.
STALLED = 1.0

#: What no head may contain: other servers read these in other ways, and so see other requests.
AMBIGUOUS = re.compile(rb"[^\t\r\n -~\x80-\xff]|(?<!\r)\n|\r(?!\n|\Z)|\n[ \t]")

ACCESS = logging.getLogger("shiftdata.access")


@dataclass(frozen=True)
class Limits:
    """Connections at once, and seconds. Those from a trusted proxy do not count for its address."""

    connections: int = 3072
    per_address: int = 1024
    request_timeout: float = 30  # for a head, for a body, and between requests
    #: For a client to take the next piece of an answer: a training that streams pauses while it evaluates.
    read_timeout: float = 600
    proxies: frozenset[str] = frozenset()


def allowed_connections(wanted: int) -> int:
    """Raise this process's limit of open files; return the connections that it allows."""
    import resource  # Windows has none, and imports this module too

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, (soft - OTHER_FILES) // 2))


def group_of(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of a customer, 64 bits.

    >>> group_of("::ffff:10.0.0.7"), group_of("2001:db8::1:2:3:4")
    ('10.0.0.7', '2001:db8::')
    """
    ip = ipaddress.ip_address(address.partition("%")[0] or "::")
    if isinstance(ip, ipaddress.IPv4Address):
        return address
    return str(ip.ipv4_mapped or ipaddress.IPv6Address(int(ip) >> 64 << 64))


class Connections:
    """The open connections of a server, and those of them that wait for their clients, the longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.max = allowed_connections(limits.connections)
        self.waiting: dict[asyncio.Task[None], float] = {}
        self._open: dict[asyncio.Task[None], str] = {}  # the address of each

    def __len__(self) -> int:
        return len(self._open)

    def piece(self) -> int:
        """Bytes of an answer to read at once: fewer where many clients may be slow to take them."""
        return max(MIN_PIECE, min(MAX_PIECE, BUFFERED // max(1, len(self._open))))

    async def serve(self, app: ASGIApp, listening: socket.socket) -> None:
        """Accept connections until cancelled, one at a time: new ones wait for those that are open."""
        loop = asyncio.get_running_loop()
        listening.listen(BACKLOG)
        listening.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:
                    LOG.error("no connection is accepted: %s", error.strerror)
                    await asyncio.sleep(0.1)
                    continue
                client = group_of(address[0])
                if self._make_room(client):
                    task = tasks.create_task(Connection(self, accepted, address).serve(app))
                    self._open[task] = client
                    task.add_done_callback(lambda task: self._open.pop(task, None))
                else:
                    accepted.close()
                await asyncio.sleep(0)

    def _make_room(self, address: str) -> bool:
        """Return True if a new connection may be open, where all are taken instead of a stalled one."""
        share = list(self._open.values()).count(address)
        if address not in self.limits.proxies and share >= self.limits.per_address:
            LOG.warning("%s has more than its share of connections", address)
            return False
        if len(self._open) < self.max:
            return True
        LOG.warning("all connections are taken")
        task, since = next(iter(self.waiting.items()), (None, 0.0))
        if task is None or asyncio.get_running_loop().time() - since < STALLED:
            return False
        del self.waiting[task], self._open[task]
        return task.cancel()


class Connection:
    """A client's connection: one request after the other, each with a parser of its own."""

    def __init__(self, connections: Connections, accepted: socket.socket, address: tuple[Any, ...]) -> None:
        self._connections, self._limits = connections, connections.limits
        self._socket, self._client = accepted, address[:2]
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Else the system would take megabytes of an answer for a client that reads nothing.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_PIECE)

    async def serve(self, app: ASGIApp) -> None:
        """Answer until the client has gone, asks to close, makes the server wait, or sends no HTTP."""
        with self._socket:
            try:
                while await self._answer(app):
                    pass
                self._socket.shutdown(socket.SHUT_WR)
                async with self._client_in(STALLED):  # unread bytes would take the answer back
                    while await self._loop.sock_recv(self._socket, RECEIVE):
                        pass
            except (OSError, ClientDisconnect):  # a TimeoutError is an OSError
                pass
            except Exception:
                LOG.exception("an error of the server ends a connection")

    async def _answer(self, app: ASGIApp) -> bool:
        """Answer one request; return True if another one may follow."""
        self._parser = h11.Connection(h11.SERVER, MAX_HEAD)
        self._body, self._start, self._status = b"", b"", 0
        self._rest: IO[bytes] | None = None
        scope: dict[str, Any] = {"type": "http", "method": "-", "target": "-", "state": {}}
        scope["client"] = self._client
        try:
            async with self._client_in(self._limits.request_timeout):
                head = await self._read_head()
            if not head:
                return False
            scope |= self._scope(head)
            self._body = await self._read_body(dict(scope["headers"]))
        except Refusal as refusal:
            app = refusal.answer()
        self._method = scope["method"]
        try:
            await app(scope, self._receive, self._send)
        finally:
            reader, client = scope["state"].get("reader", "-"), scope["client"][0]
            ACCESS.info('%s "%s %s" %d %s', client, self._method, scope["target"], self._status, reader)
        if self._rest is not None:
            with self._rest:
                while piece := self._rest.read(self._connections.piece()):
                    await self._deliver(piece)
        return self._parser.our_state is h11.DONE is self._parser.their_state

    async def _read_head(self) -> bytes:
        """Return the next head, with the empty line; no bytes where the client ends the connection."""
        while (end := self._received.find(b"\r\n\r\n") + 4) < 4:
            if len(self._received) > MAX_HEAD or AMBIGUOUS.search(self._received):
                end = len(self._received)
                break
            if not await self._receive_more():
                return b""
        if AMBIGUOUS.search(self._received, 0, end):
            raise _refused(400, "the lines of a head end with CR LF, and have no control characters")
        if end > MAX_HEAD:
            raise _refused(431, f"a head has at most {MAX_HEAD} bytes")
        return self._take(end)

    def _scope(self, head: bytes) -> dict[str, Any]:
        """Return a request as Starlette wants it; the client is the one that a trusted proxy names."""
        self._parser.receive_data(head)
        try:
            request = self._parser.next_event()
        except h11.RemoteProtocolError:
            raise _refused(400, "this is not an HTTP request") from None
        assert isinstance(request, h11.Request)
        if request.http_version not in (b"1.1", b"1.0"):
            raise _refused(505, "this server speaks HTTP 1.1")
        path, _, query = request.target.partition(b"?")
        headers, address, scheme = dict(request.headers), self._client[0], b"http"
        if address in (proxies := self._limits.proxies):
            scheme = headers.get(b"x-forwarded-proto", b"").strip().lower()
            passed = headers.get(b"x-forwarded-for", b"").decode("latin-1").replace(" ", "").split(",")
            with suppress(ValueError):
                given = next((text for text in reversed(passed) if text not in proxies), address)
                address = str(ipaddress.ip_address(given))
        target = {"path": path.decode(), "raw_path": path, "target": request.target.decode()}
        ends = {"client": (address, self._client[1]), "server": self._socket.getsockname()[:2]}
        return {
            "method": request.method.decode(),
            "scheme": "https" if scheme == b"https" else "http",
            "query_string": query,
            "headers": list(request.headers),
            **target,
            **ends,
        }

    async def _read_body(self, headers: Mapping[bytes, bytes]) -> bytes:
        if b"transfer-encoding" in headers:
            raise _refused(400, "a body comes in one piece: send Content-Length, no Transfer-Encoding")
        length = int(headers.get(b"content-length", 0))
        if length > MAX_BODY:
            raise _refused(413, f"a body has at most {MAX_BODY} bytes: this server only reads")
        if length and self._parser.they_are_waiting_for_100_continue:
            await self._deliver(self._parser.send(h11.InformationalResponse(status_code=100, headers=[])))
        try:
            async with self._client_in(self._limits.request_timeout):
                while len(self._received) < length:
                    if not await self._receive_more():
                        raise _refused(400, "the body was cut off")
        except TimeoutError:
            raise _refused(408, "the body came too slowly") from None
        body = self._take(length)
        self._parser.receive_data(body)
        while not isinstance(self._parser.next_event(), h11.EndOfMessage):
            pass
        return body

    async def _receive_more(self) -> int:
        data = await self._loop.sock_recv(self._socket, RECEIVE)
        self._received += data
        return len(data)

    def _take(self, count: int) -> bytes:
        data = bytes(self._received[:count])
        del self._received[:count]
        return data

    async def _receive(self) -> Message:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = [*message["headers"], (b"date", formatdate(usegmt=True).encode())]
            reason = HTTPStatus(self._status).phrase.encode()
            response = h11.Response(status_code=self._status, headers=headers, reason=reason)
            self._start = self._parser.send(response) or b""
            return
        body, data, self._start = message.get("body", b""), self._start, b""
        if body and self._method != "HEAD":
            data += self._parser.send(h11.Data(data=body)) or b""
        if message.get("more_body", False):
            await self._deliver(data)
            return
        data += self._parser.send(h11.EndOfMessage()) or b""
        # The application ends before a slow client has taken the rest, so that it keeps no answer in memory.
        with suppress(OSError):  # it has gone, which the next use of the socket says again
            if rest := self._send_at_once(data):
                self._rest = tempfile.SpooledTemporaryFile(MIN_PIECE)  # noqa: SIM115  closed in `_answer`
                self._rest.write(rest)
                self._rest.seek(0)

    async def _deliver(self, data: bytes | None) -> None:
        try:
            if rest := self._send_at_once(data or b""):
                async with self._client_in(self._limits.read_timeout):
                    await self._loop.sock_sendall(self._socket, rest)
        except OSError:  # the application would take it for a problem with a file
            raise ClientDisconnect from None

    def _send_at_once(self, data: bytes) -> bytes:
        """Send what the system takes without waiting, and return the rest."""
        left = memoryview(data)
        with suppress(BlockingIOError):
            while left:
                left = left[self._socket.send(left) :]
        return bytes(left)

    @asynccontextmanager
    async def _client_in(self, seconds: float) -> AsyncIterator[None]:
        """Wait for the client, at most some seconds, and not where a new connection needs the room.

        Bytes of a head do not count as progress, or a client could send one now and then for ever.
        """
        waiting, task = self._connections.waiting, asyncio.current_task()
        assert task is not None
        waiting[task] = self._loop.time()
        try:
            async with asyncio.timeout(seconds):
                yield
        finally:
            waiting.pop(task, None)


def _refused(status: int, text: str) -> Refusal:
    """Refuse a request that the application never sees, and end its connection."""
    return Refusal(status, text, headers={"Connection": "close", "Cache-Control": "private, no-store"})
