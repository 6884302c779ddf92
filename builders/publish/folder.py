"""Publish into a folder: the whole is made next to it and then moved."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from builders.publish.target import Changes, Source, Target, reads_as
from shiftdata.data.places.store import Folder, OnBytes, copy, files_below
from shiftdata.errors import InputError, IntegrityError
from shiftdata.files import clear_when_full, own_folder, sha256_of, swap, whole_file

HASH_DIGITS = 16


@dataclass(frozen=True)
class FolderTarget(Target):
    """A folder for one dataset. A reader sees all of the old one or all of the new one."""

    folder: Path
    at: str | None = None

    @property
    def address(self) -> str:
        return str(self.folder)

    @property
    def web(self) -> str | None:
        return self.at

    @property
    def _replaced(self) -> Path:  # where the old dataset is, while the new one takes its place
        place = self.folder.with_name(f".{self.folder.name}.replaced")
        if place.is_symlink():
            raise InputError(f"{place} is a link, which was not made here: move it away, and publish again")
        return place

    def compare(self, source: Source) -> Changes:
        """Compare by size and by the hashes of the manifest that lies there; renderings by their own."""
        # What readers see; killed in the middle of a swap, a run leaves it next to its place.
        killed = not self.folder.exists() and self._replaced.exists()
        current = self._replaced if killed else self.folder
        ours, place = source.folder.resolve(), self.folder.resolve()
        if ours == place or ours in place.parents or place in ours.parents:
            raise InputError(f"{self.folder} and the dataset's own folder {source.folder} lie in one another")
        nearest = next(path for path in (current, *current.parents) if path.exists())
        if not nearest.is_dir():
            raise InputError(f"{nearest} is a file: give a folder")
        return self.compared(source, Folder(current))

    def damaged(self, source: Source, changes: Changes) -> tuple[str, ...]:
        self._end_swap()
        place = Folder(self.folder)
        return tuple(path for path in changes.same if not reads_as(place, path, source.files[path]))

    def apply(self, source: Source, changes: Changes, on_bytes: OnBytes) -> None:
        self._end_swap()
        # A folder with the manifest's hash in its name has files of no other version.
        work = self.folder.with_name(f".{self.folder.name}.publishing-{source.manifest_hash[:HASH_DIGITS]}")
        own_folder(work, links=True)  # files of others in the published folder may be links
        uploads, ours = set(changes.uploads), {*source.files, *changes.deleted}
        foreign = [path for path in files_below(self.folder) if path not in ours]
        for path in [*source.files, *foreign]:
            if path in uploads:
                self._bring(source, path, work, on_bytes)
            else:
                _link(self.folder / path, work / path)
        for left in set(files_below(work)) - {*source.files, *foreign}:  # of a writer that was killed
            (work / left).unlink()
        self._swap(work)

    def finish(self, source: Source) -> None:
        """Clear away what a run that was killed after its swap has left."""
        self._end_swap()

    def _bring(self, source: Source, path: str, work: Path, on_bytes: OnBytes) -> None:
        """Copy a file, unless an earlier run that was stopped has, and read it back."""
        record, copied = source.files[path], work / path
        if copied.is_file() and sha256_of(copied) == record.sha256:
            on_bytes(record.bytes)
            return
        with whole_file(copied) as temporary:
            _copy(source.file(path), temporary, on_bytes)
        if not reads_as(Folder(work), path, record):
            copied.unlink()
            raise IntegrityError(
                f"{path} did not arrive in {self.folder} as it was sent: the place is as it was; look at the "
                "disk and at `check`, then publish again"
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


def _link(old: Path, new: Path) -> None:
    """Give a file of the published place a second name; it is never one of the builder's own files."""
    new.unlink(missing_ok=True)  # of a run that was stopped: the old one may be another by now
    new.parent.mkdir(parents=True, exist_ok=True)
    plain = {"follow_symlinks": False} if os.link in os.supports_follow_symlinks else {}
    try:
        os.link(old, new, **plain)
    except OSError:  # the file system has no links
        with clear_when_full(new):
            shutil.copy2(old, new, follow_symlinks=False)


def _copy(old: Path, new: Path, on_bytes: OnBytes) -> None:
    """Copy the bytes, never a link: a later build must not show through in what is published."""
    with old.open("rb") as stream:
        copy(stream, new, old.stat().st_size, on_bytes)
