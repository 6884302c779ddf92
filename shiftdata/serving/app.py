"""The application: every route of the mirror, how errors become answers, and the server that runs it."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from contextlib import suppress
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from shiftdata.errors import StorageError
from shiftdata.files import OUT_OF_SPACE
from shiftdata.serving import commits, file_answers, lfs, listings, pages, repo_admin
from shiftdata.serving.names import Refusal
from shiftdata.serving.request import Mirror

API = "/api/datasets/{owner}/{name}"
LFS = "/datasets/{owner}/{name}.git/info/lfs/objects"

ROUTES = [
    Route("/", pages.front_page),
    Route("/catalog.json", pages.catalog),
    Route("/api/whoami-v2", listings.whoami),
    Route("/api/validate-yaml", repo_admin.validate_yaml, methods=["POST"]),
    Route("/api/repos/create", repo_admin.create_repo, methods=["POST"]),
    Route("/api/repos/delete", repo_admin.delete_repo, methods=["DELETE"]),
    Route("/api/datasets", listings.list_datasets),
    Route(API, listings.dataset_info),
    Route(f"{API}/revision/{{revision}}", listings.dataset_info),
    Route(f"{API}/auth-check", listings.auth_check),
    Route(f"{API}/tree/{{revision}}", listings.tree),
    Route(f"{API}/tree/{{revision}}/{{path:path}}", listings.tree),
    Route(f"{API}/paths-info/{{revision}}", listings.paths_info, methods=["POST"]),
    Route(f"{API}/refs", listings.refs),
    Route(f"{API}/commits/{{revision}}", listings.history),
    Route(f"{API}/settings", repo_admin.change_settings, methods=["PUT"]),
    Route(f"{API}/branch/{{revision}}", repo_admin.change_branch, methods=["POST", "DELETE"]),
    Route(f"{API}/tag/{{revision}}", repo_admin.change_tag, methods=["POST", "DELETE"]),
    Route(f"{API}/preupload/{{revision}}", commits.preupload, methods=["POST"]),
    Route(f"{API}/commit/{{revision}}", commits.commit, methods=["POST"]),
    Route(f"{API}/xet-write-token/{{revision}}", lfs.no_xet),
    Route(lfs.NO_XET_URL, lfs.explain_no_xet),
    Route(f"{LFS}/batch", lfs.batch, methods=["POST"]),
    Route(f"{LFS}/{{oid}}", lfs.upload, methods=["PUT"]),
    Route(f"{LFS}/{{oid}}/verify", lfs.verify, methods=["POST"]),
    Route("/datasets/{owner}/{name}", pages.dataset_page),
    Route("/datasets/{owner}/{name}/resolve/{revision}/{path:path}", file_answers.resolve),
]


class _Stuck(Exception):
    """The client takes no more of its answer."""


def make_app(mirror: Mirror) -> ASGIApp:
    """The application that serves a library."""
    handlers: Any = dict.fromkeys((Refusal, HTTPException, ClientDisconnect, 500), _answer)
    app = Starlette(routes=ROUTES, exception_handlers=handlers | {OSError: _disk_error})
    app.router.redirect_slashes = False
    app.state.mirror = mirror

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            try:
                async with asyncio.timeout(mirror.stuck_seconds):
                    await send(message)
            except TimeoutError:
                raise _Stuck from None

        # Routed by the path as it came, so that %2F is not a slash. An unfinished answer ends the connection.
        with suppress(_Stuck):
            await app({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send_in_time)

    return outer


def _answer(request: Request, error: Exception) -> JSONResponse:
    match error:
        case Refusal():
            return error.answer()
        case ClientDisconnect():  # nobody reads this
            return Refusal(400, "the body was cut off").answer()
        case HTTPException(status_code=404):
            return _no_route(request.scope["path"]).answer()
        case HTTPException():
            return Refusal(error.status_code, "this mirror does not support this request").answer()
    return Refusal(500, "the mirror failed; its log says why").answer()


def _no_route(path: str) -> Refusal:
    """A repo of another type, or one without an owner, is a repo that does not exist."""
    if path.startswith(("/api/models/", "/api/spaces/", "/api/kernels/")):
        return Refusal(404, "this mirror has datasets only: pass repo_type='dataset'", "RepoNotFound")
    if path.startswith(("/api/datasets/", "/datasets/")):
        return Refusal(404, "not found: a dataset is named <owner>/<name>", "RepoNotFound")
    return Refusal(404, "not found", "EntryNotFound")


def _disk_error(request: Request, error: OSError) -> JSONResponse:
    """Report a full disk to the client; anything else goes to the server's log."""
    if error.errno not in OUT_OF_SPACE:
        raise error
    code = errno.errorcode[error.errno or 0]
    return Refusal(507, f"the mirror's disk is full ({code}): nothing was stored").answer()


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
        timeout_keep_alive=30,  # longer than clients do (5), or it may end just as it is used
        timeout_graceful_shutdown=5,
    )
    logging.getLogger("uvicorn.access").addFilter(_without_query)
    return uvicorn.Server(config)


def _without_query(record: logging.LogRecord) -> bool:
    """Keep what follows a `?` out of the log: it may be the signature of an upload."""
    match record.args:
        case (client, method, str(path), *rest):
            record.args = (client, method, path.partition("?")[0], *rest)
    return True
