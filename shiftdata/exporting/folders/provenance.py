"""What lies beside the pictures of an export: which row each is, where it comes from, and on what terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from shiftdata.exporting.folders.layout import csv_lines
from shiftdata.exporting.folders.plan import Plan
from shiftdata.format.attribution import attribution_text, credited

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


def attribution(plan: Plan) -> str:
    """The licences and attributions of the exported rows, each row counted once."""
    rows = pa.array(sorted({entry.row for entry in plan.entries}), pa.int64())
    known = plan.rows.take(rows)
    everyone = credited(zip(known["license"].to_pylist(), known["attribution"].to_pylist(), strict=True))
    return attribution_text(plan.manifest.name, plan.manifest.version, everyone)
