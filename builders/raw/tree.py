"""A raw dataset on disk: a folder, its zip and tar files, or both. Nobody has to unpack anything.

Members of archives stand where they would lie if the archive were unpacked beside itself. What is there
unpacked and packed is there once: the file on disk counts.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from shiftdata.errors import InputError, StorageError
from shiftdata.files import open_regular, read_at, whole_file

#: Where what a compressed tar holds is kept: nothing in one can be reached without all that comes before it.
UNPACKED = ".unpacked"
COMPRESSED: Mapping[str, Any] = {".gz": gzip.open, ".tgz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ARCHIVES = (".zip", ".tar", ".tgz", *(f".tar{ending}" for ending in COMPRESSED if ending != ".tgz"))
#: Files that systems leave behind.
LEFT_BEHIND = ("thumbs.db", "desktop.ini", "icon\r")
#: The largest file that is read as a whole.
MOST_BYTES = 1 << 30


class Archive(ABC):
    """A file with files in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    @abstractmethod
    def files(self) -> Mapping[str, int]:
        """Each file by its path, and its bytes."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All bytes of a file."""


class Zip(Archive):
    """A zip file."""

    @cached_property
    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError) as error:
            raise _not_whole(self.path, error) from error

    @cached_property
    def _members(self) -> Mapping[str, zipfile.ZipInfo]:
        members = ((_inside(one.filename), one) for one in self._opened.infolist() if not one.is_dir())
        return {path: one for path, one in members if path is not None}

    @cached_property
    def files(self) -> Mapping[str, int]:
        return {path: one.file_size for path, one in self._members.items()}

    def read(self, path: str) -> bytes:
        try:
            return self._opened.read(self._members[path])
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise StorageError(f"{path} in {self.path} cannot be read: {error}") from error


class Tar(Archive):
    """A tar file. A compressed one is unpacked beside itself when it is first read, into another tar file."""

    @cached_property
    def _plain(self) -> Path:
        unpack = COMPRESSED.get(self.path.suffix.lower())
        if unpack is None:
            return self.path
        stat = self.path.stat()
        plain = self.path.parent / UNPACKED / f"{self.path.name}-{stat.st_size}-{stat.st_mtime_ns}.tar"
        if not plain.exists():
            try:
                with unpack(self.path, "rb") as source, whole_file(plain) as file, file.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
            except (EOFError, OSError, lzma.LZMAError) as error:
                if isinstance(error, OSError) and error.errno:
                    raise StorageError(f"{self.path} cannot be unpacked into {plain}: {error}") from error
                raise _not_whole(self.path, error) from error
        return plain

    @cached_property
    def _members(self) -> Mapping[str, tuple[int, int]]:
        members = {}
        try:
            with tarfile.open(self._plain, "r:") as tar:
                for one in tar:
                    path = _inside(one.name) if one.isreg() else None
                    if path is not None:
                        members[path] = one.offset_data, one.size
                    tar.members = []  # type: ignore[attr-defined]  # it would keep all
        except (tarfile.TarError, EOFError, OSError) as error:
            raise _not_whole(self.path, error) from error
        if members:
            last, size = max(members.values())
            if last + size > self._plain.stat().st_size:
                raise _not_whole(self.path, EOFError("it ends within a file"))
        return members

    @cached_property
    def files(self) -> Mapping[str, int]:
        return {path: size for path, (_, size) in self._members.items()}

    @cached_property
    def _descriptor(self) -> int:
        return os.open(self._plain, os.O_RDONLY)

    def read(self, path: str) -> bytes:
        start, size = self._members[path]
        return read_at(self._descriptor, size, start)


@dataclass(frozen=True)
class Tree:
    """All files at a place: a folder with or without archives in it, or one archive.

    Hidden files, and what systems leave behind, are not among them.
    """

    place: Path

    def __post_init__(self) -> None:
        if not self.place.exists():
            raise InputError(
                f"there is nothing at {self.place}: give the folder, zip or tar with the raw data"
            )

    @cached_property
    def archives(self) -> tuple[Archive, ...]:
        """The zip and tar files, by name."""
        if self.place.is_file():
            return (_archive(self.place),)
        named = (path for path in self.place.iterdir() if path.name.lower().endswith(ARCHIVES))
        return tuple(_archive(path) for path in sorted(named) if path.is_file())

    @cached_property
    def files(self) -> Mapping[str, int]:
        """The path of each file, in order, and its bytes."""
        found = {path: archive.files[inside] for path, (archive, inside) in self._packed.items()}
        found |= self._loose()
        return {path: found[path] for path in sorted(found)}

    @cached_property
    def _packed(self) -> Mapping[str, tuple[Archive, str]]:
        """Where each packed file is: the archive, and its path in that.

        Archives that have other files under the same paths each stand in a folder of their own name.
        """
        sizes: dict[str, set[int]] = {}
        for archive in self.archives:
            for path, size in archive.files.items():
                sizes.setdefault(path, set()).add(size)
        found: dict[str, tuple[Archive, str]] = {}
        for archive in reversed(self.archives):
            apart = any(len(sizes[path]) > 1 for path in archive.files)
            folder = f"{without_packing(archive.path.name)}/" if apart else ""
            found |= {f"{folder}{path}": (archive, path) for path in archive.files}
        return found

    def _loose(self) -> dict[str, int]:
        if self.place.is_file():
            return {}
        packed = {archive.path for archive in self.archives}
        return {
            path.relative_to(self.place).as_posix(): path.stat().st_size
            for path in _walk(self.place)
            if path not in packed
        }

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        if self.place.is_dir() and (self.place / path).is_file():
            with open_regular(self.place / path) as file:
                return file.read(MOST_BYTES)
        archive, inside = self._packed.get(path, (None, path))
        if archive is not None and archive.files[inside] < MOST_BYTES:
            return archive.read(inside)
        raise StorageError(f"{path} has gone from {self.place}")


def without_packing(name: str) -> str:
    """The name of an archive without its ending; that of a folder as it is.

    >>> without_packing("PACS.tar.gz"), without_packing("VisDA.2017")
    ('PACS', 'VisDA.2017')
    """
    endings = sorted(ARCHIVES, key=len, reverse=True)
    return next((name[: -len(one)] for one in endings if name.lower().endswith(one)), name)


def _walk(folder: Path) -> Iterator[Path]:
    for where, below, files in os.walk(folder, followlinks=True):
        below[:] = sorted(name for name in below if _counts(name))
        paths = (Path(where, name) for name in sorted(files) if _counts(name))
        yield from (path for path in paths if path.is_file())


def _counts(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in LEFT_BEHIND and name != "__MACOSX"


def _inside(name: str) -> str | None:
    """The path of an archive's member; None for one that does not count, or would lie elsewhere."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not all(map(_counts, path.parts)):
        return None
    return path.as_posix()


def _archive(path: Path) -> Archive:
    name = path.name.lower()
    if not name.endswith(ARCHIVES):
        raise InputError(f"{path} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    return Zip(path) if name.endswith(".zip") else Tar(path)


def _not_whole(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} is not a whole archive ({error}): it may be half a download; compare its size with "
        "`python -m builders raw list`, and get it again"
    )
