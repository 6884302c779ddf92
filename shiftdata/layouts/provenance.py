"""What lies beside the pictures of an export: which row each is, where it comes from, and on what terms."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from shiftdata.errors import IntegrityError, StorageError
from shiftdata.layouts.layout import csv_lines
from shiftdata.layouts.plan import ATTRIBUTION, KEYS, Plan
from shiftdata.places import filesystem, persistently

__all__ = ["attribution", "keys"]

#: The columns of `keys.csv`. `path` is that of the first of `count` copies; `group` the dataset's number.
COLUMNS = (
    *("key", "set", "path", "label", "nuisance", "group", "severity", "origin"),
    *("license", "attribution", "count", "sha256"),
)


def keys(plan: Plan, paths: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of `keys.csv`: each row of each set, with all that the dataset says of it."""
    return csv_lines(COLUMNS, _rows(plan, paths))


def _rows(plan: Plan, paths: Sequence[Sequence[str]]) -> Iterator[Sequence[Any]]:
    rows = pa.array([entry.row for entry in plan.entries], pa.int64())
    known = plan.rows.take(rows)
    told = plan.task.metadata.table.select(["severity", "origin"]).take(rows)
    columns = (known["license"], known["attribution"], known["sha256"], told["severity"], told["origin"])
    values = (column.to_pylist() for column in columns)
    for entry, some, terms, credit, sha256, severity, origin in zip(
        plan.entries, paths, *values, strict=True
    ):
        yield [
            entry.key,
            entry.set,
            some[0],
            plan.classes[entry.label].name,
            plan.domains[entry.domain].name if entry.domain >= 0 else None,
            entry.group if entry.group >= 0 else None,
            severity,
            origin,
            terms,
            credit,
            entry.times,
            sha256.hex(),
        ]


def attribution(plan: Plan) -> bytes:
    """The dataset's own attribution file, or the terms of the exported rows, counted."""
    if ATTRIBUTION in plan.manifest.files:
        return _fetched(plan, ATTRIBUTION)
    rows = pa.array(sorted({entry.row for entry in plan.entries}), pa.int64())
    known = plan.rows.take(rows)
    counted = Counter(zip(known["license"].to_pylist(), known["attribution"].to_pylist(), strict=True))
    lines = [
        f"# Attribution of the pictures of {plan.manifest.name} {plan.manifest.version} in this folder",
        "",
        "| pictures | licence | attribution |",
        "|---|---|---|",
    ]
    for (terms, credit), count in sorted(counted.items(), key=lambda one: (-one[1], str(one[0]))):
        lines.append(f"| {count:,} | {_cell(terms)} | {_cell(credit)} |")
    lines += ["", f"`{KEYS}` says it of each picture."]
    return ("\n".join(lines) + "\n").encode()


def _cell(text: str | None) -> str:
    return " ".join((text or "").replace("|", "\\|").split())


def _fetched(plan: Plan, path: str) -> bytes:
    """A small file of the dataset, compared with its hash."""
    where = f"{plan.place.source}/{path}"
    try:
        if plan.place.folder is not None:
            data = (plan.place.folder / path).read_bytes()
        else:
            system, root = filesystem(plan.place.address)
            data = persistently(lambda: system.cat_file(f"{root}/{path}"))
    except Exception as error:  # each backend has its own kinds
        raise StorageError(f"cannot read {where} ({type(error).__name__}: {error})") from error
    if hashlib.sha256(data).hexdigest() != plan.manifest.files[path].sha256:
        raise IntegrityError(f"{where} is not as the manifest says: fetch or build the dataset again")
    return data
