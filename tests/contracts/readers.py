"""Every client that must read what we publish: each gives a base's rows as {key: Row}."""

from __future__ import annotations

import gc
import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from shiftdata.data.format.manifest import Manifest


@dataclass(frozen=True)
class Row:
    """What must be equal whoever reads it; a picture counts by its pixels."""

    split: str
    label: int
    nuisance: int | None
    severity: float | None
    example: Any


Rows = dict[str, Row]


def pyarrow(folder: Path, manifest: Manifest, base: str) -> Rows:
    """What all the others are compared with."""
    import pyarrow.parquet as pq

    files = sorted(folder.glob(f"data/{base}/*.parquet"))
    return rows_of((row for file in files for row in pq.read_table(file).to_pylist()), manifest)


def datasets_prepared(folder: Path, manifest: Manifest, base: str) -> Rows:
    import datasets

    loaded = datasets.load_dataset(str(folder), base)
    return rows_of((row for split in loaded.values() for row in split), manifest)


def datasets_streaming(folder: Path, manifest: Manifest, base: str) -> Rows:
    import datasets

    loaded = datasets.load_dataset(str(folder), base, streaming=True)
    return rows_of((row for split in loaded.values() for row in split), manifest)


def mlcroissant(folder: Path, manifest: Manifest, base: str) -> Rows:
    import mlcroissant as mlc

    described = mlc.Dataset(jsonld=str(folder / "croissant.json"))
    records = (
        {name.removeprefix(f"{record_set.id}/"): value for name, value in record.items()}
        for record_set in described.metadata.record_sets
        if record_set.id.startswith(f"{base}/")
        for record in described.records(record_set.id)
    )
    return rows_of(records, manifest)


def pandas(folder: Path, manifest: Manifest, base: str) -> Rows:
    import pandas as pd

    frame = pd.read_parquet(folder / "data" / base, dtype_backend="pyarrow")
    return rows_of(frame.to_dict("records"), manifest)


def polars(folder: Path, manifest: Manifest, base: str) -> Rows:
    import polars as pl

    frame = pl.scan_parquet(folder / "data" / base / "*.parquet").collect()
    return rows_of(frame.iter_rows(named=True), manifest)


def duckdb(folder: Path, manifest: Manifest, base: str) -> Rows:
    import duckdb

    with duckdb.connect() as connection:
        result = connection.execute(f"select * from '{folder}/data/{base}/*.parquet'")
        names = [column[0] for column in result.description]
        return rows_of((dict(zip(names, row, strict=True)) for row in result.fetchall()), manifest)


def shiftdata(folder: Path, manifest: Manifest, base: str) -> Rows:
    """Every row by its byte range or row group."""
    import shiftdata as sd
    from shiftdata.data.loading.byte_ranges import ExampleReader

    with ExampleReader(folder, base, verify=True) as reader:
        described = sd.read_metadata(folder, base).table.to_pylist()
        examples = reader.read(range(len(described)))
    return rows_of(
        (row | as_columns(data, manifest) for row, data in zip(described, examples, strict=True)), manifest
    )


def webdataset(folder: Path, manifest: Manifest, base: str) -> Rows:
    """The tars that an export makes of it."""
    import shiftdata as sd
    from shiftdata.data.exporting.webdataset import export

    tars = export(folder, folder.parent / f"{folder.name}_wds")
    splits = manifest.base(base).splits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the library leaves tars open
        samples = [
            sample for split in splits for sample in sd.webdataset(tars, base, split=split, decode=None)
        ]
        gc.collect()
    records = []
    for sample in samples:
        told = json.loads(sample["metadata"])
        if manifest.roles.modality != "table":
            told |= as_columns(sample[manifest.roles.modality], manifest)
        records.append(told)
    return rows_of(records, manifest)


def as_columns(data: bytes, manifest: Manifest) -> dict[str, Any]:
    """An example's bytes as the columns that hold it."""
    roles = manifest.roles
    if roles.modality == "image":
        return {"image": {"bytes": data}}
    if roles.modality == "text":
        return {"text": data.decode()}
    return dict(zip(roles.example, json.loads(data), strict=True))


READERS: dict[str, Callable[[Path, Manifest, str], Rows]] = {
    reader.__name__: reader
    for reader in (
        datasets_prepared,
        datasets_streaming,
        mlcroissant,
        pandas,
        polars,
        duckdb,
        shiftdata,
        webdataset,
    )
}


def rows_of(records: Iterable[Mapping[str, Any]], manifest: Manifest) -> Rows:
    """Records by key, each in the one form that can be compared."""
    roles = manifest.roles
    return {
        plain(record["key"]): Row(
            split=plain(record["split"]),
            label=int(record["label"]),
            nuisance=number(record[roles.nuisance], int),
            severity=number(record["severity"], float),
            example=[example(record[name]) for name in roles.example],
        )
        for record in records
    }


def plain(value: str | bytes) -> str:
    """Text: mlcroissant gives it as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def number(value: Any, kind: type) -> Any:
    """A number or None: some clients say NaN or NA for null."""
    return None if is_null(value) else kind(value)


def is_null(value: Any) -> bool:
    return value is None or str(value) in ("nan", "<NA>", "NaT")


def example(value: Any) -> Any:
    """One cell of an example: a picture as mode, size and pixels, anything else as it is."""
    if isinstance(value, dict):
        value = Image.open(io.BytesIO(value["bytes"]))
    if isinstance(value, Image.Image):
        return (value.mode, value.size, value.tobytes())
    if is_null(value):
        return None
    return plain(value) if isinstance(value, str | bytes) else float(value)
