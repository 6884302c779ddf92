"""Run the application with uvicorn on a socket of one's own."""

from __future__ import annotations

import logging
import socket

import uvicorn

from shiftdata.errors import StorageError
from shiftdata.serving.app import make_app
from shiftdata.serving.exchange import Mirror
from shiftdata.serving.patience import PatientProtocol

#: Seconds that answers under way get when the server is asked to stop.
GRACE = 5

#: Seconds that an idle connection is kept: longer than clients do (5), or it may end just as it is used.
KEEP_ALIVE = 30


def listen(host: str, port: int) -> socket.socket:
    """Bind the address at once, so that trouble with it is said before anything is read."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise StorageError(f"cannot listen on {host} ({error}): give an address of this machine") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
    except OSError as error:
        bound.close()
        raise StorageError(
            f"cannot listen on {host}:{port} ({error.strerror}): "
            f"where another server has it, give another --port"
        ) from error
    return bound


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
    """Keep what follows a `?` out of the log: it may sign an upload."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            one.partition("?")[0] if isinstance(one, str) and one.startswith("/") else one
            for one in record.args
        )
    return True
