"""What a place says that it holds: the manifest of an earlier publication."""

from __future__ import annotations

from collections.abc import Mapping

from builders.describe.renderings import CROISSANT, README
from shiftdata.errors import ShiftdataError
from shiftdata.format.manifest import FILE_NAME, FileRecord, Manifest

#: Files that every dataset of ours has, and no manifest lists.
OURS = frozenset({FILE_NAME, README, CROISSANT})


def listed_files(manifest: bytes | None) -> Mapping[str, FileRecord]:
    """The files that a manifest lists; of none, or of one that cannot be read, no files."""
    if manifest is None:
        return {}
    try:
        return Manifest.from_json(manifest.decode()).files
    except (ShiftdataError, ValueError):
        return {}
