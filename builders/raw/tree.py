"""A raw dataset on disk: a folder, its zip and tar files, or both. Nobody has to unpack anything.

Members of archives stand where they would lie if the archive were unpacked beside itself. What is there
unpacked and packed is there once: the file on disk counts, unless it is shorter, as when unpacking stopped.
Archives that have other files under the same paths each stand in a folder of their own name.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.albums.folder import ENDINGS
from builders.albums.reading import RawFile
from builders.items import TextIndex, Texts, taken
from builders.raw.archives import ARCHIVES, Archive, archive_at, counts, text_of, without_packing
from shiftdata.data.arrays import BoolArray, IntArray
from shiftdata.errors import StorageError
from shiftdata.files import open_regular

T = TypeVar("T")
#: Archives in forms that are not read here, and what downloads leave that have not ended.
UNREAD = (".7z", ".rar", ".zst", ".lz4", ".z01")
UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".incomplete", ".aria2")
#: How a file begins that Git LFS puts where another was, and how long it is.
LFS, LFS_BYTES = b"version https://git-lfs", range(100, 200)
POINTER = "a pointer of Git LFS: get the picture by `git lfs pull`"
#: What files lie in that are in no archive.
DISK = -1
#: The largest file that is read as a whole.
MOST_BYTES = 1 << 30


#: The files of a tree: `of` numbers what each lies in, and `row` its place there.
ON_DISK = pa.schema({"path": pa.string(), "size": pa.int64()})
FILES = pa.schema({"path": pa.string(), "size": pa.int64(), "of": pa.int32(), "row": pa.int32()})
#: Paths that are Python texts at once.
AT_ONCE = 50_000


class Sizes(Mapping[str, int]):
    """The bytes of each file by its path, in the order of paths."""

    def __init__(self, files: pa.Table) -> None:
        self._files = files
        self._paths = Texts(files["path"])
        self.bytes = files["size"].to_numpy()

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        for batch in self._files.select(["path"]).to_batches(max_chunksize=AT_ONCE):
            yield from batch["path"].to_pylist()

    def __getitem__(self, path: str) -> int:
        return int(self.bytes[self.row(path)])

    def some(self, rows: IntArray) -> Iterator[tuple[int, str]]:
        """Yield some rows, each with its path."""
        paths = taken(self._files.select(["path"]), rows)["path"].to_pylist()
        yield from zip(rows.tolist(), paths, strict=True)

    def named(self, paths: Iterable[pa.Array]) -> BoolArray:
        """The mask of the files that have one of these paths."""
        is_named, index = np.zeros(len(self), bool), TextIndex(self._files["path"])
        for some in paths:
            rows = index.find(some)
            is_named[rows[rows >= 0]] = True
        return is_named

    def row(self, path: str) -> int:
        """The row of a file; a `KeyError` if there is none."""
        wanted = path.encode(errors="surrogatepass")
        at = bisect_left(self._paths, wanted)
        if at == len(self) or self._paths[at] != wanted:
            raise KeyError(path)
        return at


class Tree:
    """All files at a place: a folder with or without archives in it, or one archive, or rows.

    Hidden files, and what systems leave behind, are not among them. `files` are the bytes of each by its
    path, in order; `odd` are files that cannot be used whatever the dataset is, and why.
    """

    def __init__(self, place: Path, rows: Archive | None = None) -> None:
        self.place = place
        self.odd: dict[str, str] = {}
        self._kept: dict[tuple[str, str], Any] = {}
        self._on_disk = _Disk(place)
        archives = [("", rows or archive_at(place))] if rows or place.is_file() else self._walk()
        archives.sort(key=lambda placed: placed[1].path)
        self.archives = [archive for _, archive in archives if archive is not rows]
        self._in = [archive for _, archive in archives]
        on_disk = self._on_disk.listed()
        pieces = [_piece(on_disk["path"], on_disk["size"], DISK)]
        for number, (above, archive) in enumerate(_apart(archives)):
            pieces.append(_piece(_paths(above, archive), archive.members["size"], number))
            self.odd |= {above + path: why for path, why in archive.odd.items()}
        files = self._chosen(pa.concat_tables(pieces))
        self.files = Sizes(files)
        self._of, self._rows = files["of"].to_numpy(), files["row"].to_numpy()

    def read(self, path: str, start: int = 0, size: int = MOST_BYTES) -> bytes:
        """Return the bytes of a file from `start` on, all or as many as are asked for."""
        of, row = self._place(path)
        if isinstance(of, Archive):
            return of.read(row, start, size)
        try:
            with open_regular(of) as stream:
                stream.seek(start)
                return stream.read(size)
        except OSError as error:
            raise StorageError(f"{path} in {self.place} cannot be read: {error.strerror}") from error

    def as_they_lie(self, mask: BoolArray) -> Iterator[RawFile]:
        """Some files: those of the folder, then those of one archive after another, as their paths go."""
        versions = {number: str(archive.path.stat().st_mtime_ns) for number, archive in enumerate(self._in)}
        order = np.flatnonzero(mask)
        order = order[np.argsort(self._of[order], kind="stable")]
        for start in range(0, len(order), AT_ONCE):
            for row, name in self.files.some(order[start : start + AT_ONCE]):
                version = versions.get(int(self._of[row]))
                if version is None:
                    version = str(self._on_disk.path(name, int(self._rows[row])).stat().st_mtime_ns)
                yield RawFile(name, int(self.files.bytes[row]), version)

    def keep(self, what: str, file: str, make: Callable[[], T]) -> T:
        """Return what is made of a file, once: tables and arrays whose parts are examples."""
        if (what, file) not in self._kept:
            self._kept[what, file] = make()
        value: T = self._kept[what, file]
        return value

    def _place(self, path: str) -> tuple[Path | Archive, int]:
        """Return the archive of a file, or its path on disk, and its row there."""
        try:
            at = self.files.row(path)
        except KeyError:
            raise StorageError(f"{path} is not in {self.place}") from None
        of, row = int(self._of[at]), int(self._rows[at])
        return (self._on_disk.path(path, row) if of == DISK else self._in[of]), row

    def _walk(self) -> list[tuple[str, Archive]]:
        """List what is in the folder, links to folders last; return the archives, each with what is above."""
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
                    self._on_disk.add(path, entry)
        return archives

    def _chosen(self, files: pa.Table) -> pa.Table:
        """Leave out what cannot be used; of two at one path the longer counts, or else the first."""
        files = self._usable(files)
        files = files.take(pc.sort_indices(files, [("path", "ascending"), ("size", "descending")]))
        paths, sizes = files["path"].combine_chunks(), files["size"].to_numpy()
        is_again = np.zeros(len(files), bool)
        is_again[1:] = pc.equal(paths.slice(1), paths.slice(0, max(0, len(files) - 1))).to_numpy(
            zero_copy_only=False
        )
        if not is_again.any():
            return files
        first = np.flatnonzero(~is_again)[np.cumsum(~is_again) - 1]
        for row in np.flatnonzero(is_again & (sizes != sizes[first])).tolist():
            lengths = f"{sizes[first[row]]:,} and {sizes[row]:,} bytes"
            why = f"there twice, of different length, of which the longer counts ({lengths})"
            self.odd[paths[row].as_py()] = why
        return files.filter(pa.array(~is_again))

    def _usable(self, files: pa.Table) -> pa.Table:
        """Name, and leave out, files that are of no use whatever the dataset is."""
        paths, size = pc.utf8_lower(files["path"]), files["size"]
        on_disk = pc.equal(files["of"], DISK)
        is_picture = _ends(paths, ENDINGS)
        short = pc.and_(pc.greater_equal(size, LFS_BYTES.start), pc.less(size, LFS_BYTES.stop))
        is_packed, packed = _ends(paths, (*ARCHIVES, *UNREAD)), "an archive {}: unpack it"
        faults = [
            (pc.and_(on_disk, is_packed), packed.format("in a form that is not read")),
            (is_packed, packed.format("within an archive")),
            (_ends(paths, UNFINISHED), "a download that has not ended"),
            (pc.greater(size, MOST_BYTES), f"larger than {MOST_BYTES >> 30} GB"),
            (self._pointers(files, pc.and_(pc.and_(on_disk, short), is_picture)), POINTER),
            (pc.and_(is_picture, pc.equal(size, 0)), "an empty file"),
        ]
        left = np.ones(len(files), bool)
        for mask, why in faults:
            wrong = np.flatnonzero(pc.fill_null(mask, False).to_numpy() & left)
            self.odd |= dict.fromkeys(files["path"].take(pa.array(wrong)).to_pylist(), why)
            left[wrong] = False
        return files if left.all() else files.filter(pa.array(left))

    def _pointers(self, files: pa.Table, short: pa.ChunkedArray) -> pa.ChunkedArray:
        """The mask of pictures that Git LFS has not got yet, among short ones on disk."""
        is_pointer = np.zeros(len(files), bool)
        chosen = np.flatnonzero(short.to_numpy())
        few = files.select(["path", "row"]).take(pa.array(chosen)).to_pylist()
        for row, file in zip(chosen.tolist(), few, strict=True):
            with open_regular(self._on_disk.path(file["path"], file["row"])) as stream:
                is_pointer[row] = stream.read(len(LFS)) == LFS
        return pa.chunked_array([pa.array(is_pointer)])


class _Disk:
    """The files of a folder as they are found, in few bytes each."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._pieces = [pa.table([[], []], schema=ON_DISK)]
        self._paths, self._sizes = list[str](), list[int]()
        self._others: dict[int, Path] = {}
        self._count = 0

    def add(self, path: str, entry: os.DirEntry[str]) -> None:
        """Add a file by its path in the tree."""
        self._paths.append(path)
        self._sizes.append(entry.stat().st_size)
        if not entry.path.endswith(path):  # its name is not UTF-8
            self._others[self._count] = Path(entry.path)
        self._count += 1
        if len(self._paths) == AT_ONCE:
            self._flush()

    def listed(self) -> pa.Table:
        """Return paths and sizes, which are let go."""
        self._flush()
        pieces, self._pieces = self._pieces, self._pieces[:1]
        return pa.concat_tables(pieces)

    def path(self, path: str, row: int) -> Path:
        """Return the place of a file, by its path in the tree and its row in the list."""
        return self._others.get(row) or self._place / path

    def _flush(self) -> None:
        self._pieces.append(pa.table([self._paths, self._sizes], schema=ON_DISK))
        self._paths, self._sizes = [], []


def _piece(paths: pa.ChunkedArray, sizes: pa.ChunkedArray, of: int) -> pa.Table:
    """The files of one archive, or of the disk."""
    count = len(paths)
    numbers = pa.array(np.full(count, of, np.int32)), pa.array(np.arange(count, dtype=np.int32))
    return pa.table([paths, sizes, *numbers], schema=FILES)


def _paths(above: str, archive: Archive) -> pa.ChunkedArray:
    """The paths of an archive's members in the tree."""
    paths = archive.members["path"]
    return pc.binary_join_element_wise(above, paths, "") if above else paths


def _ends(paths: pa.ChunkedArray, endings: Sequence[str]) -> pa.ChunkedArray:
    return pc.match_substring_regex(paths, rf"(?:{'|'.join(map(re.escape, endings))})$")


def _apart(archives: Sequence[tuple[str, Archive]]) -> Iterator[tuple[str, Archive]]:
    """Yield archives; those that have other files under the same paths in a folder of their own name."""
    if len(archives) < 2:
        yield from archives
        return
    every = pa.concat_tables(_piece(_paths(above, of), of.members["size"], 0) for above, of in archives)
    known = every.group_by("path").aggregate([("size", "min"), ("size", "max")])
    conflicts = known.filter(pc.not_equal(known["size_min"], known["size_max"]))["path"].combine_chunks()
    for above, archive in archives:
        if len(conflicts) and pc.any(pc.is_in(_paths(above, archive), conflicts)).as_py():
            above += f"{without_packing(archive.path.name)}/"
        yield above, archive
