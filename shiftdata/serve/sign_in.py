"""Reading a private mirror with a browser: its token once, then a cookie."""

from __future__ import annotations

import hmac
import re
import time
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shiftdata.evaluation.pages.shell import POLICY, render
from shiftdata.serve.names import Refusal
from shiftdata.serve.request import COOKIE, mirror_of, whole_body

#: Seconds for which a browser may read.
COOKIE_AGE = 12 * 3600
MAX_FORM = 4096
#: A path of this server: two slashes, or a backslash, would lead to another one.
PATH = re.compile(r"/(?![/\\])[!-~]*")


def page(request: Request, status: int = 401, error: str = "") -> HTMLResponse:
    """The form for the token; it says nothing of what is here."""
    text = render("sign_in.html", root="/", index="", here=request.url.path, error=error)
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store", "WWW-Authenticate": "Bearer"}
    return HTMLResponse(text, status, headers)


async def sign_in(request: Request) -> Response:
    """`POST /sign-in`: the token of the form for a cookie."""
    mirror, body = mirror_of(request), await whole_body(request, MAX_FORM)
    form = parse_qs(body.decode(errors="replace"))
    token, after = form.get("token", [""])[0].strip(), form.get("next", ["/"])[0]
    if mirror.token is None:
        raise Refusal(404, "this mirror has no token: everyone may read")
    if not hmac.compare_digest(token.encode(errors="replace"), mirror.token.encode()):
        return await run_in_threadpool(page, request, 401, "That is not this mirror's token.")
    answer = RedirectResponse(after if PATH.fullmatch(after) else "/", 303)
    answer.set_cookie(
        COOKIE,
        mirror.reader_cookie(int(time.time()) + COOKIE_AGE),
        max_age=COOKIE_AGE,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer
