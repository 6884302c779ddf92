"""Every route of the mirror, and how errors become answers."""

from __future__ import annotations

import asyncio
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
from shiftdata.serving import commits, file_answers, lfs, listings, pages, repo_admin
from shiftdata.serving.refusals import Refusal
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
    Route(f"{API}/branch/{{revision}}", repo_admin.create_branch, methods=["POST"]),
    Route(f"{API}/branch/{{revision}}", repo_admin.delete_branch, methods=["DELETE"]),
    Route(f"{API}/tag/{{revision}}", repo_admin.create_tag, methods=["POST"]),
    Route(f"{API}/tag/{{revision}}", repo_admin.delete_tag, methods=["DELETE"]),
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
                async with asyncio.timeout(mirror.limits.stuck_seconds):
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
