"""Files as answers: whole, one range of them (RFC 9110), or nothing where the client has them already."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shiftdata.data.format.addresses import absolute
from shiftdata.data.format.paths import CROISSANT
from shiftdata.serve.folders import Changed, Commit, FileRecord, Repo
from shiftdata.serve.names import Refusal, no_entry
from shiftdata.serve.request import base_url, mirror_of, part, repo_of

ONE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.IGNORECASE | re.ASCII)

#: Types that a browser may show; everything else, HTML above all, is only downloaded.
TYPES = {
    ".md": "text/plain; charset=utf-8",
    ".yaml": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".jpg": "image/jpeg",
    ".png": "image/png",
}


def resolve(request: Request) -> Response:
    """`/datasets/<owner>/<name>/resolve/<revision>/<path>`."""
    repo, mirror = repo_of(request), mirror_of(request)
    revision, path = part(request, "revision"), part(request, "path")
    for _ in range(3):
        commit = repo.commit(revision)
        if path not in commit.files:
            raise no_entry(path)
        try:
            text = croissant_of(repo, commit, base_url(request)) if path == CROISSANT else None
            file = commit.files[path] if text is None else record_of(text)
            descriptor = repo.open(commit, path) if text is None else _descriptor_of(text)
            headers = _headers(commit, revision, path, file)
            return FileAnswer(request, descriptor, file.size, headers, mirror.connections.piece)
        except Changed:
            continue
    raise Refusal(503, "the file keeps changing: ask again", headers={"Retry-After": "1"})


def _descriptor_of(text: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        return os.dup(file.fileno())


def _headers(commit: Commit, revision: str, path: str, file: FileRecord) -> dict[str, str]:
    etag, size = f'"{file.sha256}"', str(file.size)
    return {
        "ETag": etag,
        "X-Linked-Etag": etag,
        "X-Linked-Size": size,
        "X-Repo-Commit": commit.id,
        "Accept-Ranges": "bytes",
        # A commit never changes; `main` does.
        "Cache-Control": "public, max-age=31536000, immutable" if revision == commit.id else "no-cache",
        "Content-Length": size,
        "Content-Type": TYPES.get(PurePosixPath(path).suffix, "application/octet-stream"),
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the end of the range that a header asks for; None for the whole file.

    Anything but one well-formed range may be answered whole. Bytes that do not exist are refused.

    >>> byte_range("bytes=2-3", 10), byte_range("bytes=-3", 10), byte_range("bytes=8-99", 10)
    ((2, 4), (7, 10), (8, 10))
    >>> byte_range("bytes=0-1,4-5", 10) is byte_range("bytes=5-2", 10) is None
    True
    """
    match = ONE_RANGE.fullmatch(header)
    if not match or match.groups() == ("", ""):
        return None
    # Python reads 4,300 digits at most; as a position, 4,000 of them are behind the end of any file.
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
    """An open file as an answer, which closes it.

    It is made in a thread and reads its first piece there: most ranges are one piece, and need no other
    thread. `piece` gives the bytes to read at once.
    """

    def __init__(
        self,
        request: Request,
        descriptor: int,
        size: int,
        headers: dict[str, str],
        piece: Callable[[], int],
    ) -> None:
        self._descriptor, self._piece = descriptor, piece
        self._before = os.fstat(descriptor)
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
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            piece, self._first = self._first, b""
            while True:
                await send({"type": "http.response.body", "body": piece, "more_body": self._at < self._end})
                if self._at >= self._end:
                    return
                piece = await run_sync(self._read)
        finally:
            self._close()

    def _choose_bytes(self, asked: Headers, size: int) -> tuple[int, int]:
        etag, self.status_code = self.headers["ETag"], 200
        cached = [tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(",")]
        if etag in cached or cached == ["*"]:
            self.status_code = 304
            del self.headers["Content-Length"]
            return 0, 0
        chosen = byte_range(asked.get("range", ""), size) if asked.get("if-range", etag) == etag else None
        if chosen is None:
            return 0, size
        start, end = chosen
        self.status_code = 206
        self.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self.headers["Content-Length"] = str(end - start)
        return chosen

    def _read(self) -> bytes:
        """Read the next piece; after the last one, close the file."""
        piece = b""
        if self._at < self._end:
            piece = os.pread(self._descriptor, min(self._piece(), self._end - self._at), self._at)
            # Either error ends the connection: a client must not take these bytes for the file of the ETag.
            if not piece:
                raise Changed("a file was cut while it was sent")
            if _is_overwritten(self._before, os.fstat(self._descriptor)):
                raise Changed("a file was overwritten while it was sent")
            self._at += len(piece)
        if self._at == self._end:
            self._close()
        return piece

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _is_overwritten(before: os.stat_result, now: os.stat_result) -> bool:
    """Return True if a file has other bytes; one that was replaced, and lost its name, still has its own."""
    if (before.st_size, before.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
        return True
    return before.st_ctime_ns != now.st_ctime_ns and before.st_nlink == now.st_nlink


#: A longer text is served as it is.
MAX_BYTES = 16 << 20


def croissant_of(repo: Repo, commit: Commit, endpoint: str) -> bytes | None:
    """Return the text for a caller at this endpoint; None where the file is served as it is, or missing."""
    file = commit.files.get(CROISSANT)
    if file is None or file.size > MAX_BYTES:
        return None
    with open(repo.open(commit, CROISSANT), "rb") as stream:
        text = stream.read(MAX_BYTES)
    return absolute(text, f"{endpoint}/datasets/{repo.owner}/{repo.name}/resolve/main")


def as_listed(request: Request, repo: Repo, revision: str) -> Commit:
    """Return a commit with the sizes and hashes of what this caller would get."""
    try:
        return _listed(repo, repo.commit(revision), base_url(request))
    except Changed:  # the next request lists it again
        return repo.commit(revision)


@lru_cache(maxsize=16)
def _listed(repo: Repo, commit: Commit, endpoint: str) -> Commit:
    text = croissant_of(repo, commit, endpoint)
    return commit if text is None else replace(commit, files={**commit.files, CROISSANT: record_of(text)})


def record_of(text: bytes) -> FileRecord:
    """The entry of a text in a listing."""
    return FileRecord(len(text), hashlib.sha256(text).hexdigest())
