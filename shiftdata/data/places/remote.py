"""Stores that are reached through fsspec: s3, memory and the like."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import IO, Any, TypeVar

from shiftdata.data.places.store import (
    MOST_SMALL,
    SHA256,
    FileInfo,
    Store,
    complete,
    is_of_tools,
    persistently,
)
from shiftdata.errors import InputError, IntegrityError, MissingExtraError
from shiftdata.extras import install_hint

#: The module that fsspec needs for the URLs of a protocol.
MODULES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
#: Requests that an asynchronous file system has under way for one call, and connections in its pool: that
#: of botocore has 10.
AT_ONCE, POOL = 32, 64
#: Protocols that need no network.
NEAR = ("memory",)
#: Names of the time of a file's last change, the most exact first.
TIMES = ("Last-Modified", "LastModified", "mtime", "created")

T = TypeVar("T")


class Remote(Store):
    """A URL, through a file system of its own for each process, whose connections end with `close`."""

    def __init__(self, url: str) -> None:
        self.address = url
        self.is_far = url.partition(":")[0].lower() not in NEAR
        self._opened: tuple[int, Any, str] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.address,)

    def listing(self) -> dict[str, FileInfo] | None:
        """List every file; None where the place cannot."""
        system, root = self._system()
        system.invalidate_cache()  # what is there now, not when it was last asked
        try:
            paths = persistently(lambda: system.find(root, detail=True))
        except Exception:  # each backend has its own
            return None
        names = {name: name.removeprefix(root + "/") for name in paths if name.startswith(root + "/")}
        return {path: _info(paths[name]) for name, path in names.items() if not is_of_tools(path)}

    def info(self, path: str) -> FileInfo:
        def ask(system: Any, where: str) -> dict[str, Any]:
            system.invalidate_cache(where.rpartition("/")[0])
            facts: dict[str, Any] = system.info(where)
            return facts

        return _info(self._try(path, ask))

    def read(self, path: str, most: int = MOST_SMALL) -> bytes:
        size = self.info(path).size
        if size is not None and size > most:
            raise IntegrityError(f"{self.address}/{path} has {size:,} bytes, and {most:,} are allowed")
        return self._try(path, lambda system, where: bytes(system.cat_file(where)))

    def range(self, path: str, start: int, end: int) -> bytes:
        def once(system: Any, where: str) -> bytes:
            # Only file systems that cannot fetch a range themselves take, and need, the option.
            plain = {} if getattr(system, "async_impl", False) else {"cache_type": "none"}
            return complete(bytes(system.cat_file(where, start=start, end=end, **plain)), end - start)

        return self._try(path, once)

    @property
    def at_once(self) -> int:
        return AT_ONCE if getattr(self._system()[0], "async_impl", False) else 1

    def ranges(self, path: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        wanted = list(ranges)
        if len(wanted) < 2 or self.at_once == 1:
            return super().ranges(path, wanted)

        def once(system: Any, where: str) -> list[bytes]:
            starts, lengths = zip(*wanted, strict=True)
            ends = [start + length for start, length in wanted]
            came = system.cat_ranges([where] * len(wanted), list(starts), ends, batch_size=AT_ONCE)
            for data in came:
                if isinstance(data, BaseException):
                    raise data
            return [complete(bytes(data), length) for data, length in zip(came, lengths, strict=True)]

        return self._try(path, once)

    def open(self, path: str) -> IO[bytes]:
        """Open the file without reading ahead; fsspec would read megabytes more than it is asked for."""

        def once(system: Any, where: str) -> IO[bytes]:
            file: IO[bytes] = system.open(where, "rb", cache_type="none")
            return file

        return self._try(path, once)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        session = getattr(opened[1], "_session", None) if opened else None
        if opened and session is not None and opened[0] == os.getpid():
            opened[1].close_session(opened[1].loop, session)

    def _try(self, path: str, act: Callable[[Any, str], T]) -> T:
        """Act on the file system and the path in it, again where the error may pass."""

        def once() -> T:
            system, root = self._system()
            return act(system, f"{root}/{path}")

        return self.persistently(path, once)

    def _system(self) -> tuple[Any, str]:
        """Return the file system and the root in it; after a fork another: connections cannot be shared."""
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                shared, root = filesystem(self.address)
                options = shared.storage_options | {"skip_instance_cache": True}
                if MODULES.get(self.address.partition(":")[0].lower()) == "s3fs":
                    pool = {"max_pool_connections": POOL}
                    options["config_kwargs"] = pool | options.get("config_kwargs", {})
                self._opened = (os.getpid(), type(shared)(*shared.storage_args, **options), root)
            return self._opened[1], self._opened[2]


def _info(facts: dict[str, Any]) -> FileInfo:
    """Read a file's facts. Some answers have more of them than others, so one mark is the version."""
    etag = str(facts.get("ETag") or facts.get("etag") or "").strip('"')
    mark = next((mark for mark in [etag, *map(facts.get, TIMES)] if mark), None)
    if isinstance(mark, datetime):  # some listings give seconds
        mark = mark.timestamp()
    return FileInfo(
        size=facts.get("size"),
        sha256=etag if SHA256.fullmatch(etag) else None,
        version=f"{mark}-{facts.get('size')}" if mark else None,
    )


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the URL's path in it."""
    from fsspec.core import url_to_fs

    protocol = re.split("::|://", url)[0].lower()
    try:
        system, root = url_to_fs(url)
    except ImportError as error:
        hint = install_hint(MODULES[protocol]) if protocol in MODULES else str(error)
        raise MissingExtraError(f"cannot read {url}: {protocol} URLs need another package: {hint}") from error
    except ValueError as error:
        known = "such as https://..., hf://datasets/..., s3://..."
        raise InputError(f"cannot read {url} ({error}): give a URL that fsspec knows, {known}") from error
    return system, str(root).rstrip("/")
