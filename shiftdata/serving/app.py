"""The routes put together into one ASGI application."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftdata.files import OUT_OF_SPACE
from shiftdata.serving import committing, pages, reading, sending, uploads, writing
from shiftdata.serving.exchange import Mirror, refused
from shiftdata.serving.patience import Stuck, patient_send
from shiftdata.serving.refusals import Refusal

API = "/api/datasets/{owner}/{name}"
LFS = "/datasets/{owner}/{name}.git/info/lfs/objects"

ROUTES = [
    Route("/", pages.front_page),
    Route("/catalog.json", pages.catalog),
    Route("/api/whoami-v2", reading.whoami),
    Route("/api/validate-yaml", writing.validate_yaml, methods=["POST"]),
    Route("/api/repos/create", writing.create_repo, methods=["POST"]),
    Route("/api/repos/delete", writing.delete_repo, methods=["DELETE"]),
    Route("/api/datasets", reading.list_datasets),
    Route(API, reading.dataset_info),
    Route(f"{API}/revision/{{revision}}", reading.dataset_info),
    Route(f"{API}/auth-check", reading.auth_check),
    Route(f"{API}/tree/{{revision}}", reading.tree),
    Route(f"{API}/tree/{{revision}}/{{path:path}}", reading.tree),
    Route(f"{API}/paths-info/{{revision}}", reading.paths_info, methods=["POST"]),
    Route(f"{API}/refs", reading.refs),
    Route(f"{API}/commits/{{revision}}", reading.commits),
    Route(f"{API}/settings", writing.set_settings, methods=["PUT"]),
    Route(f"{API}/branch/{{revision}}", writing.create_branch, methods=["POST"]),
    Route(f"{API}/branch/{{revision}}", writing.delete_branch, methods=["DELETE"]),
    Route(f"{API}/tag/{{revision}}", writing.create_tag, methods=["POST"]),
    Route(f"{API}/tag/{{revision}}", writing.delete_tag, methods=["DELETE"]),
    Route(f"{API}/preupload/{{revision}}", committing.preupload, methods=["POST"]),
    Route(f"{API}/commit/{{revision}}", committing.commit, methods=["POST"]),
    Route(f"{API}/xet-write-token/{{revision}}", uploads.no_xet),
    Route(uploads.NO_XET_URL, uploads.without_xet),
    Route(f"{LFS}/batch", uploads.lfs_batch, methods=["POST"]),
    Route(f"{LFS}/{{oid}}", uploads.lfs_put, methods=["PUT"]),
    Route(f"{LFS}/{{oid}}/verify", uploads.lfs_verify, methods=["POST"]),
    Route("/datasets/{owner}/{name}", pages.dataset_page),
    Route("/datasets/{owner}/{name}/resolve/{revision}/{path:path}", sending.resolve),
]


def make_app(mirror: Mirror) -> ASGIApp:
    """The application that serves a library."""
    handlers: Any = {
        Refusal: _refused,
        HTTPException: _no_route,
        ClientDisconnect: _gone,
        OSError: _disk,
        500: _failed,
    }
    app = Starlette(routes=ROUTES, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.mirror = mirror
    return _Outer(app, mirror.limits.stuck_seconds)


class _Outer:
    """Routes by the path as it came, so that a %2F is no slash; adds what every answer carries."""

    def __init__(self, app: ASGIApp, stuck_seconds: float) -> None:
        self._app, self._stuck = app, stuck_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = {**scope, "path": scope["raw_path"].decode("latin-1")}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        # An answer that is left unfinished ends the connection.
        with suppress(Stuck):
            await self._app(scope, receive, patient_send(with_headers, self._stuck))


def _refused(request: Request, refusal: Refusal) -> JSONResponse:
    return refused(refusal)


def _no_route(request: Request, error: HTTPException) -> JSONResponse:
    """No such route: a repo of another kind, or one without an owner, is a repo that is not here."""
    if error.status_code != 404:
        return refused(Refusal(error.status_code, "this mirror does not do that here"))
    path = request.scope["path"]
    if path.startswith(("/api/models/", "/api/spaces/", "/api/kernels/")):
        said = "this mirror holds datasets only: say repo_type='dataset'"
    elif path.startswith(("/api/datasets/", "/datasets/")):
        said = "there is nothing here: a dataset has an owner and a name"
    else:
        return refused(Refusal(404, "there is nothing here", "EntryNotFound"))
    return refused(Refusal(404, said, "RepoNotFound"))


def _gone(request: Request, error: ClientDisconnect) -> JSONResponse:
    """The client has left in the middle of its body; nobody reads this."""
    return refused(Refusal(400, "the body was cut"))


def _disk(request: Request, error: OSError) -> JSONResponse:
    """A full disk is said; anything else is the server's own trouble, and in its log."""
    if error.errno not in OUT_OF_SPACE:
        raise error
    text = f"the mirror's disk is full ({errno.errorcode[error.errno or 0]}): nothing was kept"
    return refused(Refusal(507, text))


def _failed(request: Request, error: Exception) -> JSONResponse:
    return refused(Refusal(500, "the mirror has failed here; its log says how"))
