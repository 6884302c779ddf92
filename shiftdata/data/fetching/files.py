"""Whole files of a dataset, from the places that have them, each compared with the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.fetching.sources import NoPlaceError, Sources
from shiftdata.data.fetching.staging import is_right
from shiftdata.data.format.records import FileRecord
from shiftdata.data.places.store import OnBytes
from shiftdata.errors import IntegrityError
from shiftdata.threads import in_threads


def fetch_files(
    sources: Sources, work: Path, files: Mapping[str, FileRecord], *, jobs: int, on_bytes: OnBytes
) -> dict[str, int]:
    """Fetch files into a folder, some at a time; return those that no place has, with their sizes."""

    def fetch(path: str) -> bool:
        try:
            _fetch_file(sources, work, path, files[path], on_bytes)
        except NoPlaceError:
            return False
        return True

    done = in_threads(fetch, list(files), jobs)
    return {path: files[path].bytes for path, came in zip(files, done, strict=True) if not came}


def bytes_here(work: Path, path: str, record: FileRecord) -> int:
    """Count the bytes of a file that came already: all, those of an interrupted download, or none."""
    file, part = work / path, _part(work / path)
    if is_right(file, record):
        return record.bytes
    return min(part.stat().st_size, record.bytes) if part.is_file() else 0


def _fetch_file(sources: Sources, work: Path, path: str, record: FileRecord, on_bytes: OnBytes) -> None:
    """Fetch one file; one that came before stays, and one that was begun goes on."""
    file = work / path
    if is_right(file, record):
        return
    part = _part(file)
    part.parent.mkdir(parents=True, exist_ok=True)

    def act(dataset: OpenDataset) -> None:
        begun = part.is_file() and part.stat().st_size > 0
        dataset.store.fetch_listed(path, part, record, on_bytes)
        if begun and not is_right(part, record):  # its beginning may be of another place: from the start
            _drop(part, on_bytes)
            dataset.store.fetch_listed(path, part, record, on_bytes)
        if not is_right(part, record):
            size = part.stat().st_size
            _drop(part, on_bytes)
            fault = f"{size:,} bytes" if size != record.bytes else "a sha256"
            raise IntegrityError(f"has {fault} that the manifest does not know")

    _, store = sources.first(path, act)
    part.replace(file)
    sources.count(store, record.bytes)


def _part(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _drop(part: Path, on_bytes: OnBytes) -> None:
    on_bytes(-part.stat().st_size)
    part.unlink()
