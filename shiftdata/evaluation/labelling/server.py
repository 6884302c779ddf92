"""The page that asks for labels: a server for those who have its token."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from shiftdata.errors import InputError, NotFoundError, ShiftdataError
from shiftdata.evaluation.labelling.agreement import agreements
from shiftdata.evaluation.labelling.desk import Desk, checked_name
from shiftdata.evaluation.labelling.work import Item
from shiftdata.evaluation.pages.shell import POLICY, asset_hash, assets, render
from shiftdata.serve.names import Refusal
from shiftdata.serve.pages.sprites import for_browser

#: Bytes of a request's body at most.
LONGEST_BODY = 16_384
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
KINDS = {"css": "text/css", "js": "text/javascript"}


def make_app(desk: Desk) -> Starlette:
    """The application of a desk."""
    routes = [
        Route("/", front_page),
        Route("/agreement", agreement_page),
        Route("/assets/{name}", asset),
        Route("/state", state),
        Route("/items/{number:int}", item),
        Route("/pictures/{number:int}/{place:int}", picture),
        Route("/labels", put_label, methods=["POST"]),
        Route("/undo", undo, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={Refusal: _refused, HTTPException: _refused})
    app.state.desk = desk
    return app


def front_page(request: Request) -> Response:
    """`/`: the page; with the token of the printed address the browser gets a cookie for later requests."""
    desk = _desk(request)
    if not desk.has_signed_in(request) and not desk.knows(request.query_params.get("token")):
        return _closed()
    purpose = desk.work.purpose
    page = {
        "who": desk.who,
        "total": len(desk.work.keys),
        "pairs": purpose.pairs,
        "answers": [[one.label, one.letter] for one in purpose.answers],
    }
    answer = _html("label.html", page=page, purpose=purpose, work=desk.work, file=desk.file.path.name)
    answer.set_cookie(desk.cookie(request), desk.token, httponly=True, samesite="strict")
    return answer


def for_labellers(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Make a route that needs the cookie; errors of ours are answered with their text."""

    @wraps(answer)
    def route(request: Request) -> Response:
        _desk(request).check(request)
        return _answered(lambda: answer(request))

    return route


def for_changes(change: Callable[[Desk, str, dict[str, Any]], Any]) -> Callable[[Request], Any]:
    """Make a route of a change: with the cookie, of a page of this server, by somebody with a name."""

    @wraps(change)
    async def route(request: Request) -> Response:
        desk = await run_in_threadpool(_desk, request)
        desk.check(request)
        host = request.headers.get("host")
        if request.headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            raise Refusal(403, "labels are taken from this server's own page alone")
        body = await _body(request)

        def changed() -> Response:
            who = desk.who or checked_name(body.get("who"))
            return JSONResponse(change(desk, who, body), headers=HEADERS)

        return await run_in_threadpool(_answered, changed)

    return route


@for_labellers
def state(request: Request) -> Response:
    """`/state?who=`: all labels of a person."""
    desk = _desk(request)
    who = desk.who or checked_name(request.query_params.get("who"))
    return JSONResponse(desk.state(who), headers=HEADERS)


@for_labellers
def item(request: Request) -> Response:
    """`/items/<number>`: what is shown of a key."""
    desk, number = _desk(request), _number(request)
    return JSONResponse(_shown(desk, number, desk.work.item(number)), headers=HEADERS)


@for_labellers
def picture(request: Request) -> Response:
    """`/pictures/<number>/<place>`: one picture of an item."""
    desk = _desk(request)
    data, kind = for_browser(desk.work.picture(_number(request), request.path_params["place"]))
    alone = {"Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(data, media_type=kind, headers=HEADERS | alone)


@for_changes
def put_label(desk: Desk, who: str, body: dict[str, Any]) -> dict[str, Any]:
    """`POST /labels`: a label of a key; the answer comes when it is on the disk."""
    given, label = body.get("key"), body.get("label")
    key = tuple(given) if isinstance(given, list) and all(isinstance(one, str) for one in given) else ()
    if key not in desk.numbers:
        raise NotFoundError("this server does not ask about that key: load the page again")
    if label not in desk.work.purpose.labels:
        raise InputError(f"the label {label!r:.80} is not one of {', '.join(desk.work.purpose.labels)}")
    desk.file.put(key, label, who)
    return desk.state(who, _since(body))


@for_changes
def undo(desk: Desk, who: str, body: dict[str, Any]) -> dict[str, Any]:
    """`POST /undo`: take back what this person did last; `number` is of what."""
    key = desk.file.undo(who)
    return {"number": None if key is None else desk.numbers.get(key), **desk.state(who, _since(body))}


def agreement_page(request: Request) -> Response:
    """`/agreement`: how far people agree, with the pictures on which they differ."""
    desk = _desk(request)
    if not desk.has_signed_in(request):
        return _closed()
    files = [(desk.file.path.name, desk.file.people()), *desk.others]
    compared = [one for one in agreements(desk.work.purpose, files) if one.n]
    return _html("label_agreement.html", compared=compared, numbers=desk.numbers, work=desk.work)


def asset(request: Request) -> Response:
    """`/assets/<file>`: a script or the style."""
    _desk(request)
    name = request.path_params["name"]
    if (file := assets().get(name)) is None:
        raise Refusal(404, "not found")
    kept = "private, max-age=31536000, immutable" if request.url.query == asset_hash(name) else "no-cache"
    headers = HEADERS | {"Cache-Control": kept}
    return Response(file.read_bytes(), media_type=KINDS[name.rpartition(".")[2]], headers=headers)


def _desk(request: Request) -> Desk:
    """The desk of a server, if the caller calls it by one of its names."""
    desk: Desk = request.app.state.desk
    desk.hosts.of(request)
    return desk


def _closed() -> Response:
    return _html("label_closed.html", status=401)


def _html(template: str, status: int = 200, **context: Any) -> Response:
    text = render(template, root="/", index="", **context)
    return HTMLResponse(text, status, HEADERS)


def _answered(answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except NotFoundError as error:
        raise Refusal(404, str(error)) from None
    except InputError as error:
        raise Refusal(400, str(error)) from None
    except (ShiftdataError, OSError) as error:
        raise Refusal(500, str(error)) from None


def _refused(request: Request, error: Exception) -> Response:
    match error:
        case Refusal():
            answer = error.answer()
        case HTTPException():
            answer = JSONResponse({"error": str(error.detail)}, error.status_code)
        case _:
            raise error
    answer.headers.update(HEADERS)
    return answer


async def _body(request: Request) -> dict[str, Any]:
    """A JSON object as the body."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LONGEST_BODY:
            raise Refusal(413, f"the body is longer than {LONGEST_BODY:,} bytes")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body


def _number(request: Request) -> int:
    number: int = request.path_params["number"]
    if number >= len(_desk(request).work.keys):
        raise NotFoundError(f"there are {len(_desk(request).work.keys):,} items, from 0 on")
    return number


def _since(body: dict[str, Any]) -> int:
    since = body.get("rows")
    return since if isinstance(since, int) else 0


def _shown(desk: Desk, number: int, one: Item) -> dict[str, Any]:
    along = len(one.pictures)
    pictures = [
        {"url": f"/pictures/{number}/{place}", "caption": shown.caption, "asked": shown.asked}
        for place, shown in enumerate([*one.pictures, *one.trajectory])
    ]
    return {
        "key": desk.work.keys[number],
        "title": one.title,
        "facts": one.facts,
        "pictures": pictures[:along],
        "trajectory": pictures[along:],
    }
