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

from shiftdata.data.arrays import IntArray
from shiftdata.data.dataset import BELIEVED, OpenDataset
from shiftdata.data.fetching.selection import Selection
from shiftdata.data.fetching.sources import NoPlaceError, Sources, fetch_files
from shiftdata.data.fetching.staging import MANIFEST
from shiftdata.data.format.conditions import condition_text
from shiftdata.data.format.front_matter import (
    Entry,
    is_config,
    linked,
    loading_entries,
    tags,
    task_category,
    yaml_lines,
)
from shiftdata.data.format.licenses import hub_terms
from shiftdata.data.format.manifest import FILE_NAME, Manifest
from shiftdata.data.format.paths import (
    ATTRIBUTION,
    README,
    data_files,
    data_prefix,
    metadata_file,
    protocol_file,
)
from shiftdata.data.format.records import CanonicalSplit, FileRecord
from shiftdata.data.format.schema import FROZEN, SPLITS, metadata_schema
from shiftdata.data.format.writer import MOST_ROWS, Ordered, row_groups_in_order, write_keys, write_splits
from shiftdata.data.format.written import finished, write_renderings
from shiftdata.data.loading.byte_ranges import ExampleReader
from shiftdata.data.places.store import OnBytes
from shiftdata.errors import InputError, IntegrityError
from shiftdata.untrusted.parquet import read_parquet

TEMPLATE = Path(__file__).with_name("part_card.md")
#: In the staging folder: the whole's manifest and metadata, and images that came already.
INDEX = ".index"
IMAGES = ".images"


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
    chosen: dict[str, IntArray] = field(default_factory=dict)
    frozen: pa.Table | None = None
    files: dict[str, FileRecord] = field(default_factory=dict)
    #: Of data files of the whole, the files that have their chosen rows here.
    moved: dict[str, list[str]] = field(default_factory=dict)

    def metadata_files(self) -> dict[str, FileRecord]:
        """List the metadata in which rows are chosen, and the keys of the asked canonical split."""
        self.manifest.require_pixels(self.manifest.name)
        paths = [metadata_file(self.selection.base, split) for split in self.selection.files]
        if self.selection.canonical is not None:
            paths.append(protocol_file(self.selection.canonical.name))
        listed, base = self.manifest.files, self.selection.base
        missing = [path for path in paths if path not in listed]
        missing += [
            data_prefix(base, split) for split in self.selection.files if not data_files(listed, base, split)
        ]
        for path in missing:
            raise IntegrityError(f"{FILE_NAME} does not list {path}, which a part needs")
        return {path: self.manifest.files[path] for path in paths}

    def choose(self, files: Mapping[str, FileRecord], on_bytes: OnBytes) -> dict[str, int]:
        """Fetch the metadata and choose the rows; return the files that no place has."""
        index = self.work / INDEX
        index.mkdir(exist_ok=True)
        (index / FILE_NAME).write_bytes(self.written)
        missing = fetch_files(self.sources, index, files, jobs=self.jobs, on_bytes=on_bytes)
        if missing:
            return missing
        if self.selection.canonical is not None:
            path = protocol_file(self.selection.canonical.name)
            self.frozen = read_parquet(index / path, schema=FROZEN, rows=self.manifest.files[path].rows)
        schema = metadata_schema(self.manifest.roles, self.manifest.labels, self.manifest.nuisances)
        for split in self.selection.files:
            path = metadata_file(self.selection.base, split)
            table = read_parquet(index / path, schema=schema, rows=self.manifest.files[path].rows)
            rows = self.selection.rows(table, self.frozen)
            if len(rows):
                self.tables[split], self.chosen[split] = table.replace_schema_metadata(None), rows
        if not self.chosen:
            raise InputError(
                f"no row of {self.selection.name} is selected by {self.description()}: nothing to fetch"
            )
        return {}

    def sizes(self) -> tuple[int, int]:
        """Return the bytes that are still to be fetched, and those that the disk must have room for."""
        whole = sum(record.bytes for record in self._whole_files().values())
        rows = sum(
            int(pc.sum(self.tables[split]["length"].take(pa.array(rows))).as_py())
            for split, rows in self.chosen.items()
            if not self._is_whole(split)
        )
        cached = self.manifest.roles.modality == "image" and any(
            store.is_far for store in self.sources.stores
        )
        return whole + rows, whole + rows * (2 if cached else 1)

    def description(self) -> str:
        """Return the selection in words."""
        named = {"label": self.manifest.labels, self.manifest.roles.nuisance: self.manifest.nuisances}
        parts = [condition_text(condition, named) for condition in self.selection.conditions]
        if list(self.selection.splits) != list(self.manifest.splits_of(self.selection.name)):
            parts.append(f"split={','.join(self.selection.splits)}")
        return " ".join([self.selection.name, *parts])

    def fetch(self, on_bytes: OnBytes) -> dict[str, int]:
        """Fetch examples and write everything, the manifest last; return the files that no place has."""
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
        canonical = self._canonical_splits()
        frozen = {
            path: self.manifest.files[path] for path in (protocol_file(split.name) for split in canonical)
        }
        index = self.work / INDEX
        missing |= fetch_files(self.sources, index, frozen, jobs=self.jobs, on_bytes=lambda count: None)
        if not missing:
            for frozen_split in canonical:
                self._freeze(frozen_split)
            self._finish(canonical)
        return missing

    def _write_split(
        self, split: str, readers: dict[str, ExampleReader], stack: ExitStack, on_bytes: OnBytes
    ) -> dict[str, int]:
        base, rows = self.selection.base, self.chosen[split]
        splits = self.manifest.base(base).splits
        first = sum(splits[name].rows for name in SPLITS if name in splits and SPLITS[name] < SPLITS[split])

        def read(numbers: IntArray) -> list[bytes]:
            def act(dataset: OpenDataset) -> list[bytes]:
                dataset.check_unchanged(believe=BELIEVED)
                address = dataset.address
                if address not in readers:
                    reader = ExampleReader(
                        self.work / INDEX,
                        base,
                        verify=True,
                        cache=self.work / IMAGES,
                        cache_limit=None,
                        source=dataset.store,
                    )
                    readers[address] = stack.enter_context(reader)
                return readers[address].read((rows[numbers] + first).tolist())

            examples, store = self.sources.first(f"examples of data/{base}/{split}", act)
            size = sum(map(len, examples))
            self.sources.count(store, size, files=0)
            on_bytes(size)
            return examples

        chosen, asked = self.tables[split].take(pa.array(rows)), self.selection.canonical
        # Sets with files of their own keep them: no file here has rows of two files there.
        shard = chosen["shard"].to_numpy() * (asked is not None and asked.has_files)
        groups = row_groups_in_order(chosen, shard, MOST_ROWS[self.manifest.roles.modality])
        ordered = Ordered.of_table(chosen, groups, read, shard)
        try:
            self.files |= write_splits(self.work, self.manifest, base, {split: ordered})
        except NoPlaceError:
            return {f"data/{base}/{split} ({len(rows):,} rows)": int(pc.sum(chosen["length"]).as_py())}
        new = read_parquet(self.work / metadata_file(base, split), ["shard"])["shard"].to_numpy()
        paths, there = (data_files(files, base, split) for files in (self.files, self.manifest.files))
        for number in np.unique(shard).tolist():
            self.moved[there[number]] = [paths[place] for place in np.unique(new[shard == number])]
        return {}

    def _canonical_splits(self) -> list[CanonicalSplit]:
        """Return the canonical splits of a whole base, or the one that was asked for, with the asked sets."""
        base, asked = self.selection.base, self.selection.canonical
        if self.selection.conditions:
            return []
        if asked is not None:
            here = {path: [path] for path in self._whole_files()} | self.moved
            sets = {
                name: replace(rows, files=[path for file in rows.files for path in here.get(file, ())])
                for name, rows in asked.sets.items()
                if name in self.selection.splits
            }
            return [replace(asked, sets=sets, is_config=is_config(sets))]
        if set(self.chosen) != set(self.manifest.base(base).splits):
            return []
        frozen = (split for split in self.manifest.canonical_splits if split.base == base)
        return [split for split in frozen if protocol_file(split.name) in self.manifest.files]

    def _freeze(self, split: CanonicalSplit) -> None:
        """Write the keys of a canonical split: the whole's file, or the sets of it that the part has."""
        path = protocol_file(split.name)
        file, target = self.work / INDEX / path, self.work / path
        target.parent.mkdir(exist_ok=True)
        whole, _, _ = self.manifest.rows_behind(split.name)
        if whole is not None and set(whole.sets) == set(split.sets):
            shutil.copyfile(file, target)
            return
        table = read_parquet(file, schema=FROZEN, rows=self.manifest.files[path].rows)
        write_keys(target, [table.filter(pc.is_in(table["split"], value_set=pa.array(list(split.sets))))])

    def _finish(self, canonical: Sequence[CanonicalSplit]) -> None:
        base = self.manifest.base(self.selection.base)
        cut = {} if all(map(self._is_whole, self.chosen)) else {"pyarrow": pa.__version__}
        whole = replace(
            self.manifest,
            default_base=base.name,
            canonical_splits=list(canonical),
            versions={**self.manifest.versions, **cut},
            shortcuts=None,  # those of the whole
            calibration=None,
            part=self.selection.record(hashlib.sha256(self.written).hexdigest(), self.manifest),
        )
        manifest = finished(self.work, whole, {base.name: list(self.chosen)}, self.files)
        write_renderings(self.work, manifest, {README: part_card(manifest, self.description())}, MANIFEST)

    def _is_whole(self, split: str) -> bool:
        """Return True if every row of a split is chosen: its files are fetched as they are."""
        return len(self.chosen[split]) == len(self.tables[split])

    def _whole_files(self) -> dict[str, FileRecord]:
        whole = tuple(
            data_prefix(self.selection.base, split) for split in self.chosen if self._is_whole(split)
        )
        return {path: record for path, record in self.manifest.files.items() if path.startswith(whole)}


def purpose_of(written: bytes, selection: Selection | None, manifest: Manifest) -> str:
    """Identify a fetch by a line that differs for every other manifest and selection."""
    digest = hashlib.sha256(written).hexdigest()
    record: Mapping[str, Any] = asdict(selection.record(digest, manifest)) if selection else {}
    return json.dumps({"manifest": digest, "part": record}, sort_keys=True)


def part_card(manifest: Manifest, words: str) -> str:
    """Render the README.md of a part; `words` is its selection."""
    part, base = manifest.part, manifest.bases[0]
    front: Entry = {
        "pretty_name": f"{manifest.title}: a part",
        **hub_terms(manifest.license),
        "task_categories": [task_category(manifest.roles.modality)],
        "tags": tags(manifest),
        **loading_entries(manifest),
    }
    return TEMPLATE.read_text(encoding="utf-8").format(
        front="\n".join(yaml_lines(front)),
        m=manifest,
        citation=linked(manifest.citation),
        content_id=part.content_id[:16] if part else "",
        manifest=f"`{part.manifest[:16]}`" if part else "",
        words=words,
        config=part.config if part and part.config in manifest.configs else base.name,
        attribution=ATTRIBUTION,
    )
