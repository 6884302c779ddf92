"""Whole files of a dataset, from the places that have them, each compared with the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shiftdata.errors import IntegrityError
from shiftdata.fetching.staging import is_right
from shiftdata.fetching.supply import NoPlaceError, Supply
from shiftdata.format.manifest import FileRecord
from shiftdata.places.store import OnBytes, Store
from shiftdata.threads import in_threads


def bring_all(
    supply: Supply, work: Path, files: Mapping[str, FileRecord], *, jobs: int, tell: OnBytes
) -> dict[str, int]:
    """Bring files into a folder, some at a time; give those that no place has, with their sizes."""

    def one(path: str) -> tuple[str, bool]:
        try:
            bring(supply, work, path, files[path], tell)
        except NoPlaceError:
            return path, False
        return path, True

    done = dict(in_threads(one, list(files), jobs))
    return {path: files[path].bytes for path in files if not done[path]}


def here(work: Path, path: str, record: FileRecord) -> int:
    """How many bytes of a file came already: all, those of a cut download, or none."""
    file, part = work / path, _part(work / path)
    if is_right(file, record):
        return record.bytes
    return min(part.stat().st_size, record.bytes) if part.is_file() else 0


def bring(supply: Supply, work: Path, path: str, record: FileRecord, tell: OnBytes) -> None:
    """Bring one file; one that came before stays, and one that was begun goes on."""
    file = work / path
    if is_right(file, record):
        return
    part = _part(file)
    part.parent.mkdir(parents=True, exist_ok=True)

    def act(source: Store) -> None:
        begun = part.is_file() and part.stat().st_size > 0
        source.download(path, part, record, tell)
        if begun and not is_right(part, record):  # what was there may be to blame: from the start
            _drop(part, tell)
            source.download(path, part, record, tell)
        if not is_right(part, record):
            size = part.stat().st_size
            _drop(part, tell)
            said = f"{size:,} bytes" if size != record.bytes else "a sha256"
            raise IntegrityError(f"has {said} that the manifest does not know")

    _, source = supply.first(path, act)
    part.replace(file)
    supply.came(source, record.bytes)


def bring_renderings(supply: Supply, work: Path, names: list[str]) -> list[str]:
    """Bring files that the manifest has no hash of, from a place that has it; give the missing ones."""
    missing = []
    for name in names:
        part = _part(work / name)

        def act(source: Store, name: str = name, part: Path = part) -> None:
            source.download(name, part, None, lambda count: None)

        try:
            supply.first(name, act)
            part.replace(work / name)
        except NoPlaceError:
            missing.append(name)
    return missing


def _part(file: Path) -> Path:
    """Where a file lies until it is whole."""
    return file.with_name(f"{file.name}.part")


def _drop(part: Path, tell: OnBytes) -> None:
    tell(-part.stat().st_size)
    part.unlink()
