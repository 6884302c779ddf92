"""The application: every route of the mirror, and how errors become answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shiftdata.evaluation.pages.shell import asset_hash, assets
from shiftdata.serve import file_answers, listings
from shiftdata.serve.folders import EXHAUSTED
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.page_process import Ask
from shiftdata.serve.request import Mirror, address_of, base_url, mirror_of, part, repo_of, visible_repos

API = "/api/datasets/{owner}/{name}"
DATA = "/datasets/{owner}/{name}/data"


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint of `page_routes`, in the process of pages if the mirror has one."""

    async def endpoint(request: Request) -> Response:
        if (pages := mirror_of(request).pages) is not None:
            return await pages.answer(address_of(request), partial(_asked, name, request))
        here: Callable[[Ask], Response] = import_module("shiftdata.serve.page_routes").respond
        return await run_in_threadpool(lambda: here(_asked(name, request)))

    return endpoint


def _asked(name: str, request: Request) -> Ask:
    """Return what a page needs to know, for a caller who may read."""
    if "owner" in request.path_params:
        repo = repo_of(request)
        heads = [(repo, repo.commit("main"))]
    else:
        heads = visible_repos(request)
    path = {
        key: part(request, key) if isinstance(value, str) else value
        for key, value in request.path_params.items()
    }
    return Ask(name, base_url(request), path, request.url.query, heads)


ENDINGS = {"css": "text/css", "js": "text/javascript"}


def asset(request: Request) -> Response:
    """`/assets/<file>`: a script or the style of the pages."""
    name = part(request, "name")
    if (file := assets().get(name)) is None:
        raise no_entry(name)
    caching = "public, max-age=31536000, immutable" if request.url.query == asset_hash(name) else "no-cache"
    kind = ENDINGS[name.rpartition(".")[2]]
    return Response(file.read_bytes(), media_type=kind, headers={"Cache-Control": caching})


ROUTES = [
    Route("/", _page("front_page")),
    Route("/catalog.json", listings.catalog),
    Route("/assets/{name}", asset),
    Route("/api/whoami-v2", listings.whoami),
    Route("/api/datasets", listings.list_datasets),
    Route(API, listings.dataset_info),
    Route(f"{API}/revision/{{revision}}", listings.dataset_info),
    Route(f"{API}/auth-check", listings.auth_check),
    Route(f"{API}/leaderboard", listings.leaderboard),
    Route(f"{API}/tree/{{revision}}", listings.tree),
    Route(f"{API}/tree/{{revision}}/{{path:path}}", listings.tree),
    Route(f"{API}/paths-info/{{revision}}", listings.paths_info, methods=["POST"]),
    Route(f"{API}/refs", listings.refs),
    Route(f"{API}/commits/{{revision}}", listings.history),
    Route("/datasets/{owner}/{name}", _page("dataset_page")),
    Route("/datasets/{owner}/{name}/duplicates.html", _page("duplicates_page")),
    Route("/datasets/{owner}/{name}/example.html", _page("example_page")),
    Route("/datasets/{owner}/{name}/severity.html", _page("severity_page")),
    Route("/datasets/{owner}/{name}/card.webp", _page("card_image")),
    Route(f"{DATA}/rows.json", _page("rows_json")),
    Route(f"{DATA}/example.json", _page("example_json")),
    Route(f"{DATA}/counts.json", _page("counts_json")),
    Route(f"{DATA}/picture/{{base}}/{{row:int}}", _page("picture")),
    Route(f"{DATA}/covers/{{base}}-{{label:int}}-{{step:int}}.webp", _page("cover_image")),
    Route("/datasets/{owner}/{name}/resolve/{revision}/{path:path}", file_answers.resolve),
]


def make_app(mirror: Mirror) -> ASGIApp:
    """The application that serves a library."""
    handlers: Any = dict.fromkeys((Refusal, HTTPException, 500), _answer)
    app = Starlette(routes=ROUTES, exception_handlers=handlers | {OSError: _system_error})
    app.router.redirect_slashes = False
    app.state.mirror = mirror

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if not mirror.readers.is_open:
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
