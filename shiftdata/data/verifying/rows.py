"""Check the metadata of a base: each row by itself, then all of them together, and its canonical splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.format.attribution import Terms, terms_of
from shiftdata.data.format.conditions import rows_matching
from shiftdata.data.format.identity import base_content_id
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import metadata_file
from shiftdata.data.format.records import Base, CanonicalSplit, Credit, Split
from shiftdata.data.format.schema import FROZEN, KEY_PATTERN, SPLITS
from shiftdata.data.format.written import equal_apart, groups_of, size_of, untouched
from shiftdata.data.verifying.files import LocalFile, Problem, first_line
from shiftdata.data.verifying.tables import differing, integers, read_table
from shiftdata.untrusted.parquet import plain_texts

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
    def terms(self) -> Counter[Terms]:
        """The number of rows of each licence, attribution and nuisance."""
        return terms_of(self.table, self.manifest)

    @property
    def is_content(self) -> bool:
        """True for untouched content, without a nuisance."""
        return all(record.groups == 0 for record in self.base.splits.values())

    def hidden(self, column: str) -> NDArray[np.bool_]:
        """Mark the rows whose publisher keeps a column: those without a label."""
        if self.manifest.hidden is None or column not in self.manifest.hidden.columns:
            return np.zeros(len(self.table), bool)
        mask: NDArray[np.bool_] = self.table["label"].is_null().to_numpy()
        return mask

    def path(self, row: int) -> str:
        """Return the file that has a row."""
        return metadata_file(self.base.name, str(self.split_of_file[row]))


def row_problems(rows: BaseRows, shard_rows: Mapping[str, Sequence[int]]) -> Iterator[Problem]:
    """Report each row that breaks a rule by itself; `shard_rows` are those of each data file by split."""
    kinds = _of_content(rows) if rows.is_content else _of_nuisance(rows)
    pointers = _of_pointers(rows, shard_rows)
    for mask, column, rule in [*_of_all(rows), *_of_names(rows), *kinds, *_of_quantiles(rows), *pointers]:
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
    for column in rows.manifest.hidden.columns if rows.manifest.hidden else ():
        given = rows.hidden(column) & rows.table[column].is_valid().to_numpy()
        yield given, column, "the manifest says that its publisher keeps it"
    blank = pa.array({term for pair in rows.terms for term in pair if not (term or "").strip()}, pa.string())
    blank = pa.array(
        {term for pair in rows.terms for term in pair[:2] if not (term or "").strip()}, pa.string()
    )
    for column in TERMS if len(blank) else ():
        mask = pc.is_in(rows.table[column].cast(pa.string()), value_set=blank).to_numpy()
        yield mask, column, "every row needs one"


def _of_names(rows: BaseRows) -> Iterator[Broken]:
    """The names in metadata are those of the numbers next to them."""
    roles = rows.manifest.roles
    for column, names in (("label", rows.manifest.labels), (roles.nuisance, rows.manifest.nuisances)):
        number, null = integers(rows.table[column])
        known = ~null & (number >= 0) & (number < len(names))
        expected = pa.array(names, pa.string()).take(pa.array(number, mask=~known))
        given = rows.table[f"{column}_name"].cast(pa.string())
        mask = np.zeros(len(number), bool)
        mask[differing(given, pa.chunked_array([expected]))] = True
        yield mask & (known | null), f"{column}_name", f"it must be the name of the {column}"


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
    wrong = (null | (group != expected)) & ~rows.hidden("group")
    yield wrong, "group", f"it must be label * {count} + {name}"
    allowed, severity = list(rows.manifest.severities), rows.table["severity"]
    fine = pc.is_in(severity, value_set=pa.array(allowed, pa.float64())) if allowed else pc.is_null(severity)
    listed = ", ".join(map(str, allowed)) or "none, for this shift has no scale"
    yield ~fine.to_numpy(), "severity", f"the manifest lists {listed}"


def _unnamed(rows: BaseRows, column: str, names: Sequence[str]) -> Broken:
    value, null = integers(rows.table[column])
    rule = f"the manifest names {len(names)}, from 0 to {len(names) - 1}"
    return (null | (value < 0) | (value >= len(names))) & ~rows.hidden(column), column, rule


def _of_quantiles(rows: BaseRows) -> Iterator[Broken]:
    """Quantiles are (position + 1/2) / size in each (split, group, severity); a part has gaps."""
    codes = _cells(rows.table, ["split", "label", rows.manifest.roles.nuisance, "severity"])
    quantile = pc.fill_null(rows.table["quantile"], np.nan).to_numpy()
    order = np.lexsort((quantile, codes))
    counts = np.bincount(codes)
    starts, sizes = np.repeat(np.cumsum(counts) - counts, counts), np.repeat(counts, counts)
    wrong, ordered = np.empty(len(order), bool), quantile[order]
    wrong[order] = ordered != (np.arange(len(order)) - starts + 0.5) / sizes
    rule = "quantiles are 0.5/n, 1.5/n, ... of the n rows of a split, group and severity"
    if rows.manifest.part is not None or rows.manifest.hidden is not None:
        twice = (np.diff(ordered, prepend=np.nan) == 0) & (np.diff(codes[order], prepend=-1) == 0)
        wrong[order] = twice | ~((ordered >= 0) & (ordered < 1))
        rule = "quantiles are from 0 to below 1, and each occurs once in a split, group and severity"
    yield wrong & ~rows.hidden("quantile"), "quantile", rule


def _cells(table: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Number the distinct combinations of columns, from 0 without gaps."""
    codes = np.zeros(len(table), dtype=np.int64)
    for name in names:
        column = table[name].combine_chunks().dictionary_encode(null_encoding="encode")
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    cells: NDArray[np.int64] = np.unique(codes, return_inverse=True)[1]
    return cells


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


PLACES = ("fold", "split", "base")  # of an origin
MOST_EQUAL = 3  # keys of a set that a problem names


def base_problems(rows: BaseRows, sizes: Mapping[str, IntArray]) -> Iterator[Problem]:
    """Check the rows of a base together; `sizes` are their bytes in memory."""
    base, path = rows.base, f"metadata/{rows.base.name}"
    promised = rows.manifest.hidden.rows.get(base.name, 0) if rows.manifest.hidden else 0
    if (hidden := int(np.count_nonzero(rows.hidden("label")))) != promised:
        yield Problem(path, f"has {hidden:,} rows without a label, the manifest says {promised:,}", "counts")
    for split, table in rows.splits.items():
        file = metadata_file(base.name, split)
        yield from _count_problems(file, split, size_of(groups_of(table), sizes[split]), base.splits[split])
    yield from _trajectory_problems(rows)
    if len(rows.splits) < len(base.splits):
        return
    if (starts := untouched(rows.table)) != base.untouched:
        yield Problem(path, f"has {starts} at severity 0, the manifest says {base.untouched}", "counts")
    if len(sets := equal_apart(rows.table)) != base.equal_apart:
        named = "".join(f", such as {', '.join(keys[:MOST_EQUAL])}" for keys in sets[:1])
        text = (
            f"has {len(sets)} sets of equal examples of several origins in several splits{named}; the "
            f"manifest says {base.equal_apart}: they leak, so build the dataset again from one of each"
        )
        yield Problem(path, text, "equal examples")
    content_id = base_content_id(rows.table, rows.manifest, base)
    if content_id != base.content_id:
        text = f"has the content_id {content_id}, the manifest says {base.content_id}: it is other content"
        yield Problem(path, f"{text}; fetch it again", "content_id")


def _count_problems(path: str, name: str, counted: Split, promised: Split) -> Iterator[Problem]:
    if counted != promised:
        yield Problem(path, f"has {counted} in {name}, the manifest says {promised}", "counts")


def _trajectory_problems(rows: BaseRows) -> Iterator[Problem]:
    """Check that trajectories have every severity once (of a part: at most once), and one origin."""
    severities = len(rows.manifest.severities)
    if severities < 2 or rows.is_content:
        return
    counted = rows.table.group_by(["split", "group", "quantile"]).aggregate(
        [("severity", "count_distinct"), ("origin", "count_distinct"), ([], "count_all"), ("key", "min")]
    )
    fine = pc.equal(counted["severity_count_distinct"], counted["count_all"])
    if rows.manifest.part is None:
        fine = pc.and_(fine, pc.equal(counted["count_all"], severities))
    fine = pc.and_(fine, pc.equal(counted["origin_count_distinct"], 1))
    for trajectory in counted.filter(pc.invert(fine)).to_pylist():
        text = (
            f"is of a trajectory with {trajectory['count_all']} rows, "
            f"{trajectory['severity_count_distinct']} severities and {trajectory['origin_count_distinct']} "
            f"origins: each of the {severities} severities must occur once, of one origin"
        )
        path = f"metadata/{rows.base.name}"
        yield Problem(path, text, "trajectory", trajectory["key_min"])


def origins_of(rows: BaseRows) -> pa.Table:
    """Return each origin of a base with its folds, splits and nuisances."""
    origins = rows.table.group_by(["origin", "fold", "split", rows.manifest.roles.nuisance]).aggregate([])
    return origins.append_column("base", pa.array([rows.base.name] * len(origins), pa.string()))


def dataset_problems(
    manifest: Manifest, origins: pa.Table, everyone: Sequence[Credit] | None
) -> Iterator[Problem]:
    """Check that origins do not leak, and totals over all bases; `everyone` is None if rows are missing."""
    nuisance = manifest.roles.nuisance
    counts = origins.group_by("origin").aggregate([("fold", "count_distinct"), (nuisance, "count_distinct")])
    several = counts.filter(pc.greater(counts["fold_count_distinct"], 1))["origin"]
    leaking = origins.filter(pc.is_in(origins["origin"], several.combine_chunks())).group_by("origin")
    places = leaking.aggregate([(name, "distinct") for name in PLACES])
    for row in places.sort_by("origin").to_pylist():
        folds, splits, bases = (
            sorted(map(str, row[f"{name}_distinct"])) for name in ("fold", "split", "base")
        )
        text = (
            f"the origin {row['origin']!r} has the folds {', '.join(folds)}, so it is in {', '.join(splits)} "
            f"of {', '.join(bases)}: it must have one fold, or it would leak"
        )
        yield Problem(f"metadata/{bases[0]}", text, "origin")
    if everyone is None:
        return
    shared = bool((pc.max(counts[f"{nuisance}_count_distinct"]).as_py() or 0) > 1)
    if shared != manifest.origins_shared:
        text = f"says origins_shared {manifest.origins_shared}, and the rows say {shared}"
        yield Problem(FILE_NAME, text, "origins_shared")
    terms = {(credit.license, credit.attribution): credit.rows for credit in everyone}
    for credit in manifest.credits:
        count = terms.pop((credit.license, credit.attribution), 0)
        if count != credit.rows:
            text = f"credits {credit.rows} rows to {credit.attribution!r} ({credit.license}), {count} are"
            yield Problem(FILE_NAME, text, "credits")
    if len(terms) != manifest.more_credits:
        text = f"says that {manifest.more_credits} credits are not listed, {len(terms)} are not"
        yield Problem(FILE_NAME, text, "credits")


def canonical_problems(
    split: CanonicalSplit, frozen: LocalFile, tables: Mapping[str, pa.Table]
) -> Iterator[Problem]:
    """Check that the keys of a canonical split are rows of its base, as promised, and match its filters."""
    keys, problems = read_table(frozen, FROZEN)
    yield from problems
    if keys is None:
        return
    listed = pc.is_in(keys["split"], value_set=pa.array(list(split.sets), pa.string())).to_numpy()
    for row in keys.filter(~listed).to_pylist():
        text = f"has the set {row['split']!r}; the manifest lists {', '.join(split.sets)}"
        yield Problem(frozen.path, text, "split", row["key"])
    for name, record in split.sets.items():
        if set(record.splits) <= set(tables):  # else rows are missing, which is a problem of its own
            rows = pa.concat_tables(tables[of] for of in record.splits)
            mine = keys.filter(pc.equal(keys["split"], name))
            yield from _set_problems(split, name, frozen.path, rows, mine)


def _set_problems(
    split: CanonicalSplit, name: str, path: str, rows: pa.Table, frozen: pa.Table
) -> Iterator[Problem]:
    """Check the frozen keys of a set against the rows of its splits, the promised counts and its filters."""
    keys, counts = frozen["key"], pc.fill_null(frozen["count"], 0).to_numpy()
    record = split.sets[name]
    filtered = record.filters is not None
    for row in frozen.filter(counts != 1 if filtered else counts < 1).to_pylist():
        allowed = "filters keep a row once" if filtered else "it must be at least 1"
        yield Problem(path, f"has the count {row['count']}, and {allowed}", "count", row["key"])
    place = pc.index_in(keys, value_set=rows["key"].combine_chunks())
    at = place.drop_null().to_numpy().astype(np.int64)
    drawn = np.maximum(counts[place.is_valid().to_numpy()], 0).astype(np.int64)
    counted = replace(size_of(groups_of(rows)[at], counts, drawn), bytes=record.size.bytes)
    yield from _count_problems(path, name, counted, record.size)
    repeated = pc.value_counts(keys)
    wrong = {"is frozen twice": repeated.filter(pc.greater(repeated.field(1), 1)).field(0)}
    if record.filters is not None:
        try:
            rows = rows_matching(plain_texts(rows), record.filters)
        except Exception as error:  # Arrow and NumPy raise many kinds for bad filters
            text = f"the filters of {split.name}/{name} cannot be used ({first_line(error)})"
            yield Problem(FILE_NAME, text, "filters")
            return
        wrong[f"is kept by the filters of {name}, and not frozen"] = _without(rows["key"], keys)
    source = f"a row of {' and '.join(record.splits)}{' that its filters keep' if filtered else ''}"
    wrong[f"is frozen in {name}, and not {source}"] = _without(keys, rows["key"])
    for text, wrong_keys in wrong.items():
        for key in wrong_keys.to_pylist():
            yield Problem(path, text, text, key)


def _without(keys: pa.ChunkedArray, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=removed.combine_chunks())))
