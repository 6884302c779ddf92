"""What every route needs of a request: its parts, its repo, its body in bounded pieces, and who asks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse

from shiftdata.serving.auth import Access, Signer
from shiftdata.serving.library import Library
from shiftdata.serving.refusals import Refusal, no_repo
from shiftdata.serving.repos import Repo
from shiftdata.serving.store import StoredRepo

HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")

#: Bytes of a JSON body at most: clients send 256 samples of 512 bytes, or 1,000 paths.
LONGEST_JSON = 8 << 20


@dataclass(frozen=True)
class Limits:
    """How much a client may ask of the server.

    Files up to `regular_bytes` come inside the commit; those of `publish`, which says so in a header, only up
    to `resumable_bytes`, so that what was sent is not sent again. `idle_seconds` may pass without a byte of
    a body, `stuck_seconds` without a client taking a byte. Of uploads `writers` run at once, and others wait
    `queue_seconds`.
    """

    regular_bytes: int = 50_000_000
    resumable_bytes: int = 1_000_000
    idle_seconds: float = 60
    stuck_seconds: float = 600
    writers: int = 16
    queue_seconds: float = 30


@dataclass
class Mirror:
    """The server's parts, at hand in every request."""

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


def part(request: Request, name: str) -> str:
    """A part of the path; it was routed as it came, and is decoded here, once."""
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, "the path is not UTF-8", "EntryNotFound") from None


def repo_of(request: Request, *, for_files: bool = False) -> Repo:
    """The repo that the path names, if the caller may see it (and, `for_files`, read it)."""
    mirror, owner, name = mirror_of(request), part(request, "owner"), part(request, "name")
    header = authorization(request)
    try:
        repo = mirror.library.get(owner, name)
    except Refusal:
        raise no_repo(owner, name, status=mirror.access.missing(header)) from None
    (mirror.access.check_reads if for_files else mirror.access.check_sees)(repo, header)
    return repo


def repo_to_write(request: Request) -> StoredRepo:
    """The repo that the path names, if the caller may change it."""
    mirror = mirror_of(request)
    mirror.library.check_writable()
    mirror.access.check_owner(authorization(request))
    return mirror.library.to_write(part(request, "owner"), part(request, "name"))


def base_url(request: Request) -> str:
    """The server as the caller calls it."""
    host = request.headers.get("host", "")
    if not HOST.fullmatch(host):
        raise Refusal(400, "the Host header is no host")
    return f"{request.url.scheme}://{host}"


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes; a client that falls silent is left."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(mirror_of(request).limits.idle_seconds):
                piece = await anext(stream, None)
        except TimeoutError:
            raise Refusal(408, "the body has stopped coming", headers={"Connection": "close"}) from None
        if piece is None:
            return
        if piece:
            yield piece


async def json_body(request: Request) -> dict[str, Any]:
    """A JSON object as the body; nothing counts as an empty one."""
    body = bytearray()
    async for piece in pieces(request):
        body += piece
        if len(body) > LONGEST_JSON:
            raise Refusal(413, f"the body is longer than {LONGEST_JSON:,} bytes")
    try:
        read = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON") from None
    if not isinstance(read, dict):
        raise Refusal(400, "the body is no JSON object")
    return read


def text_of(body: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text in a body."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or len(value) > 100_000:
        raise Refusal(400, f"{name!a} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"{name!a} is no text: it holds half a character") from None
    return value


def refused(refusal: Refusal) -> JSONResponse:
    """The answer that refuses."""
    return JSONResponse(refusal.body, refusal.status, headers=refusal.headers)
