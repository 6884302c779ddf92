"""Packed bytes of anybody: gzip, zip and tar; what a file would unpack to is counted before it is kept."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from shiftdata.untrusted.limits import check, check_unpacked

#: What unpacks a file, by its first bytes: some have a name that is not theirs.
READERS: Mapping[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ": lzma.open,
}
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
CHUNK = 1 << 20


def is_packed(start: bytes) -> bool:
    """Return True for the first bytes of a file in gzip, bzip2 or xz."""
    return start.startswith(tuple(READERS))


def unpacked(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the content of a file in gzip, bzip2 or xz, chunk by chunk."""
    size, total = stream.seek(0, io.SEEK_END), 0
    stream.seek(0)
    start = stream.read(6)
    stream.seek(0)
    unpack = next((by for begin, by in READERS.items() if start.startswith(begin)), gzip.open)
    with unpack(stream, "rb") as source:
        while chunk := source.read(CHUNK):
            total += len(chunk)
            check_unpacked("archive", total, size, name)
            yield chunk


def unpack(data: bytes, name: str) -> bytes:
    """Unpack bytes in gzip, bzip2 or xz."""
    return b"".join(unpacked(io.BytesIO(data), name))


class BoundedZip(zipfile.ZipFile):
    """A zip file of which no member unpacks to too much; no more is read of one than it declares."""

    def open(self, name: str | zipfile.ZipInfo, *arguments: Any, **options: Any) -> Any:
        member = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        check_unpacked("archive", member.file_size, member.compress_size, f"{member.filename!r:.200}")
        return super().open(member, *arguments, **options)


class IndexedZip(BoundedZip):
    """A zip file whose members are known: its list of them, which takes a kilobyte each, is not read."""

    def _RealGetContents(self) -> None:  # noqa: N802  # as `ZipFile` calls it
        """Read nothing, where `ZipFile` would read the list."""


def indexed_member(
    name: str, size: int, start: int, packed: int, check_sum: int, method: int, flags: int
) -> zipfile.ZipInfo:
    """Make the record of a member again from what is known of it."""
    member = zipfile.ZipInfo(name)
    member.file_size, member.header_offset, member.compress_size = size, start, packed
    member.CRC, member.compress_type, member.flag_bits = check_sum, method, flags
    return member


def open_zip(source: Path | bytes, name: str = "") -> BoundedZip:
    """Open a zip file. Its members are read into memory; nothing is written to a path that it names."""
    archive = BoundedZip(source if isinstance(source, Path) else io.BytesIO(source))
    check("archive_members", len(archive.filelist), name or os.path.basename(archive.filename or "the zip"))
    return archive


class _Headers(io.BufferedReader):
    """A tar file of which headers are read, none longer than a limit: one says itself how long it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        check("archive_header", size or 0, os.path.basename(self.name), "has a member with a long header")
        return super().read(size)


def tar_members(path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tar file that is not packed; of their content nothing is read."""
    try:
        with (
            _Headers(io.FileIO(path)) as file,
            tarfile.open(fileobj=file, mode="r:", encoding="utf-8") as tar,
        ):
            for number, member in enumerate(tar, start=1):
                check("archive_members", number, path.name)
                yield member
                tar.members = []  # type: ignore[attr-defined]  # it would keep all
    except RecursionError:
        raise tarfile.ReadError("a member has a thousand headers") from None
