"""What lies beside the pictures: `shiftdata.json`, what the folder is; `keys.csv`, which row a picture is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from shiftdata.data.exporting.folders.contents import RECORD, Contents, Name
from shiftdata.data.format.attribution import attribution_text, credited
from shiftdata.data.format.typed import read_json, record
from shiftdata.errors import IntegrityError, NotFoundError
from shiftdata.stable import content_hash

FORMAT = 1
#: The columns of `keys.csv`. `path` is that of the first of `count` copies; `group` the dataset's number.
KEY_COLUMNS = (
    *("key", "set", "path", "label", "nuisance", "group", "severity", "origin"),
    *("license", "attribution", "count", "sha256"),
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """What an exported folder is, so that it can be read back and compared with another.

    `export_id` identifies all that is in it but `keys_sha256`, the hash of `keys.csv`. `sets` has folder,
    examples and rows of each set; `class_to_label` what each class number of this layout means: its folder,
    and the number and name that the dataset gives the label. `domain_to_nuisance` says the same of domains.
    """

    format: int = FORMAT
    layout: str
    dataset: str
    version: str
    content_id: str
    base: str
    nuisance: str
    task: str
    task_id: str
    sets: Mapping[str, Mapping[str, Any]]
    class_to_label: Sequence[Mapping[str, Any]]
    domain_to_nuisance: Sequence[Mapping[str, Any]]
    notes: Sequence[str]
    export_id: str
    keys_sha256: str = ""

    def to_json(self) -> str:
        """The text of the file: equal records give equal bytes."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Record:
        """The record of an exported folder."""
        path = folder / RECORD
        if not path.is_file():
            raise NotFoundError(f"{folder} has no {RECORD}: it is not a finished export")
        try:
            raw = read_json(path.read_bytes())
            if raw["format"] != FORMAT:
                raise IntegrityError(
                    f"{path} has format {raw['format']!r}; this shiftdata reads format {FORMAT}: "
                    "install a newer shiftdata"
                )
            return record(cls, raw)
        except (ValueError, TypeError, KeyError) as error:
            raise IntegrityError(f"{path} is not the record of an export ({error}): export again") from error


def record_of(contents: Contents, layout: str, notes: Sequence[str]) -> Record:
    """The record of an export that is to be made."""
    sets, notes = {}, [*notes]
    for name, numbers in contents.of_sets():
        examples = sum(contents.entries[number].times for number in numbers)
        folder, roles = contents.sets[name], contents.roles[name]
        sets[name] = {"folder": folder, "roles": list(roles), "examples": examples, "rows": len(numbers)}
        if roles[0] == "unlabelled":
            notes.append(f"{name} is unlabelled: a method must not see the labels that this layout gives it")
    fields: dict[str, Any] = {
        "layout": layout,
        "dataset": contents.manifest.name,
        "version": contents.manifest.version,
        "content_id": contents.manifest.content_id,
        "base": contents.task.metadata.base,
        "nuisance": contents.nuisance,
        "task": contents.about,
        "task_id": contents.task.content_id(),
        "sets": sets,
        "class_to_label": _numbered("class", "label", contents.classes),
        "domain_to_nuisance": _numbered("domain", "nuisance", contents.domains),
        "notes": notes,
    }
    # Only rows that are exported count: the same set may have another name in the task.
    members = content_hash(*(f"{one.set}\t{one.key}\t{one.times}" for one in contents.entries))
    identity = content_hash(json.dumps([FORMAT, fields], sort_keys=True), members)
    return Record(**fields, export_id=identity)


def _numbered(ours: str, theirs: str, names: Sequence[Name]) -> list[dict[str, Any]]:
    return [
        {ours: number, "folder": one.folder, theirs: one.number, "name": one.name}
        for number, one in enumerate(names)
    ]


def key_rows(contents: Contents, paths: Sequence[Sequence[str]]) -> Iterator[Sequence[Any]]:
    """The rows of `keys.csv`: each row of each set, with all that the dataset says of it."""
    rows = pa.array([entry.row for entry in contents.entries], pa.int64())
    known = contents.rows.take(rows)
    more = contents.task.metadata.take(["severity", "origin"], rows.to_numpy())
    columns = (known["license"], known["attribution"], known["sha256"], more["severity"], more["origin"])
    values = (column.to_pylist() for column in columns)
    for entry, some, terms, credit, sha256, severity, origin in zip(
        contents.entries, paths, *values, strict=True
    ):
        label = contents.classes[entry.label].name
        domain = contents.domains[entry.domain].name if entry.domain >= 0 else None
        group = entry.group if entry.group >= 0 else None
        of_row = [entry.key, entry.set, some[0], label, domain, group, severity, origin]
        yield [*of_row, terms, credit, entry.times, sha256.hex()]


def attribution(contents: Contents) -> str:
    """The licences and attributions of the exported rows, each row counted once."""
    rows = pa.array(sorted({entry.row for entry in contents.entries}), pa.int64())
    known = contents.rows.take(rows)
    everyone = credited(zip(known["license"].to_pylist(), known["attribution"].to_pylist(), strict=True))
    return attribution_text(contents.manifest.name, everyone)
