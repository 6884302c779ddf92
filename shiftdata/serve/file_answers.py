"""Files as answers: whole, ranges of them (RFC 9110), or nothing where the client has them already."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import tempfile
from collections import deque
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

UNIT = re.compile(r"bytes=", re.IGNORECASE)
ONE_RANGE = re.compile(r"[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII)
#: The most ranges of an answer; a header that asks for more gets the whole file.
MOST_RANGES = 256

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


def byte_ranges(header: str, size: int) -> list[tuple[int, int]]:
    """Return the first byte and the end of each range that a header asks for; none for the whole file.

    Anything but well-formed ranges may be answered whole. So are ranges that overlap or have no order: nobody
    may ask for more bytes than the file has. Bytes that do not exist are refused, or left out of several.

    >>> byte_ranges("bytes=2-3", 10), byte_ranges("bytes=-3", 10), byte_ranges("bytes=8-99", 10)
    ([(2, 4)], [(7, 10)], [(8, 10)])
    >>> byte_ranges("bytes=0-1, 4-5,20-", 10), byte_ranges("bytes=5-2", 10), byte_ranges("bytes=4-5,0-4", 10)
    ([(0, 2), (4, 6)], [], [])
    """
    unit = UNIT.match(header)
    texts = header[unit.end() :].split(",", MOST_RANGES) if unit else []
    matches = [match for text in texts if (match := ONE_RANGE.fullmatch(text)) and any(match.groups())]
    if not texts or len(matches) < len(texts) or len(texts) > MOST_RANGES:
        return []
    ranges = [_bounds(match[1], match[2], size) for match in matches]
    if any(end < start for start, end in ranges):
        return []
    satisfiable = [(start, end) for start, end in ranges if start < min(end, size)]
    if not satisfiable:
        raise Refusal(416, f"the file has {size} bytes", headers={"Content-Range": f"bytes */{size}"})
    in_order = all(end <= start for (_, end), (start, _) in itertools.pairwise(satisfiable))
    return satisfiable if in_order else []


def _bounds(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the first byte of a range and its end; of one that ends before it begins, an end before it."""
    # Python reads 4,300 digits at most; as a position, 4,000 of them are behind the end of any file.
    start, number = (int(digits.lstrip("0")[:4000] or 0) for digits in (first, last))
    if not first:
        return max(size - number, 0), size
    if last and number < start:
        return start, start - 1
    return start, max(min(number + 1, size), start) if last else max(size, start)


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
            self._left = deque(self._choose_bytes(request.headers, size))
            if request.method == "HEAD":
                self._left.clear()
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
                await send({"type": "http.response.body", "body": piece, "more_body": bool(self._left)})
                if not self._left:
                    return
                piece = await run_sync(self._read)
        finally:
            self._close()

    def _choose_bytes(self, asked: Headers, size: int) -> list[bytes | tuple[int, int]]:
        """Return the stretches of the file that are sent, with the heads of several ranges between them."""
        etag, self.status_code = self.headers["ETag"], 200
        cached = [tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(",")]
        if etag in cached or cached == ["*"]:
            self.status_code = 304
            del self.headers["Content-Length"]
            return []
        ranges = byte_ranges(asked.get("range", ""), size) if asked.get("if-range", etag) == etag else []
        if not ranges:
            return [(0, size)] if size else []
        self.status_code = 206
        if len(ranges) == 1:
            ((start, end),) = ranges
            self.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
            self.headers["Content-Length"] = str(end - start)
            return [*ranges]
        boundary, kind = etag.strip('"')[:32], self.headers["Content-Type"]
        self.headers["Content-Type"] = f"multipart/byteranges; boundary={boundary}"
        sent: list[bytes | tuple[int, int]] = []
        for start, end in ranges:
            head = f"Content-Type: {kind}\r\nContent-Range: bytes {start}-{end - 1}/{size}"
            sent += [f"\r\n--{boundary}\r\n{head}\r\n\r\n".encode(), (start, end)]
        sent.append(f"\r\n--{boundary}--\r\n".encode())
        length = sum(len(each) if isinstance(each, bytes) else each[1] - each[0] for each in sent)
        self.headers["Content-Length"] = str(length)
        return sent

    def _read(self) -> bytes:
        """Read the next piece; after the last one, close the file."""
        piece, most = bytearray(), self._piece()
        while self._left and len(piece) < most:
            stretch = self._left.popleft()
            if isinstance(stretch, bytes):
                piece += stretch
                continue
            start, end = stretch
            data = os.pread(self._descriptor, min(most - len(piece), end - start), start)
            # Either error ends the connection: a client must not take these bytes for the file of the ETag.
            if not data:
                raise Changed("a file was cut while it was sent")
            piece += data
            if start + len(data) < end:
                self._left.appendleft((start + len(data), end))
        if piece and _is_overwritten(self._before, os.fstat(self._descriptor)):
            raise Changed("a file was overwritten while it was sent")
        if not self._left:
            self._close()
        return bytes(piece)

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
