"""A raw dataset on disk: a folder, its zip and tar files, or both. Nobody has to unpack anything.

Members of archives stand where they would lie if the archive were unpacked beside itself. What is there
unpacked and packed is there once: the file on disk counts, unless it is shorter, as when unpacking stopped.
Archives that have other files under the same paths each stand in a folder of their own name.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from builders.albums.folder import ENDINGS
from builders.raw.archives import ARCHIVES, Archive, archive_at, counts, text_of, without_packing
from shiftdata.errors import StorageError
from shiftdata.files import open_regular

T = TypeVar("T")
#: Archives in forms that are not read here, and what downloads leave that have not ended.
UNREAD = (".7z", ".rar", ".zst", ".lz4", ".z01")
UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".incomplete", ".aria2")
#: How a file begins that Git LFS puts where another was, and how long it is.
LFS, LFS_BYTES = b"version https://git-lfs", range(100, 200)
#: The largest file that is read as a whole.
MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class _File:
    """A file on disk, or in an archive at a path."""

    of: Path | Archive
    inside: str
    size: int


class Tree:
    """All files at a place: a folder with or without archives in it, or one archive, or rows.

    Hidden files, and what systems leave behind, are not among them. `files` are the bytes of each by its
    path, in order; `odd` are files that cannot be used whatever the dataset is, and why.
    """

    def __init__(self, place: Path, rows: Archive | None = None) -> None:
        self.place = place
        self.odd: dict[str, str] = {}
        self._files: dict[str, _File] = {}
        self._kept: dict[tuple[str, str], Any] = {}
        archives = [("", rows or archive_at(place))] if rows or place.is_file() else self._walk()
        archives.sort(key=lambda placed: placed[1].path)
        self.archives = [archive for _, archive in archives if archive is not rows]
        sizes: dict[str, set[int]] = defaultdict(set)
        for above, archive in archives:
            for inside, size in archive.files.items():
                sizes[above + inside].add(size)
        for above, archive in archives:
            if any(len(sizes[above + inside]) > 1 for inside in archive.files):
                above += f"{without_packing(archive.path.name)}/"
            for inside, size in archive.files.items():
                self._add(above + inside, _File(archive, inside, size))
            self.odd |= {above + path: why for path, why in archive.odd.items()}
        self.files: Mapping[str, int] = {path: self._files[path].size for path in sorted(self._files)}

    def read(self, path: str, start: int = 0, size: int = MOST_BYTES) -> bytes:
        """Return the bytes of a file from `start` on, all or as many as are asked for."""
        if (file := self._files.get(path)) is None:
            raise StorageError(f"{path} is not in {self.place}")
        if isinstance(file.of, Archive):
            return file.of.read(file.inside, start, size)
        try:
            with open_regular(file.of) as stream:
                stream.seek(start)
                return stream.read(size)
        except OSError as error:
            raise StorageError(f"{path} in {self.place} cannot be read: {error.strerror}") from error

    def position(self, path: str) -> tuple[str, str]:
        """Order files as they lie: a folder's by path, an archive's one after another."""
        of = self._files[path].of
        return (str(of.path), path) if isinstance(of, Archive) else ("", path)

    def version(self, path: str) -> str:
        """Return what changes when a file does: when it, or its archive, was last written."""
        of = self._files[path].of
        return str((of.path if isinstance(of, Archive) else of).stat().st_mtime_ns)

    def keep(self, what: str, file: str, make: Callable[[], T]) -> T:
        """Return what is made of a file, once: tables and arrays whose parts are examples."""
        if (what, file) not in self._kept:
            self._kept[what, file] = make()
        value: T = self._kept[what, file]
        return value

    def _walk(self) -> list[tuple[str, Archive]]:
        """Add what is in the folder, links to folders last; return the archives, each with what is above."""
        archives = list[tuple[str, Archive]]()
        seen, folders, linked = set[tuple[int, int]](), [(self.place, "")], list[tuple[Path, str]]()
        while folders or linked:
            folder, above = folders.pop() if folders else linked.pop(0)
            try:
                status, entries = folder.stat(), sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                raise StorageError(f"{folder} cannot be read ({error.strerror}): make it readable") from error
            if (status.st_dev, status.st_ino) in seen:
                self.odd[above.rstrip("/")] = "a link to a folder that is there already"
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in filter(lambda entry: counts(entry.name), entries):
                path = above + text_of(os.fsencode(entry.name))
                if entry.is_dir():
                    (linked if entry.is_symlink() else folders).append((Path(entry.path), f"{path}/"))
                elif not entry.is_file():
                    self.odd[path] = "a link to nothing" if entry.is_symlink() else "not a regular file"
                elif path.lower().endswith(ARCHIVES):
                    archives.append((above, archive_at(Path(entry.path))))
                else:
                    self._add(path, _File(Path(entry.path), "", entry.stat().st_size))
        return archives

    def _add(self, path: str, file: _File) -> None:
        """Add a file; of two at one path the longer counts, or else the first."""
        if why := _unusable(path, file):
            self.odd[path] = why
            return
        known = self._files.setdefault(path, file)
        if known.size != file.size:
            sizes = f"{known.size:,} and {file.size:,} bytes"
            self.odd[path] = f"there twice, of different length, of which the longer counts ({sizes})"
            self._files[path] = max(known, file, key=lambda each: each.size)


def _unusable(path: str, file: _File) -> str:
    lower = path.lower()
    if lower.endswith((*ARCHIVES, *UNREAD)):
        return f"an archive {'within an archive' if file.inside else 'in a form that is not read'}: unpack it"
    if lower.endswith(UNFINISHED):
        return "a download that has not ended"
    if file.size > MOST_BYTES:
        return f"larger than {MOST_BYTES >> 30} GB"
    if isinstance(file.of, Path) and file.size in LFS_BYTES and lower.endswith(ENDINGS):
        with open_regular(file.of) as stream:
            if stream.read(len(LFS)) == LFS:
                return "a pointer of Git LFS: get the picture by `git lfs pull`"
    return "an empty file" if not file.size and lower.endswith(ENDINGS) else ""
