"""Connections: how many may be open, and for how long one may make the server wait."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Descriptors that are not for connections; each connection may need two, one of them for a file.
OTHER_FILES = 256
MAX_FILES = 65_536

#: Bytes of answers that wait in this process for slow clients, all together, and of one piece of an answer.
BUFFERED = 64 << 20
MIN_PIECE, MAX_PIECE = 16 << 10, 256 << 10

#: Bytes of the head of a request.
MAX_HEAD = 64 << 10

#: Where all are taken, a connection that made the server wait this many seconds makes room for a new one.
STALLED = 1.0

#: Seconds between two looks at all connections.
LOOK = 0.5

#: The answer to bytes that are no HTTP request.
BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\ncache-control: private, no-store\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)

log = logging.getLogger("uvicorn.error")


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


class Connections:
    """The open connections of a server, the one that has waited longest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.max = allowed_connections(limits.connections)
        self._open: dict[Connection, None] = {}
        self._addresses: Counter[str] = Counter()
        self._ended = 0  # since the last look
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def piece(self) -> int:
        """Bytes of an answer to read at once: fewer where many clients may be slow to take them."""
        return max(MIN_PIECE, min(MAX_PIECE, BUFFERED // max(1, len(self._open))))

    def add(self, new: Connection) -> None:
        """Let a connection in: where all are taken, in the place of one that has stalled."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)
        self._open[new] = None
        self._addresses[new.address] += 1
        if new.address not in self.limits.proxies and self._addresses[new.address] > self.limits.per_address:
            self._end(new)
        elif len(self._open) > self.max:
            self._end(next(self._waiting(STALLED), new))

    def remove(self, old: Connection) -> None:
        if old in self._open:
            del self._open[old]
            self._addresses[old.address] -= 1
            if not self._addresses[old.address]:
                del self._addresses[old.address]

    def moved(self, connection: Connection) -> None:
        """Put a connection behind all others: it has made progress."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def _waiting(self, seconds: float) -> Iterator[Connection]:
        return (connection for connection in self._open if connection.waited() > seconds)

    def _look(self) -> None:
        limits = self.limits
        for connection in list(self._waiting(min(limits.request_timeout, limits.read_timeout))):
            if connection.waited() > connection.timeout:
                self._end(connection)
        if self._ended:
            log.warning("ended %d connections that made no progress or were too many", self._ended)
            self._ended = 0
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOOK, self._look) if self._open else None

    def _end(self, connection: Connection) -> None:
        self._ended += 1
        self.remove(connection)
        connection.transport.abort()


class _Parser(h11.Connection):
    """h11's own, which refuses a body in chunks: those of one byte cost a thousand times what they weigh."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("a body in chunks")
        return event


class Connection(H11Protocol):
    """uvicorn's protocol, which alone would wait for ever for a head, or for a client to take its answer.

    A middleware sees neither: it is called once the head is there, and its sends end in a buffer. The methods
    that are overridden are not documented, so pyproject.toml pins uvicorn.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.conn = _Parser(h11.SERVER, MAX_HEAD)
        self._connections = connections
        self.address = ""
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # Else the system would take megabytes of an answer for a client that reads nothing.
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_PIECE)
        transport.set_write_buffer_limits(0)  # `pause_writing` then means: the client has not taken all
        self.address = self.client[0] if self.client else ""
        self._moved()
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.remove(self)

    def on_response_complete(self) -> None:
        self._moved()
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._moved()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._moved()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer for the application, unless its answer has begun; h11 would raise then, and for HEAD."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(BAD_REQUEST)
        self.transport.close()

    @property
    def timeout(self) -> float:
        limits = self._connections.limits
        return limits.read_timeout if self.flow.write_paused else limits.request_timeout

    def waited(self) -> float:
        """Seconds for which the server has waited for the client; 0 while the application works.

        Bytes of a head do not count as progress, or a client could send one now and then for ever. Bodies are
        short, and have their own timeout: `request.short_body`.
        """
        is_working = self.cycle is not None and not self.cycle.response_complete
        return 0.0 if is_working and not self.flow.write_paused else self.loop.time() - self._since

    def _moved(self) -> None:
        self._since = self.loop.time()
        self._connections.moved(self)
