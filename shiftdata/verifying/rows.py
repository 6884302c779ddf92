"""Check the rows of a base, each by itself: key, split, label, nuisance, group, severity, pointer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.format.manifest import Base, Manifest
from shiftdata.format.schema import KEY_PATTERN, SPLITS, columns
from shiftdata.verifying.metadata import LONG, SplitRows
from shiftdata.verifying.problem import Problem
from shiftdata.verifying.tables import integers

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class BaseRows:
    """The rows of all splits of a base; `content` where it holds untouched content, without a nuisance."""

    manifest: Manifest
    base: Base
    splits: Sequence[SplitRows]
    table: pa.Table
    content: bool

    @classmethod
    def of(cls, manifest: Manifest, base: Base, splits: Sequence[SplitRows]) -> BaseRows:
        """Put the splits together; those that no file could give are not among them."""
        # Pointers are known from metadata alone.
        names = [name for name in columns(manifest.roles.nuisance) if name not in LONG]
        table = pa.concat_tables([split.table.select([*names, "sha256"]) for split in splits])
        content = all(record.groups == 0 for record in base.splits.values())
        return cls(manifest, base, splits, table, content)

    @property
    def nuisance(self) -> str:
        """The column of what shifts."""
        return self.manifest.roles.nuisance

    @property
    def whole(self) -> bool:
        """Whether every row of every split could be read."""
        return len(self.splits) == len(self.base.splits) and all(split.whole for split in self.splits)

    def path(self, row: int) -> str:
        """The file that a row was read from."""
        ends = np.cumsum([len(split.table) for split in self.splits])
        return self.splits[int(np.searchsorted(ends, row, side="right"))].path

    def value(self, name: str, row: int) -> object:
        """One cell."""
        return self.table[name][row].as_py()

    def named(self, bad: Mask, kind: str, tell: Callable[[int], str]) -> Iterator[Problem]:
        """A problem for each row that is marked."""
        for row in np.flatnonzero(bad).tolist():
            key = self.table["key"][row].as_py()
            yield Problem(path=self.path(row), what=tell(row), key=key, kind=kind)


def row_problems(rows: BaseRows) -> Iterator[Problem]:
    """Every row that breaks a rule by itself."""
    yield from _key_problems(rows)
    yield from _split_problems(rows)
    yield from _label_problems(rows)
    yield from _shift_problems(rows)


def pointer_problems(split: SplitRows, files: Sequence[tuple[str, int]], images: bool) -> Iterator[Problem]:
    """Rows of metadata whose shard and row are not their place in the data files, or that lack a pointer.

    `files` are the data files of the split, with their rows.
    """
    ends = np.cumsum([rows for _, rows in files])
    if not len(ends):
        return
    shard = np.minimum(np.searchsorted(ends, split.at, side="right"), len(ends) - 1)
    expected = {"shard": shard, "row": split.at - (ends - [rows for _, rows in files])[shard]}
    for name, wanted in expected.items():
        value, null = integers(split.table[name])
        for row in np.flatnonzero(null | (value != wanted)).tolist():
            what = f"has the {name} {split.table[name][row].as_py()}, and stands where {wanted[row]} would"
            yield _pointer(split, row, what, name)
    for name in ("length", "sha256"):
        for row in np.flatnonzero(split.table[name].is_null().to_numpy()).tolist():
            yield _pointer(split, row, f"has no {name}", name)
    null = split.table["offset"].is_null().to_numpy()
    what = "has no offset: each image needs one" if images else "has an offset: only images have one"
    for row in np.flatnonzero(null if images else ~null).tolist():
        yield _pointer(split, row, what, "offset")


def _pointer(split: SplitRows, row: int, what: str, kind: str) -> Problem:
    return Problem(path=split.path, what=what, key=split.table["key"][row].as_py(), kind=kind)


def _key_problems(rows: BaseRows) -> Iterator[Problem]:
    key = rows.table["key"]
    pattern = KEY_PATTERN.pattern
    formed = pc.fill_null(pc.match_substring_regex(key, f"^(?:{pattern})$"), False).to_numpy()
    yield from rows.named(
        ~formed, "key", lambda row: f"has a key that is not made of {pattern}: {rows.value('key', row)!r}"
    )
    codes = pc.fill_null(key, "").combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    first = np.empty(len(codes), dtype=np.int64)  # the first row with the key of each row
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    first[order] = np.repeat(order[starts], np.diff([*starts, len(codes)]))

    def told(row: int) -> str:
        return f"has the key of an earlier row, in {rows.path(int(first[row]))}: keys must be unique"

    yield from rows.named(formed & (first != np.arange(len(codes))), "key twice", told)


def _split_problems(rows: BaseRows) -> Iterator[Problem]:
    """The fold gives the split, and the split the file."""
    fold, null = integers(rows.table["fold"])
    names = np.array(list(SPLITS))
    place = np.searchsorted(list(SPLITS.values()), fold, side="right") - 1
    outside = null | (fold < 0) | (fold > 99)
    yield from rows.named(
        outside, "fold", lambda row: f"has the fold {rows.value('fold', row)}; folds run from 0 to 99"
    )
    split = pc.fill_null(rows.table["split"], "").to_numpy(zero_copy_only=False).astype(str)
    firsts = ", ".join(f"{name} from {first}" for name, first in SPLITS.items())
    yield from rows.named(
        ~outside & (names[place] != split),
        "fold",
        lambda row: (
            f"has the fold {fold[row]}, which does not give the split {rows.value('split', row)!r} ({firsts})"
        ),
    )
    of_file = np.repeat([s.split for s in rows.splits], [len(s.table) for s in rows.splits])
    yield from rows.named(
        of_file != split,
        "split",
        lambda row: f"has the split {rows.value('split', row)!r} in a file of {str(of_file[row])!r}",
    )


def _label_problems(rows: BaseRows) -> Iterator[Problem]:
    bad = _out_of_range(rows.table["label"], len(rows.manifest.labels))
    yield from rows.named(bad, "label", lambda row: _named(rows, "label", row, rows.manifest.labels))


def _shift_problems(rows: BaseRows) -> Iterator[Problem]:
    """Nuisance, group and severity; untouched content has no nuisance, no group and the severity 0."""
    table, names = rows.table, rows.manifest.nuisances
    nuisance = rows.nuisance
    if rows.content:
        for name in (nuisance, "group"):
            yield from rows.named(table[name].is_valid().to_numpy(), name, _has_one(rows, name))
        bad = ~pc.fill_null(pc.equal(table["severity"], 0.0), False).to_numpy()
        yield from rows.named(
            bad,
            "severity",
            lambda row: f"has the severity {rows.value('severity', row)}; untouched content has 0",
        )
        return
    bad = _out_of_range(table[nuisance], len(names))
    yield from rows.named(bad, nuisance, lambda row: _named(rows, nuisance, row, names))
    label, _ = integers(table["label"])
    kind, _ = integers(table[nuisance])
    group, null = integers(table["group"])
    expected = label * len(names) + kind
    bad = null | (group != expected)
    yield from rows.named(
        bad,
        "group",
        lambda row: (
            f"has the group {rows.value('group', row)}, not label * {len(names)} + {nuisance} = "
            f"{expected[row]}"
        ),
    )
    yield from _severity_problems(rows)


def _severity_problems(rows: BaseRows) -> Iterator[Problem]:
    allowed = list(rows.manifest.severities)
    severity = rows.table["severity"]
    fine = pc.is_in(severity, value_set=pa.array(allowed, pa.float64())) if allowed else pc.is_null(severity)
    names = ", ".join(map(str, allowed)) or "none, for this shift has no scale"
    yield from rows.named(
        ~fine.to_numpy(),
        "severity",
        lambda row: f"has the severity {rows.value('severity', row)}; the manifest lists {names}",
    )


def _out_of_range(column: pa.ChunkedArray, count: int) -> Mask:
    value, null = integers(column)
    bad: Mask = null | (value < 0) | (value >= count)
    return bad


def _has_one(rows: BaseRows, name: str) -> Callable[[int], str]:
    return lambda row: f"has the {name} {rows.value(name, row)}; untouched content has none"


def _named(rows: BaseRows, name: str, row: int, names: Sequence[str]) -> str:
    return (
        f"has the {name} {rows.value(name, row)}; the manifest names {len(names)}, from 0 to {len(names) - 1}"
    )
