"""Zip and tar files, read in place: which files are in one, and the bytes of each."""

from __future__ import annotations

import bz2
import errno
import glob
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar

from shiftdata.errors import InputError, StorageError
from shiftdata.files import PLAIN, read_at, whole_file
from shiftdata.stable import content_hash

#: Where raw datasets lie if nothing else is said: a folder with one of each name.
RAW = Path("build/raw")
RAW_VARIABLE = "SHIFTDATA_RAW"
#: Where what a compressed tar has is kept: nothing in one can be reached without all that comes before it.
UNPACKED = ".unpacked"
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
COMPRESSED = (".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
#: What reads a compressed file, by its first bytes: some have a name that is not theirs.
READERS: Mapping[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
ZIPPED = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")
TAR_MAGIC = slice(257, 262)
#: Files that systems leave behind.
LEFT_BEHIND = ("thumbs.db", "desktop.ini", "icon\r")
#: More than any program writes after the end of a tar.
MOST_PADDING = 1 << 20
#: Errors of a folder in which nothing can be written.
NOT_HERE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
LINK_BACK = "a link to a folder that is there already"
Member = TypeVar("Member")


class Archive(ABC):
    """A file with files in it. `odd` are members that cannot be used, and why; known with `files`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.odd: dict[str, str] = {}

    @property
    @abstractmethod
    def files(self) -> Mapping[str, int]:
        """Each file by its path, and its bytes."""

    @abstractmethod
    def read(self, path: str, start: int, size: int) -> bytes:
        """Up to that many bytes of a file, from `start` on."""


class _Members(Archive, Generic[Member]):
    """What both forms have in common: paths as they would be unpacked, and links to files among them."""

    def _placed(self, names: Iterator[tuple[bytes, Member | PurePosixPath]]) -> dict[str, Member]:
        """Each member by its path; a link, which names another, has what that one has."""
        members: dict[str, Member] = {}
        links: dict[str, PurePosixPath] = {}
        for name, member in names:
            parts = [part for part in text_of(name).split("/") if part not in ("", ".")]
            path = "/".join(parts)
            if ".." in parts:
                self.odd[path] = "its path leads out of the archive"
            elif not parts or not all(map(counts, parts)):
                continue
            elif isinstance(member, PurePosixPath):
                links[path] = member
            else:
                members[path] = member
        folders = (
            {str(folder) for path in members for folder in PurePosixPath(path).parents} if links else set()
        )
        for link, target in links.items():
            at = os.path.normpath(target).lstrip("/")
            if at in members:
                members[link] = members[at]
            elif at in folders:
                self.odd[link] = LINK_BACK
            else:
                self.odd[link] = "a link to nothing in the archive"
        return members


class Zip(_Members[zipfile.ZipInfo]):
    """A zip file."""

    @cached_property
    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except BROKEN as error:
            raise not_whole(self.path, error) from error

    @cached_property
    def _members(self) -> Mapping[str, zipfile.ZipInfo]:
        return self._placed(self._names())

    def _names(self) -> Iterator[tuple[bytes, zipfile.ZipInfo | PurePosixPath]]:
        for one in self._opened.infolist():
            if one.flag_bits & 1:
                raise InputError(f"{self.path} is encrypted: unpack it with its password")
            # Python takes a name for cp437 where nothing says UTF-8; many programs write UTF-8 all the same.
            encoding = "utf-8" if one.flag_bits & 0x800 else "cp437"
            name = one.orig_filename.encode(encoding, "surrogateescape").replace(b"\\", b"/")
            if stat.S_ISLNK(one.external_attr >> 16):
                target = text_of(self._opened.read(one))
                yield name, PurePosixPath(text_of(name)).parent / target
            elif not name.endswith(b"/"):
                yield name, one

    @cached_property
    def files(self) -> Mapping[str, int]:
        return {path: one.file_size for path, one in self._members.items()}

    def read(self, path: str, start: int, size: int) -> bytes:
        try:
            return self._opened.read(self._members[path])[start : start + size]
        except (*BROKEN, NotImplementedError, RuntimeError) as error:
            raise _damaged(self.path, path, error) from error


class Tar(_Members[tuple[int, int]]):
    """A tar file. A compressed one is unpacked beside itself when it is first read, into another tar file."""

    @cached_property
    def _plain(self) -> Path:
        unpack = next((by for begin, by in READERS.items() if begins(self.path).startswith(begin)), None)
        return self._unpacked(unpack) if unpack else self.path

    def _unpacked(self, unpack: Any) -> Path:
        """The plain tar, in the first of two folders in which it can be."""
        known = self.path.stat()
        name = f"{self.path.name}-{known.st_size}-{known.st_mtime_ns}.tar"
        elsewhere = RAW / UNPACKED / content_hash(str(self.path.resolve()))[:8]
        plains = [folder / name for folder in (self.path.parent / UNPACKED, elsewhere)]
        for plain in plains:
            if plain.is_file():
                return plain
            try:
                with unpack(self.path, "rb") as source, whole_file(plain) as file, file.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
            except BROKEN as error:
                if not isinstance(error, OSError) or not error.errno:
                    raise not_whole(self.path, error) from error
                if error.errno not in NOT_HERE or plain == plains[-1]:
                    raise StorageError(f"{self.path} cannot be unpacked into {plain}: {error}") from error
                continue
            for old in plain.parent.glob(f"{glob.escape(self.path.name)}-*-*.tar"):
                if old != plain:  # of a file that was here before
                    with suppress(OSError):
                        old.unlink()
            return plain
        raise AssertionError("the last of the folders returns or raises")

    @cached_property
    def _members(self) -> Mapping[str, tuple[int, int]]:
        try:
            with tarfile.open(self._plain, "r:", encoding="utf-8") as tar:
                members = self._placed(self._names(tar))
                self._check_end(tar.offset)
        except BROKEN as error:
            raise not_whole(self.path, error) from error
        return members

    def _names(self, tar: tarfile.TarFile) -> Iterator[tuple[bytes, tuple[int, int] | PurePosixPath]]:
        for one in tar:
            name = one.name.encode("utf-8", "surrogateescape")
            target = text_of(one.linkname.encode("utf-8", "surrogateescape"))
            if one.issym():
                yield name, PurePosixPath(text_of(name)).parent / target
            elif one.islnk():
                yield name, PurePosixPath(target)
            elif one.issparse():
                self.odd[text_of(name)] = "a sparse file"
            elif one.isreg():
                yield name, (one.offset_data, one.size)
            tar.members = []  # type: ignore[attr-defined]  # it would keep all

    def _check_end(self, end: int) -> None:
        """A tar ends in a block of zeros; a download that stopped does not, or is zeros from there on."""
        size = self._plain.stat().st_size
        last = read_at(self._descriptor, tarfile.BLOCKSIZE, max(0, end - tarfile.BLOCKSIZE))
        at_end = read_at(self._descriptor, tarfile.BLOCKSIZE, end)
        if not (at_end or last) or any(at_end) or (not at_end and any(last)):
            raise EOFError("it ends within a file")
        if size - end > MOST_PADDING:
            raise EOFError("much of it is empty")

    @cached_property
    def files(self) -> Mapping[str, int]:
        return {path: size for path, (_, size) in self._members.items()}

    @cached_property
    def _descriptor(self) -> int:
        return os.open(self._plain, os.O_RDONLY | PLAIN)

    def read(self, path: str, start: int, size: int) -> bytes:
        begin, whole = self._members[path]
        size = max(0, min(size, whole - start))
        data = read_at(self._descriptor, size, begin + start)
        if len(data) < size:
            raise _damaged(self.path, path, EOFError("it has become shorter"))
        return data


def archive_at(path: Path) -> Archive:
    """The archive that a file is, by its first bytes."""
    start = begins(path)
    if start.startswith(ZIPPED):
        return Zip(path)
    if start.startswith(tuple(READERS)) or start[TAR_MAGIC] == b"ustar":
        return Tar(path)
    if not path.name.lower().endswith(ARCHIVES):
        known = ", ".join(ARCHIVES)
        raise InputError(f"{path} is neither a folder nor an archive ({known}): give the folder it lies in")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        raise InputError(f"{path} is a web page and not the archive: open the link in a browser, and confirm")
    if path.name.lower().endswith(".tar") and len(start) == tarfile.BLOCKSIZE:
        return Tar(path)  # the oldest have no mark
    raise not_whole(path, EOFError("its first bytes are not those of an archive" if start else "it is empty"))


def without_packing(name: str) -> str:
    """The name of an archive without its ending; that of a folder as it is.

    >>> without_packing("PACS.tar.gz"), without_packing("VisDA.2017")
    ('PACS', 'VisDA.2017')
    """
    endings = sorted(ARCHIVES, key=len, reverse=True)
    return next((name[: -len(one)] for one in endings if name.lower().endswith(one)), name)


def begins(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as stream:
        return stream.read(tarfile.BLOCKSIZE)


def counts(name: str) -> bool:
    """Whether a file or folder is part of a dataset: it is not hidden, nor left behind by a system."""
    return not name.startswith(".") and name.lower() not in LEFT_BEHIND and name != "__MACOSX"


def text_of(name: bytes) -> str:
    """The name of a file as text, the same from each archive and system: UTF-8, composed, or else cp437.

    >>> text_of("é".encode()), text_of(b"e" + bytes([0xcc, 0x81])), text_of(bytes([0x82]))
    ('é', 'é', 'é')
    """
    if name.isascii():
        return name.decode()
    try:
        return unicodedata.normalize("NFC", name.decode())
    except UnicodeDecodeError:
        return name.decode("cp437")


def not_whole(path: Path, error: Exception) -> InputError:
    """What to do about an archive that cannot be read to its end."""
    return InputError(
        f"{path} is not a whole archive ({error}): it may be half a download. Compare its size with "
        "`python -m builders raw list`, and get it again; if all it has is unpacked here, move it away"
    )


def _damaged(path: Path, member: str, error: Exception) -> StorageError:
    return StorageError(f"{member} in {path} cannot be read ({error}): get the archive again")
