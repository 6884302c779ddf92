"""A raw dataset on disk: a folder, its zip and tar files, or both. Nobody has to unpack anything.

Members of archives stand where they would lie if the archive were unpacked beside itself. What is there
unpacked and packed is there once: the file on disk counts, unless it is shorter, as when unpacking stopped.
Archives that have other files under the same paths each stand in a folder of their own name.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from builders.albums.folder import ENDINGS
from builders.raw.archives import ARCHIVES, Archive, archive_at, counts, text_of, without_packing
from shiftdata.errors import InputError, StorageError
from shiftdata.files import open_regular

T = TypeVar("T")
#: Archives in forms that are not read here, and what downloads leave that have not ended.
UNREAD = (".7z", ".rar", ".zst", ".lz4", ".z01")
UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".incomplete", ".aria2")
#: How a file begins that Git LFS puts in the place of another, and how long it is.
LFS, LFS_BYTES = b"version https://git-lfs", range(100, 200)
#: The largest file that is read as a whole.
MOST_BYTES = 1 << 30


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
        return tuple(archive for _, archive in self._contents.archives)

    @cached_property
    def files(self) -> Mapping[str, int]:
        """The path of each file, in order, and its bytes."""
        return {path: self._contents.files[path].size for path in sorted(self._contents.files)}

    @property
    def odd(self) -> Mapping[str, str]:
        """Files that cannot be used whatever the dataset is, by path, and why."""
        return self._contents.odd

    def read(self, path: str, start: int = 0, size: int = MOST_BYTES) -> bytes:
        """Return the bytes of a file from `start` on, all or as many as are asked for."""
        if (file := self._contents.files.get(path)) is None:
            raise StorageError(f"{path} is not in {self.place}")
        if isinstance(file.of, Archive):
            return file.of.read(file.inside, start, size)
        try:
            with open_regular(file.of) as stream:
                stream.seek(start)
                return stream.read(size)
        except OSError as error:
            raise StorageError(f"{path} in {self.place} cannot be read: {error.strerror}") from error

    @cached_property
    def _kept(self) -> dict[tuple[str, str], Any]:
        return {}

    def keep(self, what: str, file: str, make: Callable[[], T]) -> T:
        """Return what is made of a file, once: tables and arrays whose parts are examples."""
        if (what, file) not in self._kept:
            self._kept[what, file] = make()
        value: T = self._kept[what, file]
        return value

    @cached_property
    def _contents(self) -> _Contents:
        contents = _Contents()
        if self.place.is_file():
            contents.archives.append(("", archive_at(self.place)))
        else:
            contents.walk(self.place)
        contents.archives.sort(key=lambda placed: placed[1].path)
        contents.look_into_archives()
        return contents


@dataclass(frozen=True, slots=True)
class _File:
    """A file on disk, or in an archive at a path."""

    of: Path | Archive
    inside: str
    size: int


@dataclass
class _Contents:
    """Each file by its path; archives with the folder that each is in; what cannot be used, and why."""

    files: dict[str, _File] = field(default_factory=dict)
    archives: list[tuple[str, Archive]] = field(default_factory=list)
    odd: dict[str, str] = field(default_factory=dict)

    def walk(self, place: Path) -> None:
        """Add what is in a folder; links to folders last, if they lead to what is not there without them."""
        seen, folders, linked = set[tuple[int, int]](), [(place, "")], list[tuple[Path, str]]()
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
                    self.archives.append((above, archive_at(Path(entry.path))))
                else:
                    self._add(path, _File(Path(entry.path), "", entry.stat().st_size))

    def look_into_archives(self) -> None:
        """Add what is in the archives."""
        sizes: dict[str, set[int]] = defaultdict(set)
        for above, archive in self.archives:
            for inside, size in archive.files.items():
                sizes[above + inside].add(size)
        for above, archive in self.archives:
            if any(len(sizes[above + inside]) > 1 for inside in archive.files):
                above += f"{without_packing(archive.path.name)}/"
            for inside, size in archive.files.items():
                self._add(above + inside, _File(archive, inside, size))
            self.odd |= {above + path: why for path, why in archive.odd.items()}

    def _add(self, path: str, file: _File) -> None:
        """Add a file; of two at one path the longer counts, or else the first."""
        if why := _unusable(path, file):
            self.odd[path] = why
            return
        known = self.files.setdefault(path, file)
        if known.size != file.size:
            sizes = f"{known.size:,} and {file.size:,} bytes"
            self.odd[path] = f"there twice, of different length, of which the longer counts ({sizes})"
            self.files[path] = max(known, file, key=lambda each: each.size)


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
