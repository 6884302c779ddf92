"""Files as answers: whole, one range of them (RFC 9110), or nothing where the client has them already."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shiftdata.data.format.paths import CROISSANT
from shiftdata.serve.addressed import croissant_of, descriptor_of, record_of
from shiftdata.serve.folders import FolderRepo
from shiftdata.serve.library import Repo
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.repos import Changed, Commit, FileRecord
from shiftdata.serve.request import part, repo_of

ONE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.IGNORECASE | re.ASCII)

#: Types that a browser may show; everything else, HTML above all, is only downloaded.
TYPES = {
    ".md": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".jpg": "image/jpeg",
    ".png": "image/png",
}


def resolve(request: Request) -> Response:
    """`/datasets/<owner>/<name>/resolve/<revision>/<path>`."""
    repo = repo_of(request, for_files=True)
    revision, path = part(request, "revision"), part(request, "path")
    for _ in range(3):
        commit = repo.commit(revision)
        if path not in commit.files:
            raise no_entry(path)
        try:
            text = croissant_of(request, repo, commit) if path == CROISSANT else None
            file = commit.files[path] if text is None else record_of(text)
            descriptor = repo.open(commit, path) if text is None else descriptor_of(text)
            headers = _headers(repo, commit, revision, path, file)
            watched = text is None and isinstance(repo, FolderRepo)
            return FileAnswer(request, descriptor, file.size, headers, watched=watched)
        except Changed:
            continue
    raise Refusal(503, "the file keeps changing: ask again", headers={"Retry-After": "1"})


def _headers(repo: Repo, commit: Commit, revision: str, path: str, file: FileRecord) -> dict[str, str]:
    settings = repo.settings()
    if settings.private or settings.gated:
        cache = "private, no-store"
    else:  # a commit never changes
        cache = "public, max-age=31536000, immutable" if revision == commit.id else "no-cache"
    kind = TYPES.get(PurePosixPath(path).suffix, "application/octet-stream")
    etag, size = f'"{file.sha256}"', str(file.size)
    return {
        "ETag": etag,
        "X-Linked-Etag": etag,
        "X-Linked-Size": size,
        "X-Repo-Commit": commit.id,
        "Accept-Ranges": "bytes",
        "Cache-Control": cache,
        "Content-Length": size,
        "Content-Type": kind,
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and end of the one range that a header asks for; None if the whole file is to be sent.

    Anything but one well-formed range may be answered whole. Bytes that do not exist are refused.

    >>> byte_range("bytes=2-3", 10), byte_range("bytes=-3", 10), byte_range("bytes=8-99", 10)
    ((2, 4), (7, 10), (8, 10))
    >>> byte_range("bytes=0-1,4-5", 10) is byte_range("bytes=5-2", 10) is None
    True
    """
    match = ONE_RANGE.fullmatch(header)
    if not match or match.groups() == ("", ""):
        return None
    # More digits than Python reads (4,300) mean what 4,000 do: a place behind the end.
    first, last = (int(digits.lstrip("0")[:4000] or 0) for digits in match.groups())
    start, end = (first, min(last + 1, size)) if match[2] else (first, size)
    if not match[1]:
        start, end = max(size - last, 0), size
    elif match[2] and last < first:
        return None
    if start >= size:
        raise Refusal(416, f"the file has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    return start, end


class FileAnswer(Response):
    """An open file as an answer; it closes it.

    It is made in a thread, and reads its first piece there: most ranges are one, and need no other thread.
    """

    def __init__(
        self, request: Request, descriptor: int, size: int, headers: dict[str, str], *, watched: bool
    ) -> None:
        """A file that is `watched` is one that others may change while it is sent."""
        self._descriptor: int | None = descriptor
        self._piece: Callable[[], int] = request.scope["state"]["piece"]
        self._before = os.fstat(descriptor) if watched else None
        self.background = None
        self.init_headers(headers)
        try:
            self._at, self._end = self._choose_bytes(request.headers, size)
            if request.method == "HEAD":
                self._at = self._end
            self._first = self._read()
        except BaseException:
            self._close()
            raise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            await send(start)
            message = {"type": "http.response.body", "body": self._first, "more_body": self._at < self._end}
            del self._first
            await send(message)
            while self._at < self._end:
                piece = await run_sync(self._read)
                message = {"type": "http.response.body", "body": piece, "more_body": self._at < self._end}
                del piece
                await send(message)
        finally:
            self._close()

    def _choose_bytes(self, asked: Headers, size: int) -> tuple[int, int]:
        etag, self.status_code = self.headers["ETag"], 200
        known = [tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(",")]
        if etag in known or known == ["*"]:
            self.status_code = 304
            del self.headers["Content-Length"]
            return 0, 0
        found = None
        if asked.get("if-range", etag) == etag:
            found = byte_range(asked.get("range", ""), size)
        if found is None:
            return 0, size
        start, end = found
        self.status_code = 206
        self.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.headers["Content-Length"] = str(end - start)
        return found

    def _read(self) -> bytes:
        """The next piece; with the last one the file is closed."""
        piece = b""
        if self._at < self._end and self._descriptor is not None:
            piece = os.pread(self._descriptor, min(self._piece(), self._end - self._at), self._at)
            if not piece:
                raise Changed("a file was cut while it was sent")  # the connection ends, as it must
            if self._before and _is_overwritten(self._before, os.fstat(self._descriptor)):
                raise Changed("a file was overwritten while it was sent")
            self._at += len(piece)
        if self._at == self._end:
            self._close()
        return piece

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _is_overwritten(before: os.stat_result, now: os.stat_result) -> bool:
    """Whether a file has other bytes; one that was replaced, and has lost its name, still has its own."""
    if (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
        return True
    return before.st_ctime_ns != now.st_ctime_ns and before.st_nlink == now.st_nlink
