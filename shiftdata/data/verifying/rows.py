"""The metadata of a base, and each of its rows checked by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import metadata_file
from shiftdata.data.format.records import Base
from shiftdata.data.format.schema import KEY_PATTERN, SPLITS
from shiftdata.data.verifying.files import Problem
from shiftdata.data.verifying.tables import integers

TERMS = ["license", "attribution"]

Mask: TypeAlias = NDArray[np.bool_]
#: The mask of the rows that break a rule, its kind, and the text for a row, by its values and number.
Broken: TypeAlias = tuple[Mask, str, Callable[[Mapping[str, Any], int], str]]


@dataclass(frozen=True)
class BaseRows:
    """The rows of a base, by split, as far as its metadata is intact; without `params`, to save memory."""

    manifest: Manifest
    base: Base
    splits: Mapping[str, pa.Table]

    @cached_property
    def table(self) -> pa.Table:
        """The rows of all splits, one split after the other."""
        return pa.concat_tables(self.splits.values()).unify_dictionaries()

    @cached_property
    def split_of_file(self) -> NDArray[np.str_]:
        """The split in whose file each row is."""
        return np.repeat(list(self.splits), [len(table) for table in self.splits.values()])

    @cached_property
    def terms(self) -> Counter[tuple[str | None, str | None]]:
        """The number of rows of each licence and attribution."""
        counted = self.table.select(TERMS).group_by(TERMS).aggregate([([], "count_all")]).to_pylist()
        return Counter({(row["license"], row["attribution"]): row["count_all"] for row in counted})

    @property
    def is_content(self) -> bool:
        """True for untouched content, without a nuisance."""
        return all(record.groups == 0 for record in self.base.splits.values())

    def path(self, row: int) -> str:
        """Return the file that has a row."""
        return metadata_file(self.base.name, str(self.split_of_file[row]))

    def problems(self, broken: Broken) -> Iterator[Problem]:
        """Yield a problem for each row that breaks a rule."""
        bad, kind, text_of = broken
        for row in np.flatnonzero(bad).tolist():
            values = self.table.slice(row, 1).to_pylist()[0]
            yield Problem(self.path(row), text_of(values, row), kind, values["key"])


def row_problems(rows: BaseRows, shard_rows: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Report each row that breaks a rule by itself; `shard_rows` are those of each data file by split."""
    for rules in (_of_keys, _of_splits, _of_terms, _of_content if rows.is_content else _of_nuisance):
        for broken in rules(rows):
            yield from rows.problems(broken)
    for broken in _of_pointers(rows, shard_rows):
        yield from rows.problems(broken)


def _of_keys(rows: BaseRows) -> Iterator[Broken]:
    key, pattern = rows.table["key"], KEY_PATTERN.pattern
    formed = pc.fill_null(pc.match_substring_regex(key, f"^(?:{pattern})$"), False).to_numpy()
    yield ~formed, "key", lambda row, _: f"has a key that is not made of {pattern}: {row['key']!r}"
    codes = pc.fill_null(key, "").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    earlier = first[inverse]

    def twice(_: object, row: int) -> str:
        return f"has the key of an earlier row, in {rows.path(int(earlier[row]))}: keys must be unique"

    yield formed & (earlier != np.arange(len(codes))), "key twice", twice


def _of_splits(rows: BaseRows) -> Iterator[Broken]:
    """The fold gives the split, and the split the file."""
    fold, null = integers(rows.table["fold"])
    outside = null | (fold < 0) | (fold > 99)
    yield outside, "fold", lambda row, _: f"has the fold {row['fold']}; folds run from 0 to 99"
    split = pc.fill_null(rows.table["split"], "").to_numpy(zero_copy_only=False).astype(str)
    of_fold = np.array(list(SPLITS))[np.searchsorted(list(SPLITS.values()), fold, side="right") - 1]
    firsts = ", ".join(f"{name} from {first}" for name, first in SPLITS.items())

    def disagreeing(row: Mapping[str, Any], _: int) -> str:
        return f"has the fold {row['fold']}, which does not give the split {row['split']!r} ({firsts})"

    def elsewhere(row: Mapping[str, Any], number: int) -> str:
        return f"has the split {row['split']!r} in a file of {str(rows.split_of_file[number])!r}"

    yield ~outside & (of_fold != split), "fold", disagreeing
    yield rows.split_of_file != split, "split", elsewhere


def _of_terms(rows: BaseRows) -> Iterator[Broken]:
    yield _unnamed(rows, "label", rows.manifest.labels)
    blank = {name for pair in rows.terms for name in pair if name is None or not name.strip()}
    for column, name in zip(TERMS if blank else (), ("licence", "attribution"), strict=False):
        bad = pc.is_in(rows.table[column].cast(pa.string()), value_set=pa.array(blank, pa.string()))
        yield bad.to_numpy(), column, _always(f"has no {name}: every row needs one")


def _of_content(rows: BaseRows) -> Iterator[Broken]:
    """Untouched content has no nuisance, no group and the severity 0."""
    name = rows.manifest.roles.nuisance
    valid = {column: rows.table[column].is_valid().to_numpy() for column in (name, "group")}
    yield valid[name], name, lambda row, _: f"has the {name} {row[name]}; untouched content has none"
    yield valid["group"], "group", lambda row, _: f"has the group {row['group']}; untouched content has none"
    bad = ~pc.fill_null(pc.equal(rows.table["severity"], 0.0), False).to_numpy()
    yield bad, "severity", lambda row, _: f"has the severity {row['severity']}; untouched content has 0"


def _of_nuisance(rows: BaseRows) -> Iterator[Broken]:
    """The nuisance has a name, the group follows from it and the label, the severity is a listed one."""
    name, count = rows.manifest.roles.nuisance, len(rows.manifest.nuisances)
    yield _unnamed(rows, name, rows.manifest.nuisances)
    expected = integers(rows.table["label"])[0] * count + integers(rows.table[name])[0]
    group, null = integers(rows.table["group"])

    def unequal(row: Mapping[str, Any], number: int) -> str:
        return f"has the group {row['group']}, not label * {count} + {name} = {expected[number]}"

    yield null | (group != expected), "group", unequal
    allowed, severity = list(rows.manifest.severities), rows.table["severity"]
    fine = pc.is_in(severity, value_set=pa.array(allowed, pa.float64())) if allowed else pc.is_null(severity)
    listed = ", ".join(map(str, allowed)) or "none, for this shift has no scale"
    rule = f"the manifest lists {listed}"
    yield ~fine.to_numpy(), "severity", lambda row, _: f"has the severity {row['severity']}; {rule}"


def _unnamed(rows: BaseRows, column: str, names: Sequence[str]) -> Broken:
    value, null = integers(rows.table[column])
    rule = f"the manifest names {len(names)}, from 0 to {len(names) - 1}"
    bad = null | (value < 0) | (value >= len(names))
    return bad, column, lambda row, _: f"has the {column} {row[column]}; {rule}"


def _of_pointers(rows: BaseRows, shard_rows: Mapping[str, Sequence[int]]) -> Iterator[Broken]:
    """Each row has a pointer, and its shard and row are its place in the data files of its split."""
    counts = [shard_rows.get(split, ()) for split in rows.splits]
    places = {
        "shard": [np.repeat(np.arange(len(shards)), shards) for shards in counts],
        "row": [np.arange(count) for shards in counts for count in shards],
    }
    for name, place in places.items():
        wanted = np.concatenate([np.empty(0, np.int64), *place])
        if len(wanted) == len(rows.table):  # else the counts are a problem of their own
            value, null = integers(rows.table[name])
            yield null | (value != wanted), name, partial(_misplaced, name, wanted)
    for name in ("length", "sha256"):
        yield rows.table[name].is_null().to_numpy(), name, _always(f"has no {name}")
    null, images = rows.table["offset"].is_null().to_numpy(), rows.manifest.roles.modality == "image"
    text = "has no offset: each image needs one" if images else "has an offset: only images have one"
    yield null if images else ~null, "offset", _always(text)


def _misplaced(name: str, wanted: NDArray[np.int64], row: Mapping[str, Any], number: int) -> str:
    return f"has the {name} {row[name]}, and is where {wanted[number]} should be"


def _always(text: str) -> Callable[[Mapping[str, Any], int], str]:
    return lambda *_: text
