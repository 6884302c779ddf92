"""The publication, and the steps that all places share: compare, send, read each file back."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from shiftdata.data.format.addresses import absolute
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import CROISSANT, RENDERINGS
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.signatures import SIGNATURE, SUFFIX, SecretKey
from shiftdata.data.places.store import FileInfo, MissingFileError, OnBytes, Store
from shiftdata.errors import IntegrityError, ShiftdataError
from shiftdata.files import git_blob_id, sha256_of, write_bytes


@dataclass(frozen=True)
class Source:
    """A built dataset; `files` has everything that the manifest lists, and the manifest last.

    `written` has the files that a place gets in a form of its own, which then is what `files` says of them.
    """

    folder: Path
    manifest: Manifest
    files: Mapping[str, FileRecord]
    written: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Source:
        """Read what a folder has; that the data is as the manifest says is for `check` to find out."""
        manifest = Manifest.read(folder)
        return cls(folder, manifest, {**manifest.files, FILE_NAME: _record(folder / FILE_NAME)})

    def at(self, web: str | None, work: Path) -> Source:
        """Return the dataset for a place that readers find at `web`: croissant.json has its addresses."""
        if web is None or CROISSANT not in self.files:
            return self
        data = absolute((self.folder / CROISSANT).read_bytes(), web)
        file = work / "croissant" / f"{hashlib.sha256(data).hexdigest()[:16]}.json"
        write_bytes(file, data)
        return replace(
            self, files={**self.files, CROISSANT: _record(file)}, written={**self.written, CROISSANT: file}
        )

    def signed(self, key: SecretKey, work: Path) -> Source:
        """Return the dataset with a signature of its manifest, which comes before the manifest."""
        data = (self.folder / FILE_NAME).read_bytes()
        signature = key.sign(data, f"shiftdata manifest {self.manifest.name} {self.manifest.version}")
        file = work / "signatures" / f"{hashlib.sha256(signature).hexdigest()[:16]}{SUFFIX}"
        write_bytes(file, signature)
        files = {**self.files, SIGNATURE: _record(file)}
        files[FILE_NAME] = files.pop(FILE_NAME)
        return replace(self, files=files, written={**self.written, SIGNATURE: file})

    def file(self, path: str) -> Path:
        """Return the file on this machine that a place gets."""
        return self.written.get(path, self.folder / path)

    @property
    def version(self) -> str:
        return f"{self.manifest.name} {self.manifest.version}, content {self.manifest.content_id[:16]}"

    @property
    def manifest_hash(self) -> str:
        """The sha256 of manifest.json: with it, every byte of the dataset can be checked."""
        return self.files[FILE_NAME].sha256

    def is_data(self, path: str) -> bool:
        """Return True for a file that may be large: the manifest and its renderings are always read back."""
        return path not in (FILE_NAME, SIGNATURE, *RENDERINGS)


def _record(path: Path) -> FileRecord:
    if not path.is_file():
        raise IntegrityError(f"{path} is missing: run the build again")
    return FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=None)


MOST_FOREIGN = 5


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The changes that a publication makes to a place, computed before anything is touched."""

    uploads: tuple[str, ...]  # in the order in which they are sent
    changed: frozenset[str]  # those uploads that replace a file
    same: tuple[str, ...]
    deleted: tuple[str, ...]
    foreign: tuple[str, ...]  # files there that are not of this dataset: they stay
    bytes: int
    revision: str | None = None  # the commit that this was worked out for, where a place has commits
    notes: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        return not self.uploads and not self.deleted

    def sending_again(self, source: Source, damaged: Collection[str]) -> Changes:
        """The same, where some files that seemed to be there are to be sent too."""
        uploads = tuple(path for path in source.files if path in self.uploads or path in damaged)
        return replace(
            self,
            uploads=uploads,
            changed=self.changed | set(damaged),
            same=tuple(path for path in self.same if path not in damaged),
            bytes=sum(source.files[path].bytes for path in uploads),
        )

    def lines(self, source: Source, every_file: bool) -> Iterator[str]:
        new = [path for path in self.uploads if path not in self.changed]
        for word, paths in (("new", new), ("changed", sorted(self.changed)), ("the same", self.same)):
            size = sum(source.files[path].bytes for path in paths)
            yield f"  {word:<10}{len(paths):>6,} files {size / 1e6:>10,.1f} MB"
        yield f"  {'to delete':<10}{len(self.deleted):>6,} files"
        if every_file:
            for path in self.uploads:
                sign = "~" if path in self.changed else "+"
                yield f"    {sign} {path} ({source.files[path].bytes:,} bytes)"
            yield from (f"    - {path}" for path in self.deleted)
        if self.foreign:
            more = len(self.foreign) - MOST_FOREIGN
            named = ", ".join(self.foreign[:MOST_FOREIGN]) + (f" and {more:,} more" if more > 0 else "")
            yield f"  not of this dataset, left alone: {named}"
        yield from (f"  note: {note}" for note in self.notes)


class Target(ABC):
    """A place that datasets are published to: a store reads it; each kind of place adds how to write it."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for readers: in a catalog, or in `shiftdata verify`."""

    @property
    def web(self) -> str | None:
        """The http(s) address of the files for those who may read them; None if it is not known."""
        return None

    @abstractmethod
    def compare(self, source: Source) -> Changes:
        """Compare the place with the dataset; nothing is changed."""

    def damaged(self, source: Source, changes: Changes) -> tuple[str, ...]:
        """Files that seem to be the same, and whose bytes are not, where it costs little to read them."""
        return ()

    @abstractmethod
    def apply(self, source: Source, changes: Changes, on_bytes: OnBytes) -> None:
        """Send data first and the manifest last, and read it back."""

    def finish(self, source: Source) -> None:  # noqa: B027  # most places need no more
        """Finish a place that has all files."""

    def compared(
        self, source: Source, store: Store | None, owned: frozenset[str] | set[str] = frozenset()
    ) -> Changes:
        """The changes of what a store reads now; files in `owned`, and listed there, may be deleted."""
        files = listing_of(store) if store else {}
        old = _listed_files(store) if store and FILE_NAME in files else {}

        def unchanged(path: str, record: FileRecord) -> bool:
            if store is None or path not in files or files[path].size != record.bytes:
                return False
            answer = self.is_same(source, path, files[path])
            if answer is None and source.is_data(path):
                return path in old and old[path].sha256 == record.sha256
            return store.sha256(path) == record.sha256 if answer is None else answer

        same = {path: None for path, record in source.files.items() if unchanged(path, record)}
        uploads = tuple(path for path in source.files if path not in same)
        left = sorted(path for path in files if path not in source.files)
        # A signature of a manifest that stays stays too; that of another one would be false.
        ours = {FILE_NAME, SIGNATURE, *old, *owned} - ({SIGNATURE} if FILE_NAME in same else set())
        return Changes(
            uploads=uploads,
            changed=frozenset(uploads) & frozenset(files),
            same=tuple(same),
            deleted=tuple(path for path in left if path in ours),
            foreign=tuple(path for path in left if path not in ours),
            bytes=sum(source.files[path].bytes for path in uploads),
        )

    def is_same(self, source: Source, path: str, info: FileInfo) -> bool | None:
        """Ask the place if a file is the same; None if it cannot tell."""
        if info.sha256 is not None:
            return info.sha256 == source.files[path].sha256
        if info.git is not None and len(info.git) == 40:
            return info.git == git_blob_id(source.file(path))
        return None


def listing_of(store: Store) -> Mapping[str, FileInfo]:
    """Every file but those of tools; of a place that does not exist yet, none."""
    files = store.listing()
    if files is None:
        with suppress(MissingFileError):
            store.info(FILE_NAME)  # it says what is wrong
    return files or {}


def reads_as(store: Store, path: str, record: FileRecord) -> bool:
    """Read a file back, and return True if its bytes have the recorded hash."""
    try:
        return store.sha256(path) == record.sha256
    except MissingFileError:
        return False


def _listed_files(store: Store) -> Mapping[str, FileRecord]:
    """The files that the manifest there lists; of one that cannot be read, none."""
    try:
        written = store.read(FILE_NAME)
    except MissingFileError:  # listed, but the place has lost its bytes
        return {}
    try:
        return Manifest.from_json(written.decode()).files
    except (ShiftdataError, ValueError):
        return {}
