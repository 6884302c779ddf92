"""Run the application with uvicorn, and end connections whose requests never arrive."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from shiftdata.errors import StorageError
from shiftdata.serving.app import make_app
from shiftdata.serving.request import Mirror

#: Seconds that answers under way get when the server is asked to stop.
GRACE = 5

#: Seconds that an idle connection is kept: longer than clients do (5), or it may end just as it is used.
KEEP_ALIVE = 30


class PatientProtocol(H11Protocol):
    """uvicorn's own protocol, except that a request's headers must be complete `head_seconds` after it began.

    uvicorn waits for ever for the end of the headers, and of a body that nobody reads.
    """

    head_seconds: ClassVar[float] = 30

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._between_requests():
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self._between_requests() and not self.transport.is_closing():
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Bind the address at once, so that a problem with it is reported before anything is read."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise StorageError(
            f"cannot listen on {host}:{port} ({error.strerror}): give an address of this machine, "
            "and another --port if a server has this one"
        ) from error


def server(mirror: Mirror, *, quiet: bool) -> uvicorn.Server:
    """A server to `run` on such a socket."""
    config = uvicorn.Config(
        make_app(mirror),
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_level="warning" if quiet else "info",
        access_log=not quiet,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    logging.getLogger("uvicorn.access").addFilter(_without_query)
    return uvicorn.Server(config)


def _without_query(record: logging.LogRecord) -> bool:
    """Keep what follows a `?` out of the log: it may be the signature of an upload."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            one.partition("?")[0] if isinstance(one, str) and one.startswith("/") else one
            for one in record.args
        )
    return True
