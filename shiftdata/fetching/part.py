"""A part of a dataset: its metadata comes first and tells which bytes of the examples are needed."""

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

from shiftdata.errors import InputError, IntegrityError
from shiftdata.fetching.files import bring_all
from shiftdata.fetching.part_card import part_card
from shiftdata.fetching.rows import row_groups_in_order
from shiftdata.fetching.selection import Selection
from shiftdata.fetching.staging import MANIFEST, check_space
from shiftdata.fetching.supply import NoPlaceError, Supply
from shiftdata.files import clear_when_full, write_text
from shiftdata.format.conditions import condition_text
from shiftdata.format.manifest import FILE_NAME, Config, FileRecord, Manifest
from shiftdata.format.schema import SPLITS
from shiftdata.format.writer import Indices, finished, write_keys, write_split
from shiftdata.loading.byte_ranges import ExampleReader
from shiftdata.places.store import OnBytes, Store

#: In the staging folder: the whole's manifest and metadata, and images that came already.
INDEX = ".index"
IMAGES = ".images"
ENDLESS = 1 << 62


@dataclass
class PartFetch:
    """Fetches the rows of a selection into `work`, and makes a dataset of them."""

    supply: Supply
    written: bytes
    manifest: Manifest
    selection: Selection
    out: Path
    work: Path
    jobs: int
    tables: dict[str, pa.Table] = field(default_factory=dict)
    chosen: dict[str, Indices] = field(default_factory=dict)

    def look(self, tell: OnBytes) -> dict[str, int]:
        """Fetch the metadata and choose the rows; give the files that no place has."""
        index = self.work / INDEX
        index.mkdir(exist_ok=True)
        (index / FILE_NAME).write_bytes(self.written)
        files = self._metadata_files()
        check_space(self.out, sum(record.bytes for record in files.values()))
        missing = bring_all(self.supply, index, files, jobs=self.jobs, tell=tell)
        if missing:
            return missing
        for split in self.selection.splits:
            table = pq.read_table(index / self._metadata_path(split)).replace_schema_metadata(None)
            rows = self.selection.rows(table)
            if len(rows):
                self.tables[split], self.chosen[split] = table, rows
        if not self.chosen:
            raise InputError(
                f"no row of {self.selection.name} is selected by {self.words()}: nothing to fetch"
            )
        return {}

    def forget(self) -> None:
        """Leave nothing behind of a look, unless an earlier fetch was cut here."""
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
        kept = self.manifest.roles.modality == "image" and any(
            source.is_far for source in self.supply.sources
        )
        return whole + rows, whole + rows * (2 if kept else 1)

    def words(self) -> str:
        """The selection in words, as it was asked for."""
        named = {"label": self.manifest.labels, self.manifest.roles.nuisance: self.manifest.nuisances}
        told = [condition_text(one, named) for one in self.selection.conditions]
        if list(self.selection.splits) != list(self.manifest.splits_of(self.selection.name)):
            told.append(f"split={','.join(self.selection.splits)}")
        return " ".join([self.selection.name, *told])

    def run(self, tell: OnBytes) -> dict[str, int]:
        """Fetch examples and write everything, the manifest last; give the files that no place has."""
        whole = self._whole_files()
        missing = bring_all(self.supply, self.work, whole, jobs=self.jobs, tell=tell)
        with ExitStack() as stack:
            readers: dict[str, ExampleReader] = {}
            for split in self.chosen:
                path = self._metadata_path(split)
                if self._is_whole(split):
                    (self.work / path).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(self.work / INDEX / path, self.work / path)
                else:
                    missing |= self._write_split(split, readers, stack, tell)
        configs = {config.name: config for config in self._configs()}
        protocols = {f"protocols/{name}.parquet" for name in configs}
        frozen = {path: record for path, record in self.manifest.files.items() if path in protocols}
        missing |= bring_all(self.supply, self.work / INDEX, frozen, jobs=self.jobs, tell=lambda _: None)
        if not missing:
            for config in configs.values():
                self._freeze(config)
            self._finish(list(configs.values()))
        return missing

    def _write_split(
        self, split: str, readers: dict[str, ExampleReader], stack: ExitStack, tell: OnBytes
    ) -> dict[str, int]:
        """Write the chosen rows of a split."""
        base, rows = self.selection.base, self.chosen[split]
        splits = self.manifest.base(base).splits
        before = list(SPLITS)[: list(SPLITS).index(split)]
        first = sum(splits[name].rows for name in before if name in splits)

        def read(numbers: Indices) -> list[bytes]:
            def act(source: Store) -> list[bytes]:
                if source.address not in readers:
                    readers[source.address] = stack.enter_context(self._reader(source))
                return readers[source.address].read((rows[numbers] + first).tolist())

            found, source = self.supply.first(f"examples of data/{base}/{split}", act)
            size = sum(map(len, found))
            self.supply.sizes[source.address] += size
            tell(size)
            return found

        chosen = self.tables[split].take(pa.array(rows))
        try:
            with clear_when_full(self.work):
                groups = row_groups_in_order(chosen, self.manifest.roles.modality)
                write_split(self.work, self.manifest, base, split, chosen, groups, read)
        except NoPlaceError:
            return {f"data/{base}/{split} ({len(rows):,} rows)": int(pc.sum(chosen["length"]).as_py())}
        return {}

    def _reader(self, source: Store) -> ExampleReader:
        return ExampleReader(
            self.work / INDEX,
            self.selection.base,
            verify=True,
            cache=self.work / IMAGES,
            cache_limit=ENDLESS,
            connections=self.jobs,
            source=source,
        )

    def _configs(self) -> list[Config]:
        """The canonical splits whose rows are all in the part, as far as it has their splits."""
        kept = []
        for config in self.manifest.configs:
            splits = [split for split in config.splits if split in self.chosen]
            listed = f"protocols/{config.name}.parquet" in self.manifest.files
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
        path = f"protocols/{config.name}.parquet"
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
        whole = replace(
            self.manifest,
            default_base=base.name,
            configs=list(configs),
            versions={**self.manifest.versions, **({"pyarrow": pa.__version__} if self._is_cut() else {})},
            part=self.selection.record(hashlib.sha256(self.written).hexdigest(), self.manifest),
        )
        made = finished(self.work, whole, {base.name: rows})
        for name, text in (("README.md", part_card(made, self.words())), (MANIFEST, made.to_json())):
            write_text(self.work / name, text)

    def _is_whole(self, split: str) -> bool:
        """Whether every row of a split is chosen: its files are fetched as they are."""
        return len(self.chosen[split]) == len(self.tables[split])

    def _is_cut(self) -> bool:
        return not all(map(self._is_whole, self.chosen))

    def _metadata_path(self, split: str) -> str:
        return f"metadata/{self.selection.base}/{split}.parquet"

    def _metadata_files(self) -> dict[str, FileRecord]:
        paths = [self._metadata_path(split) for split in self.selection.splits]
        for path in paths:
            if path not in self.manifest.files:
                raise IntegrityError(f"{FILE_NAME} does not list {path}, which a part needs")
        return {path: self.manifest.files[path] for path in paths}

    def _whole_files(self) -> dict[str, FileRecord]:
        starts = tuple(
            f"data/{self.selection.base}/{split}-" for split in self.chosen if self._is_whole(split)
        )
        return {path: record for path, record in self.manifest.files.items() if path.startswith(starts)}


def purpose_of(written: bytes, selection: Selection | None, manifest: Manifest) -> str:
    """What a fetch is for, in a line that differs for every other manifest and selection."""
    digest = hashlib.sha256(written).hexdigest()
    record: Mapping[str, Any] = asdict(selection.record(digest, manifest)) if selection else {}
    return json.dumps({"manifest": digest, "part": record}, sort_keys=True)
