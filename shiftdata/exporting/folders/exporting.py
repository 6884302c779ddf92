"""Write a task into a folder in some layout: whole, resumable, and only over what is an export."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shiftdata.errors import InputError, IntegrityError
from shiftdata.exporting.folders.images import Images, write_images
from shiftdata.exporting.folders.layout import Layout
from shiftdata.exporting.folders.plan import KEYS, RECORD, Plan, plan_of
from shiftdata.exporting.folders.provenance import attribution, keys
from shiftdata.exporting.folders.record import Record, record_of
from shiftdata.exporting.folders.registry import layout_of
from shiftdata.files import clear_when_full, finish_export, sha256_of, work_folder, write_text
from shiftdata.format.attribution import ATTRIBUTION
from shiftdata.tasks import Task


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
    Killed at any moment and called again, it goes on and ends in the same bytes; `out` appears whole. An
    export of the same task that is already there is left as it is.

    Args:
        task: any task over a dataset of pictures.
        layout: a name in `LAYOUTS`: imagefolder, wilds, domainbed, balancinggroups, lists.
        out: the folder to make.
        sets: which sets to take, under which names, as in `{"train": "source_train"}`; default: all.
        pool: a folder that keeps each picture once, by the hash of its bytes; exports link to it.
        overwrite: put it into the place of an earlier export of other content.
        on_images: called with how many more pictures are in their places.

    """
    out, rules = Path(out), layout_of(layout)
    plan = plan_of(task, by_folder=rules.in_folders, sets=sets)
    record = record_of(plan, layout, rules.check(plan))
    _check_places(out, pool, plan)
    found = _earlier(out, overwrite)
    if found and found.export_id == record.export_id and _is_whole(out, plan, rules, found):
        return Exported(out, found, None)
    if found and found.export_id != record.export_id and not overwrite:
        raise InputError(
            f"{out} is an export of other content: {found.dataset}/{found.base}, {found.task}, as "
            f"{found.layout}: give another folder, or overwrite it (--overwrite)"
        )
    work = work_folder(out, record.export_id)
    images: Images | None = None
    if not (work / RECORD).is_file():  # else it was killed just before its last move
        stems = [rules.stems(plan, entry) for entry in plan.entries]
        endings, images = write_images(
            plan, _by_row(plan, stems), work, Path(pool) if pool is not None else None, on_images
        )
        paths = [
            [f"{stem}{endings[entry.row]}" for stem in some]
            for entry, some in zip(plan.entries, stems, strict=True)
        ]
        for name, lines in rules.texts(plan, paths):
            _write(work / name, lines)
        record = _finish(work, plan, record, paths)
    _earlier(out, overwrite)  # what somebody else has put there meanwhile stays
    finish_export(work, out)
    return Exported(out, Record.read(out), images)


def _check_places(out: Path, pool: str | Path | None, plan: Plan) -> None:
    if pool is not None and Path(pool).resolve().is_relative_to(out.resolve()):
        raise InputError(f"{pool} lies inside the folder to make, which is replaced as a whole: give another")
    dataset = plan.dataset.folder
    if dataset is not None and out.resolve().is_relative_to(dataset.resolve()):
        raise InputError(f"{out} lies inside the dataset {dataset}: give a folder elsewhere")


def _earlier(out: Path, overwrite: bool) -> Record | None:
    """The record of an earlier export in the place, or None where the place is free."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    if not (out / RECORD).is_file():
        raise InputError(f"{out} exists and is no export: give another folder, or move it away")
    try:
        return Record.read(out)
    except IntegrityError:
        if overwrite:
            return None
        raise


def _is_whole(out: Path, plan: Plan, rules: Layout, record: Record) -> bool:
    """Whether a finished export has its lists as they were written, and all files in the right sizes."""
    if not (out / KEYS).is_file() or sha256_of(out / KEYS) != record.keys_sha256:
        return False
    with (out / KEYS).open(newline="", encoding="utf-8") as stream:
        endings = [Path(row["path"]).suffix for row in csv.DictReader(stream)]
    paths = [
        [f"{stem}{ending}" for stem in rules.stems(plan, entry)]
        for entry, ending in zip(plan.entries, endings, strict=True)
    ]
    lengths = plan.rows["length"].to_numpy()
    sizes = {
        path: lengths[entry.row] for entry, some in zip(plan.entries, paths, strict=True) for path in some
    }
    return all(
        (out / path).is_file() and (out / path).stat().st_size == size for path, size in sizes.items()
    ) and all(
        (out / name).is_file() and (out / name).read_bytes() == "".join(_ended(lines)).encode()
        for name, lines in rules.texts(plan, paths)
    )


def _by_row(plan: Plan, stems: Sequence[Sequence[str]]) -> dict[int, list[str]]:
    """All places of each row, each once."""
    found: dict[int, dict[str, None]] = {}
    for entry, some in zip(plan.entries, stems, strict=True):
        found.setdefault(entry.row, {}).update(dict.fromkeys(some))
    return {row: list(places) for row, places in found.items()}


def _finish(work: Path, plan: Plan, record: Record, paths: Sequence[Sequence[str]]) -> Record:
    """Write the keys, the attribution and, last, the record: an export with a record is whole."""
    _write(work / KEYS, keys(plan, paths))
    write_text(work / ATTRIBUTION, attribution(plan))
    for left in work.glob(f".{RECORD}.*"):  # by a writer that was killed
        left.unlink()
    record = replace(record, keys_sha256=sha256_of(work / KEYS))
    write_text(work / RECORD, record.to_json())
    return record


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(_ended(lines))


def _ended(lines: Iterable[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)
