"""Places that are written file by file: a folder, or object storage. A file is whole there or absent."""

from __future__ import annotations

import os
import secrets
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from shiftdata.data.places.remote import Remote
from shiftdata.data.places.search import store_at
from shiftdata.data.places.store import Folder, MissingFileError, Store, files_below
from shiftdata.errors import InputError, StorageError
from shiftdata.files import remove, write_bytes

#: Where a file appears whole by itself. Elsewhere it is sent under another name and then renamed.
WHOLE = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}


def is_hidden(name: str) -> bool:
    """Return True for a file that is not whole yet, or is a tool's own."""
    return any(part.startswith(".") for part in name.split("/"))


class Writable(Store):
    """A store that can be written too."""

    @abstractmethod
    def listed(self, under: str = "") -> set[str]:
        """Every file in a folder but hidden ones, by a fresh listing."""

    @abstractmethod
    def folders(self) -> set[str]:
        """The folders of the place, hidden ones too."""

    @abstractmethod
    def start(self, path: str, most: int | None = None) -> bytes:
        """The first `most` bytes of a file; without `most`, all of them."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Write a file, or replace it."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def clear(self) -> None:
        """Remove every file, and the place itself."""


class Disk(Folder, Writable):
    """A folder of this machine, or one that several machines share."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder,)

    def listed(self, under: str = "") -> set[str]:
        below = files_below(self.folder / under)
        return {f"{under}/{name}" if under else name for name in below if not is_hidden(name)}

    def folders(self) -> set[str]:
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            return {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        return set()

    def start(self, path: str, most: int | None = None) -> bytes:
        with self.open(path) as file:
            return self._try(path, lambda _: file.read() if most is None else file.read(most))

    def write(self, path: str, data: bytes) -> None:
        write_bytes(self.folder / path, data)

    def delete(self, path: str) -> None:
        remove(self.folder / path)

    def clear(self) -> None:
        """Move the folder away first: at no moment some of its files are there and others are not."""
        away = self.folder.with_name(f".{self.folder.name}.{secrets.token_hex(4)}")
        with suppress(FileNotFoundError):
            os.rename(self.folder, away)
            remove(away)


class Objects(Remote, Writable):
    """A URL that fsspec writes."""

    def listed(self, under: str = "") -> set[str]:
        def ask(system: Any, where: str) -> set[str]:
            system.invalidate_cache()
            top = where[: -len(under)] if under else where
            names = (str(name) for name in system.find(where.rstrip("/") + "/"))
            return {name.removeprefix(top) for name in names if name.startswith(top)}

        with suppress(MissingFileError):
            return {name for name in self._try(under, ask) if not is_hidden(name)}
        return set()

    def folders(self) -> set[str]:
        def ask(system: Any, root: str) -> list[dict[str, Any]]:
            system.invalidate_cache()
            return list(system.ls(root.rstrip("/"), detail=True))

        with suppress(MissingFileError):
            folders = [entry["name"] for entry in self._try("", ask) if entry["type"] == "directory"]
            return {str(name).rstrip("/").rpartition("/")[2] for name in folders}
        return set()

    def has(self, path: str) -> bool:
        """Ask by reading a byte, so not of empty files: `info` would list what is below a missing path."""
        try:
            self.start(path, 1)
        except MissingFileError:
            return False
        return True

    def start(self, path: str, most: int | None = None) -> bytes:
        span = {} if most is None else {"start": 0, "end": most}
        return self._try(path, lambda system, where: bytes(system.cat_file(where, **span)))

    def write(self, path: str, data: bytes) -> None:
        def put(system: Any, where: str) -> None:
            tag = f".{secrets.token_hex(4)}"  # another process may put the same file
            put_whole(system, where, lambda to: system.pipe_file(to, data), tag)

        try:
            self._try(path, put)
        except StorageError as error:
            why = error.__cause__ or error
            raise StorageError(
                f"{self.address}/{path} cannot be written ({type(why).__name__}: {why}): check the address, "
                "the network and your access, and run the same command again, it goes on where it stopped"
            ) from error

    def delete(self, path: str) -> None:
        with suppress(MissingFileError):
            self._try(path, lambda system, where: system.rm_file(where))

    def clear(self) -> None:
        names = sorted(self.listed())
        if names:
            self._try("", lambda system, root: system.rm([f"{root.rstrip('/')}/{name}" for name in names]))


def writable(address: str | Path) -> Writable:
    """The place at an address, to write into: a folder, or a URL that fsspec writes."""
    store = store_at(address)
    if store.folder is not None:
        return Disk(store.folder)
    if type(store) is not Remote:
        raise InputError(
            f"{address} cannot be written file by file: give a folder, or a URL such as s3://..."
        )
    return Objects(store.address)


def put_whole(system: Any, path: str, put: Callable[[str], object], tag: str = "") -> None:
    """Have `put` write a file of a file system at a path that it is given; `tag` marks an unfinished one."""
    if protocols(system) & WHOLE:
        put(path)
        return
    parent, _, name = path.rpartition("/")
    part = f"{parent}/.{name}{tag}.part"
    system.makedirs(parent, exist_ok=True)
    put(part)
    with suppress(FileNotFoundError):
        system.rm_file(path)  # some would not rename onto it
    system.mv(part, path)


def protocols(system: Any) -> set[str]:
    """The names of a file system in URLs."""
    named = system.protocol
    return {named} if isinstance(named, str) else set(named)
