"""What every route needs: the mirror, who asks, the repo in the path, the body in bounded pieces."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeAlias
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.library import Library, Repo
from shiftdata.serving.names import Refusal, no_repo
from shiftdata.serving.uploaded import UploadedRepo

#: What clients know as "this token is wrong"; another text of a 401 they take for "no such repo".
WRONG_TOKEN = "Invalid credentials in Authorization header"

#: Seconds for which an upload may begin after it was announced.
SIGNED_FOR = 24 * 3600


@dataclass(frozen=True)
class Access:
    """The rules of a server: its token, if any, and whether reading needs it too.

    A server on loopback alone that has no token is `trusting`: it accepts any token, but still requires one,
    so that no page in a browser can write to it.
    """

    token: str | None = field(default=None, repr=False)
    private: bool = False
    trusting: bool = False

    def is_owner(self, header: str | None) -> bool:
        """Whether a request with this Authorization header may do everything."""
        scheme, _, given = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            return False
        if self.token is None:
            return self.trusting
        return hmac.compare_digest(given.strip().encode(), self.token.encode())

    def check_owner(self, header: str | None) -> None:
        if not self.is_owner(header):
            any_token = " (here any token is accepted)" if self.trusting and self.token is None else ""
            text = f"this needs the mirror's token: set HF_TOKEN to it{any_token}"
            raise Refusal(401, text, shown=WRONG_TOKEN, headers={"WWW-Authenticate": "Bearer"})

    def sees(self, repo: Repo, header: str | None) -> bool:
        """Whether the repo exists for this caller."""
        return self.is_owner(header) or not (self.private or repo.settings().private)

    def check_reader(self, repo: Repo, header: str | None, *, for_files: bool) -> None:
        """Refuse a repo that is hidden, as if it did not exist; and, `for_files`, one that is gated."""
        if not self.sees(repo, header):
            raise no_repo(repo.owner, repo.name, status=self.missing_status(header))
        if for_files and repo.settings().gated and not self.is_owner(header):
            text = f"{repo.owner}/{repo.name} is gated: its files need the server's token"
            raise Refusal(403, text, "GatedRepo")

    def missing_status(self, header: str | None) -> int:
        """The status of "no such repo": without the token, nobody can tell it from a private one."""
        return 404 if self.is_owner(header) or (self.token is None and not self.private) else 401


@dataclass(frozen=True)
class Signer:
    """Signs upload URLs: clients send no token to them."""

    key: bytes = field(repr=False)

    def query(self, path: str, size: int) -> str:
        """What follows the `?` of the URL for one object of one size."""
        until = int(time.time()) + SIGNED_FOR
        return f"size={size}&until={until}&signature={self._signature(path, size, until)}"

    def check(self, path: str, query: Mapping[str, str]) -> int:
        """The announced size, if this server made the URL."""
        size, until, signature = (query.get(key, "") for key in ("size", "until", "signature"))
        plain = all(text.isascii() and text.isdigit() and len(text) <= 18 for text in (size, until))
        wanted = self._signature(path, int(size), int(until)) if plain else ""
        if not plain or not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
            raise Refusal(403, "this is not an upload URL of this server: ask for a new one")
        if int(until) < time.time():
            raise Refusal(403, "this upload URL has expired: ask for a new one")
        return int(size)

    def _signature(self, path: str, size: int, until: int) -> str:
        return hmac.new(self.key, f"{path}\n{size}\n{until}".encode(), hashlib.sha256).hexdigest()


HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")

#: Bytes of a JSON body at most: clients send 256 samples of 512 bytes, or 1,000 paths.
LONGEST_JSON = 8 << 20

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """How much a client may ask of the server.

    Files up to `regular_bytes` come inside the commit; those of `publish`, which identifies itself by a
    header, only up to `resumable_bytes`, so that what was sent is not sent again. `idle_seconds` may pass
    without a byte of a body, `stuck_seconds` without a client taking a byte. Of uploads `writers` run at
    once, and others wait `queue_seconds`.
    """

    regular_bytes: int = 50_000_000
    resumable_bytes: int = 1_000_000
    idle_seconds: float = 60
    stuck_seconds: float = 600
    writers: int = 16
    queue_seconds: float = 30


@dataclass
class Mirror:
    """The server's parts, available in every request."""

    library: Library
    access: Access
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.signer = Signer(self.library.key)
        self._writers = asyncio.Semaphore(self.limits.writers)

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[None]:
        """A turn to receive a large body; readers never wait for one."""
        try:
            async with asyncio.timeout(self.limits.queue_seconds):
                await self._writers.acquire()
        except TimeoutError:
            raise Refusal(503, "too many uploads at once: try again", headers={"Retry-After": "10"}) from None
        try:
            yield
        finally:
            self._writers.release()


def mirror_of(request: Request) -> Mirror:
    """The server that was asked."""
    mirror: Mirror = request.app.state.mirror
    return mirror


def authorization(request: Request) -> str | None:
    """The header that says who asks."""
    return request.headers.get("authorization")


def part(request: Request, name: str, default: str = "") -> str:
    """A part of the path; it was routed as it came, and is decoded here, once."""
    try:
        return unquote(request.path_params.get(name, default), errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8", "EntryNotFound") from None


def repo_of(request: Request, *, for_files: bool = False) -> Repo:
    """The repo that the path names, if the caller may see it (and, `for_files`, read it)."""
    mirror, owner, name = mirror_of(request), part(request, "owner"), part(request, "name")
    header = authorization(request)
    repo = mirror.library.get(owner, name)
    if repo is None:
        raise no_repo(owner, name, status=mirror.access.missing_status(header))
    mirror.access.check_reader(repo, header, for_files=for_files)
    return repo


def visible_repos(request: Request) -> list[Repo]:
    """Every repo that the caller may see."""
    mirror, header = mirror_of(request), authorization(request)
    if mirror.access.private:
        mirror.access.check_owner(header)
    return [repo for repo in mirror.library.repos() if mirror.access.sees(repo, header)]


def check_writer(request: Request) -> Library:
    """Refuse a caller who may not write, or a server that is read-only."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    mirror.access.check_owner(authorization(request))
    return mirror.library


def repo_to_write(request: Request) -> UploadedRepo:
    """The repo that the path names, if the caller may change it."""
    return check_writer(request).to_write(part(request, "owner"), part(request, "name"))


def writes(
    change: Callable[[Request, UploadedRepo, Json], Json | None],
) -> Callable[[Request], Awaitable[Any]]:
    """Make a route of a change to a repo: it checks who asks, reads a JSON body, and answers with JSON."""

    @wraps(change)
    async def route(request: Request) -> JSONResponse:
        repo = await run_in_threadpool(repo_to_write, request)
        body = await json_body(request)
        return JSONResponse(await run_in_threadpool(change, request, repo, body) or {})

    return route


def base_url(request: Request) -> str:
    """The server as the caller calls it."""
    host = request.headers.get("host", "")
    if not HOST.fullmatch(host):
        raise Refusal(400, "the Host header is not a host name")
    return f"{request.url.scheme}://{host}"


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes; a client that falls silent is dropped."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(mirror_of(request).limits.idle_seconds):
                piece = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, "the body stopped coming", headers={"Connection": "close"}) from None
        if piece is None:
            return
        if piece:
            yield piece


async def whole_body(request: Request, most: int) -> bytes:
    """All of a body that has `most` bytes at most."""
    body = bytearray()
    async for piece in pieces(request):
        body += piece
        if len(body) > most:
            raise Refusal(413, f"the body is longer than {most:,} bytes")
    return bytes(body)


async def json_body(request: Request) -> Json:
    """A JSON object as the body; nothing counts as an empty one."""
    try:
        body = json.loads(await whole_body(request, LONGEST_JSON) or b"{}")
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
