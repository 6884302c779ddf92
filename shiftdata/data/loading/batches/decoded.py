"""Pixels of pictures that were decoded before: files on this machine, shared by epochs, runs and processes.

A folder for each way to decode has segments: `<name>-<height>x<width>.pixels`, pictures of one shape one
after another, and `.index`: for each, the sha256 of its encoded bytes and a checksum of its pixels. Both only
grow, under a lock, the pixels first: whoever is killed leaves pixels that no record names, and another
segment begins. Nothing is synced: each picture is compared with its checksum whenever it is read, so what a
power cut or a bad disk makes of the files costs a decoding and never gives a wrong pixel.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from shiftdata.data.loading.batches.arrays import Arrays
from shiftdata.data.loading.batches.decode import Pixels, Size
from shiftdata.errors import StorageError
from shiftdata.files import cache_folder, locked

#: Changes when `decode` makes other pixels. simplejpeg and Pillow make the same ones.
DECODING = 1
#: A segment takes at most this part of the limit: room is made by whole segments.
SEGMENTS = 8
#: Segments that no loader used for so many seconds make room for others.
IDLE = 3600.0
#: How often a segment that is in use says so, in seconds.
SAY = 300.0
#: Seconds to wait for another process that writes.
PATIENCE = 10.0
RECORD = np.dtype([("sha256", "V32"), ("checksum", "<u8")])
Numbers = NDArray[np.int64]


def default_folder() -> Path:
    """`shiftdata/decoded` in $XDG_CACHE_HOME, or else in `~/.cache`."""
    return cache_folder("decoded")


class Decoded:
    """The decoded pictures of some rows, as far as they are in a folder, by the sha256 of each row.

    It is an aid: where the folder cannot be read or written, the disk is full or the limit reached, pictures
    are decoded as if there were none. Many threads may use it.
    """

    def __init__(self, folder: Path, limit: int, size: Size | None, hashes: NDArray[np.void]) -> None:
        self.root, self.limit = folder, limit
        name = "whole" if size is None else f"{size[0]}x{size[1]}"
        self.folder = folder / f"{DECODING}-pillow{PIL.__version__}-{name}"
        self._heads, first, where = np.unique(_heads(hashes), return_index=True, return_inverse=True)
        self._distinct = hashes[first]
        # A row whose hash begins as another's does is never kept: its place is the last, which stays empty.
        self._place = np.where(hashes == self._distinct[where], where, len(first))
        self._slots: Numbers = np.full(len(first) + 1, -1)
        self._segments: list[_Segment] = []
        self._shape: tuple[int, ...] | None = None
        self._lock = threading.RLock()
        self._reads = self._writes = True
        self._said = False

    def begin(self) -> None:
        """Look for what others have written: at the start of an epoch."""
        self._writes = self._reads
        self._refresh()

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Those of some rows whose pictures are not here."""
        slots = self._slots[self._place[numbers]]
        return [number for number, slot in zip(numbers, slots.tolist(), strict=True) if slot < 0]

    def take(self, numbers: Sequence[int], arrays: Arrays) -> tuple[Pixels | None, NDArray[np.bool_]]:
        """The pictures of some rows in an array, and which of them are there: the others are undefined."""
        places = self._place[numbers]
        slots = self._slots[places]
        there = slots >= 0
        if self._shape is None or not there.any():
            return None, np.zeros_like(there)
        out, segments = arrays.new(len(numbers), *self._shape), slots >> 32
        for number in np.unique(segments[there]).tolist():
            mine = np.flatnonzero(segments == number)
            there[mine] = self._segments[number].copy(slots[mine] & 0xFFFFFFFF, out, mine)
        self._slots[places[(slots >= 0) & ~there]] = -1
        return out, there

    def put(self, numbers: Sequence[int], pictures: Iterable[Pixels], data: Sequence[bytes]) -> None:
        """Keep pictures that were just decoded, if their encoded bytes are those that the metadata means."""
        if not self._writes or not numbers:
            return
        new = {}
        for place, picture, encoded in zip(self._place[numbers].tolist(), pictures, data, strict=True):
            known = place < len(self._distinct) and self._slots[place] < 0
            if known and hashlib.sha256(encoded).digest() == self._distinct[place].tobytes():
                new[place] = picture
        if len({picture.shape for picture in new.values()} | ({self._shape} - {None})) > 1:
            self.give_up()
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock, locked(self.root / ".lock", "it is written to", wait=PATIENCE):
                self._refresh()
                missing = {place: one for place, one in new.items() if self._slots[place] < 0}
                self._append(missing)
                self._refresh()
        except StorageError:
            self._writes = False  # another process was stopped as it wrote
        except OSError as error:
            self._stop_writing(f"{self.folder} cannot be written ({error.strerror or error})")

    def give_up(self, why: str = "the pictures differ in size: give size=(height, width)") -> None:
        """Neither read nor write any more, and say why."""
        self._reads = False
        self._slots[:] = -1
        self._stop_writing(why)

    def _stop_writing(self, why: str) -> None:
        """Until the next epoch."""
        self._writes = False
        with self._lock:
            first, self._said = not self._said, True
        if first:
            warnings.warn(f"decoded pictures are not kept: {why}", stacklevel=2)

    def _refresh(self) -> None:
        """Find the rows in what was written since the last time."""
        with self._lock:
            if not self._reads:
                return
            known = {segment.index for segment in self._segments}
            self._segments += [_Segment(path) for path in _indices(self.folder) if path not in known]
            for number, segment in enumerate(self._segments):
                first, records = segment.news()
                if not len(records):
                    continue
                at = np.searchsorted(self._heads, _heads(records["sha256"]))
                ours = np.flatnonzero(self._distinct[at.clip(max=len(self._heads) - 1)] == records["sha256"])
                if len(ours):
                    self._shape = self._shape or segment.shape
                    if segment.shape == self._shape:
                        self._slots[at[ours]] = (number << 32) + first + ours

    def _append(self, pictures: dict[int, Pixels]) -> None:
        """Write pictures into a segment that is whole and has room, or into a new one."""
        while pictures:
            shape = next(iter(pictures.values())).shape
            each = int(np.prod(shape)) + RECORD.itemsize
            most = max(self.limit // SEGMENTS // each, 1)
            fitting = (one for one in self._segments if one.shape == shape and one.room(most))
            segment = next(fitting, None)
            room = min(self._room(each * len(pictures)) // each, segment.room(most) if segment else most)
            if room < 1:
                self._stop_writing(
                    f"{self.root} has the {self.limit:,} bytes of its limit, see decoded_limit"
                )
                return
            if segment is None:
                name = f"{time.time_ns():016x}-{os.getpid()}-{shape[0]}x{shape[1]}.index"
                segment = _Segment(self.folder / name)
                self._segments.append(segment)
            some = dict(list(pictures.items())[:room])
            records = np.empty(len(some), RECORD)
            records["sha256"] = self._distinct[list(some)]
            checks = zip(_heads(records["sha256"]).tolist(), some.values(), strict=True)
            records["checksum"] = [_checksum(head, one) for head, one in checks]
            segment.append(records, list(some.values()))
            pictures = {place: one for place, one in pictures.items() if place not in some}

    def _room(self, wanted: int) -> int:
        """Bytes left within the limit, once segments that nobody uses have made room for those wanted."""
        indices = [path for folder in self.root.iterdir() if folder.is_dir() for path in _indices(folder)]
        sizes = {path: sum(_size(one) for one in (path, _pixels_of(path))) for path in indices}
        left = self.limit - sum(sizes.values())
        for path in sorted(indices, key=_last_used):
            if left >= wanted or _last_used(path) > time.time() - IDLE:
                break
            for one in (path, _pixels_of(path)):
                one.unlink(missing_ok=True)
            left += sizes[path]
        return left


class _Segment:
    """Two files; their names say the shape of a picture."""

    def __init__(self, index: Path) -> None:
        self.index, self.pixels = index, _pixels_of(index)
        height, width = index.stem.rpartition("-")[2].split("x")
        self.shape = (int(height), int(width), 3)
        self._each = int(height) * int(width) * 3
        self._records = np.empty(0, RECORD)
        self._map: Pixels = np.empty((0, *self.shape), np.uint8)
        self._said = 0.0
        self._lock = threading.Lock()

    def news(self) -> tuple[int, NDArray[np.void]]:
        """Records that were added since the last call, and the number of the first."""
        known = len(self._records)
        try:
            if _size(self.index) // RECORD.itemsize <= known:
                return known, self._records[:0]
            self._records = np.fromfile(self.index, RECORD)
        except OSError:
            return known, self._records[:0]
        return known, self._records[known:]

    def copy(self, slots: Numbers, out: Pixels, rows: Numbers) -> NDArray[np.bool_]:
        """Copy pictures into some rows of an array; which of them are what was written."""
        pixels = self._mapped(int(slots.max()) + 1)
        if not len(pixels):
            return np.zeros(len(slots), bool)
        # One that is beyond the end of the file becomes another, which its checksum notices.
        if len(rows) == len(out):
            np.take(pixels, slots, axis=0, out=out, mode="clip")
        else:
            out[rows] = np.take(pixels, slots, axis=0, mode="clip")
        records = self._records[slots]
        heads, checksums = _heads(records["sha256"]).tolist(), records["checksum"].tolist()
        wanted = zip(rows.tolist(), heads, checksums, strict=True)
        self.say_used()
        return np.array([_checksum(head, out[row]) == checksum for row, head, checksum in wanted])

    def room(self, most: int) -> int:
        """How many more pictures may be added: none where a process was killed as it wrote."""
        known = len(self._records)
        sizes = _size(self.index), _size(self.pixels)
        whole = known and sizes == (known * RECORD.itemsize, known * self._each)
        return max(most - known, 0) if whole else 0

    def append(self, records: NDArray[np.void], pictures: Sequence[Pixels]) -> None:
        with self.pixels.open("ab", buffering=0) as file:
            for picture in pictures:
                _write(file.fileno(), picture)
        with self.index.open("ab", buffering=0) as file:
            _write(file.fileno(), records)

    def say_used(self) -> None:
        if time.monotonic() > self._said + SAY:
            self._said = time.monotonic()
            with suppress(OSError):  # of another user, or gone: what is mapped stays
                os.utime(self.index)

    def _mapped(self, wanted: int) -> Pixels:
        """The pixels of so many pictures or more; fewer where the file has fewer, whatever the index says."""
        with self._lock, suppress(OSError):
            # Asked each time: to read a map beyond the end of its file kills the process.
            there = _size(self.pixels) // self._each
            if there < len(self._map) or len(self._map) < wanted:
                shape = there, *self.shape
                self._map = np.memmap(self.pixels, np.uint8, "r", shape=shape) if there else self._map[:0]
        return self._map


def _indices(folder: Path) -> Iterator[Path]:
    """The segments of a folder, the oldest first."""
    names = os.listdir(folder) if folder.is_dir() else []
    return (folder / name for name in sorted(names) if name.endswith(".index"))


def _pixels_of(index: Path) -> Path:
    return index.with_suffix(".pixels")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _last_used(index: Path) -> float:
    try:
        return index.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _heads(hashes: NDArray[np.void]) -> NDArray[np.uint64]:
    """The first 8 bytes of each hash."""
    return np.ascontiguousarray(hashes).view("<u8").reshape(-1, 4)[:, 0]


def _checksum(head: int, picture: Pixels) -> int:
    """Of the pixels and of whose they are."""
    return xxh3_64_intdigest(picture.data, head)


def _write(descriptor: int, array: NDArray[np.generic]) -> None:
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
    while data:
        data = data[os.write(descriptor, data) :]
