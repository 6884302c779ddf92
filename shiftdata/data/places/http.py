"""Stores at http(s): a plain server of files, and a repo on a Hub."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar, cast
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.client import Answer, Client, HttpError, NoRangesError, PoorAnswerError
from shiftdata.data.places.hubs import HubRepo, hub_endpoint, origin_of, token_for
from shiftdata.data.places.multipart import NoPartsError, Parts
from shiftdata.data.places.store import MOST_SMALL, SHA256, FileInfo, OnBytes, Store, complete, is_of_tools
from shiftdata.errors import IntegrityError, StorageError
from shiftdata.files import open_new
from shiftdata.logs import logger
from shiftdata.untrusted.texts import read_json

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Characters of a URL that are not escaped.
PLAIN = "/%:@!$&'()*+,;=~?-._"
#: The most files of a listing, the pages in which it comes, and the bytes of a page.
MOST_FILES, MOST_PAGES = 200_000, 2_000
MOST_PAGE = 8 << 20
#: Seconds for a listing.
LISTING_TIME = 120.0
#: The most bytes that a reader of a file may ask for at once: the footer or a column of a large row group.
MOST_AT_ONCE = 1 << 29

#: Ranges of one request: the header stays below the 4 KB that every server takes, and Apache gives 200.
MOST_RANGES = 128
#: Answers to several ranges of which nothing could be used, before a server is asked for single ones only.
MOST_POOR = 3

#: Statuses of servers that do not understand several ranges, or so long a header.
NO_SUCH_RANGES = (400, 406, 414, 416, 431, 501)
LOG = logger(__name__)

T = TypeVar("T")
#: Bytes by the start and length of their range.
Found: TypeAlias = dict[tuple[int, int], bytes]


class Http(Store):
    """A folder at a URL. Its files end where they should; no login of the user's goes there."""

    is_far = True

    def __init__(self, url: str) -> None:
        origin_of(url)
        self.address = url
        self._client = self._connect()
        self._gives_parts: bool | None = None
        self._poor = 0
        self._learning = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)

    def listing(self) -> dict[str, FileInfo] | None:
        """Return None: a page of links need not be a list of files."""
        return None

    def info(self, path: str) -> FileInfo:
        return self._try(path, lambda url: _info(self._head(url)))

    def read(self, path: str, most: int = MOST_SMALL) -> bytes:
        return self._try(path, lambda url: self._client.get(url, most).body)

    @property
    def at_once(self) -> int | None:
        return {None: None, True: MOST_RANGES, False: 1}[self._gives_parts]

    def range(self, path: str, start: int, end: int) -> bytes:
        came = bytearray()

        def once(url: str) -> bytes:
            left = end - start - len(came)
            if left > 0:  # after what a connection gave before it was lost
                self._client.get(url, left, first=start + len(came), sink=came.extend)
            return complete(bytes(came), end - start)

        return self._try(path, once)

    def ranges(self, path: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Read some ranges by one request, those that the server does not give so by one request each."""
        wanted = list(ranges)
        found: Found = {}
        for at in range(0, len(wanted), MOST_RANGES):
            missing = [each for each in dict.fromkeys(wanted[at : at + MOST_RANGES]) if each[1]]
            while len(missing) > 1 and self.at_once != 1:
                # One thread finds out, lest each is sent a whole file.
                with self._learning if self.at_once is None else nullcontext():
                    came = self._several(path, missing) if self.at_once != 1 else {}
                if not came:
                    break
                found |= came
                missing = [each for each in missing if each not in came]
        return [
            found[start, length] if (start, length) in found else self.range(path, start, start + length)
            for start, length in wanted
        ]

    def _several(self, path: str, ranges: Sequence[tuple[int, int]]) -> Found:
        """Ask for several ranges at once; return those that came, and note whether the server gives them."""
        parts = Parts(ranges)

        def once(url: str) -> Found:
            try:
                self._client.get(url, parts.most, parts=parts)
            except HttpError as error:
                if error.status in NO_SUCH_RANGES:
                    raise NoPartsError(str(error)) from error
                raise
            except (OSError, HTTPException, PoorAnswerError):
                if not parts.found():
                    raise
            return parts.found()  # if the connection was lost, those that came before

        try:
            found = self._try(path, once)
        except (NoPartsError, IntegrityError):  # nothing of use, or more bytes than were asked for
            found = {}
        if len(found) > 1:
            self._gives_parts, self._poor = True, 0
            return found
        self._poor += 1
        if self._poor >= MOST_POOR or (self._gives_parts is None and not parts.are_several):
            LOG.info("%s gives no several ranges at once: they are asked for one by one", self.address)
            self._gives_parts = False
        return found

    def open(self, path: str) -> IO[bytes]:
        size = self.info(path).size
        if size is None:
            raise NoRangesError(f"{self.address}/{path}: the server does not say how long it is")
        return cast(IO[bytes], _Ranges(lambda start, end: self.range(path, start, end), size))

    def download(self, path: str, file: Path, record: FileRecord, on_bytes: OnBytes) -> None:
        try:
            super().download(path, file, record, on_bytes)
        except NoRangesError:

            def whole(url: str) -> None:
                on_bytes(-file.stat().st_size)
                with open_new(file) as target:

                    def sink(data: bytes) -> None:
                        target.write(data)
                        on_bytes(len(data))

                    self._client.get(url, record.bytes, sink=sink)

            self._try(path, whole)

    def close(self) -> None:
        self._client.close()

    def _connect(self) -> Client:
        return Client(self.address)

    def url(self, path: str) -> str:
        """The URL of a file, or of the place itself."""
        base = quote(self.address, safe=PLAIN)
        return f"{base}/{quote(path)}" if path else base

    def _head(self, url: str) -> Answer:
        try:
            return self._client.get(url, 0, method="HEAD")
        except HttpError as error:
            if error.status not in (405, 501):
                raise
            return self._client.get(url, 1, first=0)

    def _try(self, path: str, act: Callable[[str], T]) -> T:
        """Act on the URL of a file, again where the error may pass."""

        def once() -> T:
            try:
                return act(self.url(path))
            except HttpError as error:
                if error.status in (404, 410):
                    raise FileNotFoundError(str(error)) from error
                raise

        return self.persistently(path, once)


class Hub(Http):
    """A repo on a Hub, by its protocol."""

    def __init__(self, repo: HubRepo) -> None:
        self.repo = repo
        self.revision = repo.revision
        self.endpoint = (repo.endpoint or hub_endpoint()).rstrip("/")
        super().__init__(self.endpoint)
        self.address = repo.address

    def __reduce__(self) -> tuple[Any, ...]:
        return Hub, (self.repo,)

    def pinned(self, path: str) -> tuple[Hub, bytes]:
        """Return a small file, and this repo at the commit that the file was read from."""
        answer = self._try(path, lambda url: self._client.get(url, MOST_SMALL))
        commit = answer.headers.get("x-repo-commit", "")
        if not COMMIT.fullmatch(commit):
            raise self.failed(path, OSError("the server names no commit, so it is not a Hub"))
        return Hub(replace(self.repo, revision=commit)), answer.body

    def listing(self) -> dict[str, FileInfo] | None:
        """Every file of the revision."""
        listed: dict[str, FileInfo] = {}
        query = {"recursive": "true", "expand": "false"}
        url = f"{self.endpoint}/api/datasets/{self.repo.repo_id}/tree/{self._revision}?"
        until = time.monotonic() + LISTING_TIME
        for _ in range(MOST_PAGES):
            page = url + urlencode(query)
            answer = self._try("", partial(self._page, page))
            try:
                for entry in read_json(answer.body):
                    if entry["type"] == "file" and not is_of_tools(entry["path"]):
                        listed[entry["path"]] = _entry(entry)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise self.failed("", OSError("its list of files cannot be read")) from error
            following = re.search(r'<([^>]+)>;\s*rel="?next', answer.headers.get("link", ""))
            cursor = parse_qs(urlsplit(following[1]).query).get("cursor") if following else None
            if not cursor:
                return listed
            query["cursor"] = cursor[0]
            if len(listed) > MOST_FILES or time.monotonic() > until:
                break
        raise self.failed("", OSError("its list of files does not end"))

    def _connect(self) -> Client:
        token = self.repo.token
        return Client(self.endpoint, token_for(self.repo.endpoint) if token is None else token)

    def _page(self, page: str, _: str) -> Answer:
        return self._client.get(page, MOST_PAGE)

    @property
    def _revision(self) -> str:
        return quote(self.repo.revision or "main", safe="")

    def url(self, path: str) -> str:
        return f"{self.endpoint}/datasets/{self.repo.repo_id}/resolve/{self._revision}/{quote(path)}"

    def _try(self, path: str, act: Callable[[str], T]) -> T:
        if _is_off():
            raise self.failed(path, OSError("the network is off (HF_HUB_OFFLINE is set)"))
        return super()._try(path, act)


class _Ranges(io.RawIOBase):
    """A file at a URL that is read by ranges, and no further than it is asked."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if end - self._at > MOST_AT_ONCE:
            raise StorageError(f"{end - self._at:,} bytes at once are too many")
        data = self._read(self._at, end) if end > self._at else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _info(answer: Answer) -> FileInfo:
    """Read a file's facts from an answer. Some have more of them than others, so one mark is the version."""
    headers = answer.headers
    etag = (headers.get("x-linked-etag") or headers.get("etag", "")).removeprefix("W/").strip('"')
    linked = headers.get("x-linked-size", "")
    size = int(linked) if linked.isdecimal() and len(linked) < 19 else answer.size
    mark = etag or headers.get("last-modified")
    return FileInfo(
        size=size,
        sha256=etag if SHA256.fullmatch(etag) else None,
        version=f"{mark}-{size}" if mark else None,
        git=etag if re.fullmatch(r"[0-9a-f]{40}", etag) and "x-repo-commit" in headers else None,
    )


def _entry(entry: dict[str, Any]) -> FileInfo:
    sha256 = entry["lfs"]["oid"] if entry.get("lfs") else None
    git = None if sha256 else entry.get("oid")
    size = entry["size"]
    if not isinstance(size, int) or not all(isinstance(digest, str | None) for digest in (sha256, git)):
        raise TypeError
    return FileInfo(size=size, sha256=sha256, git=git, version=f"{sha256 or git}-{size}")


def _is_off() -> bool:
    """Return True if `huggingface_hub` may not use the network."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)
