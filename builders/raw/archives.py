"""Zip and tar files, read in place: which files are in one, and the bytes of each."""

from __future__ import annotations

import os
import stat
import tarfile
import unicodedata
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from shiftdata.errors import InputError, StorageError
from shiftdata.files import PLAIN, read_at, whole_file
from shiftdata.stable import content_hash
from shiftdata.untrusted.archives import BROKEN, is_packed, open_zip, tar_members, unpacked

#: Where raw datasets lie if nothing else is said: a folder with one of each name.
RAW = Path("build/raw")
RAW_VARIABLE = "SHIFTDATA_RAW"
#: Where compressed tars are kept unpacked, below that: a member of one is reached only through all before it.
UNPACKED = ".unpacked"
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
COMPRESSED = (".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
ZIPPED = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")
TAR_MAGIC = slice(257, 262)
#: Files and folders that systems leave behind.
LEFT_BEHIND = ("thumbs.db", "desktop.ini", "icon\r", "__macosx")
LINK = "a link within an archive: unpack the archive"


class Archive(ABC):
    """A file with files in it, which are known as soon as it is opened.

    `files` are the bytes of each by its path as it would be unpacked, `odd` are members that cannot be used,
    and why.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, int] = {}
        self.odd: dict[str, str] = {}
        self._members: dict[str, Any] = {}

    @abstractmethod
    def read(self, path: str, start: int, size: int) -> bytes:
        """Return up to that many bytes of a file, from `start` on."""

    def _add(self, name: bytes, size: int, member: object, fault: str = "") -> None:
        """Add a member that can be used; one with a `fault` is odd."""
        parts = [part for part in text_of(name).split("/") if part not in ("", ".")]
        path, is_outside = "/".join(parts), ".." in parts
        if not parts or not all(counts(part) for part in parts if part != ".."):
            return
        if is_outside or fault:
            self.odd[path] = "its path leads out of the archive" if is_outside else fault
        else:
            self.files[path], self._members[path] = size, member


class Zip(Archive):
    """A zip file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._opened = open_zip(path)
        except BROKEN as error:
            raise not_whole(path, error) from error
        for member in self._opened.infolist():
            # Python takes a name for cp437 where nothing says UTF-8; many programs write UTF-8 all the same.
            encoding = "utf-8" if member.flag_bits & 0x800 else "cp437"
            name = member.orig_filename.encode(encoding, "surrogateescape").replace(b"\\", b"/")
            if not name.endswith(b"/"):
                fault = LINK if stat.S_ISLNK(member.external_attr >> 16) else ""
                self._add(name, member.file_size, member, fault)

    def read(self, path: str, start: int, size: int) -> bytes:
        try:
            return self._opened.read(self._members[path])[start : start + size]
        except (*BROKEN, NotImplementedError, RuntimeError) as error:
            raise _damaged(self.path, path, error) from error


class Tar(Archive):
    """A tar file. A compressed one is unpacked when it is first read, into another tar file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        plain = _unpacked(path)
        try:
            self._descriptor = os.open(plain, os.O_RDONLY | PLAIN)
            for member in tar_members(plain):
                name = member.name.encode("utf-8", "surrogateescape")
                is_link = member.issym() or member.islnk()
                fault = "a sparse file" if member.issparse() else LINK if is_link else ""
                if member.isreg() or fault:
                    self._add(name, member.size, member.offset_data, fault)
            # A tar ends in blocks of zeros; a download that stopped between two files does not.
            last = os.fstat(self._descriptor).st_size - tarfile.BLOCKSIZE
            if any(read_at(self._descriptor, tarfile.BLOCKSIZE, max(0, last))):
                raise EOFError("it ends within a file")
        except BROKEN as error:
            raise not_whole(path, error) from error

    def read(self, path: str, start: int, size: int) -> bytes:
        size = max(0, min(size, self.files[path] - start))
        data = read_at(self._descriptor, size, self._members[path] + start)
        if len(data) < size:
            raise _damaged(self.path, path, EOFError("it has become shorter"))
        return data


def _unpacked(path: Path) -> Path:
    """The tar file that a compressed one has in it; itself, if it is not compressed."""
    if not is_packed(begins(path)):
        return path
    known, of = path.stat(), content_hash(str(path.resolve()))[:16]
    folder = Path(os.environ.get(RAW_VARIABLE, RAW)) / UNPACKED
    plain = folder / f"{of}-{known.st_size}-{known.st_mtime_ns}.tar"
    if plain.is_file():
        return plain
    try:
        with path.open("rb") as source, whole_file(plain) as file, file.open("wb") as sink:
            sink.writelines(unpacked(source, path.name))
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno:  # of the disk, and not of what is in the file
            raise StorageError(f"{path} cannot be unpacked into {plain}: {error}") from error
        raise not_whole(path, error) from error
    for old in {*folder.glob(f"{of}-*.tar")} - {plain}:  # of a file that was here before
        with suppress(OSError):
            old.unlink()
    return plain


def archive_at(path: Path) -> Archive:
    """Return the archive that a file is, by its first bytes."""
    start = begins(path)
    if start.startswith(ZIPPED):
        return Zip(path)
    if is_packed(start) or start[TAR_MAGIC] == b"ustar":
        return Tar(path)
    if not path.name.lower().endswith(ARCHIVES):
        known = ", ".join(ARCHIVES)
        raise InputError(f"{path} is neither a folder nor an archive ({known}): give the folder it lies in")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        raise InputError(f"{path} is a web page and not the archive: open the link in a browser, and confirm")
    raise not_whole(path, EOFError("its first bytes are not those of an archive" if start else "it is empty"))


def without_packing(name: str) -> str:
    """The name of an archive without its ending; that of a folder as it is.

    >>> without_packing("PACS.tar.gz"), without_packing("VisDA.2017")
    ('PACS', 'VisDA.2017')
    """
    endings = sorted(ARCHIVES, key=len, reverse=True)
    return next((name[: -len(ending)] for ending in endings if name.lower().endswith(ending)), name)


def begins(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as stream:
        return stream.read(tarfile.BLOCKSIZE)


def counts(name: str) -> bool:
    """Return True for part of a dataset: a file or folder that is not hidden, nor left behind by a system."""
    return not name.startswith(".") and name.lower() not in LEFT_BEHIND


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
    """Say what to do about an archive that cannot be read to its end."""
    return InputError(
        f"{path} is not a whole archive ({error}): it may be half a download. Compare its size with "
        "`shiftdata raw list`, and get it again; if all it has is unpacked here, move it away"
    )


def _damaged(path: Path, member: str, error: Exception) -> StorageError:
    return StorageError(f"{member} in {path} cannot be read ({error}): get the archive again, or unpack it")
