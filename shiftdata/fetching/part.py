"""A part of a dataset: its metadata comes first, and says which bytes of the examples are needed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shiftdata.dataset import BELIEVED, OpenDataset
from shiftdata.errors import InputError, IntegrityError
from shiftdata.fetching.files import fetch_files
from shiftdata.fetching.part_card import part_card
from shiftdata.fetching.selection import Selection
from shiftdata.fetching.sources import NoPlaceError, Sources
from shiftdata.fetching.staging import MANIFEST
from shiftdata.files import write_text
from shiftdata.format.conditions import condition_text
from shiftdata.format.manifest import FILE_NAME, Config, FileRecord, Manifest
from shiftdata.format.paths import README, data_prefix, metadata_file, protocol_file
from shiftdata.format.schema import SPLITS
from shiftdata.format.writer import (
    BYTES_PER_GROUP,
    ROWS_PER_GROUP,
    SMALL_STRETCH,
    Indices,
    finished,
    within_limits,
    write_keys,
    write_split,
)
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.places.store import OnBytes

#: In the staging folder: the whole's manifest and metadata, and images that came already.
INDEX = ".index"
IMAGES = ".images"
ENDLESS = 1 << 62
#: As a build cuts them: pictures of one group in short stretches, all else in long ones.
MOST_ROWS = {"image": ROWS_PER_GROUP, "text": 5000, "table": 5000}


@dataclass
class PartFetch:
    """Fetches the rows of a selection into `work`, and makes a dataset of them."""

    sources: Sources
    written: bytes
    manifest: Manifest
    selection: Selection
    work: Path
    jobs: int
    tables: dict[str, pa.Table] = field(default_factory=dict)
    chosen: dict[str, Indices] = field(default_factory=dict)

    def metadata_files(self) -> dict[str, FileRecord]:
        """The metadata in which rows are chosen."""
        paths = [metadata_file(self.selection.base, split) for split in self.selection.splits]
        for path in paths:
            if path not in self.manifest.files:
                raise IntegrityError(f"{FILE_NAME} does not list {path}, which a part needs")
        return {path: self.manifest.files[path] for path in paths}

    def choose(self, files: Mapping[str, FileRecord], on_bytes: OnBytes) -> dict[str, int]:
        """Fetch the metadata and choose the rows; give the files that no place has."""
        index = self.work / INDEX
        index.mkdir(exist_ok=True)
        (index / FILE_NAME).write_bytes(self.written)
        missing = fetch_files(self.sources, index, files, jobs=self.jobs, on_bytes=on_bytes)
        if missing:
            return missing
        for split in self.selection.splits:
            table = pq.read_table(index / metadata_file(self.selection.base, split))
            rows = self.selection.rows(table)
            if len(rows):
                self.tables[split], self.chosen[split] = table.replace_schema_metadata(None), rows
        if not self.chosen:
            what = f"no row of {self.selection.name} is selected by {self.description()}"
            raise InputError(f"{what}: nothing to fetch")
        return {}

    def forget(self) -> None:
        """Leave nothing behind, unless an earlier fetch was interrupted here."""
        if not any((self.work / name).exists() for name in (IMAGES, "data")):
            shutil.rmtree(self.work)

    def sizes(self) -> tuple[int, int]:
        """The bytes that are still to be fetched, and those that the disk must have room for."""
        whole = sum(record.bytes for record in self._whole_files().values())
        rows = sum(
            int(pc.sum(self.tables[split]["length"].take(pa.array(rows))).as_py())
            for split, rows in self.chosen.items()
            if not self._is_whole(split)
        )
        kept = self.manifest.roles.modality == "image" and any(store.is_far for store in self.sources.stores)
        return whole + rows, whole + rows * (2 if kept else 1)

    def description(self) -> str:
        """The selection as it was asked for."""
        named = {"label": self.manifest.labels, self.manifest.roles.nuisance: self.manifest.nuisances}
        parts = [condition_text(one, named) for one in self.selection.conditions]
        if list(self.selection.splits) != list(self.manifest.splits_of(self.selection.name)):
            parts.append(f"split={','.join(self.selection.splits)}")
        return " ".join([self.selection.name, *parts])

    def fetch(self, on_bytes: OnBytes) -> dict[str, int]:
        """Fetch examples and write everything, the manifest last; give the files that no place has."""
        whole = self._whole_files()
        missing = fetch_files(self.sources, self.work, whole, jobs=self.jobs, on_bytes=on_bytes)
        with ExitStack() as stack:
            readers: dict[str, ExampleReader] = {}
            for split in self.chosen:
                path = metadata_file(self.selection.base, split)
                if self._is_whole(split):
                    (self.work / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.work / INDEX / path, self.work / path)
                else:
                    missing |= self._write_split(split, readers, stack, on_bytes)
        configs = self._configs()
        frozen = {path: self.manifest.files[path] for path in (protocol_file(one.name) for one in configs)}
        index = self.work / INDEX
        missing |= fetch_files(self.sources, index, frozen, jobs=self.jobs, on_bytes=lambda count: None)
        if not missing:
            for config in configs:
                self._freeze(config)
            self._finish(configs)
        return missing

    def _write_split(
        self, split: str, readers: dict[str, ExampleReader], stack: ExitStack, on_bytes: OnBytes
    ) -> dict[str, int]:
        base, rows = self.selection.base, self.chosen[split]
        splits = self.manifest.base(base).splits
        first = sum(splits[name].rows for name in SPLITS if name in splits and SPLITS[name] < SPLITS[split])

        def read(numbers: Indices) -> list[bytes]:
            def act(dataset: OpenDataset) -> list[bytes]:
                dataset.check_unchanged(believe=BELIEVED)
                address = dataset.address
                if address not in readers:
                    reader = ExampleReader(
                        self.work / INDEX,
                        base,
                        verify=True,
                        cache=self.work / IMAGES,
                        cache_limit=ENDLESS,
                        connections=self.jobs,
                        source=dataset.store,
                    )
                    readers[address] = stack.enter_context(reader)
                return readers[address].read((rows[numbers] + first).tolist())

            examples, store = self.sources.first(f"examples of data/{base}/{split}", act)
            size = sum(map(len, examples))
            self.sources.count(store, size, files=0)
            on_bytes(size)
            return examples

        chosen = self.tables[split].take(pa.array(rows))
        try:
            groups = row_groups_in_order(chosen, self.manifest.roles.modality)
            write_split(self.work, self.manifest, base, split, chosen, groups, read)
        except NoPlaceError:
            return {f"data/{base}/{split} ({len(rows):,} rows)": int(pc.sum(chosen["length"]).as_py())}
        return {}

    def _configs(self) -> list[Config]:
        """The canonical splits whose rows are all in the part, as far as it has their splits."""
        kept = []
        for config in self.manifest.configs:
            splits = [split for split in config.splits if split in self.chosen]
            listed = protocol_file(config.name) in self.manifest.files
            if config.base != self.selection.base or not splits or not config.filters or not listed:
                continue
            canonical = replace(self.selection, config=config, conditions=())
            if all(np.isin(canonical.rows(self.tables[split]), self.chosen[split]).all() for split in splits):
                counts = {split: config.splits[split] for split in splits}
                asked = self.selection.config is not None and config.name == self.selection.config.name
                kept.append(replace(config, splits=counts, virtual=config.virtual or asked))
        return kept

    def _freeze(self, config: Config) -> None:
        """The frozen keys of a canonical split: the whole's file, or its rows in the part's splits."""
        path = protocol_file(config.name)
        file, target = self.work / INDEX / path, self.work / path
        target.parent.mkdir(exist_ok=True)
        whole = self.manifest.config(config.name)
        if whole is not None and set(whole.splits) == set(config.splits):
            shutil.copyfile(file, target)
            return
        table = pq.read_table(file)
        write_keys(target, table.filter(pc.is_in(table["split"], value_set=pa.array(list(config.splits)))))

    def _finish(self, configs: Sequence[Config]) -> None:
        base = self.manifest.base(self.selection.base)
        rows = {split: self.tables[split].take(pa.array(self.chosen[split])) for split in self.chosen}
        cut = {} if all(map(self._is_whole, self.chosen)) else {"pyarrow": pa.__version__}
        whole = replace(
            self.manifest,
            default_base=base.name,
            configs=list(configs),
            versions={**self.manifest.versions, **cut},
            part=self.selection.record(hashlib.sha256(self.written).hexdigest(), self.manifest),
        )
        made = finished(self.work, whole, {base.name: rows})
        for name, text in ((README, part_card(made, self.description())), (MANIFEST, made.to_json())):
            write_text(self.work / name, text)

    def _is_whole(self, split: str) -> bool:
        """Whether every row of a split is chosen: its files are fetched as they are."""
        return len(self.chosen[split]) == len(self.tables[split])

    def _whole_files(self) -> dict[str, FileRecord]:
        whole = tuple(data_prefix(self.selection.base, one) for one in self.chosen if self._is_whole(one))
        return {path: record for path, record in self.manifest.files.items() if path.startswith(whole)}


def purpose_of(written: bytes, selection: Selection | None, manifest: Manifest) -> str:
    """What a fetch is for, in a line that differs for every other manifest and selection."""
    digest = hashlib.sha256(written).hexdigest()
    record: Mapping[str, Any] = asdict(selection.record(digest, manifest)) if selection else {}
    return json.dumps({"manifest": digest, "part": record}, sort_keys=True)


def row_groups_in_order(rows: pa.Table, modality: str) -> list[Indices]:
    """Cut rows of metadata into row groups, in their order, so that a filter by group skips what it can.

    Rows that stood in one row group of the whole are neighbours, and stay together as far as they fit.
    """
    lengths = rows["length"].to_numpy().astype(np.int64)
    runs = [np.arange(len(lengths))]
    if modality == "image":
        numbers = pc.fill_null(rows["group"], -1).to_numpy()
        runs = np.split(runs[0], np.flatnonzero(np.diff(numbers)) + 1)
    groups: list[Indices] = []
    for run in runs:
        last = groups[-1] if groups else None
        small = last is not None and max(len(last), len(run)) < SMALL_STRETCH
        if last is not None and small and lengths[last].sum() + lengths[run].sum() <= BYTES_PER_GROUP:
            groups[-1] = np.concatenate([last, run])
        else:
            groups += within_limits(run, lengths, MOST_ROWS[modality])
    return groups
