"""Zip and tar files, read in place: which files are in one, and the bytes of each."""

from __future__ import annotations

import json
import os
import stat
import tarfile
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from builders.items import Texts
from shiftdata.errors import InputError, StorageError
from shiftdata.files import PLAIN, read_at, whole_file
from shiftdata.stable import content_hash
from shiftdata.untrusted.archives import (
    BROKEN,
    IndexedZip,
    indexed_member,
    is_packed,
    open_zip,
    tar_members,
    unpacked,
)
from shiftdata.untrusted.texts import read_json

#: Where raw datasets lie if nothing else is said: a folder with one of each name.
RAW = Path("build/raw")
RAW_VARIABLE = "SHIFTDATA_RAW"
#: Where compressed tars are kept unpacked, below that: a member of one is reached only through all before it.
UNPACKED = ".unpacked"
#: Where the members of large archives are listed, and the members from which on an archive is large.
INDEXED, KEPT_FROM = ".index", 20_000
#: Members that are Python objects at once.
ROWS_AT_ONCE = 100_000
#: What is known of a member. Of a zip file: where its header lies, its packed bytes, their check sum, the
#: method, the flags and the name as it is stored; of a tar where its bytes lie; of rows the number.
MEMBERS = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "start": pa.int64(),
        "packed": pa.int64(),
        "check": pa.int64(),
        "method": pa.int32(),
        "flags": pa.int32(),
        "name": pa.string(),
    }
)
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
COMPRESSED = (".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz")
ZIPPED = (b"PK\3\4", b"PK\5\6", b"PK\7\x08")
TAR_MAGIC = slice(257, 262)
#: Files and folders that systems leave behind.
LEFT_BEHIND = ("thumbs.db", "desktop.ini", "icon\r", "__macosx")
LINK = "a link within an archive: unpack the archive"


class Archive(ABC):
    """A file with files in it, which are known as soon as it is opened.

    `members` has the path of each as it would be unpacked, its bytes, and where it lies; `odd` are members
    that cannot be used, and why. What is known of an archive of many members is kept, and not read again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        kept = _index_of(path) if path.is_file() else None
        self.members, self.odd = (kept and _read_index(kept)) or self._indexed(kept)

    @abstractmethod
    def read(self, row: int, start: int, size: int) -> bytes:
        """Return up to that many bytes of the member in a row, from `start` on."""

    @abstractmethod
    def _listed(self, members: Members) -> None:
        """Add every member."""

    def _indexed(self, kept: Path | None) -> tuple[pa.Table, dict[str, str]]:
        members = Members()
        self._listed(members)
        table = members.table()
        if kept and len(table) >= KEPT_FROM:
            _keep_index(table, members.odd, kept)
        return table, members.odd


class Members:
    """Collects the members of an archive, as columns."""

    def __init__(self) -> None:
        self.odd: dict[str, str] = {}
        self._rows: list[tuple[object, ...]] = []
        self._pieces: list[pa.Table] = []

    def add(self, name: bytes, size: int, *place: object, fault: str = "") -> None:
        """Add a member, with the columns that say where it lies; one with a `fault` is odd."""
        parts = [part for part in text_of(name).split("/") if part not in ("", ".")]
        path, is_outside = "/".join(parts), ".." in parts
        if not parts or not all(counts(part) for part in parts if part != ".."):
            return
        if is_outside or fault:
            self.odd[path] = "its path leads out of the archive" if is_outside else fault
            return
        self._rows.append((path, size, *place, *(None,) * (len(MEMBERS) - 2 - len(place))))
        if len(self._rows) == ROWS_AT_ONCE:
            self._flush()

    def table(self) -> pa.Table:
        """All members, sorted by path; of two with one path the last, as unpacking leaves it."""
        self._flush()
        rows = pa.concat_tables([MEMBERS.empty_table(), *self._pieces]).combine_chunks()
        self._pieces = []
        rows = rows.take(pc.sort_indices(rows["path"]))  # it is stable
        paths = rows["path"]
        is_last = pc.not_equal(paths.slice(1), paths.slice(0, max(0, len(rows) - 1))).combine_chunks()
        return rows if pc.all(is_last).as_py() else rows.filter(pa.concat_arrays([is_last, pa.array([True])]))

    def _flush(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(MEMBERS)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, MEMBERS.types, strict=True)]
        self._pieces.append(pa.table(arrays, schema=MEMBERS))
        self._rows = []


def _index_of(path: Path) -> Path:
    """Name the file with the index of an archive; that of a changed archive has another name."""
    known, of = path.stat(), content_hash(str(path.resolve()))[:16]
    folder = Path(os.environ.get(RAW_VARIABLE, RAW)) / INDEXED
    return folder / f"{of}-{known.st_size}-{known.st_mtime_ns}.arrow"


def _read_index(kept: Path) -> tuple[pa.Table, dict[str, str]] | None:
    try:
        with pa.memory_map(str(kept)) as file, pa.ipc.open_file(file) as reader:
            table = reader.read_all()
            odd: dict[str, str] = read_json(table.schema.metadata[b"odd"])
            return table.replace_schema_metadata(None), odd
    except (OSError, pa.ArrowInvalid, KeyError, TypeError):  # not there, or of another program
        return None


def _keep_index(members: pa.Table, odd: Mapping[str, str], kept: Path) -> None:
    with suppress(OSError):  # a folder that cannot be written: it is listed again next time
        described = members.replace_schema_metadata({"odd": json.dumps(odd)})
        with (
            whole_file(kept) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, described.schema) as writer,
        ):
            writer.write_table(described, max_chunksize=ROWS_AT_ONCE)
        for old in {*kept.parent.glob(f"{kept.name.partition('-')[0]}-*.arrow")} - {kept}:
            old.unlink()


class Zip(Archive):
    """A zip file."""

    def _listed(self, members: Members) -> None:
        try:
            opened = open_zip(self.path)
        except BROKEN as error:
            raise not_whole(self.path, error) from error
        with opened:
            for member in opened.infolist():
                # Python takes a name for cp437 where nothing says UTF-8; many programs write UTF-8 all the
                # same.
                encoding = "utf-8" if member.flag_bits & 0x800 else "cp437"
                name = member.orig_filename.encode(encoding, "surrogateescape").replace(b"\\", b"/")
                if not name.endswith(b"/"):
                    fault = LINK if stat.S_ISLNK(member.external_attr >> 16) else ""
                    members.add(
                        name,
                        member.file_size,
                        member.header_offset,
                        member.compress_size,
                        member.CRC,
                        member.compress_type,
                        member.flag_bits,
                        member.orig_filename,
                        fault=fault,
                    )

    @cached_property
    def _opened(self) -> IndexedZip:
        return IndexedZip(self.path)

    def read(self, row: int, start: int, size: int) -> bytes:
        *place, name = self._places
        member = indexed_member(name[row].decode(), *(int(column[row]) for column in place))
        try:
            return self._opened.read(member)[start : start + size]
        except (*BROKEN, NotImplementedError, RuntimeError) as error:
            raise _damaged(self.path, name[row].decode(), error) from error

    @cached_property
    def _places(self) -> tuple[Any, ...]:
        """The columns behind the paths: a row of a table takes longer to get than a member to read."""
        *numbers, name = (self.members[column] for column in MEMBERS.names[1:])
        return *(column.to_numpy() for column in numbers), Texts(name)


class Tar(Archive):
    """A tar file. A compressed one is unpacked when it is first read, into another tar file."""

    def _listed(self, members: Members) -> None:
        try:
            for member in tar_members(_unpacked(self.path)):
                name = member.name.encode("utf-8", "surrogateescape")
                is_link = member.issym() or member.islnk()
                fault = "a sparse file" if member.issparse() else LINK if is_link else ""
                if member.isreg() or fault:
                    members.add(name, member.size, member.offset_data, fault=fault)
            # A tar ends in blocks of zeros; a download that stopped between two files does not.
            last = os.fstat(self._descriptor).st_size - tarfile.BLOCKSIZE
            if any(read_at(self._descriptor, tarfile.BLOCKSIZE, max(0, last))):
                raise EOFError("it ends within a file")
        except BROKEN as error:
            raise not_whole(self.path, error) from error

    @cached_property
    def _descriptor(self) -> int:
        return os.open(_unpacked(self.path), os.O_RDONLY | PLAIN)

    def read(self, row: int, start: int, size: int) -> bytes:
        of, begin = self._places
        size = max(0, min(size, int(of[row]) - start))
        data = read_at(self._descriptor, size, int(begin[row]) + start)
        if len(data) < size:
            member = self.members["path"][row].as_py()
            raise _damaged(self.path, member, EOFError("it has become shorter"))
        return data

    @cached_property
    def _places(self) -> tuple[Any, Any]:
        return self.members["size"].to_numpy(), self.members["start"].to_numpy()


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
