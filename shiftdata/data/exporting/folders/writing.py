"""Write a task into a folder in some layout: whole, resumable, and only over what is an export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from shiftdata.data.exporting.folders.contents import KEYS, RECORD, Contents, contents_of
from shiftdata.data.exporting.folders.images import Images, write_images
from shiftdata.data.exporting.folders.layout import Layout, Paths, csv_rows
from shiftdata.data.exporting.folders.layouts import layout_of
from shiftdata.data.exporting.folders.record import KEY_COLUMNS, Record, attribution, key_rows, record_of
from shiftdata.data.format.paths import ATTRIBUTION
from shiftdata.errors import InputError, IntegrityError
from shiftdata.evaluation.tasks import Task
from shiftdata.files import clear_when_full, make_folder, sha256_of, write_text
from shiftdata.tables import csv_lines


@dataclass(frozen=True)
class Exported:
    """A finished export: what its record says, and what this call wrote (None if it was there already)."""

    folder: Path
    record: Record
    images: Images | None


def export(
    task: Task,
    layout: str,
    out: str | Path,
    *,
    sets: Mapping[str, str] | None = None,
    pool: str | Path | None = None,
    overwrite: bool = False,
    on_images: Callable[[int], object] = lambda count: None,
) -> Exported:
    """Write the pictures of a task, and lists of them, into a folder as existing code expects them.

    Pictures are the dataset's own bytes, each compared with its hash; only those that the task has are read.
    A dataset that has changed since the task was made is refused (`ChangedError`). Killed at any moment and
    called again, it goes on and ends in the same bytes; `out` appears whole. An export of the same task that
    is already there is left as it is.

    Args:
        task: any task over a dataset of pictures.
        layout: imagefolder, wilds, domainbed, balancinggroups or lists; see `LAYOUTS`.
        out: the folder to make.
        sets: which sets to take, under which names, as in `{"train": "source_train"}`; default: all.
        pool: a folder that keeps each picture once, by the hash of its bytes; exports link to it.
        overwrite: replace an earlier export of other content.
        on_images: called with how many more pictures are in their places.

    """
    out, rules = Path(out), layout_of(layout)
    contents = contents_of(task, by_folder=rules.in_folders, sets=sets)
    record = record_of(contents, layout, rules.check(contents))
    _check_places(out, pool, contents)
    earlier = _earlier(out, overwrite)
    if earlier and earlier.export_id == record.export_id and _is_whole(out, contents, rules, earlier):
        return Exported(out, earlier, None)
    if earlier and earlier.export_id != record.export_id and not overwrite:
        raise InputError(
            f"{out} is an export of other content: {earlier.dataset}/{earlier.base}, {earlier.task}, as "
            f"{earlier.layout}: give another folder, or overwrite it (--overwrite)"
        )
    written: list[Images] = []

    def write(work: Path) -> None:
        stems = [rules.stems(contents, entry) for entry in contents.entries]
        places: dict[int, dict[str, None]] = {}  # of each row, each once
        for entry, some in zip(contents.entries, stems, strict=True):
            places.setdefault(entry.row, {}).update(dict.fromkeys(some))
        endings, images = write_images(contents, places, work, Path(pool) if pool else None, on_images)
        written.append(images)
        _finish(work, contents, rules, record, _paths(rules, contents, endings))

    make_folder(out, record.export_id, RECORD, write, lambda: _earlier(out, overwrite))
    return Exported(out, Record.read(out), written[0] if written else None)


def _check_places(out: Path, pool: str | Path | None, contents: Contents) -> None:
    if pool is not None and Path(pool).resolve().is_relative_to(out.resolve()):
        raise InputError(f"{pool} lies inside the folder to make, which is replaced as a whole: give another")
    dataset = contents.dataset.folder
    if dataset is not None and out.resolve().is_relative_to(dataset.resolve()):
        raise InputError(f"{out} lies inside the dataset {dataset}: give a folder elsewhere")


def _earlier(out: Path, overwrite: bool) -> Record | None:
    """The record of an earlier export in the place, or None where the place is free."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / RECORD).is_file():
        raise InputError(f"{out} exists and is not an export: give another folder, or move it away")
    try:
        return Record.read(out)
    except IntegrityError:
        if overwrite:
            return None
        raise


def _is_whole(out: Path, contents: Contents, rules: Layout, record: Record) -> bool:
    """Whether a finished export has its lists as they were written, and all files in the right sizes."""
    if not (out / KEYS).is_file() or sha256_of(out / KEYS) != record.keys_sha256:
        return False
    rows = zip(contents.entries, csv_rows(out / KEYS), strict=True)
    paths = _paths(rules, contents, {entry.row: Path(row["path"]).suffix for entry, row in rows})
    lengths = contents.rows["length"].to_numpy()
    sizes = {
        path: lengths[entry.row] for entry, some in zip(contents.entries, paths, strict=True) for path in some
    }
    return all(
        (out / path).is_file() and (out / path).stat().st_size == size for path, size in sizes.items()
    ) and all(
        (out / name).is_file() and (out / name).read_bytes() == "".join(_ended(lines)).encode()
        for name, lines in rules.texts(contents, paths)
    )


def _paths(rules: Layout, contents: Contents, endings: Mapping[int, str]) -> Paths:
    """The files of each entry, from the file ending of each row."""
    return [
        [f"{stem}{endings[entry.row]}" for stem in rules.stems(contents, entry)] for entry in contents.entries
    ]


def _finish(work: Path, contents: Contents, rules: Layout, record: Record, paths: Paths) -> None:
    """Write the lists, the keys, the attribution and, last, the record: an export with a record is whole."""
    for name, lines in rules.texts(contents, paths):
        _write(work / name, lines)
    _write(work / KEYS, csv_lines(chain([KEY_COLUMNS], key_rows(contents, paths))))
    write_text(work / ATTRIBUTION, attribution(contents))
    for left in work.glob(f".{RECORD}.*"):  # by a writer that was killed
        left.unlink()
    contents.dataset.check_unchanged(force=True)
    write_text(work / RECORD, replace(record, keys_sha256=sha256_of(work / KEYS)).to_json())


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(_ended(lines))


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)
