"""The metadata of a dataset, from which protocols make tasks: names and numbers of each row, no pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import counted, looked_up, stretches
from shiftdata.data.dataset import DatasetName, OpenDataset, open_dataset
from shiftdata.data.format.conditions import number_of
from shiftdata.data.format.hidden import Answers
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.records import TaskOf
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.metadata.columns import FileRows, as_array
from shiftdata.data.metadata.folds import hashes64, strata
from shiftdata.data.metadata.listing import Listing, listing_of
from shiftdata.data.metadata.texts import joined_texts, positions
from shiftdata.errors import InputError, IntegrityError
from shiftdata.untrusted.texts import read_json

Array = NDArray[Any]
#: The columns of a metadata table; the column of the nuisance has its own name instead of `nuisance`.
COLUMNS = ("key", "split", "fold", "label", "nuisance", "severity", "group", "origin", "quantile")
#: Keys of which a table is small: those of all rows are looked up in it as they are read.
FEW_KEYS = 100_000
#: Of the columns that filters name, the type of the array and the value for a missing one.
NUMBERS: Mapping[str, tuple[type[np.generic], Any]] = {
    "split": (np.int8, -1),
    "fold": (np.int8, None),
    "label": (np.int32, None),
    "nuisance": (np.int32, -1),
    "severity": (np.float64, np.nan),
    "quantile": (np.float64, np.nan),
}


class Numbers(Mapping[str, Array]):
    """The columns that filters name, as arrays read when first used: splits as numbers, no nuisance as -1."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata, self._read = metadata, dict[str, Array]()

    def __iter__(self) -> Iterator[str]:
        nuisance = self._metadata.nuisance_column
        return (nuisance if name == "nuisance" else name for name in NUMBERS)

    def __len__(self) -> int:
        return len(NUMBERS)

    def __getitem__(self, name: str) -> Array:
        if name not in self._read:
            self._read[name] = self._metadata.numbers_of(dict(zip(self, NUMBERS, strict=True))[name])
        return self._read[name]


@dataclass(frozen=True, eq=False)
class Metadata:
    """The rows of one base: keys, labels, nuisances, origins, folds and quantiles.

    Attributes:
        source: the columns of `COLUMNS`, with numbers for labels and nuisances, and `trajectory` where your
            own table names one. A column of a dataset's files is read when it is first used.
        nuisance_column: the name of the nuisance: `style`, `domain`, `shift`.
        origins_shared: an origin may have several nuisances.
        dataset: has the examples, row by row in this order; None for your own table.
        hidden: the columns that the publisher of the dataset keeps of some rows.
        answers: of these columns, the rows and their values, for whoever has them.
        numbered_origins: of rows of which each origin has one fold, as of a dataset that is being built: the
            number of each row's origin, and a row of each origin.

    """

    source: pa.Table | FileRows
    labels: tuple[str, ...]
    nuisances: tuple[str, ...]
    nuisance_column: str
    origins_shared: bool
    name: str = "rows"
    dataset: OpenDataset | None = None
    base: str = ""
    hidden: tuple[str, ...] = ()
    answers: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    numbered_origins: tuple[Array, Array] | None = None

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def table(self) -> pa.Table:
        """Every column of every row, for small datasets."""
        return self.source if isinstance(self.source, pa.Table) else self.take(self.names)

    @property
    def names(self) -> list[str]:
        """The columns of `take` and `table`."""
        return self.source.column_names if isinstance(self.source, pa.Table) else self.source.names

    def take(self, names: Sequence[str], rows: Array | None = None) -> pa.Table:
        """Return columns of all rows, or of the given rows in their order; only their row groups are read."""
        if rows is None or (rows[1:] >= rows[:-1]).all():
            return pa.concat_tables(part for _, part in self.blocks(names, rows))
        order = np.argsort(rows, kind="stable")
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return self.take(names, rows[order]).take(pa.array(back))

    def blocks(
        self, names: Sequence[str], among: Array | None = None, *, coded: Sequence[str] = ()
    ) -> Iterator[tuple[slice, pa.Table]]:
        """Yield columns as `FileRows.blocks` does; those of a table in memory in one block."""
        if isinstance(self.source, FileRows):
            yield from self.source.blocks(names, among, coded=coded)
            return
        table = self.source.select(list(names))
        table = table if among is None else table.take(pa.array(among))
        yield slice(0, len(table)), table

    def rows_of(self, keys: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """Return the row of each of these keys, -1 for none.

        Of few keys the rows' own are read block by block; of many they are all in memory.
        """
        wanted = joined_texts(keys)
        if len(wanted) > FEW_KEYS:
            return positions(wanted, joined_texts(self.take(["key"])["key"]))
        encoded, first = wanted.dictionary_encode(), 0
        result = np.full(len(encoded.dictionary), -1, np.int64)
        for _, part in self.blocks(["key"]):
            place = pc.index_in(part["key"].cast(wanted.type), value_set=encoded.dictionary)
            present = as_array(place.is_valid().cast(pa.uint8()))
            result[as_array(place.drop_null())] = first + np.flatnonzero(present)
            first += len(part)
        rows: NDArray[np.int64] = result[as_array(encoded.indices)]
        return rows

    def keys(self, rows: Array) -> pa.Array:
        """Return the keys of rows, in their order."""
        return joined_texts(self.take(["key"], rows)["key"])

    def hashes(self, rows: Array, *salt: str | int) -> NDArray[np.uint64]:
        """Return a stable hash of the key of each of these sorted rows."""
        result = np.empty(len(rows), np.uint64)
        for at, part in self.blocks(["key"], rows):
            result[at] = hashes64(part["key"], *salt)
        return result

    def key_hashes(self, rows: Array) -> NDArray[np.uint64]:
        """Return the hash that replaces the key of each of these sorted rows where labels are hidden.

        Tars of an unlabelled set have the hashes instead of the keys, and no labels.
        """
        hashes = self.hashes(rows, "key")
        if self.task is not None and (hidden := self.label[rows] < 0).any():
            try:
                hashes[hidden] = [int(key, 16) for key in self.keys(rows[hidden]).to_pylist()]
            except (ValueError, OverflowError) as error:
                raise IntegrityError(
                    f"{self.name}: a key without a label is not a hash ({error}): fetch or export it again"
                ) from error
        return hashes

    @property
    def task(self) -> TaskOf | None:
        """The task that these rows were drawn for, if they are in tars of its own."""
        return self.dataset.manifest.base(self.base).task if self.dataset and self.base else None

    @cached_property
    def columns(self) -> Mapping[str, Array]:
        return Numbers(self)

    def numbers_of(self, column: str) -> Array:
        """Read a column of `NUMBERS`."""
        dtype, missing = NUMBERS[column]
        if missing is None and (
            self.task is not None or column in (*self.hidden, *self.answers)
        ):  # of an unlabelled set
            missing = -1
        if column == "split" and isinstance(self.source, FileRows) and self.task is None:
            numbers = [list(SPLITS).index(split) for split in self.source.splits]
            return np.repeat(np.array(numbers, dtype), list(self.source.splits.values()))
        name = self.nuisance_column if column == "nuisance" else column
        limit = {"label": len(self.labels), "nuisance": len(self.nuisances)}.get(column)
        result = np.empty(len(self), dtype)
        for at, part in self.blocks([name]):
            values = part[name]
            if column == "split":
                values = pc.index_in(values, value_set=pa.array(list(SPLITS)))
            if values.null_count:
                if missing is None:
                    raise InputError(f"the {name} is missing in a row: every row needs one")
                values = pc.fill_null(values, missing)
            block = as_array(values)
            if limit is not None and self.dataset is not None and len(block):
                lowest, highest = block.min(), block.max()
                if lowest < (missing or 0) or highest >= limit:
                    given = f"metadata/{self.base} has {name} {lowest if lowest < 0 else highest}"
                    raise self.dataset.damaged(f"{given}, and the manifest lists {limit}")
            result[at] = block
        if column in self.answers:
            rows, values = self.answers[column]
            result[rows] = values
        return result

    def with_answers(self, answers: Answers) -> Metadata:
        """Return the metadata with what its publisher hides, from the file of it."""
        hidden = self.dataset.manifest.hidden if self.dataset is not None else None
        if hidden is None or answers.sha256 != hidden.sha256:
            raise InputError(
                f"{self.name} hides nothing: leave its labels out"
                if hidden is None
                else f"these labels are not those that {self.name} hides: another file, or another copy"
            )
        mine = answers.rows.filter(pc.equal(answers.rows["base"], self.base))
        rows = self.rows_of(mine["key"])
        known = {"nuisance" if name == self.nuisance_column else name for name in hidden.columns} & {*NUMBERS}
        values = {
            name: as_array(mine[self.nuisance_column if name == "nuisance" else name]) for name in known
        }
        return replace(self, hidden=(), answers={name: (rows, of) for name, of in values.items()})

    def with_examples(self) -> OpenDataset:
        """Return the dataset that has the examples of these rows."""
        if self.dataset is None:
            raise InputError(
                f"{self.name} is a table of your own, without examples: make the task from a dataset, by its "
                "name, folder or URL"
            )
        return self.dataset

    @property
    def label(self) -> Array:
        return self.columns["label"]

    @property
    def nuisance(self) -> Array:
        """The number of each row's nuisance; -1 for none."""
        return self.columns[self.nuisance_column]

    @cached_property
    def group(self) -> Array:
        """The group of each row, `label * nuisances + nuisance`; -1 for none."""
        numbers = np.empty(len(self), self.label.dtype)
        for at in stretches(len(self)):
            label, nuisance = self.label[at], self.nuisance[at]
            numbers[at] = np.where((label < 0) | (nuisance < 0), -1, label * len(self.nuisances) + nuisance)
        return numbers

    @cached_property
    def _origins(self) -> tuple[Array, pa.Array]:
        return self.coded("origin")

    def coded(self, name: str) -> tuple[Array, pa.Array]:
        """Return the number of each row's text, by first occurrence, and the texts."""
        codes, texts, places = np.empty(len(self), np.int32), [], []
        for at, part in self.blocks([name], coded=[name]):
            if part[name].null_count:
                part = part.set_column(0, name, pc.fill_null(part[name].cast(pa.string()), ""))
            column = part[name] if pa.types.is_dictionary(part[name].type) else part[name].dictionary_encode()
            chunk = column.unify_dictionaries().combine_chunks()
            codes[at] = as_array(chunk.indices)
            texts.append(chunk.dictionary.cast(pa.large_string()))
            places.append(at)
        # Every chunk gets the same dictionary; unifying them would compare it once for each chunk.
        joined = pa.chunked_array(texts, pa.large_string()).dictionary_encode()
        for at, chunk in zip(places, joined.chunks, strict=True):
            codes[at] = as_array(chunk.indices)[codes[at]]
        return codes, joined.chunk(0).dictionary if texts else pa.array([], pa.large_string())

    @property
    def origin(self) -> Array:
        """The number of each row's origin."""
        return self._origins[0] if self.numbered_origins is None else self.numbered_origins[0]

    @property
    def n_origins(self) -> int:
        """The number of origins."""
        return len(self._origins[1] if self.numbered_origins is None else self.numbered_origins[1])

    @property
    def origin_names(self) -> pa.Array:
        if self.numbered_origins is None:
            return self._origins[1]
        return joined_texts(self.take(["origin"], self.numbered_origins[1])["origin"])

    @cached_property
    def strata(self) -> Array:
        """The stratum of each origin, within which each seed ranks origins again.

        Groups of very few origins are pooled by nuisance, so that sets of some nuisances keep their sizes.
        """
        return strata(self.label, self.nuisance, self.origin, pool="nuisance")

    @cached_property
    def recurs(self) -> Array:
        """Mask of the rows whose origin occurs under several nuisances."""
        if not self.origins_shared:
            return np.zeros(len(self), bool)
        origin, nuisance, several = self.origin, self.nuisance, np.zeros(self.n_origins, bool)
        # A nuisance of each origin: another one means several.
        last = np.empty(len(several), np.min_scalar_type(-len(self.nuisances) - 1))
        for at in stretches(len(self)):
            last[origin[at]] = nuisance[at]
        for at in stretches(len(self)):
            mine = origin[at]
            several[mine[last[mine] != nuisance[at]]] = True
        return looked_up(several, origin)

    @cached_property
    def trajectory(self) -> Array:
        """The number of each row's trajectory: your table's, or the rows of a (split, group, quantile)."""
        if "trajectory" in self.names:
            return self.coded("trajectory")[0]
        if not self.base:
            raise InputError(
                f"{self.name} has two rows of an origin under one {self.nuisance_column} at one severity: "
                "name the column of trajectories, metadata_from_table(..., trajectory=...)"
            )
        parts = (self.columns["quantile"], self.group, self.columns["split"])
        order = np.lexsort(parts)
        changes = np.zeros(len(order), np.int64)
        for part in parts:
            changes[1:] |= part[order][1:] != part[order][:-1]
        result = np.empty(len(order), np.int64)
        result[order] = np.cumsum(changes)
        return result

    @cached_property
    def listing(self) -> Listing:
        """The file that each row was made from, and its places in the authors' lists, from `params`."""
        if self.dataset is None and "params" not in self.names:
            raise InputError(f"{self.name} does not name the file that each of its rows was made from")
        if self.dataset is not None and self.dataset.manifest.part is not None:
            raise InputError(
                f"{self.name} is a part of a dataset, and this split is a cut of all files: "
                "make it from the whole, and freeze it"
            )
        return listing_of((part["params"] for _, part in self.blocks(["params"])), self.name)

    def listed(self, name: str, *, optional: bool = False) -> NDArray[np.bool_]:
        """Mark the rows in a list of the authors, which must exist unless it is optional."""
        if optional and name not in self.listing.places:
            return np.zeros(len(self), bool)
        mask: NDArray[np.bool_] = self.listing.places_in(name, self.name) >= 0
        return mask

    def params_of(self, name: str, rows: Array) -> list[Any]:
        """Return a value of the `params` of rows, in their order; None where there is none."""
        if self.dataset is None and "params" not in self.names:
            return [None] * len(rows)
        texts = self.take(["params"], rows)["params"].to_pylist()
        try:
            return [read_json(text or "{}").get(name) for text in texts]
        except (ValueError, AttributeError) as error:
            raise InputError(f"{self.name} has params that are no JSON object ({error})") from error

    @property
    def repeats(self) -> bool:
        """True if rows may have the same example: see `picture`."""
        return self.dataset is not None and len(self.dataset.manifest.severities) > 1

    @cached_property
    def picture(self) -> Array:
        """The first row with the same example, for each row.

        Only rows at severity 0 of a dataset with several severities are compared, by the hashes of their
        bytes: each trajectory begins with the untouched example. The rows of your own table all differ.
        """
        first = np.arange(len(self))
        if self.repeats:
            rows = np.flatnonzero(self.columns["severity"] == 0)
            hashes = self.take(["sha256"], rows)["sha256"].combine_chunks()
            codes = hashes.dictionary_encode().indices.to_numpy()
            first[rows] = rows[np.unique(codes, return_index=True)[1]][codes]
        return first

    @cached_property
    def group_counts(self) -> NDArray[np.int64]:
        """The number of rows of each group, in all splits."""
        return counted(self.group, len(self.labels) * len(self.nuisances))

    @property
    def groups(self) -> Mapping[str, Array]:
        """The label and the nuisance of every possible group, as columns for filters."""
        numbers = np.arange(len(self.labels) * len(self.nuisances))
        size = max(1, len(self.nuisances))
        return {"label": numbers // size, self.nuisance_column: numbers % size}

    def group_name(self, group: int) -> str:
        label, nuisance = divmod(group, len(self.nuisances))
        return f"{self.labels[label]} / {self.nuisances[nuisance]}"

    def numbers(self, column: str, names: Sequence[str]) -> list[int]:
        """Return the numbers of labels (`column` is "label") or nuisances; `_`, spaces, case do not count."""
        is_label = column == "label"
        kind, known = ("label", self.labels) if is_label else (self.nuisance_column, self.nuisances)
        return [number_of(kind, name, known, f"The dataset is {self.name}.") for name in names]


def read_metadata(dataset: DatasetName, base: str | None = None) -> Metadata:
    """Return the metadata of a base (default: the default base); read once for an opened dataset."""
    opened = open_dataset(dataset)
    manifest = opened.manifest
    name = manifest.base(base or manifest.default_base).name

    def read() -> Metadata:
        rows = FileRows(opened, name, _names(manifest))
        len(rows)  # reads the footers: a dataset without metadata is refused here
        opened.check_unchanged()
        return metadata_of(manifest, name, rows, opened)

    return opened.keep(("metadata", name), read)


def _names(manifest: Manifest) -> list[str]:
    return [manifest.roles.nuisance if name == "nuisance" else name for name in COLUMNS]


def metadata_of(
    manifest: Manifest, base: str, rows: pa.Table | FileRows, dataset: OpenDataset | None = None
) -> Metadata:
    """Make the metadata of a base from its files, or from a table of all its rows in the order of splits."""
    nuisance = manifest.roles.nuisance
    if isinstance(rows, pa.Table):
        more = [name for name in ("params", "shard") if name in rows.column_names]
        rows = rows.select([*_names(manifest), *more])
        rows = rows.replace_schema_metadata(None)
    return Metadata(
        rows,
        tuple(manifest.labels),
        tuple(manifest.nuisances),
        nuisance,
        manifest.origins_shared,
        f"{manifest.name}/{base}",
        dataset,
        base,
        tuple(manifest.hidden.columns) if manifest.hidden else (),
    )
