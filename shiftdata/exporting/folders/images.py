"""The pictures of an export: read together in the order of the files, each written once, and linked."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from shiftdata.errors import IntegrityError
from shiftdata.exporting.folders.linking import Kind, Pool, link
from shiftdata.exporting.folders.plan import Plan
from shiftdata.files import clear_when_full
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.threads import ahead

#: How much is read at once: enough that neighbours in a file come by one request, and memory stays small.
BATCH_BYTES = 16 << 20
BATCH_ROWS = 1000

#: How files of a format begin, and their usual ending.
FORMATS = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
)


class Held(NamedTuple):
    """An image in memory, and the file of this export that has it already, if one does."""

    row: int
    sha256: bytes
    data: bytes
    path: Path | None


@dataclass
class Images:
    """What was written: bytes that are new on the disk, and files that are links or copies of others."""

    files: int = 0
    written: int = 0
    linked: Counter[Kind] = field(default_factory=Counter)


def ending_of(data: bytes) -> str:
    """The file ending of encoded pixels, by their first bytes: metadata does not say it.

    >>> ending_of(b"RIFF....WEBPVP8 ")
    '.webp'
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((ending for start, ending in FORMATS if data.startswith(start)), ".img")


def write_images(
    plan: Plan,
    stems: Mapping[int, Sequence[str]],
    work: Path,
    pool: Path | None,
    on_images: Callable[[int], object],
) -> tuple[dict[int, str], Images]:
    """Write the images of some rows to their places; give each row's file ending, and what was written.

    Files that an interrupted export left in `work` are kept where their hash is right.
    """
    writer = _Writer(plan, stems, work, Pool(pool) if pool else None)
    endings = {}
    with (
        clear_when_full(work),
        ExampleReader(plan.dataset, plan.base) as reader,
        closing(ahead(lambda rows: writer.held(reader, rows), writer.batches(), workers=1)) as batches,
    ):
        for batch in batches:
            for image in batch:
                endings[image.row] = writer.place(image)
            on_images(len(batch))
    return endings, writer.images


class _Writer:
    """Where images are already, and where they go."""

    def __init__(self, plan: Plan, stems: Mapping[int, Sequence[str]], work: Path, pool: Pool | None) -> None:
        self.images = Images()
        self._plan = plan
        self._stems = stems
        self._work = work
        self._pool = pool
        self._hashes = plan.rows["sha256"].combine_chunks()
        self._left = _files_in(work)
        self._at: dict[bytes, Path] = {}
        self._folders: set[Path] = set()

    def batches(self) -> Iterator[list[int]]:
        """Rows in the order of the dataset's files, some megabytes at a time."""
        lengths = self._plan.rows["length"].to_numpy()
        batch: list[int] = []
        size = 0
        for row in sorted(self._stems):
            batch.append(row)
            size += int(lengths[row])
            if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def held(self, reader: ExampleReader, rows: Sequence[int]) -> list[Held]:
        """The images of some rows: from this export or the pool where they are there, else read."""
        found = {row: self._here(row) for row in rows}
        missing = [row for row, one in found.items() if one is None]
        read = dict(zip(missing, reader.read(missing), strict=True))
        return [found[row] or self._checked(row, read[row]) for row in rows]

    def place(self, image: Held) -> str:
        """Put an image to all its places; give the ending of its files."""
        ending = ending_of(image.data)
        targets = [self._work / f"{stem}{ending}" for stem in self._stems[image.row]]
        self.images.files += len(targets)
        source = self._source(image, targets[0])
        for target in targets:
            if target == source or (self._left and target.exists() and source.samefile(target)):
                continue
            self._make_way(target)
            kind = link(source, target, within=self._work)
            self.images.linked[kind] += 1
            self.images.written += len(image.data) if kind == "copies" else 0
        return ending

    def _source(self, image: Held, target: Path) -> Path:
        """A file with the image, which is written if there is none."""
        if image.sha256 in self._at:
            return self._at[image.sha256]
        place = self._pool.path(image.sha256) if self._pool else image.path or target
        if image.path != place:
            if self._pool:
                self._pool.put(image.sha256, image.data)
            else:
                self._make_way(place)
                place.write_bytes(image.data)
            self.images.written += len(image.data)
        self._at[image.sha256] = place
        return place

    def _here(self, row: int) -> Held | None:
        sha256 = self._hashes[row].as_py()
        kept = [self._pool.path(sha256)] if self._pool else []
        left = [self._left[stem] for stem in self._stems[row] if stem in self._left]
        for path in [*kept, *left]:
            with suppress(FileNotFoundError):
                data = path.read_bytes()
                if hashlib.sha256(data).digest() == sha256:
                    return Held(row, sha256, data, path)
        return None

    def _checked(self, row: int, data: bytes) -> Held:
        sha256 = self._hashes[row].as_py()
        if hashlib.sha256(data).digest() != sha256:
            where = self._plan.dataset.address
            key = next(entry.key for entry in self._plan.entries if entry.row == row)
            raise IntegrityError(
                f"{where}: the example of {key!r} is not as its metadata says; `shiftdata verify {where}` "
                "says more, then fetch it again"
            )
        return Held(row, sha256, data, None)

    def _make_way(self, target: Path) -> None:
        """Make the folder, and remove what was left: it may be a link to an image of other exports."""
        if target.parent not in self._folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(target.parent)
        if self._left:
            target.unlink(missing_ok=True)


def _files_in(work: Path) -> dict[str, Path]:
    """What an interrupted export left, by its path without the ending."""
    found = {}
    for folder, _, names in os.walk(work):
        for name in names:
            path = Path(folder, name)
            found[path.relative_to(work).with_suffix("").as_posix()] = path
    return found
