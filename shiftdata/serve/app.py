"""The application: every route of the mirror, how errors become answers, and the server that runs it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
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

from shiftdata.serve import file_answers, listings
from shiftdata.serve.connections import Connection
from shiftdata.serve.folders import EXHAUSTED
from shiftdata.serve.logs import log_config
from shiftdata.serve.names import Refusal
from shiftdata.serve.request import Mirror, base_url, mirror_of
from shiftdata.serve.turns import Work

API = "/api/datasets/{owner}/{name}"
DATA = "/datasets/{owner}/{name}/data"


def _page(name: str, kind: Work = "page") -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that waits for its turn; its module needs pandas, and is imported at the first request."""

    def answer(request: Request) -> Response:
        response: Response = getattr(import_module("shiftdata.serve.page_routes"), name)(request)
        return response

    async def in_turn(request: Request) -> Response:
        return await mirror_of(request).turns[kind].run(answer, request)

    return in_turn


ROUTES = [
    Route("/", _page("front_page")),
    Route("/catalog.json", _page("catalog", "catalog")),
    Route("/assets/{name}", _page("asset")),
    Route("/api/whoami-v2", listings.whoami),
    Route("/api/datasets", listings.list_datasets),
    Route(API, listings.dataset_info),
    Route(f"{API}/revision/{{revision}}", listings.dataset_info),
    Route(f"{API}/auth-check", listings.auth_check),
    Route(f"{API}/tree/{{revision}}", listings.tree),
    Route(f"{API}/tree/{{revision}}/{{path:path}}", listings.tree),
    Route(f"{API}/paths-info/{{revision}}", listings.paths_info, methods=["POST"]),
    Route(f"{API}/refs", listings.refs),
    Route(f"{API}/commits/{{revision}}", listings.history),
    Route("/datasets/{owner}/{name}", _page("dataset_page")),
    Route("/datasets/{owner}/{name}/example.html", _page("example_page")),
    Route("/datasets/{owner}/{name}/severity.html", _page("severity_page")),
    Route("/datasets/{owner}/{name}/card.webp", _page("card_image", "picture")),
    Route(f"{DATA}/rows.json", _page("rows_json")),
    Route(f"{DATA}/example.json", _page("example_json")),
    Route(f"{DATA}/counts.json", _page("counts_json", "task")),
    Route(f"{DATA}/picture/{{base}}/{{row:int}}", _page("picture", "picture")),
    Route(
        f"{DATA}/covers/{{base}}-{{label:int}}-{{step:int}}.webp",
        _page("cover_image", "picture"),
    ),
    Route("/datasets/{owner}/{name}/resolve/{revision}/{path:path}", file_answers.resolve),
]


def make_app(mirror: Mirror) -> ASGIApp:
    """The application that serves a library."""
    handlers: Any = dict.fromkeys((Refusal, HTTPException, ClientDisconnect, 500), _answer)
    app = Starlette(routes=ROUTES, exception_handlers=handlers | {OSError: _system_error})
    app.router.redirect_slashes = False
    app.state.mirror = mirror

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if mirror.token is not None:
                    headers["Cache-Control"] = "private, no-store"
                    headers["Cross-Origin-Resource-Policy"] = "same-origin"
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
            return Refusal(
                error.status_code, "this mirror only reads: it does not support this request"
            ).answer()
    return Refusal(500, "the mirror failed; its log says why").answer()


def _no_route(path: str) -> Refusal:
    """A repo of another type, or one without an owner, is a repo that does not exist."""
    if path.startswith(("/api/models/", "/api/spaces/", "/api/kernels/")):
        return Refusal(404, "this mirror has datasets only: pass repo_type='dataset'", "RepoNotFound")
    if path.startswith(("/api/datasets/", "/datasets/")):
        return Refusal(404, "not found: a dataset is named <owner>/<name>", "RepoNotFound")
    return Refusal(404, "not found", "EntryNotFound")


def _system_error(request: Request, error: OSError) -> JSONResponse:
    if error.errno not in EXHAUSTED:
        raise error
    return Refusal(
        503, "the server has too many files open: ask again", headers={"Retry-After": "5"}
    ).answer()


#: Connections that are accepted in one go, and those that wait for it in the system.
ACCEPTED, BACKLOG = 4, 4096


class Server(uvicorn.Server):
    """uvicorn's own, except that new connections wait for those that are open.

    For asyncio, the backlog is also the number of connections that it accepts before it looks at others.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)


def server(mirror: Mirror, *, quiet: bool) -> uvicorn.Server:
    """A server to `run` on a socket from `listen`."""
    limits, level = mirror.limits, "WARNING" if quiet else "INFO"
    config = uvicorn.Config(
        make_app(mirror),
        http=partial(Connection, mirror.connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        loop="asyncio",
        backlog=ACCEPTED,
        log_config=log_config(level),
        log_level=level.lower(),
        access_log=not quiet,
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=sorted(limits.proxies),
        server_header=False,
        timeout_keep_alive=int(limits.request_timeout) + 1,
        timeout_graceful_shutdown=5,
    )
    return Server(config)
