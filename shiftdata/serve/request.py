"""What every route needs: the mirror, the caller, the repo in the path, the body within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from starlette.requests import Request

from shiftdata.serve.connections import Connections, Limits
from shiftdata.serve.hosts import Hosts
from shiftdata.serve.library import Library, Repo
from shiftdata.serve.live import Live
from shiftdata.serve.names import Refusal, no_repo
from shiftdata.serve.repos import Commit
from shiftdata.serve.turns import turns

#: The text that clients know as "this token is wrong"; another one of a 401 they take for "no such repo".
WRONG_TOKEN = "Invalid credentials in Authorization header"

#: The cookie of a browser that may read: see `sign_in`.
COOKIE = "shiftdata_reader"

#: Bytes of a body that are always kept in memory, and of all bodies together what goes beyond.
SHORT_BODY = 64 << 10
LONG_BODIES = 64 << 20

Json: TypeAlias = dict[str, Any]


@dataclass
class Mirror:
    """The server: its repos, the token without which nobody may read, if any, and its limits."""

    library: Library
    token: str | None = field(default=None, repr=False)
    results: Mapping[str, Path] = field(default_factory=dict)  # pages of results, by name
    hosts: frozenset[str] = frozenset()  # more names by which it is known
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.live, self.turns = Live(), turns()
        self.connections = Connections(self.limits)
        self.room = LONG_BODIES
        self.known_as = Hosts(self.hosts)
        self._key = os.urandom(32)  # of cookies, which end with the server

    def has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def may_read(self, request: Request) -> bool:
        """Return True for everybody if there is no token; else with the token, or the cookie of `sign_in`."""
        if self.token is None or self.has_token(request):
            return True
        until = request.cookies.get(COOKIE, "").partition(".")[0]
        if not (until.isascii() and until.isdigit() and len(until) <= 12):
            return False
        cookie = request.cookies[COOKIE].encode(errors="replace")
        return (
            hmac.compare_digest(cookie, self.reader_cookie(int(until)).encode()) and int(until) > time.time()
        )

    def reader_cookie(self, until: int) -> str:
        """The cookie of a browser that has sent the token; another token makes it void."""
        return f"{until}.{hmac.new(self._key, f'{until} {self.token}'.encode(), hashlib.sha256).hexdigest()}"

    def check_token(self, request: Request) -> None:
        if not self.has_token(request):
            text = "this needs the mirror's token: set HF_TOKEN to it"
            raise Refusal(401, text, shown=WRONG_TOKEN, headers={"WWW-Authenticate": "Bearer"})


def mirror_of(request: Request) -> Mirror:
    """The server that received a request."""
    mirror: Mirror = request.app.state.mirror
    return mirror


def part(request: Request, name: str, default: str = "") -> str:
    """A part of the path; it was routed as it came, and is decoded here, once."""
    try:
        return unquote(request.path_params.get(name, default), errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8", "EntryNotFound") from None


def repo_of(request: Request) -> Repo:
    """The repo that the path names. Without the token, one that is missing looks like any other."""
    mirror, owner, name = mirror_of(request), part(request, "owner"), part(request, "name")
    if not mirror.may_read(request):
        raise no_repo(owner, name, status=401)
    repo = mirror.library.get(owner, name)
    if repo is None:
        raise no_repo(owner, name)
    return repo


def check_reader(request: Request) -> Mirror:
    """Refuse a caller who may not read."""
    mirror = mirror_of(request)
    if not mirror.may_read(request):
        mirror.check_token(request)
    return mirror


def visible_repos(request: Request) -> list[tuple[Repo, Commit]]:
    """Every repo with its newest commit, for a caller who may read."""
    return check_reader(request).library.heads()


def base_url(request: Request) -> str:
    """The server as the caller calls it, if that is a name of this server; any other is refused."""
    return f"{request.url.scheme}://{mirror_of(request).known_as.of(request)}"


async def whole_body(request: Request, limit: int) -> bytes:
    """All of a body that has `limit` bytes at most and comes in time."""
    mirror, body, taken = mirror_of(request), bytearray(), 0
    try:
        async with asyncio.timeout(mirror.limits.request_timeout):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise Refusal(413, f"the body is longer than {limit:,} bytes")
                more = max(0, len(body) - SHORT_BODY) - taken
                if more > mirror.room:
                    raise Refusal(
                        503, "too many long bodies at once: try again", headers={"Retry-After": "10"}
                    )
                mirror.room, taken = mirror.room - more, taken + more
        return bytes(body)
    except TimeoutError:
        raise Refusal(408, "the body came too slowly", headers={"Connection": "close"}) from None
    finally:
        mirror.room += taken


async def json_body(request: Request, limit: int) -> Json:
    """A JSON object as the body; an empty body counts as an empty object."""
    try:
        body = json.loads(await whole_body(request, limit) or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body
