"""Raw files are read once: each is hashed, and copied to a place that every process of a build can read.

The files of an album are listed by name first, without opening one. Stretches of that list are then read, by
threads and by ranks that share them. What is known of a stretch's files, and their bytes, is one file in the
place of copies, whole or absent, named by the names, sizes and times of its files: a killed build goes on
with the stretches that are there.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from builders.items import Copy, ItemTable, TextIndex, mapped
from builders.objects import Writable, writable
from builders.sample import Example, Item
from builders.spool import sealed, unsealed
from shiftdata.data.arrays import IntArray
from shiftdata.data.executors import ALONE, Rank, Ranks, Threads
from shiftdata.errors import InputError, IntegrityError, LockedError, StorageError
from shiftdata.files import locked, whole_file
from shiftdata.stable import hash64, hash_of_parts
from shiftdata.threads import ahead, available_cores, in_threads

#: The most files of a stretch, and the bytes from which on it ends.
FILES_OF_STRETCH, BYTES_OF_STRETCH = 1000, 16 << 20
#: Threads that read: they wait for a disk or a network more than they work.
READERS = 2 * available_cores()
FAN, DIGITS = 2, 24
#: Bytes that are read at first for what is known of a file, and stretches that are read ahead.
BYTES_OF_KNOWN, AHEAD = 256, 8
#: Seconds between two looks at stretches that another rank reads.
WAIT = 0.2
#: Files whose names are Python texts at once.
AT_ONCE = 50_000
#: The list of files.
LISTED = pa.schema({"name": pa.string(), "size": pa.int64(), "version": pa.string()})
#: What is known of a file once it was read: `fault` says why it is not an item. Its bytes are in the
#: stretch's file from `at` on; there are none where they were not copied.
KNOWN = pa.schema(
    {
        "name": pa.string(),
        "digest": pa.binary(32),
        "fault": pa.string(),
        "stretch": pa.int32(),
        "at": pa.int64(),
        "size": pa.int64(),
    }
)


def copies_of(album: object) -> Copies | None:
    """Return the place of the copies that a build has made of an album's files."""
    # Asked for as an attribute, it would read them; an album of somebody's own may have slots.
    reads = getattr(album, "__dict__", {}).get("reads")
    return reads.copies if isinstance(reads, Reads) else None


def contents(album: OfFiles, items: ItemTable) -> Iterator[bytes]:
    """Yield the bytes of the file of each item: its copy, or else the file itself."""
    for item, data in with_copies(items, copies_of(album)):
        yield album.read(str(item.source["file"])) if data is None else data


def with_copies(items: ItemTable, copies: Copies | None) -> Iterator[tuple[Item, bytes | None]]:
    """Yield each item with the bytes of its raw file, where those were copied."""
    for item, copy in zip(items, items.copies(), strict=True):
        yield item, copies.read(copy) if copies and copy else None


class RawFile(NamedTuple):
    """A file that is known by its name alone; `version` changes when its content does."""

    name: str
    size: int
    version: str

    @classmethod
    def at(cls, path: Path, name: str) -> RawFile:
        """The file at a path; of a link into nowhere, the link."""
        status = path.stat() if path.exists() else path.lstat()
        return cls(name, status.st_size, str(status.st_mtime_ns))


class Repeated:
    """The texts that come again among many, of which 8 bytes each are kept."""

    def __init__(self) -> None:
        self._hashes = array("Q")

    def add(self, text: str) -> None:
        """Add a text, before the first question."""
        self._hashes.append(hash64(text))

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, text: str) -> bool:
        return hash64(text) in self._repeated

    @cached_property
    def _repeated(self) -> set[int]:
        values, counts = np.unique(np.frombuffer(self._hashes, np.uint64), return_counts=True)
        return set(values[counts > 1].tolist())


@runtime_checkable
class OfFiles(Protocol):
    """An album whose items are whole files."""

    def files(self) -> Iterator[RawFile]:
        """Every file that is read, in an order that depends on names alone; opens none."""

    def read(self, name: str, /) -> bytes:
        """The bytes of a file."""

    def fault_of(self, data: bytes, /) -> str:
        """Say why a file with these bytes is not an item; nothing if it is."""

    def decoded(self, item: Item, data: bytes, /) -> Example:
        """The example that the bytes of an item's file are; raises `BadItem` where they cannot be used."""


@dataclass(frozen=True)
class Reads:
    """The results of reading the files of an album, in the order of `files`, and where the copies lie."""

    known: pa.Table
    place: Writable | None = None
    stretches: Sequence[str] = ()
    #: Where tables may lie that are made from it.
    folder: Path | None = None

    @classmethod
    def of(cls, album: OfFiles) -> Reads:
        """Read every file, and copy none."""
        files = list(album.files())

        def read(file: RawFile) -> tuple[bytes, str]:
            data = album.read(file.name)
            return hashlib.sha256(data).digest(), album.fault_of(data)

        with warnings.catch_warnings(action="ignore"):  # what Pillow thinks of a header
            results = list(in_threads(read, files, available_cores()))
        none = pa.nulls(len(files), pa.int64())
        known = {
            "name": [file.name for file in files],
            "digest": [digest for digest, _ in results],
            "fault": [fault for _, fault in results],
            "stretch": none,
            "at": none,
            "size": [file.size for file in files],
        }
        return cls(pa.table({name: pa.array(known[name], KNOWN.field(name).type) for name in KNOWN.names}))

    def faults(self) -> Iterator[tuple[str, str]]:
        """The name of each file, and why it is not an item."""
        for batch in self.known.select(["name", "fault"]).to_batches(max_chunksize=AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def rows_of(self, names: pa.Array) -> IntArray:
        """The row of each file, which must have been read."""
        rows = self._index.find(names)
        if len(lost := np.flatnonzero(rows < 0)):
            raise InputError(f"{names[int(lost[0])].as_py()} came while files were listed: run again")
        return rows

    @cached_property
    def _index(self) -> TextIndex:
        return TextIndex(self.known["name"])

    @property
    def copies(self) -> Copies | None:
        """The place of the copies, if there are any."""
        return None if self.place is None else Copies(self.place, self.stretches)


@dataclass(frozen=True)
class Copies:
    """The place of copied files, as workers need it: it is pickled."""

    place: Writable
    stretches: Sequence[str]

    def read(self, copy: Copy) -> bytes | None:
        """The bytes of a file; None where the copies have gone, as after packing."""
        try:
            data = self.place.range(_path(self.stretches[copy.stretch]), copy.at, copy.at + copy.size)
        except StorageError:
            return None
        return data if hashlib.sha256(data).digest() == copy.digest else None


@dataclass(frozen=True)
class Stretch:
    """Rows of the list of files, which are read together; their names, sizes and times are its `name`."""

    listing: pa.Table
    start: int
    stop: int
    name: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def files(self) -> list[RawFile]:
        rows = self.listing.slice(self.start, len(self))
        return list(map(RawFile, *(rows[name].to_pylist() for name in LISTED.names)))


def read_once(
    album: OfFiles,
    place: str,
    folder: Path,
    rank: Rank = ALONE,
    *,
    on_listed: Callable[[int, int], object] = lambda there, files: None,
    on_files: Callable[[int], object] = lambda count: None,
) -> Reads:
    """Read what no process has read of an album's files, together with other ranks; copy it into `place`.

    What is known of the files is kept in `folder`: while none of them changes, none is opened again.
    `on_listed` is called with the number of files that all ranks have read, and of all, now and then,
    `on_files` with those that were read here.
    """
    writable(place)  # refuses what cannot be written, before anything is
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".list-") as scratch:
        listing = _listing(album.files(), Path(scratch) / "files.arrow")
        cuts = list(_stretches(listing))
        of = f"{type(album).__name__} {getattr(album, 'code_version', '')}"
        store = writable(f"{place}/copies-{hash_of_parts([of, *(cut.name for cut in cuts)])[:DIGITS]}")
        kept = folder / f"{store.address.rpartition('/')[2].replace('copies', 'files')}.arrow"
        if not kept.is_file():
            on_listed(0, len(listing))
            with warnings.catch_warnings(action="ignore"):  # what Pillow thinks of a header
                _copy(album, store, cuts, folder / ".claims-", rank, on_listed, on_files)
            _gather(store, cuts, kept)
            for old in {*folder.glob("files-*.arrow")} - {kept}:  # of files that have changed
                old.unlink(missing_ok=True)
    return Reads(mapped(kept), store, tuple(cut.name for cut in cuts), folder)


def _listing(files: Iterable[RawFile], path: Path) -> pa.Table:
    """Write a list of files to disk, and map it."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, LISTED) as writer:
        given = iter(files)
        for few in iter(lambda: list(islice(given, AT_ONCE)), []):
            writer.write_batch(pa.record_batch(list(map(pa.array, zip(*few, strict=True))), schema=LISTED))
    return mapped(path)


def _stretches(listing: pa.Table) -> Iterator[Stretch]:
    """Cut a list of files where a stretch has enough of them, or of their bytes."""
    start = at = size = 0
    lines: list[str] = []
    for batch in listing.to_batches(max_chunksize=AT_ONCE):
        for file in map(RawFile, *(column.to_pylist() for column in batch.columns)):
            lines.append("\t".join(map(str, file)))
            at, size = at + 1, size + file.size
            if len(lines) == FILES_OF_STRETCH or size >= BYTES_OF_STRETCH:
                yield Stretch(listing, start, at, hash_of_parts(lines)[:DIGITS])
                start, size, lines = at, 0, []
    if lines:
        yield Stretch(listing, start, at, hash_of_parts(lines)[:DIGITS])


def _copy(
    album: OfFiles,
    store: Writable,
    cuts: Sequence[Stretch],
    claims: Path,
    rank: Rank,
    on_listed: Callable[[int, int], object],
    on_files: Callable[[int], object],
) -> None:
    """Read the stretches that are not there; a lock in the folder of `claims` says who reads one."""

    def missing(share: Sequence[Stretch]) -> list[Stretch]:
        there = store.listed()
        on_listed(sum(len(cut) for cut in cuts if _path(cut.name) in there), cuts[-1].stop)
        return [cut for cut in share if _path(cut.name) not in there]

    def read(cut: Stretch) -> bool:
        """Read a stretch, unless another rank does; return True if it is there."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(claims / cut.name, ""))
            except LockedError:
                return False
            except StorageError:  # no locks here: two ranks may read a file at the same time
                pass
            if not store.has(_path(cut.name)):
                store.write(_path(cut.name), _read(album, cut))
        return True

    claims.mkdir(exist_ok=True)
    left = list(cuts)
    while left:
        others: list[Stretch] = []
        for cut, is_there in Ranks(Threads(READERS), rank, missing).run(lambda: read, left):
            if is_there:
                on_files(len(cut))
            else:
                others.append(cut)
        left = others
        if left:
            time.sleep(WAIT)


def _read(album: OfFiles, cut: Stretch) -> bytes:
    """Read the files of a stretch; return what is known of them, and the bytes of those that are items."""
    rows, data, at = list[dict[str, object]](), list[bytes](), 0
    known: dict[str, object]
    for file in cut.files:
        content = album.read(file.name)
        known = {"name": file.name, "digest": hashlib.sha256(content).digest(), "size": len(content)}
        known |= {"fault": (fault := album.fault_of(content)), "at": None if fault else at}
        rows.append(known)
        if not fault:
            data.append(content)
            at += len(content)
    schema = KNOWN.remove(KNOWN.get_field_index("stretch"))
    return b"".join([sealed(pa.Table.from_pylist(rows, schema=schema)), *data])


def _gather(store: Writable, cuts: Sequence[Stretch], path: Path) -> None:
    """Write what is known of the files of all stretches as one table."""
    with (
        whole_file(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, KNOWN) as writer,
    ):
        for number, (known, begin) in enumerate(ahead(partial(_known, store), cuts, AHEAD)):
            at = pc.add(known["at"], begin)
            stretch = pa.array(np.full(len(known), number, np.int32))
            columns = [known["name"], known["digest"], known["fault"], stretch, at, known["size"]]
            writer.write_table(pa.table(columns, schema=KNOWN))


def _known(store: Writable, cut: Stretch) -> tuple[pa.Table, int]:
    """Return the table of a stretch's files, and the place at which their bytes begin."""
    most = BYTES_OF_KNOWN * len(cut)
    while True:
        data = store.start(_path(cut.name), most)
        source = pa.BufferReader(data)
        try:
            return unsealed(source), source.tell()
        except (OSError, pa.ArrowInvalid) as error:
            if len(data) < most:
                raise IntegrityError(
                    f"{store.address}/{_path(cut.name)} is damaged ({error}): delete it and run again"
                ) from error
            most *= 4


def _path(stretch: str) -> str:
    return f"{stretch[:FAN]}/{stretch}.copies"
