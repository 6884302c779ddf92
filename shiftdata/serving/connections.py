"""Connections: how many may be open, which end for lack of progress, and which one makes room for others."""

from __future__ import annotations

import asyncio
import heapq
import logging
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

try:
    import resource
except ImportError:  # not on Windows, which has no such limit
    resource = None  # type: ignore[assignment]

#: Descriptors that are not for connections; each connection may need two, one of them for a file.
OTHER_FILES = 128
MOST_FILES = 65_536

#: Requests that are worked on at once; one that moves a body or an answer does not count.
AT_WORK = 40

#: Bytes that are taken from a client at a time.
RECEIVED = 64 << 10

#: A body in so many pieces of so few bytes on average is refused: each piece costs as much as a large one.
MANY_PIECES, SMALL_PIECE = 2000, 64

#: Connections that are accepted in one go, so that there are never many more than allowed; others wait.
ACCEPTED, BACKLOG = 32, 4096

#: Seconds that a connection has longer than others once it has got an answer, and between lines of the log.
EARNED = 5
REPORTED = 10

log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True)
class Limits:
    """What clients may take up. Connections from a trusted proxy do not count for its address."""

    connections: int = 1024
    per_address: int = 512
    patience: float = 30  # seconds for a head, between requests, and without progress of a body or an answer
    bytes_per_second: float = 1000  # of a body or an answer; what is slower uses up the patience
    proxies: frozenset[str] = frozenset()


def allowed_connections(wanted: int) -> int:
    """How many connections there can be, after raising this process's limit of open files."""
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, (soft - OTHER_FILES) // 2))


class Connections(ServerState):
    """All connections of a server. A new one gets a place: the one that deserves its own least ends."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits = limits
        self.most = allowed_connections(limits.connections)
        self.at_work = asyncio.Semaphore(AT_WORK)
        self._open: set[Connection] = set()
        self._addresses: dict[str, set[Connection]] = {}
        self._worst: list[tuple[Connection, Any]] = []  # some of the worst, with what they did then
        self._ended: Counter[str] = Counter()  # since the last report: by address
        self._reported = 0.0

    def admit(self, new: Connection) -> None:
        """Let a connection in, and end another where there are too many."""
        self._open.add(new)
        if new.address not in self.limits.proxies:
            same = self._addresses.setdefault(new.address, set())
            same.add(new)
            if len(same) > self.limits.per_address:
                now = new.loop.time()
                worst = min(same, key=lambda one: one.rank(now))
                self._end(new if worst.is_busy else worst)
        if len(self._open) > self.most:
            self._end(self._least_deserving(new.loop.time()))

    def remove(self, old: Connection) -> None:
        self._open.discard(old)
        if same := self._addresses.get(old.address):
            same.discard(old)
            if not same:
                del self._addresses[old.address]

    def sweep(self, now: float) -> None:
        """End what has made no progress for too long; say how many ended, not each."""
        for one in list(self._open):
            if one.patience_left(now) <= 0:
                self._end(one)
        if self._ended and now > self._reported + REPORTED:
            (address, times), count = self._ended.most_common(1)[0], self._ended.total()
            log.warning(
                "ended %d connections that made no progress or were too many; %d from %s",
                count,
                times,
                address,
            )
            self._ended.clear()
            self._reported = now

    def _end(self, one: Connection) -> None:
        self._ended[one.address] += 1
        self.remove(one)
        one.end()

    def _least_deserving(self, now: float) -> Connection:
        while True:
            while self._worst:
                one, did = self._worst.pop()
                if one in self._open and one.cycle is did:
                    return one
            # Ranking all of them for each new one would be what an attacker wants.
            worst = heapq.nsmallest(ACCEPTED, self._open, key=lambda one: one.rank(now))
            self._worst = [(one, one.cycle) for one in reversed(worst)]


class _Parser(h11.Connection):
    """h11's own, which takes a body in any number of pieces."""

    _pieces = _bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces, self._bytes = self._pieces + 1, self._bytes + len(event.data)
            if self._pieces > MANY_PIECES and self._bytes < SMALL_PIECE * self._pieces:
                raise h11.RemoteProtocolError("a body in crumbs")
        return event


class Connection(H11Protocol):
    """uvicorn's own protocol, which would wait for ever for a head, a body, or a client to take its answer.

    A client has `patience` seconds in which the server waits for it. They begin anew with each request and
    after each answer; inside of these each byte that moves gives some back, at `bytes_per_second`.
    """

    server_state: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = RECEIVED  # type: ignore[attr-defined]
        # asyncio does so itself only where the listening socket names its protocol.
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conn = _Parser(h11.SERVER)
        self.app = self._run
        self.address = self.client[0] if self.client else ""
        self._left, self._seen_at = self.server_state.limits.patience, self.loop.time()
        self._received = self._written = self._moved = 0
        self._rate = 0.0
        self._did: tuple[Any, bool] = (None, True)
        self.server_state.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.server_state.remove(self)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application when it is its turn, and let it send no faster than the client takes."""
        turn, has_turn = self.server_state.at_work, True

        def end_turn() -> None:
            nonlocal has_turn
            if has_turn:
                has_turn = False
                turn.release()

        async def receive_freely() -> Message:
            end_turn()
            return await receive()

        async def send_slowly(message: Message) -> None:
            end_turn()
            await send(message)
            self._written += len(message.get("body", b""))
            await self.flow.drain()

        await turn.acquire()
        try:
            if not self.transport.is_closing():
                await self.config.loaded_app(scope, receive_freely, send_slowly)
        finally:
            end_turn()

    def patience_left(self, now: float) -> float:
        """Seconds that the client may still make the server wait."""
        limits, buffered = self.server_state.limits, self.transport.get_write_buffer_size()
        moved = self._received + self._written - buffered
        came, self._moved = moved - self._moved, moved
        elapsed, self._seen_at = now - self._seen_at, now
        if elapsed > 0:
            self._rate += (came / elapsed - self._rate) * min(elapsed, 1)
        is_waiting = not buffered and (self.cycle is None or self.cycle.response_complete)
        if (did := (self.cycle, is_waiting)) != self._did:
            self._did, self._left = did, limits.patience
        elif is_waiting:
            self._left -= elapsed
        elif buffered or self._wants_body():
            self._left += came / limits.bytes_per_second - elapsed
        self._left = min(self._left, limits.patience)
        return self._left

    def rank(self, now: float) -> tuple[int, float]:
        """The lower, the sooner it makes room for another: first by patience left, then by speed."""
        earned = EARNED if self.cycle is not None and self.cycle.response_started else 0
        return int(self.patience_left(now)) + earned, self._rate

    @property
    def is_busy(self) -> bool:
        """Whether the client has not made the server wait of late."""
        return not self._did[1] and self._left > self.server_state.limits.patience - 1

    def _wants_body(self) -> bool:
        cycle = self.cycle
        return cycle.more_body and not cycle.waiting_for_100_continue and not self.flow.read_paused

    def end(self) -> None:
        """End it; a client that may still be listening is told why."""
        if self.cycle is not None and not self.cycle.response_complete and self._wants_body():
            self._refuse(b"408 Request Timeout", b"the body stopped coming, or came too slowly")
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(b"400 Bad Request", b"this is not an HTTP request, or its head is too long")

    def _refuse(self, status: bytes, text: bytes) -> None:
        """Answer for the application, where no answer has begun, and end the connection."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n" % (status, len(text))
            rest = b"cache-control: private, no-store\r\nconnection: close\r\n\r\n"
            self.transport.write(head + rest + text)
            self.transport.close()
        else:
            self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn's own, with limits on its connections."""

    server_state: Connections

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self.server_state = Connections(limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or []:
            one.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self.server_state.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)
