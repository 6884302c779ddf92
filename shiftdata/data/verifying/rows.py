"""The metadata of a base, and each of its rows checked by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

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

#: A mask of rows, the column whose value is wrong in them, and the rule that it breaks.
Broken: TypeAlias = tuple[NDArray[np.bool_], str, str]


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


def row_problems(rows: BaseRows, shard_rows: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Report each row that breaks a rule by itself; `shard_rows` are those of each data file by split."""
    kinds = _of_content(rows) if rows.is_content else _of_nuisance(rows)
    for mask, column, rule in [*_of_all(rows), *kinds, *_of_pointers(rows, shard_rows)]:
        for row in np.flatnonzero(mask).tolist():
            values = rows.table.slice(row, 1).to_pylist()[0]
            text = f"has the {column} {values[column]!r}: {rule}"
            yield Problem(rows.path(row), text, column, values["key"])


def _of_all(rows: BaseRows) -> Iterator[Broken]:
    key, pattern = rows.table["key"], KEY_PATTERN.pattern
    formed = pc.fill_null(pc.match_substring_regex(key, f"^(?:{pattern})$"), False).to_numpy()
    yield ~formed, "key", f"keys are made of {pattern}"
    codes = pc.fill_null(key, "").combine_chunks().dictionary_encode().indices.to_numpy()
    repeated = np.ones(len(codes), bool)
    repeated[np.unique(codes, return_index=True)[1]] = False
    yield formed & repeated, "key", "an earlier row has it, and keys are unique within a base"
    # The fold gives the split, and the split the file.
    fold, null = integers(rows.table["fold"])
    split = pc.fill_null(rows.table["split"], "").to_numpy(zero_copy_only=False).astype(str)
    of_fold = np.array(list(SPLITS))[np.searchsorted(list(SPLITS.values()), fold, side="right") - 1]
    starts = ", ".join(f"{name} from {first}" for name, first in SPLITS.items())
    rule = f"folds run from 0 to 99, and give the split ({starts})"
    yield null | (fold < 0) | (fold > 99) | (of_fold != split), "fold", rule
    yield rows.split_of_file != split, "split", "its file is that of another split"
    yield _unnamed(rows, "label", rows.manifest.labels)
    blank = pa.array({term for pair in rows.terms for term in pair if not (term or "").strip()}, pa.string())
    for column in TERMS if len(blank) else ():
        mask = pc.is_in(rows.table[column].cast(pa.string()), value_set=blank).to_numpy()
        yield mask, column, "every row needs one"


def _of_content(rows: BaseRows) -> Iterator[Broken]:
    """Untouched content has no nuisance, no group and the severity 0."""
    for column in (rows.manifest.roles.nuisance, "group"):
        yield rows.table[column].is_valid().to_numpy(), column, "untouched content has none"
    touched = ~pc.fill_null(pc.equal(rows.table["severity"], 0.0), False).to_numpy()
    yield touched, "severity", "untouched content has 0"


def _of_nuisance(rows: BaseRows) -> Iterator[Broken]:
    """The nuisance has a name, the group follows from it and the label, the severity is a listed one."""
    name, count = rows.manifest.roles.nuisance, len(rows.manifest.nuisances)
    yield _unnamed(rows, name, rows.manifest.nuisances)
    expected = integers(rows.table["label"])[0] * count + integers(rows.table[name])[0]
    group, null = integers(rows.table["group"])
    yield null | (group != expected), "group", f"it must be label * {count} + {name}"
    allowed, severity = list(rows.manifest.severities), rows.table["severity"]
    fine = pc.is_in(severity, value_set=pa.array(allowed, pa.float64())) if allowed else pc.is_null(severity)
    listed = ", ".join(map(str, allowed)) or "none, for this shift has no scale"
    yield ~fine.to_numpy(), "severity", f"the manifest lists {listed}"


def _unnamed(rows: BaseRows, column: str, names: Sequence[str]) -> Broken:
    value, null = integers(rows.table[column])
    rule = f"the manifest names {len(names)}, from 0 to {len(names) - 1}"
    return null | (value < 0) | (value >= len(names)), column, rule


def _of_pointers(rows: BaseRows, shard_rows: Mapping[str, Sequence[int]]) -> Iterator[Broken]:
    """Each row has a pointer, and its shard and row are its place in the data files of its split."""
    counts = [shard_rows.get(split, ()) for split in rows.splits]
    places = {
        "shard": [np.repeat(np.arange(len(shards)), shards) for shards in counts],
        "row": [np.arange(count) for shards in counts for count in shards],
    }
    for name, place in places.items():
        expected = np.concatenate([np.empty(0, np.int64), *place])
        if len(expected) == len(rows.table):  # else the counts are a problem of their own
            value, null = integers(rows.table[name])
            yield null | (value != expected), name, "it is not the place of the example in the data files"
    for name in ("length", "sha256"):
        yield rows.table[name].is_null().to_numpy(), name, "every row needs one"
    null, images = rows.table["offset"].is_null().to_numpy(), rows.manifest.roles.modality == "image"
    yield null if images else ~null, "offset", "each image needs one" if images else "only images have one"
