"""Publish a dataset whose test labels stay with its owner, in a file by which predictions are judged.

The public copy of the test split has neither label, group nor quantile, and nothing that would give them
away: keys and origins are keyed hashes (HMAC), `params` are empty, and rows follow each other by these keys.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from builders.describe.contact_sheet import write_pictures
from builders.describe.renderings import describe
from builders.make.row_groups import SMALL_ROWS_PER_GROUP
from shiftdata.data.arrays import IntArray
from shiftdata.data.format.front_matter import is_config
from shiftdata.data.format.hidden import HIDES, SALT, answers_id, labels_table, read_labels, write_labels
from shiftdata.data.format.manifest import Manifest
from shiftdata.data.format.paths import DROPPED, data_files, metadata_file, protocol_file
from shiftdata.data.format.records import CanonicalSet, CanonicalSplit, Clause, FileRecord, Filters, Hidden
from shiftdata.data.format.schema import SPLITS
from shiftdata.data.format.writer import ROWS_PER_GROUP, Ordered, within_limits, write_splits
from shiftdata.data.format.written import file_records, finished, size_of, sizes_of
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.metadata import Metadata, read_metadata
from shiftdata.data.metadata.rows import metadata_of
from shiftdata.errors import InputError
from shiftdata.evaluation.protocols.canonical import own_files
from shiftdata.evaluation.protocols.named import published
from shiftdata.evaluation.tasks import RowSet, Task
from shiftdata.untrusted.parquet import read_parquet

SPLIT = "test"


@dataclass(frozen=True)
class Copied:
    """A public copy: its canonical splits, and those that were left out, with the reasons.

    `told` counts the hidden rows whose attribution, elsewhere in the dataset, is that of a single label.
    """

    folder: Path
    rows: int
    splits: Sequence[str]
    left_out: Mapping[str, str]
    told: int


def hide(
    folder: Path,
    out: Path,
    labels: Path,
    *,
    nuisance: bool = False,
    on_rows: Callable[[int], object] = lambda count: None,
) -> Copied:
    """Write the public copy of a built dataset to `out`, and what it hides to the file `labels`.

    `nuisance` hides the nuisance too. A file `labels` of an earlier copy gives the same keys again.
    """
    manifest = Manifest.read(folder)
    _check(manifest, folder, out)
    salt = read_labels(labels).salt if labels.exists() else secrets.token_bytes(SALT)
    hiding = _Hiding(folder, manifest, salt, (*HIDES, *([manifest.roles.nuisance] if nuisance else [])))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    # Written last, a manifest makes the copy whole; the labels exist before that.
    public, splits, left_out = hiding.write(out, on_rows)
    write_labels(labels, hiding.answers, salt, manifest.name)
    describe(out, public)
    return Copied(out, len(hiding.answers), splits, left_out, hiding.told())


def _check(manifest: Manifest, folder: Path, out: Path) -> None:
    if manifest.is_webdataset or manifest.withheld or manifest.part is not None or manifest.hidden:
        raise InputError(f"{folder} is not a whole dataset in Parquet with its examples and labels: build it")
    if out.exists() and not (out / "manifest.json").is_file() and any(out.iterdir()):
        raise InputError(f"{out} has other files: name a folder that does not exist")
    if out.resolve() == folder.resolve():
        raise InputError(f"{out} is the dataset itself: name another folder for its public copy")
    if len(manifest.severities) > 1:
        raise InputError(
            f"{manifest.name} has trajectories, whose first picture shows the label of all others in plain "
            "sight of whoever has the content: hide labels of datasets without severities"
        )


@dataclass(frozen=True)
class _Hiding:
    folder: Path
    manifest: Manifest
    salt: bytes
    columns: tuple[str, ...]

    def write(
        self, out: Path, on_rows: Callable[[int], object]
    ) -> tuple[Manifest, list[str], dict[str, str]]:
        """Write the files of the copy, and return its manifest."""
        files: dict[str, FileRecord] = {}
        for base in self.manifest.bases:
            files |= self._copy(base.name, out)
            files |= self._write_split(base.name, out, on_rows)
        plain = replace(
            self.manifest,
            hidden=Hidden(split=SPLIT, columns=self.columns, sha256=answers_id(self.answers, self.salt)),
            canonical_splits=[],
            shortcuts=None,  # they need labels of the test
            calibration=None,  # of another build
        )
        bases = {base.name: list(SPLITS) for base in self.manifest.bases}
        public = finished(out, plain, bases, files)
        splits, left_out = self._freeze(public, out)
        public = replace(public, canonical_splits=splits)
        more = [protocol_file(split.name) for split in splits]
        more += [path.name for path in write_pictures(out, public)]
        public = replace(public, files={**public.files, **file_records(out, more)})
        return public, [split.name for split in splits], left_out

    def hashed(self, kind: str, text: str) -> str:
        """Return a name that only the owner of the salt can tell."""
        return hmac.new(self.salt, f"{kind} {text}".encode(), hashlib.sha256).hexdigest()[:24]

    def keys(self, keys: pa.ChunkedArray) -> pa.Array:
        """Return the public keys of hidden rows."""
        return pa.array([self.hashed("key", key) for key in keys.to_pylist()], pa.string())

    def rows_of(self, base: str) -> pa.Table:
        """Return the hidden rows of a base as their owner has them."""
        path = metadata_file(base, SPLIT)
        return read_parquet(self.folder / path).replace_schema_metadata(None)

    @cached_property
    def answers(self) -> pa.Table:
        """The hidden values of each hidden row of any base, by public key."""
        tables = []
        for base in self.manifest.bases:
            rows = self.rows_of(base.name)
            tables.append(labels_table(self.keys(rows["key"]), rows, self.columns, base.name))
        return pa.concat_tables(tables).sort_by([("base", "ascending"), ("key", "ascending")])

    def told(self) -> int:
        """Count the hidden rows of the default base whose attribution gives away their label."""
        base, names = self.manifest.default_base, ["attribution", "label"]
        shown = pa.concat_tables(
            read_parquet(self.folder / metadata_file(base, split), names)
            for split in SPLITS
            if split != SPLIT
        )
        labels = shown.group_by("attribution").aggregate([("label", "count_distinct")])
        single = labels.filter(pc.equal(labels["label_count_distinct"], 1))["attribution"].combine_chunks()
        told: int = pc.sum(pc.is_in(self.rows_of(base)["attribution"], value_set=single)).as_py() or 0
        return told if len(self.manifest.labels) > 1 else 0

    @cached_property
    def private(self) -> Metadata:
        """The rows of the default base as their owner has them."""
        return read_metadata(self.folder)

    @cached_property
    def is_hidden(self) -> NDArray[np.bool_]:
        """Mark the rows of the default base that the copy hides."""
        mask: NDArray[np.bool_] = self.private.columns["split"] == list(SPLITS).index(SPLIT)
        return mask

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The canonical splits whose sets tell nothing of labels."""
        tasks = {split.name: published(self.private, split) for split in self.manifest.canonical_splits}
        return {name: task for name, task in tasks.items() if not any(map(self._tells, task.sets.values()))}

    def _parts(self, base: str, rows: int) -> IntArray:
        """Number the hidden rows of a base so that each set with files is all rows of some numbers."""
        part = np.zeros(rows, np.int64)
        for split in self.manifest.canonical_splits if base == self.manifest.default_base else ():
            for chosen in self.tasks[split.name].sets.values() if self._has_files(split) else ():
                mine = np.zeros(len(self.private), bool)
                mine[chosen.indices] = True
                part = np.unique(2 * part + mine[self.is_hidden], return_inverse=True)[1]
        return part

    def _has_files(self, split: CanonicalSplit) -> bool:
        return split.name in self.tasks and split.has_files

    def _copy(self, base: str, out: Path) -> dict[str, FileRecord]:
        """Copy the files of the other splits as they are."""
        others = [split for split in SPLITS if split != SPLIT]
        paths = [path for split in others for path in data_files(self.manifest.files, base, split)]
        paths += [metadata_file(base, split) for split in others]
        paths += [DROPPED] if DROPPED in self.manifest.files else []
        for path in paths:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / path, out / path)
        return {path: self.manifest.files[path] for path in paths}

    def _write_split(self, base: str, out: Path, on_rows: Callable[[int], object]) -> dict[str, FileRecord]:
        """Write the hidden split, its rows in the order of their public keys."""
        rows = self.rows_of(base)
        keys = self.keys(rows["key"])
        order = pc.sort_indices(keys).to_numpy().astype(np.int64)
        first = sum(len(read_parquet(out / metadata_file(base, of), ["key"])) for of in _before(SPLIT))
        known = {"key": keys, "origin": self._origins(rows["origin"]), "params": pa.repeat("{}", len(rows))}
        known["fold"] = self._folds(known["origin"])
        for name in self.columns:
            known[name] = pa.nulls(len(rows), rows[name].type)
        for name, values in known.items():
            place = rows.column_names.index(name)
            rows = rows.set_column(place, name, values.cast(rows[name].type))
        most = ROWS_PER_GROUP if self.manifest.roles.modality == "image" else SMALL_ROWS_PER_GROUP
        part, sizes = self._parts(base, len(rows)), rows["length"].to_numpy().astype(np.int64)
        groups = [
            group
            for of in np.unique(part).tolist()
            for group in within_limits(order[part[order] == of], sizes, most)
        ]
        with ExampleReader(self.folder, base, verify=True) as reader:

            def read(numbers: IntArray) -> list[bytes]:
                on_rows(len(numbers))
                return reader.read((numbers + first).tolist())

            ordered = Ordered.of_table(rows, groups, read, part)
            return write_splits(out, self.manifest, base, {SPLIT: ordered})

    def _origins(self, origins: pa.ChunkedArray) -> pa.Array:
        return pa.array([self.hashed("origin", origin) for origin in origins.to_pylist()], pa.string())

    def _folds(self, origins: pa.Array) -> pa.Array:
        """Return a fold of the split for each origin, which says nothing of its place within its label."""
        first = SPLITS[SPLIT]
        return pa.array([first + int(origin, 16) % (100 - first) for origin in origins.to_pylist()])

    def _freeze(self, public: Manifest, out: Path) -> tuple[list[CanonicalSplit], dict[str, str]]:
        """Freeze the canonical splits whose sets tell nothing of labels; return also the others, and why."""
        splits, left_out = list[CanonicalSplit](), dict[str, str]()
        paths = [out / metadata_file(public.default_base, split) for split in SPLITS]
        copied = metadata_of(public, public.default_base, pa.concat_tables(map(read_parquet, paths)))
        sizes = np.concatenate([sizes_of(path, public.roles) for path in paths])
        place = self._places(copied)
        for split in self.manifest.canonical_splits:
            if split.name not in self.tasks:
                left_out[split.name] = "its sets tell which labels rows may have"
                continue
            task, sets, records = self.tasks[split.name], dict[str, RowSet](), {}
            for name, rows in task.sets.items():
                at = place[rows.indices]
                order = np.argsort(at)
                counts = None if rows.counts is None else rows.counts[order]
                filters = self._filters(split.sets[name], rows)
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
        keys = [self.private.keys(same), self.keys(self.private.take(["key"], hidden)["key"])]
        place = np.empty(len(self.private), np.int64)
        rows = copied.rows_of(pa.concat_arrays([part.cast(pa.large_string()) for part in keys]))
        place[np.concatenate([same, hidden])] = rows
        return place

    def _tells(self, rows: RowSet) -> bool:
        """Return True if the hidden rows of a set are not all those of the nuisances that it has."""
        hidden, mine = self.is_hidden, np.zeros(len(self.private), bool)
        mine[rows.indices] = True
        public = np.zeros(len(mine), np.int64)
        if self.private.nuisance_column not in self.columns:
            public = self.private.nuisance + 1
        chosen = np.isin(public, np.unique(public[mine & hidden])) & hidden
        drawn = rows.counts is not None and bool((rows.counts[hidden[rows.indices]] > 1).any())
        return drawn or not np.array_equal(chosen, mine & hidden)

    def _filters(self, record: CanonicalSet, rows: RowSet) -> Filters | None:
        """Return filters for a set of the copy: of hidden rows they name nuisances alone."""
        if record.filters is None:
            return None
        kept = [others for clause in record.filters if (others := _elsewhere(clause))]
        mine, nuisance = rows.indices[self.is_hidden[rows.indices]], self.private.nuisance
        if not len(mine):
            return kept
        of, every = np.unique(nuisance[mine]), np.unique(nuisance[self.is_hidden])
        of_these: Clause = [(self.private.nuisance_column, "in", of.tolist())] if len(of) < len(every) else []
        return [*kept, [("split", "==", SPLIT), *of_these]]


def _elsewhere(clause: Clause) -> Clause:
    """Return a clause that keeps what this one keeps of the other splits; empty if that is nothing."""
    result: Clause = []
    for name, operator, value in clause:
        if name == "split":
            others = [split for split in ([value] if operator == "==" else value) if split != SPLIT]
            if not others:
                return []
            operator, value = ("==", others[0]) if len(others) == 1 else ("in", others)
        result.append((name, operator, value))
    return result


def _before(split: str) -> Iterator[str]:
    return (name for name in SPLITS if SPLITS[name] < SPLITS[split])
