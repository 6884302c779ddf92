"""Stores that are reached through fsspec: http(s), s3, memory and the like; and repos on a Hub."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import unquote

from shiftdata.errors import InputError, MissingExtraError, StorageError
from shiftdata.extras import install_hint
from shiftdata.files import sha256_of
from shiftdata.format.manifest import FILE_NAME, FileRecord
from shiftdata.places.hubs import HubRepo
from shiftdata.places.store import CHUNK, FileInfo, OnBytes, Store, copy, is_hidden, persistently

#: The module that fsspec needs for the URLs of a protocol.
MODULES = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
#: Protocols that need no network.
NEAR = ("memory",)
SHA256 = re.compile(r"[0-9a-f]{64}")
#: What file systems call the time of a file's last change, the most exact first.
TIMES = ("Last-Modified", "LastModified", "mtime", "created")

T = TypeVar("T")


class Remote(Store):
    """A URL, through a file system of its own for each process, whose connections end with `close`."""

    def __init__(self, url: str) -> None:
        self.address = url
        self.is_far = url.partition(":")[0].lower() not in NEAR
        self._is_http = url.startswith(("http://", "https://"))
        self._made: tuple[int, Any, str] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)

    def listing(self) -> dict[str, FileInfo] | None:
        """Every file that the place lists, or None: a page of links is not always a list of files."""
        system, root = self._system()
        system.invalidate_cache()  # what is there now, not when it was last asked
        try:
            found = persistently(lambda: system.find(root, detail=True))
        except Exception:  # each backend has its own
            return None
        plain = unquote if "://" in root else str  # an HTTP index gives names as they stand in URLs
        links = {name for name in found if "://" in root and {"?", "#"} & set(name)}  # they sort an index
        below = {name for name in set(found) - links if name.startswith(root + "/")}
        names = {name: plain(name).removeprefix(plain(root) + "/") for name in below}
        if self._is_http and FILE_NAME not in names.values():
            return None
        return {path: _info(found[name]) for name, path in names.items() if not is_hidden(path)}

    def info(self, path: str) -> FileInfo:
        def ask(system: Any, where: str) -> dict[str, Any]:
            if self.revision is None:
                system.invalidate_cache(where.rpartition("/")[0])
            try:
                found: dict[str, Any] = system.info(where)
            except FileNotFoundError as error:  # over http: any failure
                cause = error.__cause__
                if not self._is_http or cause is None or getattr(cause, "status", None) in (404, 410):
                    raise
                raise OSError(str(error.__cause__)) from error
            return found

        return _info(self._try(path, ask))

    def read(self, path: str) -> bytes:
        return self._try(path, lambda system, where: bytes(system.cat_file(where)))

    def range(self, path: str, start: int, end: int) -> bytes:
        def once(system: Any, where: str) -> bytes:
            data = self._range(system, where, start, end)
            if len(data) != end - start:
                raise OSError(f"{len(data)} bytes came for {end - start}")
            return data

        return self._try(path, once)

    def open(self, path: str) -> IO[bytes]:
        """The file, without reading ahead; fsspec would read megabytes more than it is asked for."""
        size = {"size": self.info(path).size} if self._is_http else {}

        def once(system: Any, where: str) -> IO[bytes]:
            file: IO[bytes] = system.open(where, "rb", cache_type="none", **size)
            return file

        return self._try(path, once)

    def download(self, path: str, file: Path, record: FileRecord | None, on_bytes: OnBytes) -> None:
        if record is None or not self._gives_ranges(path):
            on_bytes(-file.stat().st_size if file.is_file() else 0)
            self._try(path, lambda system, where: system.get_file(where, str(file)))
            on_bytes(file.stat().st_size)
            return
        with file.open("ab") as target:
            if target.tell() > record.bytes:  # of another version
                on_bytes(-target.tell())
                target.truncate(0)
            while (start := target.tell()) < record.bytes:
                data = self.range(path, start, min(start + CHUNK, record.bytes))
                target.write(data)
                target.flush()
                on_bytes(len(data))

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        session = getattr(made[1], "_session", None) if made else None
        if made and session is not None and made[0] == os.getpid():
            made[1].close_session(made[1].loop, session)

    def _try(self, path: str, act: Callable[[Any, str], T]) -> T:
        """Act on the file system and the path in it, again where the error may pass."""

        def once() -> T:
            system, root = self._system()
            return act(system, f"{root}/{path}")

        return self.persistently(path, once)

    def _system(self) -> tuple[Any, str]:
        """The file system and the root in it; after a fork another, for connections cannot be shared."""
        with self._lock:
            if self._made is None or self._made[0] != os.getpid():
                shared, root = self._filesystem()
                options = shared.storage_options | {"skip_instance_cache": True}
                self._made = (os.getpid(), type(shared)(*shared.storage_args, **options), root)
            return self._made[1], self._made[2]

    def _filesystem(self) -> tuple[Any, str]:
        return filesystem(self.address)

    def _gives_ranges(self, path: str) -> bool:
        if not self._is_http:
            return True
        try:
            with self.open(path) as file:
                file.seek(1)
                file.read(1)
        except ValueError:  # so fsspec says that a server ignores Range
            return False
        return True

    def _range(self, system: Any, where: str, start: int, end: int) -> bytes:
        """A byte range. Over http by way of an open file, which takes no whole file for a part of it."""
        if not self._is_http:
            # Only file systems with no way of their own to fetch a range take, and need, the option.
            plain = {} if getattr(system, "async_impl", False) else {"cache_type": "none"}
            return bytes(system.cat_file(where, start=start, end=end, **plain))
        try:
            with system.open(where, "rb", cache_type="none", size=end) as file:
                file.seek(start)
                return bytes(file.read(end - start))
        except ValueError as error:
            raise StorageError(
                f"{where}: the server gives no byte ranges ({error}): download the dataset and read the "
                "folder, or serve it by a server that knows Range"
            ) from error


class Hub(Remote):
    """A repo on a Hub, through `huggingface_hub`: with its tokens, and its cache where that has a file.

    Ranges are asked for by its file system, and not by its downloads, which begin anew after a kill.
    """

    def __init__(self, repo: HubRepo) -> None:
        super().__init__(repo.address)
        self.repo = repo
        self.revision = repo.revision
        self.is_far = True

    def __reduce__(self) -> tuple[Any, ...]:
        return Hub, (self.repo,)

    def pinned(self, path: str) -> tuple[Hub, bytes]:
        """A small file, and this repo at the commit that the file was read from."""
        file = self._cached(path)
        commit = file.parents[path.count("/")].name  # .../snapshots/<commit>/<path>
        return Hub(replace(self.repo, revision=commit)), file.read_bytes()

    def read(self, path: str) -> bytes:
        return self._cached(path).read_bytes()

    def download(self, path: str, file: Path, record: FileRecord | None, on_bytes: OnBytes) -> None:
        try:
            cached = self._cached(path, local_files_only=record is not None)
        except StorageError:
            cached = None
        if cached is None or (record is not None and sha256_of(cached) != record.sha256):
            super().download(path, file, record, on_bytes)
            return
        with cached.open("rb") as source:
            copy(source, file, on_bytes)

    def _cached(self, path: str, **options: Any) -> Path:
        from huggingface_hub import hf_hub_download

        repo = self.repo
        options |= {"revision": repo.revision, "endpoint": repo.endpoint, "token": repo.token}
        try:
            return Path(hf_hub_download(repo.repo_id, path, repo_type="dataset", **options))
        except Exception as error:  # trouble of the network, access or the cache means the same here
            raise self.failed(path, error) from error

    def _filesystem(self) -> tuple[Any, str]:
        return self.repo.filesystem(), self.repo.path


def _info(found: dict[str, Any]) -> FileInfo:
    """What a file system says of a file: more in some answers than in others, so one mark is its version."""
    etag = str(found.get("ETag") or found.get("etag") or "").strip('"')
    sha256 = (found.get("lfs") or {}).get("sha256") or etag
    mark = next((mark for mark in [etag, *map(found.get, TIMES)] if mark), None)
    if isinstance(mark, datetime):  # some listings give seconds
        mark = mark.timestamp()
    return FileInfo(
        size=found.get("size"),
        sha256=sha256 if SHA256.fullmatch(sha256) else None,
        version=f"{mark}-{found.get('size')}" if mark else None,
        git=None if found.get("lfs") else found.get("blob_id"),
    )


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the URL's path in it."""
    from fsspec.core import url_to_fs

    protocol = re.split("::|://", url)[0].lower()
    try:
        options = {}
        if protocol in ("http", "https"):  # aiohttp would end every download after five minutes
            timeout = import_module("aiohttp").ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options = {"client_kwargs": {"timeout": timeout, "trust_env": True}}
        system, root = url_to_fs(url, **options)
    except ImportError as error:
        hint = install_hint(MODULES[protocol]) if protocol in MODULES else str(error)
        raise MissingExtraError(f"cannot read {url}: {protocol} URLs need another package: {hint}") from error
    except ValueError as error:
        raise InputError(
            f"cannot read {url} ({error}): give a folder, a name, or a URL that fsspec knows, "
            "such as https://..., hf://datasets/..., s3://..."
        ) from error
    return system, str(root).rstrip("/")
