"""The pictures of an export: read together in the order of the files, each written once, and linked."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from shiftdata.data.exporting.folders.contents import Contents
from shiftdata.data.exporting.reading import batches, ending_of
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.files import clear_when_full
from shiftdata.threads import ahead

Link: TypeAlias = Literal["hard links", "symbolic links", "copies"]

#: Errors of a hard link that is not possible here: another device, no links, too many of one file.
IMPOSSIBLE = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES)


class Image(NamedTuple):
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
    linked: Counter[Link] = field(default_factory=Counter)


def write_images(
    contents: Contents,
    stems: Mapping[int, Iterable[str]],
    work: Path,
    pool: Path | None,
    on_images: Callable[[int], object],
) -> tuple[dict[int, str], Images]:
    """Write the images of some rows to their places; return each row's file ending, and what was written.

    Files that an interrupted export left in `work` are kept where their hash is right.
    """
    writer = _Writer(contents, stems, work, Pool(pool) if pool else None)
    parts = batches(sorted(stems), contents.rows["length"].to_numpy())
    endings = {}
    with (
        clear_when_full(work),
        ExampleReader(contents.dataset, contents.task.metadata.base, verify=True) as reader,
        closing(ahead(lambda rows: writer.images_of(reader, rows), parts, workers=1)) as ready,
    ):
        for batch in ready:
            for image in batch:
                endings[image.row] = writer.place(image)
            on_images(len(batch))
    return endings, writer.images


class _Writer:
    """Where images are already, and where they go."""

    def __init__(
        self, contents: Contents, stems: Mapping[int, Iterable[str]], work: Path, pool: Pool | None
    ) -> None:
        self.images = Images()
        self._stems = stems
        self._work = work
        self._pool = pool
        self._hashes = contents.rows["sha256"].combine_chunks()
        self._left = _files_in(work)
        self._at: dict[bytes, Path] = {}
        self._folders: set[Path] = set()

    def images_of(self, reader: ExampleReader, rows: Sequence[int]) -> list[Image]:
        """The images of some rows: from this export or the pool where they are there, else read."""
        found = {row: self._here(row) for row in rows}
        missing = [row for row, one in found.items() if one is None]
        read = dict(zip(missing, reader.read(missing), strict=True))
        return [found[row] or Image(row, self._hash(row), read[row], None) for row in rows]

    def _hash(self, row: int) -> bytes:
        sha256: bytes = self._hashes[row].as_py()
        return sha256

    def place(self, image: Image) -> str:
        """Put an image into all its places; return the ending of its files."""
        ending = ending_of(image.data)
        targets = [self._work / f"{stem}{ending}" for stem in self._stems[image.row]]
        self.images.files += len(targets)
        source = self._source(image, targets[0])
        for target in targets:
            if target == source or (self._left and target.exists() and source.samefile(target)):
                continue
            self._make_way(target)
            made = link(source, target, within=self._work)
            self.images.linked[made] += 1
            self.images.written += len(image.data) if made == "copies" else 0
        return ending

    def _source(self, image: Image, target: Path) -> Path:
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

    def _here(self, row: int) -> Image | None:
        sha256 = self._hash(row)
        kept = [self._pool.path(sha256)] if self._pool else []
        left = [self._left[stem] for stem in self._stems[row] if stem in self._left]
        for path in [*kept, *left]:
            with suppress(FileNotFoundError):
                data = path.read_bytes()
                if hashlib.sha256(data).digest() == sha256:
                    return Image(row, sha256, data, path)
        return None

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


def link(source: Path, target: Path, *, within: Path) -> Link:
    """Make `source` appear at `target` too; a symbolic link inside `within` survives its move."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in IMPOSSIBLE:
            raise
    else:
        return "hard links"
    inside = source.is_relative_to(within)
    with suppress(OSError):
        target.symlink_to(os.path.relpath(source, target.parent) if inside else source.resolve())
        return "symbolic links"
    shutil.copyfile(source, target)
    return "copies"


class Pool:
    """A folder that keeps each image once, under the hash of its bytes; exports link to it.

    Its files are read-only: an edit of one would change every export that has it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: bytes) -> Path:
        """Where an image is kept."""
        name = sha256.hex()
        return self.folder / name[:2] / name

    def put(self, sha256: bytes, data: bytes) -> None:
        """Keep an image; several processes may keep the same one at once."""
        path = self.path(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            temporary.write_bytes(data)
            temporary.chmod(0o444)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
