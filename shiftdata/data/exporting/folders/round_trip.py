"""The round trip: read an exported folder in its own layout, and compare it with what was exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from shiftdata.data.exporting.folders.contents import KEYS
from shiftdata.data.exporting.folders.layout import Found, Layout, copies, csv_rows
from shiftdata.data.exporting.folders.layouts import layout_of
from shiftdata.data.exporting.folders.record import Record
from shiftdata.errors import IntegrityError
from shiftdata.files import sha256_of

SHOWN = 5


def read_back(folder: str | Path) -> dict[str, list[str]]:
    """The keys of each set as an exported folder has them; a row that was drawn twice is there twice.

    The folders and lists are read as their layout's readers do. Sets, labels and nuisances must be those of
    `keys.csv`, each picture must have its hash, and nothing else may be there: an error names what differs.
    The dataset itself is not needed.
    """
    folder = Path(folder)
    record = Record.read(folder)
    rules = layout_of(record.layout)
    if not (folder / KEYS).is_file() or sha256_of(folder / KEYS) != record.keys_sha256:
        raise IntegrityError(f"{folder / KEYS} is missing or was changed: export again")
    rows = list(csv_rows(folder / KEYS))
    _compare(folder, rules, record, rows)
    _check_hashes(folder, {path: row["sha256"] for row in rows for path in _listed(rules, row)})
    keys: dict[str, list[str]] = {name: [] for name in record.sets}
    for row in rows:
        keys[row["set"]] += [row["key"]] * int(row["count"])
    return keys


def _compare(folder: Path, rules: Layout, record: Record, rows: Iterable[Mapping[str, str]]) -> None:
    try:
        found = Counter(rules.read(folder, record))
    except (OSError, ValueError, LookupError) as error:
        raise IntegrityError(f"{folder}: the lists of the layout cannot be read ({error!r})") from error
    silent = all(one.domain is None for one in found)
    expected = Counter(
        Found(row["set"], path, row["label"], None if silent else row["nuisance"])
        for row in rows
        for path in _listed(rules, row)
    )
    problems = [f"{_described(one)} is missing" for one in expected - found]
    problems += [f"{_described(one)} should not be there" for one in found - expected]
    _raise(folder, problems)


def _check_hashes(folder: Path, hashes: Mapping[str, str]) -> None:
    known: dict[tuple[int, int], str] = {}  # of files that are links, one is read
    problems = []
    for path, sha256 in hashes.items():
        file = folder / path
        if not file.is_file():
            problems.append(f"{path} is missing")
            continue
        status = file.stat()
        place = (status.st_dev, status.st_ino)
        if place not in known:
            known[place] = sha256_of(file)
        if known[place] != sha256:
            problems.append(f"{path} does not have the bytes that were exported")
    _raise(folder, problems)


def _listed(rules: Layout, row: Mapping[str, str]) -> Iterator[str]:
    """The path of each copy of a row, or its one path as often as it is listed."""
    path, count = Path(row["path"]), int(row["count"])
    if rules.in_folders:
        stem = path.with_suffix("").as_posix()
        yield from (f"{one}{path.suffix}" for one in copies(stem, count))
    else:
        yield from [path.as_posix()] * count


def _described(one: Found) -> str:
    return f"{one.path} as {'/'.join(filter(None, (one.label, one.domain)))} in {one.set}"


def _raise(folder: Path, problems: Sequence[str]) -> None:
    if problems:
        more = f" and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        raise IntegrityError(f"{folder}: {'; '.join(problems[:SHOWN])}{more}: export again")
