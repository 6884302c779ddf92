"""What every route needs: the mirror, who asks, the repo in the path, the body in bounded pieces."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serve.hosts import Hosts
from shiftdata.serve.library import Library, Repo
from shiftdata.serve.live import Live
from shiftdata.serve.names import Refusal, no_repo
from shiftdata.serve.repos import Commit
from shiftdata.serve.turns import turns
from shiftdata.serve.uploaded import UploadedRepo

#: What clients know as "this token is wrong"; another text of a 401 they take for "no such repo".
WRONG_TOKEN = "Invalid credentials in Authorization header"

#: Seconds for which an upload may begin after it was announced.
SIGNED_FOR = 24 * 3600

#: The cookie of a browser that may read: see `sign_in`.
COOKIE = "shiftdata_reader"

#: Bytes of a JSON body at most: of clients with the token, who send 256 samples of 512 bytes, and of others.
LONGEST_JSON = 8 << 20
LONGEST_QUESTION = 1 << 20

#: Bytes of a body that are always kept in memory, and of all bodies together what goes beyond.
SHORT_BODY = 64 << 10
LONG_BODIES = 64 << 20

#: Pieces of uploads that are decoded and written at once: readers always find a thread.
WRITERS = 16

Json: TypeAlias = dict[str, Any]


@dataclass
class Mirror:
    """The server: its repos, its token, if any, whether reading needs it too, and its limits.

    Without a token a writable server, which is on loopback alone, accepts any; it still requires one, so that
    no page in a browser can write to it.
    """

    library: Library
    token: str | None = field(default=None, repr=False)
    private: bool = False
    regular_bytes: int = 50_000_000  # of a file inside a commit at most; others come by LFS
    resumable_bytes: int = 1_000_000  # the same for `publish`: by LFS, what was sent is not sent again
    results: Mapping[str, Path] = field(default_factory=dict)  # pages of results, by name
    hosts: frozenset[str] = frozenset()  # names, beside those of this machine, by which it is known

    def __post_init__(self) -> None:
        self.live, self.turns = Live(), turns()
        self.writing = asyncio.Semaphore(
            WRITERS
        )  # for one piece of a body at a time: a slow one blocks nobody
        self.room = LONG_BODIES
        self.known_as = Hosts(self.hosts)

    def is_owner(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            return False
        if self.token is None:
            return self.library.writable
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def may_read(self, request: Request) -> bool:
        """Whether somebody may read what is private: with the token, or a browser that has signed in.

        The cookie counts nowhere else, so that no page of another server can write with it.
        """
        if self.is_owner(request):
            return True
        until, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if self.token is None or not (until.isascii() and until.isdigit() and len(until) <= 12):
            return False
        wanted = self.reader_cookie(int(until)).partition(".")[2]
        same = hmac.compare_digest(signature.encode(errors="replace"), wanted.encode())
        return same and int(until) > time.time()

    def reader_cookie(self, until: int) -> str:
        """What a browser gets that has sent the token; another token makes it void."""
        token = hashlib.sha256((self.token or "").encode()).hexdigest()
        return f"{until}.{self._signature(f'reader {token}', 0, until)}"

    def check_owner(self, request: Request) -> None:
        if not self.is_owner(request):
            any_token = (
                " (here any token is accepted)" if self.library.writable and self.token is None else ""
            )
            text = f"this needs the mirror's token: set HF_TOKEN to it{any_token}"
            raise Refusal(401, text, shown=WRONG_TOKEN, headers={"WWW-Authenticate": "Bearer"})

    def sees(self, repo: Repo, request: Request) -> bool:
        return self.may_read(request) or not (self.private or repo.settings().private)

    def upload_query(self, path: str, size: int) -> str:
        """What follows the `?` of the URL for one upload; it is signed, as clients send no token there."""
        until = int(time.time()) + SIGNED_FOR
        return f"size={size}&until={until}&signature={self._signature(path, size, until)}"

    def announced_size(self, path: str, query: Mapping[str, str]) -> int:
        """The size that an upload URL was signed for, if this server made it."""
        size, until, signature = (query.get(key, "") for key in ("size", "until", "signature"))
        plain = all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (size, until))
        wanted = self._signature(path, int(size), int(until)) if plain else ""
        if not plain or not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
            raise Refusal(403, "this is not an upload URL of this server: ask for a new one")
        if int(until) < time.time():
            raise Refusal(403, "this upload URL has expired: ask for a new one")
        return int(size)

    def _signature(self, path: str, size: int, until: int) -> str:
        return hmac.new(self.library.key, f"{path}\n{size}\n{until}".encode(), hashlib.sha256).hexdigest()


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


def repo_of(request: Request, *, for_files: bool = False) -> Repo:
    """The repo that the path names, if the caller may see it (and, `for_files`, read it)."""
    mirror, owner, name = mirror_of(request), part(request, "owner"), part(request, "name")
    repo, is_reader = mirror.library.get(owner, name), mirror.may_read(request)
    if repo is None or not mirror.sees(repo, request):
        # Without the token, nobody can tell a repo that does not exist from a private one.
        open_to_all = mirror.token is None and not mirror.private
        raise no_repo(owner, name, status=404 if is_reader or open_to_all else 401)
    if for_files and repo.settings().gated and not is_reader:
        raise Refusal(403, f"{owner}/{name} is gated: its files need the server's token", "GatedRepo")
    return repo


def check_reader(request: Request) -> Mirror:
    """Refuse a caller who may not read what a private mirror has."""
    mirror = mirror_of(request)
    if mirror.private and not mirror.may_read(request):
        mirror.check_owner(request)
    return mirror


def visible_repos(request: Request) -> list[tuple[Repo, Commit]]:
    """Every repo that the caller may see, with its newest commit."""
    mirror = check_reader(request)
    return [(repo, commit) for repo, commit in mirror.library.heads() if mirror.sees(repo, request)]


def check_writer(request: Request) -> Library:
    """Refuse a caller who may not write, or a server that is read-only."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    mirror.check_owner(request)
    return mirror.library


def repo_to_write(request: Request) -> UploadedRepo:
    """The repo that the path names, if the caller may change it."""
    return check_writer(request).to_write(part(request, "owner"), part(request, "name"))


def writes(change: Callable[[Request, UploadedRepo, Json], Json | None]) -> Callable[[Request], Any]:
    """Make a route of a change to a repo: it checks who asks, reads a JSON body, and answers with JSON."""

    @wraps(change)
    async def route(request: Request) -> JSONResponse:
        repo = await run_in_threadpool(repo_to_write, request)
        body = await json_body(request)
        return JSONResponse(await run_in_threadpool(change, request, repo, body) or {})

    return route


def base_url(request: Request) -> str:
    """The server as the caller calls it, if that is a name of this server; any other is refused."""
    return f"{request.url.scheme}://{mirror_of(request).known_as.of(request)}"


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes."""
    async for piece in request.stream():
        if piece:
            yield piece


async def whole_body(request: Request, most: int) -> bytes:
    """All of a body that has `most` bytes at most."""
    mirror, body, taken = mirror_of(request), bytearray(), 0
    try:
        async for piece in pieces(request):
            body += piece
            if len(body) > most:
                raise Refusal(413, f"the body is longer than {most:,} bytes")
            more = max(0, len(body) - SHORT_BODY) - taken
            if more > mirror.room:
                raise Refusal(503, "too many long bodies at once: try again", headers={"Retry-After": "10"})
            mirror.room, taken = mirror.room - more, taken + more
        return bytes(body)
    finally:
        mirror.room += taken


async def json_body(request: Request) -> Json:
    """A JSON object as the body; nothing counts as an empty one."""
    most = LONGEST_JSON if mirror_of(request).is_owner(request) else LONGEST_QUESTION
    try:
        body = json.loads(await whole_body(request, most) or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not a JSON object")
    return body


def text_of(body: Json, name: str, default: str | None = None) -> str:
    """A text in a body."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or len(value) > 100_000:
        raise Refusal(400, f"{name!a} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"{name!a} is not valid text: it has half a surrogate pair") from None
    return value
