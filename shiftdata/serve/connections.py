"""Connections: how many may be open, which end for lack of progress, and which one makes room for others."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

try:  # what only `shiftdata serve` needs, which is refused on Windows
    import fcntl
    import resource
    import termios
except ImportError:
    resource = None  # type: ignore[assignment]

#: Descriptors that are not for connections; each connection may need two, one of them for a file.
OTHER_FILES = 128
MOST_FILES = 65_536

#: Requests that are worked on at once; one that moves a body or an answer does not count.
AT_WORK = 512

#: Bytes that are taken from a client at a time.
RECEIVED = 32 << 10

#: A body in more pieces than this, of fewer bytes on average, is refused: each costs as much as a large one.
MANY_PIECES, SMALL_PIECE = 32, 64

#: Where all are taken, one that made the server wait so many seconds gives way; later by so many if it has
#: taken an answer before, and if it is taking one (slow networks deliver in bursts).
STALLED, EARNED, MOVING = 1.0, 5.0, 7.0

#: Where none has stalled, so does one that has moved fewer bytes a second than this for so many seconds.
SLOW, SLOW_SECONDS = 64_000, 10.0

#: Seconds that a connection stays open after what came was no request.
LINGERS = 3.0

#: Bytes that wait in this process for slow clients to take them, all together; then one of these gives way.
BUFFERED = 64 << 20

#: Bytes of an answer that are read at once.
LARGE_PIECE = 256 << 10

#: Seconds that the clock goes on with each turn of the server; such turns between two looks at all
#: connections; seconds between lines of the log.
TICK, LOOK, REPORTED = 0.1, 5, 10.0

log = logging.getLogger("uvicorn.error")
of_requests = log.getChild("requests")


@dataclass(frozen=True)
class Limits:
    """What clients may take up. Connections from a trusted proxy do not count for its address."""

    connections: int = 3072
    per_address: int = 1024
    patience: float = 30  # seconds for a head, between requests, and without progress of a body or an answer
    bytes_per_second: float = 1000  # of a body or an answer; what is slower uses up the patience
    #: More seconds for who takes an answer: a training that streams pauses while it evaluates. Where all
    #: connections are taken, such a client makes room all the same.
    pause: float = 570
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
    """All connections of a server: a new one takes the place of the one that deserves its own least."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        of_requests.setLevel(logging.ERROR)  # what is not HTTP gets no line
        self.limits = limits
        self.most = allowed_connections(limits.connections)
        self.at_work = asyncio.Semaphore(AT_WORK)
        #: It stands still while the server is too busy to look: no client is blamed for that.
        self.clock = 0.0
        self.coming = self.buffered = 0
        self.numbers = itertools.count()
        self._open: set[Connection] = set()
        self._addresses: dict[str, set[Connection]] = {}
        self._stalled: list[Connection] = []  # at the last look, the worst last
        self._ended: Counter[str] = Counter()  # since the last report: by address
        self._reported = 0.0

    async def make_room(self) -> None:
        """Return when one more may come; where nobody deserves to end, it waits."""
        while len(self._open) + self.coming >= self.most:
            while self._stalled:
                one = self._stalled.pop()
                if one in self._open and one.has_stalled():
                    self._end(one)
                    break
            else:
                await asyncio.sleep(TICK)

    def add(self, new: Connection) -> None:
        self._open.add(new)
        if new.address in self.limits.proxies:
            return
        same = self._addresses.setdefault(new.address, set())
        same.add(new)
        if len(same) > self.limits.per_address:
            worst = min(same, key=lambda one: one.rank())
            self._end(worst if worst.has_stalled() else new)

    def remove(self, old: Connection) -> None:
        self._open.discard(old)
        if same := self._addresses.get(old.address):
            same.discard(old)
            if not same:
                del self._addresses[old.address]

    def tick(self) -> None:
        """Let the clock go on, and look at all connections now and then."""
        self.clock = round(self.clock + TICK, 3)
        if round(self.clock / TICK) % LOOK == 0:
            self._look()
        if self._ended and self.clock > self._reported + REPORTED:
            (address, times), count = self._ended.most_common(1)[0], self._ended.total()
            text = "ended %d connections that made no progress or were too many; %d of them from %s"
            log.warning(text, count, times, address)
            self._ended.clear()
            self._reported = self.clock

    def _look(self) -> None:
        """End what has made no progress for too long, and the worst of what fills the memory."""
        ranked, buffered = [], 0
        for one in list(self._open):
            rank = one.rank()
            if one.patience <= one.allowed:
                self._end(one)
            else:
                ranked.append((rank, one.number, one))
                buffered += one.buffered
        ranked.sort(reverse=True)
        self._stalled = [one for rank, _, one in ranked if rank < self.limits.patience - STALLED]
        for _, _, one in reversed(ranked):
            if buffered > BUFFERED and one.buffered:
                buffered -= one.buffered
                self._end(one)

    def _end(self, one: Connection) -> None:
        self._ended[one.address] += 1
        self.remove(one)
        one.end()


class _Gone(Exception):
    """The client is gone: what was to be sent to it ends here."""


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
        self.conn, self.logger = _Parser(h11.SERVER), of_requests
        self.app = self._run
        self.address = self.client[0] if self.client else ""
        state = self.server_state
        self.patience, self.buffered, self.number = state.limits.patience, 0, next(state.numbers)
        self.allowed = 0.0
        self._began = self._seen_at = state.clock
        self._received = self._written = self._moved = 0
        self._rate = 0.0
        self._has_taken_answer = self._is_refused = False
        self._did: tuple[Any, bool] = (None, True)
        self.server_state.add(self)

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
            self._written += len(message.get("body", b""))
            await send(message)
            message.clear()  # its bytes are not kept while the client takes them
            await self._drain()
            if cycle.disconnected:
                raise _Gone

        cycle, scope["state"]["piece"] = self.cycle, self._piece
        await turn.acquire()
        try:
            if not cycle.disconnected:
                await self.config.loaded_app(scope, receive_freely, send_slowly)
        except _Gone:
            pass
        finally:
            end_turn()

    async def _drain(self) -> None:
        """Wait until the client has taken nearly all."""
        if self.flow.write_paused:
            size = self.transport.get_write_buffer_size()
            self.server_state.buffered += size
            try:
                await self.flow.drain()
            finally:
                self.server_state.buffered -= size

    def _piece(self) -> int:
        """Bytes of an answer to read at once: few for who takes it slowly, where much is waiting already."""
        is_short = self.server_state.buffered > BUFFERED // 4 and self._rate < LARGE_PIECE
        return RECEIVED if is_short else LARGE_PIECE

    def rank(self) -> float:
        """Take stock. The lower, the sooner it makes room for another."""
        limits, now = self.server_state.limits, self.server_state.clock
        untaken = self._untaken()
        moved = self._received + self._written - untaken
        came, self._moved = moved - self._moved, moved
        is_waiting = not untaken and (self.cycle is None or self.cycle.response_complete)
        self.allowed = -limits.pause if self._is_answered(untaken, is_waiting) else 0.0
        elapsed, self._seen_at = now - self._seen_at, now
        self._rate += came - self._rate * min(elapsed, 1)  # of about the last second
        if self._is_refused:
            self.patience = min(self.patience, LINGERS) - elapsed
            return self.patience
        if (did := (self.cycle, is_waiting)) != self._did:
            self._did, self.patience, self._began = did, limits.patience, now
            self._has_taken_answer |= is_waiting
        elif is_waiting:
            self.patience -= elapsed
        elif untaken or self._wants_body():
            self.patience += came / limits.bytes_per_second - elapsed
        self.patience = min(self.patience, limits.patience)
        rank = self.patience + (EARNED if self._has_taken_answer else 0) + (MOVING if untaken else 0)
        if not is_waiting and now > self._began + SLOW_SECONDS and self._rate < SLOW:
            rank = min(rank, limits.patience - STALLED - 0.01 * (1 - self._rate / SLOW))
        return rank

    def _is_answered(self, untaken: int, is_waiting: bool) -> bool:
        """Whether an answer is under way, also where the client has just taken all that there was of it."""
        if self._is_refused:
            return False
        return bool(untaken) or not (is_waiting or self._wants_body())

    def _untaken(self) -> int:
        """Bytes that the client has not taken: those in this process, and those in the system."""
        self.buffered = self.transport.get_write_buffer_size()
        if resource is None or (self.transport.is_closing() and not self.buffered):
            return self.buffered
        handle = self.transport.get_extra_info("socket").fileno()
        return self.buffered + int.from_bytes(fcntl.ioctl(handle, termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def has_stalled(self) -> bool:
        """Whether it may make room for another."""
        return self.rank() < self.server_state.limits.patience - STALLED

    def _wants_body(self) -> bool:
        cycle = self.cycle
        return cycle.more_body and not cycle.waiting_for_100_continue and not self.flow.read_paused

    def end(self) -> None:
        """End it; a client that may still be listening learns why."""
        waits = self.cycle is not None and not self.cycle.response_complete and self._wants_body()
        if waits and not self._is_refused:
            self._answer(b"408 Request Timeout", b"the body stopped coming, or came too slowly")
            self.transport.close()
        else:
            self._leave()
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._answer(b"400 Bad Request", b"this is not an HTTP request, or its head is too long")
        # Who sends such things would come back at once: it stays open for a while, and nothing is read.
        self.transport.pause_reading()
        self._is_refused = True

    def _leave(self) -> None:
        """Let the application know that its client is gone."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _answer(self, status: bytes, text: bytes) -> None:
        """Answer for the application, unless an answer has begun."""
        self._leave()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n" % (status, len(text))
            rest = b"cache-control: private, no-store\r\nconnection: close\r\n\r\n"
            self.transport.write(head + rest + text)
