"""What is published: every file of a built dataset, with its hash, in the order in which it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builders.describe.renderings import renderings
from shiftdata.errors import IntegrityError
from shiftdata.files import sha256_of
from shiftdata.format.manifest import FILE_NAME, FileRecord, Manifest


@dataclass(frozen=True)
class Source:
    """A built dataset; `files` has the data first, then README and Croissant, and the manifest last."""

    folder: Path
    manifest: Manifest
    files: Mapping[str, FileRecord]

    @classmethod
    def read(cls, folder: Path) -> Source:
        """Read what a folder has; that the data is as the manifest says is for `check` to find out."""
        manifest = Manifest.read(folder)
        written = {name: _record(folder / name) for name in [*renderings(manifest), FILE_NAME]}
        return cls(folder, manifest, {**manifest.files, **written})

    @property
    def version(self) -> str:
        """Which version of which dataset it is, for people."""
        return f"{self.manifest.name} {self.manifest.version}, content {self.manifest.content_id[:16]}"

    @property
    def manifest_hash(self) -> str:
        """The sha256 of manifest.json: with it, every byte of the dataset can be checked."""
        return self.files[FILE_NAME].sha256

    def is_data(self, path: str) -> bool:
        """Whether the manifest promises the file; it promises neither itself nor its renderings."""
        return path in self.manifest.files


def _record(path: Path) -> FileRecord:
    if not path.is_file():
        raise IntegrityError(f"{path} is missing: run the build again, it writes it anew")
    return FileRecord(bytes=path.stat().st_size, sha256=sha256_of(path), rows=None)
