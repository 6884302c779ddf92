"""The application: every route of the mirror, how errors become answers, and the server that runs it."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftdata.files import OUT_OF_SPACE
from shiftdata.serve import commits, file_answers, lfs, listings, repo_admin, sign_in
from shiftdata.serve.blobs import TOO_MANY
from shiftdata.serve.connections import Connection, Limits
from shiftdata.serve.logs import log_config
from shiftdata.serve.names import Refusal
from shiftdata.serve.request import Mirror, base_url, mirror_of
from shiftdata.serve.server import Server
from shiftdata.serve.turns import Work

API = "/api/datasets/{owner}/{name}"
DATA = "/datasets/{owner}/{name}/data"
COVER = "{base}-{label:int}-{step:int}.webp"
LFS = "/datasets/{owner}/{name}.git/info/lfs/objects"


def _later(module: str, name: str, kind: Work = "page") -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that waits for its turn; its module is imported when it is first asked: it needs pandas."""

    def answer(request: Request) -> Response:
        made: Response = getattr(import_module(f"shiftdata.serve.{module}"), name)(request)
        return made

    async def in_turn(request: Request) -> Response:
        return await mirror_of(request).turns[kind].run(answer, request)

    return in_turn


ROUTES = [
    Route("/", _later("page_routes", "front_page")),
    Route("/catalog.json", _later("page_routes", "catalog", "catalog")),
    Route("/sign-in", sign_in.sign_in, methods=["POST"]),
    Route("/assets/{name}", _later("page_routes", "asset")),
    Route("/results/{name}", _later("page_routes", "result")),
    Route("/results/{name}/{path:path}", _later("page_routes", "result")),
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
    Route("/datasets/{owner}/{name}", _later("page_routes", "dataset_page")),
    Route("/datasets/{owner}/{name}/example.html", _later("page_routes", "example_page")),
    Route("/datasets/{owner}/{name}/severity.html", _later("page_routes", "severity_page")),
    Route("/datasets/{owner}/{name}/card.webp", _later("page_routes", "card_image", "picture")),
    Route(f"{DATA}/rows.json", _later("page_data", "rows_json")),
    Route(f"{DATA}/example.json", _later("page_data", "example_json")),
    Route(f"{DATA}/counts.json", _later("page_data", "counts_json", "task")),
    Route(f"{DATA}/picture/{{base}}/{{row:int}}", _later("page_data", "picture", "picture")),
    Route(
        f"{DATA}/covers/{{base}}-{{label:int}}-{{step:int}}.webp",
        _later("page_data", "cover_image", "picture"),
    ),
    Route("/datasets/{owner}/{name}/resolve/{revision}/{path:path}", file_answers.resolve),
]


def make_app(mirror: Mirror) -> ASGIApp:
    """The application that serves a library."""
    handlers: Any = dict.fromkeys((Refusal, HTTPException, ClientDisconnect, 500), _answer)
    app = Starlette(routes=ROUTES, exception_handlers=handlers | {OSError: _disk_error})
    app.router.redirect_slashes = False
    app.state.mirror = mirror

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if mirror.private:
                    headers["Cache-Control"] = "private, no-store"
            await send(message)

        # Routed by the path as it came, so that %2F is not a slash.
        scope = {**scope, "path": scope["raw_path"].decode("latin-1"), "app": app}
        try:
            base_url(Request(scope))
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send_safely)
        else:
            await app(scope, receive, send_safely)

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
    """Report a full disk, or a lack of descriptors, to the client; anything else goes to the server's log."""
    if error.errno in TOO_MANY:
        text = "the server has too many files open: ask again"
        return Refusal(503, text, headers={"Retry-After": "5"}).answer()
    if error.errno not in OUT_OF_SPACE:
        raise error
    code = errno.errorcode[error.errno or 0]
    return Refusal(507, f"the mirror's disk is full ({code}): nothing was stored").answer()


def server(mirror: Mirror, *, limits: Limits | None = None, quiet: bool) -> Server:
    """A server to `run` on such a socket."""
    limits, level = limits or Limits(), "WARNING" if quiet else "INFO"
    config = uvicorn.Config(
        make_app(mirror),
        http=Connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=log_config(level),
        log_level=level.lower(),
        access_log=not quiet,
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=sorted(limits.proxies),
        server_header=False,
        timeout_keep_alive=int(limits.patience),
        timeout_graceful_shutdown=5,
    )
    return Server(config, limits)
