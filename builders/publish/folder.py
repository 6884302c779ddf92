"""Publish into a folder: the whole is made beside it and moved into its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from builders.publish.held import OURS, listed_files
from builders.publish.plan import Plan, Tell, Verify, compare
from builders.publish.source import Source
from shiftdata.errors import InputError, IntegrityError, StorageError
from shiftdata.files import clear_when_full, sha256_of, swap, whole_file
from shiftdata.format.manifest import FILE_NAME, FileRecord

CHUNK = 1 << 20
HASH_DIGITS = 16


@dataclass(frozen=True)
class FolderTarget:
    """A folder for one dataset. A reader sees all of the old one or all of the new one."""

    folder: Path

    @property
    def address(self) -> str:
        """The absolute path."""
        return str(self.folder)

    @property
    def _replaced(self) -> Path:
        """Where the old dataset is, for the moment in which the new one takes its place."""
        return self.folder.with_name(f".{self.folder.name}.replaced")

    @property
    def _current(self) -> Path:
        """What readers see; killed in the middle of a swap, a run leaves it beside its place."""
        return self.folder if self.folder.exists() or not self._replaced.exists() else self._replaced

    def plan(self, source: Source) -> Plan:
        """Compare by size and by the hashes of the manifest that lies there; renderings by their own."""
        self._refuse_overlap(source)
        current = self._current
        self._refuse_file(current)
        there = set(_files(current))
        manifest = current / FILE_NAME
        old = listed_files(manifest.read_bytes() if manifest.is_file() else None)

        def is_same(path: str, record: FileRecord) -> bool:
            if (current / path).stat().st_size != record.bytes:
                return False
            if source.is_data(path):
                return path in old and old[path].sha256 == record.sha256
            return sha256_of(current / path) == record.sha256

        plan = compare(source, there, is_same, OURS | set(old))
        free = self._free_after(plan.bytes)
        return replace(plan, notes=(f"{free / 1e6:,.0f} MB stay free on that disk",)) if plan.bytes else plan

    def carry_out(self, source: Source, plan: Plan, verify: Verify, tell: Tell) -> None:
        """Make the whole beside its place, look at it again, and swap."""
        self._end_swap()
        # A folder with the manifest's hash in its name holds files of no other version.
        work = self.folder.with_name(f".{self.folder.name}.publishing-{source.manifest_hash[:HASH_DIGITS]}")
        uploads = set(plan.uploads)
        for path in source.files:
            if path in uploads:
                self._bring(source, path, work, verify, tell)
            else:
                _link(self.folder / path, work / path)
        kept = list(_kept(self.folder, plan))
        for path in kept:
            _link(self.folder / path, work / path)
        for left in set(_files(work)) - {*source.files, *kept}:  # of a writer that was killed
            (work / left).unlink()
        self._swap(work)

    def finish(self, source: Source, revision: str | None) -> str:
        """Clear away what a run that was killed after its swap has left."""
        self._end_swap()
        return ""

    def _bring(self, source: Source, path: str, work: Path, verify: Verify, tell: Tell) -> None:
        """Copy a file, unless an earlier run that was stopped has, and look at it again."""
        record, copy = source.files[path], work / path
        if copy.is_file() and sha256_of(copy) == record.sha256:
            tell(record.bytes)
            return
        with whole_file(copy) as temporary:
            _copy(source.folder / path, temporary, tell)
        found = copy.stat().st_size
        if found != record.bytes or (verify == "hash" and sha256_of(copy) != record.sha256):
            copy.unlink()
            raise IntegrityError(
                f"{path} did not arrive in {self.folder} as it was sent ({found:,} bytes): the place is as "
                "it was; look at the disk and at `check`, then publish again"
            )

    def _swap(self, work: Path) -> None:
        swap(work, self.folder, self._replaced)
        for left in self.folder.parent.glob(f".{self.folder.name}.publishing-{'[0-9a-f]' * HASH_DIGITS}"):
            shutil.rmtree(left)  # of versions that were never finished

    def _end_swap(self) -> None:
        """Put back what a run that was killed in the middle of its swap has moved away."""
        if self.folder.exists():
            shutil.rmtree(self._replaced, ignore_errors=True)
        elif self._replaced.exists():
            self._replaced.rename(self.folder)

    def _refuse_overlap(self, source: Source) -> None:
        here, there = source.folder.resolve(), self.folder.resolve()
        if here == there or here in there.parents or there in here.parents:
            raise InputError(f"{self.folder} and the dataset's own folder {source.folder} lie in one another")

    def _refuse_file(self, current: Path) -> None:
        nearest = next(path for path in (current, *current.parents) if path.exists())
        if not nearest.is_dir():
            raise InputError(f"{nearest} is a file: give a folder")

    def _free_after(self, needed: int) -> int:
        """The bytes that stay free; too few is an error before anything is copied."""
        parent = next(folder for folder in self.folder.absolute().parents if folder.exists())
        free = shutil.disk_usage(parent).free
        if needed > free:
            raise StorageError(
                f"no space in {parent}: {needed / 1e6:,.1f} MB are to be copied, {free / 1e6:,.1f} are free"
            )
        return free - needed


def _files(folder: Path) -> Iterator[str]:
    """Every file and link below a folder."""
    for parent, below, files in os.walk(folder):
        links = [name for name in below if (Path(parent) / name).is_symlink()]
        for name in [*files, *links]:
            yield (Path(parent) / name).relative_to(folder).as_posix()


def _kept(folder: Path, plan: Plan) -> Iterator[str]:
    """The files of the place that stay though they are not of the dataset, hidden ones too."""
    ours = {*plan.uploads, *plan.same, *plan.deleted}
    return (path for path in _files(folder) if path not in ours)


def _link(old: Path, new: Path) -> None:
    """Give a file of the published place a second name; it is never one of the builder's own files."""
    new.unlink(missing_ok=True)  # of a run that was stopped: the old one may be another by now
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError:  # the file system has no links
        with clear_when_full(new):
            shutil.copy2(old, new, follow_symlinks=False)


def _copy(old: Path, new: Path, tell: Tell) -> None:
    """Copy the bytes, never a link: a later build must not show through in what is published."""
    with old.open("rb") as stream, new.open("wb") as copy:
        while chunk := stream.read(CHUNK):
            copy.write(chunk)
            tell(len(chunk))
