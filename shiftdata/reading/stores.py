"""Bytes of files: in a folder, or at a URL through fsspec, with new tries where an error may pass."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from shiftdata.errors import StorageError
from shiftdata.places import Place, filesystem, persistently

__all__ = ["LocalStore", "RemoteStore", "Store", "at_once", "store_of"]

T = TypeVar("T")
R = TypeVar("R")


class Store(Protocol):
    """Where the files of a dataset lie."""

    def size(self, path: str) -> int | None:
        """How long a file is; None where the place does not say."""

    def bytes_of(self, path: str, start: int, end: int) -> bytes:
        """Some bytes of a file, exactly as many as were asked for."""

    def opened(self, path: str) -> Any:
        """The file for pyarrow."""

    def close(self) -> None:
        """Give back what is open."""


class LocalStore:
    """Files in a folder, each opened once; `pread` needs no lock."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[str, int] = {}
        self._lock = threading.Lock()

    def size(self, path: str) -> int:
        return (self._root / path).stat().st_size

    def bytes_of(self, path: str, start: int, end: int) -> bytes:
        data = os.pread(self._handle(path), end - start, start)
        if len(data) != end - start:
            raise StorageError(f"{path} ends at byte {start + len(data):,}, {end:,} was asked for")
        return data

    def opened(self, path: str) -> str:
        return str(self._root / path)

    def close(self) -> None:
        with self._lock:
            for handle in self._open.values():
                os.close(handle)
            self._open.clear()

    def _handle(self, path: str) -> int:
        with self._lock:
            if path not in self._open:
                self._open[path] = os.open(self._root / path, os.O_RDONLY)
            return self._open[path]


class RemoteStore:
    """Files at a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._system, self._root = filesystem(url)

    def size(self, path: str) -> int | None:
        found: int | None = persistently(lambda: self._system.size(f"{self._root}/{path}"))
        return found

    def bytes_of(self, path: str, start: int, end: int) -> bytes:
        return persistently(lambda: self._once(path, start, end))

    def opened(self, path: str) -> Any:
        return self._system.open(f"{self._root}/{path}", "rb", cache_type="none")

    def close(self) -> None:
        """Nothing is held: fsspec keeps its own connections."""

    def _once(self, path: str, start: int, end: int) -> bytes:
        data: bytes = self._system.cat_file(f"{self._root}/{path}", start=start, end=end)
        if len(data) != end - start:
            what = "as if it knew no ranges" if len(data) > end - start else "cut off"
            raise OSError(f"{end - start:,} bytes were asked for, {len(data):,} came, {what}")
        return data


def store_of(place: Place) -> Store:
    """The files of a place."""
    return LocalStore(place.folder) if place.folder is not None else RemoteStore(place.address)


def at_once(act: Callable[[T], R], things: Sequence[T], threads: int) -> list[R]:
    """Do something with each thing, several at a time; the first error ends it and is raised here.

    The threads are daemons: neither Ctrl-C nor the end of the program waits for a slow answer.
    """
    if len(things) < 2 or threads < 2:
        return [act(thing) for thing in things]
    crew = _Crew(act, things)
    started = min(threads, len(things))
    for _ in range(started):
        threading.Thread(target=crew.work, daemon=True).start()
    for _ in range(started):
        while not crew.gone.acquire(timeout=0.5) and not crew.errors:
            pass
    if crew.errors:
        raise crew.errors[0]
    return [crew.results[number] for number in range(len(things))]


class _Crew:
    """Threads that share a list of work."""

    def __init__(self, act: Callable[[Any], Any], things: Sequence[Any]) -> None:
        self.results: dict[int, Any] = {}
        self.errors: list[BaseException] = []
        self.gone = threading.Semaphore(0)
        self._act = act
        self._todo = iter(enumerate(things))
        self._lock = threading.Lock()

    def work(self) -> None:
        """Do what is left, until nothing is or something failed."""
        while not self.errors:
            with self._lock:
                item = next(self._todo, None)
            if item is None:
                break
            try:
                self.results[item[0]] = self._act(item[1])
            except BaseException as error:
                self.errors.append(error)
        self.gone.release()
