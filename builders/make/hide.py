"""Publish a dataset whose test labels stay with its owner, in a file by which predictions are judged.

The public copy of a hidden row has neither label, group nor quantile, and nothing that would give them away:
its key and origin are keyed hashes (HMAC), its `params` are empty, and hidden rows lie behind the others of
their split, in the order of these keys. Rows of one origin show one content, so all of them are hidden.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.describe.contact_sheet import write_pictures
from builders.describe.renderings import describe
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.conditions import matches
from shiftdata.data.format.front_matter import is_config
from shiftdata.data.format.hidden import HIDES, SALT, answers_id, labels_table, read_labels, write_labels
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import DROPPED, data_files, metadata_file, protocol_file
from shiftdata.data.format.records import CanonicalSet, CanonicalSplit, Clause, FileRecord, Filters, Hidden
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.writer import MOST_ROWS, Ordered, row_groups_in_order, within_limits, write_splits
from shiftdata.data.format.written import file_records, finished, size_of, sizes_of
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.data.metadata.rows import metadata_of
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.canonical import own_files
from shiftdata.evaluation.protocols.named import published
from shiftdata.evaluation.tasks import RowSet, Task
from shiftdata.evaluation.tasks.task import canonical_task
from shiftdata.untrusted.parquet import read_parquet

Mask = NDArray[np.bool_]
#: What may be done with rows whose labels are hidden.
BLIND = ("test", "unlabelled")


@dataclass(frozen=True)
class Copied:
    """A public copy: its canonical splits, and those that were left out, with the reasons.

    `revealed` counts the hidden rows whose attribution, elsewhere in the dataset, is that of a single label.
    """

    folder: Path
    rows: int
    splits: Sequence[str]
    left_out: Mapping[str, str]
    revealed: int


def hide(
    folder: Path,
    out: Path,
    labels: Path,
    *,
    test: str | None = None,
    nuisance: bool = False,
    on_rows: Callable[[int], object] = lambda count: None,
) -> Copied:
    """Write the public copy of a built dataset to `out`, and what it hides to the file `labels`.

    Hidden are the test sets of the canonical split `test` (default: all rows of the split test), and with
    `nuisance` also their nuisances. A file `labels` of an earlier copy gives the same keys again.
    """
    manifest = Manifest.read(folder)
    _check(manifest, folder, out, test)
    salt = _salt_of(labels, manifest.name) if labels.exists() else secrets.token_bytes(SALT)
    columns = (*HIDES, *([manifest.roles.nuisance] if nuisance else []))
    hiding = _Hiding(folder, manifest, salt, columns, test)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    public, splits, left_out = hiding.write(out, on_rows)
    write_labels(labels, hiding.answers, salt, manifest.name)
    describe(out, public)  # with its manifest the copy is whole: the labels exist before
    return Copied(out, len(hiding.answers), splits, left_out, hiding.revealed())


def _salt_of(labels: Path, name: str) -> bytes:
    """Return the salt of an earlier copy; refuse another dataset's labels, which would be overwritten."""
    earlier = read_labels(labels)
    if earlier.dataset != name:
        raise InputError(
            f"{labels} has the labels of {earlier.dataset}: name another file for those of {name}"
        )
    return earlier.salt


def _check(manifest: Manifest, folder: Path, out: Path, test: str | None) -> None:
    if manifest.is_webdataset or manifest.withheld or manifest.part is not None or manifest.hidden:
        raise InputError(f"{folder} is not a whole dataset in Parquet with its examples and labels: build it")
    if out.exists() and not (out / "manifest.json").is_file() and any(out.iterdir()):
        raise InputError(f"{out} has other files: name a folder that does not exist")
    if out.resolve() == folder.resolve():
        raise InputError(f"{out} is the dataset itself: name another folder for its public copy")
    if len(manifest.severities) > 1:
        raise InputError(
            f"{manifest.name} has trajectories, which follow from quantiles, and these count the rows of a "
            "group: hide labels of datasets without severities"
        )
    if test is not None and manifest.canonical(test) is None:
        manifest.rows_behind(test)  # refuses an unknown name
        raise InputError(f"{test} is not a canonical split: name one, or leave --test out")


@dataclass(frozen=True)
class _Hiding:
    folder: Path
    manifest: Manifest
    salt: bytes
    columns: tuple[str, ...]
    test: str | None

    def write(
        self, out: Path, on_rows: Callable[[int], object]
    ) -> tuple[Manifest, list[str], dict[str, str]]:
        """Write the files of the copy, and return its manifest."""
        files: dict[str, FileRecord] = {}
        for base in self.manifest.bases:
            for split in SPLITS:
                hides = self.hides(self.rows_of(base.name, split)).any()
                files |= (
                    self._write(base.name, split, out, on_rows)
                    if hides
                    else self._copy(base.name, split, out)
                )
        counts = {base.name: len(self._hidden_rows(base.name)) for base in self.manifest.bases}
        plain = replace(
            self.manifest,
            hidden=Hidden(rows=counts, columns=self.columns, sha256=answers_id(self.answers, self.salt)),
            canonical_splits=[],
            shortcuts=None,  # they need labels of the test
            calibration=None,  # of another build
        )
        if DROPPED in self.manifest.files:
            shutil.copyfile(self.folder / DROPPED, out / DROPPED)
        public = finished(out, plain, {base.name: list(SPLITS) for base in self.manifest.bases}, files)
        splits, left_out = self._freeze(public, out)
        public = replace(public, canonical_splits=splits)
        more = [protocol_file(split.name) for split in splits]
        more += [path.name for path in write_pictures(out, public)]
        public = replace(public, files={**public.files, **file_records(out, more)})
        return public, [split.name for split in splits], left_out

    def hashed(self, kind: str, texts: pa.ChunkedArray) -> pa.Array:
        """Return names that only the owner of the salt can tell."""
        named = (f"{kind} {text}".encode() for text in texts.to_pylist())
        hashes = (hmac.new(self.salt, name, hashlib.sha256).hexdigest()[:24] for name in named)
        return pa.array(hashes, pa.string())

    @cached_property
    def private(self) -> Metadata:
        """The rows of the default base as their owner has them."""
        return read_metadata(self.folder)

    @cached_property
    def origins(self) -> pa.Array:
        """The origins whose rows are hidden."""
        task = canonical_task(self.private)
        if self.test is not None:
            split = next(split for split in self.manifest.canonical_splits if split.name == self.test)
            task = published(self.private, split)
        rows = [rows.indices for rows in task.sets.values() if rows.role == "test"]
        numbers = np.unique(self.private.origin[np.concatenate(rows)])
        return self.private.origin_names.take(pa.array(numbers)).cast(pa.string())

    @cached_property
    def is_hidden(self) -> Mask:
        """Mark the rows of the default base that the copy hides."""
        numbers = pc.index_in(self.origins.cast(pa.large_string()), self.private.origin_names).to_numpy()
        mask: Mask = np.isin(self.private.origin, numbers)
        return mask

    def hides(self, rows: pa.Table) -> Mask:
        """Mark the hidden ones of rows."""
        if self.test is None:
            chosen = pc.equal(rows["split"].cast(pa.string()), "test")
        else:
            chosen = pc.is_in(rows["origin"].cast(pa.string()), value_set=self.origins)
        mask: Mask = chosen.to_numpy()
        return mask

    def rows_of(self, base: str, split: str) -> pa.Table:
        """Return the rows of a split as their owner has them."""
        return read_parquet(self.folder / metadata_file(base, split)).replace_schema_metadata(None)

    def _hidden_rows(self, base: str) -> pa.Table:
        tables = [self.rows_of(base, split) for split in SPLITS]
        return pa.concat_tables(table.filter(pa.array(self.hides(table))) for table in tables)

    @cached_property
    def answers(self) -> pa.Table:
        """The hidden values of each hidden row of any base, by public key."""
        tables = []
        for base in self.manifest.bases:
            rows = self._hidden_rows(base.name)
            tables.append(labels_table(self.hashed("key", rows["key"]), rows, self.columns, base.name))
        return pa.concat_tables(tables).sort_by([("base", "ascending"), ("key", "ascending")])

    def revealed(self) -> int:
        """Count the hidden rows of the default base whose attribution gives away their label."""
        tables = (self.rows_of(self.manifest.default_base, split) for split in SPLITS)
        every = pa.concat_tables(table.select(["attribution", "label"]) for table in tables)
        shown, hidden = every.filter(pa.array(~self.is_hidden)), every.filter(pa.array(self.is_hidden))
        labels = shown.group_by("attribution").aggregate([("label", "count_distinct")])
        single = labels.filter(pc.equal(labels["label_count_distinct"], 1))["attribution"].combine_chunks()
        revealed: int = pc.sum(pc.is_in(hidden["attribution"], value_set=single)).as_py() or 0
        return revealed if len(self.manifest.labels) > 1 else 0

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The canonical splits whose sets tell nothing of labels, and train on none that are hidden."""
        tasks = {split.name: published(self.private, split) for split in self.manifest.canonical_splits}
        return {name: task for name, task in tasks.items() if not any(map(self._tells, task.sets.values()))}

    def _mask(self, rows: RowSet) -> Mask:
        """Mark the rows of a set in the default base."""
        mask = np.zeros(len(self.private), bool)
        mask[rows.indices] = True
        return mask

    def _tells(self, rows: RowSet) -> bool:
        """Return True if a set needs hidden labels, or is not all hidden rows of its splits and nuisances."""
        mine = self._mask(rows) & self.is_hidden
        if not mine.any():
            return False
        public = self.private.columns["split"].astype(np.int64)
        if self.private.nuisance_column not in self.columns:
            public = public + len(SPLITS) * (self.private.nuisance + 1)
        drawn = rows.counts is not None and bool((rows.counts[self.is_hidden[rows.indices]] > 1).any())
        chosen = np.isin(public, np.unique(public[mine])) & self.is_hidden
        return drawn or rows.role not in BLIND or not np.array_equal(chosen, mine)

    def _parts(self) -> IntArray:
        """Number the rows of the default base: each set with files has all hidden rows of some numbers."""
        part = np.zeros(len(self.private), np.int64)
        for split in self.manifest.canonical_splits:
            for rows in (
                self.tasks[split.name].sets.values() if split.name in self.tasks and split.has_files else ()
            ):
                part = np.unique(2 * part + self._mask(rows), return_inverse=True)[1]
        return part

    def _copy(self, base: str, split: str, out: Path) -> dict[str, FileRecord]:
        """Copy the files of a split as they are."""
        paths = [*data_files(self.manifest.files, base, split), metadata_file(base, split)]
        for path in paths:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / path, out / path)
        return {path: self.manifest.files[path] for path in paths}

    def _write(
        self, base: str, split: str, out: Path, on_rows: Callable[[int], object]
    ) -> dict[str, FileRecord]:
        """Write a split: its other rows in their order and files, then the hidden ones by public key."""
        rows = self.rows_of(base, split)
        sizes_of_splits = self.manifest.base(base).splits
        before = sum(sizes_of_splits[of].rows for of in SPLITS if SPLITS[of] < SPLITS[split])
        mask, shard = self.hides(rows), rows["shard"].to_numpy().astype(np.int64)
        part = shard.copy()
        if base == self.manifest.default_base:
            part[mask] = self._parts()[before : before + len(rows)][mask]
        part[mask] += 1 + shard.max(initial=0)
        public = self._public(rows, mask, split)
        sizes = rows["length"].to_numpy().astype(np.int64)
        most = MOST_ROWS[self.manifest.roles.modality]
        shown, hidden = np.flatnonzero(~mask), np.flatnonzero(mask)
        groups = [
            shown[group]
            for group in row_groups_in_order(rows.take(pa.array(shown)), shard[shown], most)
            if len(shown)
        ]
        order = hidden[pc.sort_indices(public["key"].take(pa.array(hidden))).to_numpy()]
        for of in np.unique(part[hidden]).tolist():
            groups += within_limits(order[part[order] == of], sizes, most)
        with ExampleReader(self.folder, base, verify=True) as reader:

            def read(numbers: IntArray) -> list[bytes]:
                on_rows(len(numbers))
                return reader.read((numbers + before).tolist())

            ordered = Ordered.of_table(public, groups, read, part)
            return write_splits(out, self.manifest, base, {split: ordered})

    def _public(self, rows: pa.Table, mask: Mask, split: str) -> pa.Table:
        """Return rows as everybody may see them."""
        origins = self.hashed("origin", rows["origin"])
        first = SPLITS[split]
        end = min((start for start in SPLITS.values() if start > first), default=100)
        # Nothing of the place of the origin within its label.
        folds = [first + int(origin, 16) % (end - first) for origin in origins.to_pylist()]
        known = {
            "key": self.hashed("key", rows["key"]),
            "origin": origins,
            "params": pa.repeat("{}", len(rows)),
            "fold": pa.array(folds),
            **{name: pa.nulls(len(rows), rows[name].type) for name in self.columns},
        }
        hidden = pa.array(mask)
        for name, values in known.items():
            kind, place = rows[name].type, rows.column_names.index(name)
            plain = rows[name].combine_chunks()
            values = pc.if_else(
                hidden, values.cast(pa.string() if pa.types.is_dictionary(kind) else kind), plain
            )
            rows = rows.set_column(place, name, values)
        return rows

    def _freeze(self, public: Manifest, out: Path) -> tuple[list[CanonicalSplit], dict[str, str]]:
        """Freeze the canonical splits that everybody may know; return also the others, and why."""
        splits, left_out = list[CanonicalSplit](), dict[str, str]()
        paths = [out / metadata_file(public.default_base, split) for split in SPLITS]
        copied = metadata_of(public, public.default_base, pa.concat_tables(map(read_parquet, paths)))
        sizes = np.concatenate([sizes_of(path, public.roles) for path in paths])
        place = self._places(copied)
        for split in self.manifest.canonical_splits:
            if split.name not in self.tasks:
                left_out[split.name] = "its sets would tell of hidden labels, or need them"
                continue
            task, sets, records = self.tasks[split.name], dict[str, RowSet](), {}
            for name, rows in task.sets.items():
                at = place[rows.indices]
                order = np.argsort(at)
                counts = None if rows.counts is None else rows.counts[order]
                filters = self._filters(split.sets[name], copied, at)
                sets[name] = replace(rows, indices=at[order], counts=counts, filters=filters)
                drawn = at[order] if counts is None else np.repeat(at[order], counts)
                size = size_of(copied.group[drawn], sizes[drawn])
                records[name] = replace(split.sets[name], size=size, filters=filters)
            frozen = Task(copied, sets, task.history)
            frozen.freeze(out / protocol_file(split.name))
            if split.has_files:
                files = own_files(frozen, public.default_base)
                records = {name: replace(of, files=files.get(name, ())) for name, of in records.items()}
            splits.append(replace(split, sets=records, is_config=split.is_config and is_config(records)))
        return splits, left_out

    def _places(self, copied: Metadata) -> IntArray:
        """Return the row of the copy for each row of the dataset."""
        same, hidden = np.flatnonzero(~self.is_hidden), np.flatnonzero(self.is_hidden)
        keys = [self.private.keys(same), self.hashed("key", self.private.take(["key"], hidden)["key"])]
        place = np.empty(len(self.private), np.int64)
        rows = copied.rows_of(pa.concat_arrays([part.cast(pa.large_string()) for part in keys]))
        place[np.concatenate([same, hidden])] = rows
        return place

    def _filters(self, record: CanonicalSet, copied: Metadata, rows: IntArray) -> Filters | None:
        """Return filters that keep the rows of a set of the copy: of hidden ones by split and nuisance."""
        if record.filters is None:
            return None
        hidden = rows[copied.label[rows] < 0]
        splits = [list(SPLITS)[number] for number in np.unique(copied.columns["split"][hidden]).tolist()]
        others = [clause for of in record.filters if (clause := _elsewhere(of, splits))]
        nuisances = np.unique(copied.nuisance[hidden]).tolist()
        of_hidden: Clause = [("split", "in", splits), (copied.nuisance_column, "in", nuisances)]
        mine = np.zeros(len(copied), bool)
        mine[rows] = True
        for filters in (record.filters, [*others, of_hidden[:1]], [*others, of_hidden]):
            if np.array_equal(matches(copied.columns, filters), mine):
                return filters
        return None


def _elsewhere(clause: Clause, splits: Sequence[str]) -> Clause:
    """Return a clause that keeps what this one keeps of other splits; empty if that is nothing."""
    result: Clause = []
    for name, operator, value in clause:
        if name == "split":
            value = [split for split in ([value] if operator == "==" else value) if split not in splits]
            if not value:
                return []
            operator = "in"
        result.append((name, operator, value))
    return result
