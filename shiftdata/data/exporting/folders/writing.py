"""Write sets of rows into a folder in some layout: whole, resumable, and only over an earlier export."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from shiftdata.data.exporting.folders.contents import KEYS, RECORD, Contents, Entry, Name, contents_of
from shiftdata.data.exporting.folders.layouts import LAYOUTS
from shiftdata.data.exporting.sets import NamedSets, batches, ending_of
from shiftdata.data.format.attribution import attribution_text, credits_of, terms_of
from shiftdata.data.format.paths import ATTRIBUTION
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.errors import InputError, not_found
from shiftdata.files import clear_when_full, link_or_copy, make_folder, remove, write_text
from shiftdata.stable import content_hash
from shiftdata.tables import csv_lines
from shiftdata.threads import ahead
from shiftdata.untrusted.texts import read_json

FORMAT = 1
#: The columns of `keys.csv`. `path` is that of the first of `count` copies; `group` the dataset's number.
KEY_COLUMNS = (
    *("key", "set", "path", "label", "nuisance", "group", "severity", "origin"),
    *("license", "attribution", "count", "sha256"),
)

#: `shiftdata.json`: the dataset and its sets, the meaning of class and domain numbers, notes for readers.
Record: TypeAlias = Mapping[str, Any]
#: The paths of each entry's copies.
Paths: TypeAlias = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Exported:
    """A finished export: its record, and how many pictures this call wrote (None if it was there)."""

    folder: Path
    record: Record
    written: int | None


def export(
    named: NamedSets,
    layout: str,
    out: str | Path,
    *,
    overwrite: bool = False,
    on_images: Callable[[int], object] = lambda count: None,
) -> Exported:
    """Write the pictures of named sets, and lists of them, into a folder as existing code expects them.

    `shiftdata.evaluation.export.export` says more. `on_images` is called with how many more pictures are in
    their places.
    """
    if layout not in LAYOUTS:
        raise not_found("layout", layout, LAYOUTS)
    out, rules = Path(out), LAYOUTS[layout]
    contents = contents_of(named, by_folder=rules.in_folders)
    folder = contents.dataset.folder
    if folder is not None and out.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{out} lies inside the dataset {folder}: give a folder elsewhere")
    if rules.needs_domains:
        _check_domains(contents, layout)
    record = _record(contents, layout, rules.check(contents))
    if _is_there(out, record, overwrite):
        return Exported(out, record, None)
    stems = rules.stems(contents)

    def write(work: Path) -> None:
        endings = _write_images(contents, stems, work, on_images)
        placed: dict[str, list[tuple[Entry, list[str]]]] = {name: [] for name in contents.folders}
        for entry, of_entry in zip(contents.entries, stems, strict=True):
            placed[entry.set].append((entry, [f"{stem}{endings[entry.row]}" for stem in of_entry]))
        for name, lines in rules.texts(contents, placed):
            _write(work / name, lines)
        rules.finish(placed, work)
        paths = [of_entry[0] for entries in placed.values() for _, of_entry in entries]
        _write(work / KEYS, csv_lines(chain([KEY_COLUMNS], _key_rows(contents, paths))))
        write_text(work / ATTRIBUTION, _attribution(contents))
        for left in work.glob(f".{RECORD}.*"):  # by a writer that was killed
            left.unlink()
        contents.dataset.check_unchanged(force=True)
        write_text(work / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")

    make_folder(out, record["export_id"], RECORD, write, lambda: _is_there(out, record, overwrite))
    return Exported(out, record, len({stem for of_entry in stems for stem in of_entry}))


def _check_domains(contents: Contents, layout: str) -> None:
    without = sum(entry.domain < 0 for entry in contents.entries)
    if without:
        raise InputError(
            f"{without:,} rows of {contents.manifest.name}/{contents.of.metadata.base} have no "
            f"{contents.nuisance} (untouched content has none), and {layout} needs one for each row: choose "
            "another base or task, or the layout imagefolder or lists"
        )


def _is_there(out: Path, record: Record, overwrite: bool) -> bool:
    """Return True if this export is in its place already; refuse a place that has anything else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    if not (out / RECORD).is_file():
        raise InputError(f"{out} exists and is not an export: give another folder, or move it away")
    if overwrite:
        return False
    try:
        earlier = read_json((out / RECORD).read_bytes())
        if earlier["export_id"] == record["export_id"]:
            return True
        content = "{dataset}/{base}, {task}, as {layout}".format_map(earlier)
    except (ValueError, LookupError, TypeError):
        content = f"its {RECORD} cannot be read"
    raise InputError(
        f"{out} is an export of other content ({content}): give another folder, or overwrite it (--overwrite)"
    )


def _write_images(
    contents: Contents, stems: Paths, work: Path, on_images: Callable[[int], object]
) -> dict[int, str]:
    """Write each picture to its places; return each row's file ending.

    Pictures that an interrupted export left in `work` are not fetched again where their hash is right.
    """
    places: dict[int, dict[str, None]] = {}  # of each row, each once
    for entry, of_entry in zip(contents.entries, stems, strict=True):
        places.setdefault(entry.row, {}).update(dict.fromkeys(of_entry))
    below = (path for path in work.rglob("*") if path.is_file())
    left = {path.relative_to(work).with_suffix("").as_posix(): path for path in below}
    hashes = contents.rows["sha256"]
    endings: dict[int, str] = {}

    def read(rows: Sequence[int]) -> dict[int, bytes]:
        data: dict[int, bytes] = {}
        for row in rows:
            path = left.get(next(iter(places[row])))
            if path is not None:
                picture = path.read_bytes()
                if hashlib.sha256(picture).digest() == hashes[row].as_py():
                    data[row] = picture
        missing = [row for row in rows if row not in data]
        return data | dict(zip(missing, reader.read(missing), strict=True))

    with (
        clear_when_full(work),
        ExampleReader(contents.dataset, contents.of.metadata.base, verify=True) as reader,
        closing(ahead(read, batches(sorted(places), contents.rows["length"].to_numpy()), 1)) as ready,
    ):
        for batch in ready:
            for row, data in batch.items():
                endings[row] = ending_of(data)
                _place(data, [work / f"{stem}{endings[row]}" for stem in places[row]])
            on_images(len(batch))
    return endings


def _place(data: bytes, targets: Sequence[Path]) -> None:
    """Write a picture once, and link or copy it to its other places."""
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove(target)
    targets[0].write_bytes(data)
    for target in targets[1:]:
        link_or_copy(targets[0], target)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path), path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _record(contents: Contents, layout: str, notes: Sequence[str]) -> Record:
    """Describe an export; `export_id` identifies its content."""
    sets, notes = {}, [*notes]
    for name, folder in contents.folders.items():
        rows = contents.of.sets[name]
        roles, examples = list(rows.roles), int(rows.times.sum())
        sets[name] = {"folder": folder, "roles": roles, "examples": examples, "rows": len(rows.rows)}
        if roles[0] == "unlabelled":
            notes.append(f"{name} is unlabelled: a method must not see the labels that this layout gives it")
    fields: dict[str, Any] = {
        "layout": layout,
        "dataset": contents.manifest.name,
        "version": contents.manifest.version,
        "content_id": contents.manifest.content_id,
        "base": contents.of.metadata.base,
        "nuisance": contents.nuisance,
        "task": contents.of.protocol,
        "task_id": contents.of.identity,
        "sets": sets,
        "class_to_label": _numbered("class", "label", contents.classes),
        "domain_to_nuisance": _numbered("domain", "nuisance", contents.domains),
        "notes": notes,
    }
    # Only exported rows count: the same set may have another name in the task.
    members = content_hash(*(f"{entry.set}\t{entry.key}\t{entry.times}" for entry in contents.entries))
    identity = content_hash(json.dumps([FORMAT, fields], sort_keys=True), members)
    return {"format": FORMAT, **fields, "export_id": identity}


def _numbered(ours: str, theirs: str, names: Sequence[Name]) -> list[dict[str, Any]]:
    return [
        {ours: number, "folder": name.folder, theirs: name.number, "name": name.name}
        for number, name in enumerate(names)
    ]


def _key_rows(contents: Contents, paths: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the rows of `keys.csv`: each row of each set, with all that the dataset says of it."""
    rows = pa.array([entry.row for entry in contents.entries], pa.int64())
    table = contents.rows.take(rows)
    more = contents.of.metadata.take(["severity", "origin"], rows.to_numpy())
    columns = [table[name] for name in ("license", "attribution", "sha256")]
    columns += [more[name] for name in ("severity", "origin")]
    for entry, path, licence, credit, sha256, severity, origin in zip(
        contents.entries, paths, *(column.to_pylist() for column in columns), strict=True
    ):
        label = contents.classes[entry.label].name
        domain = contents.domains[entry.domain].name if entry.domain >= 0 else None
        group = entry.group if entry.group >= 0 else None
        first = [entry.key, entry.set, path, label, domain, group, severity, origin]
        yield [*first, licence, credit, entry.times, sha256.hex()]


def _attribution(contents: Contents) -> str:
    """Write the licences and attributions of the exported rows, each row counted once."""
    rows = contents.rows.take(pa.array(sorted({entry.row for entry in contents.entries}), pa.int64()))
    manifest = contents.manifest
    return attribution_text(manifest, *credits_of(terms_of(rows, manifest), manifest.materials))
