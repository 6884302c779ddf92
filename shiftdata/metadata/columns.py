"""Some columns of a dataset's Parquet file, wherever it lies, and no byte of the others."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.places.store import MissingFileError


def read_columns(dataset: OpenDataset, path: str, names: Sequence[str]) -> pa.Table:
    """Read columns of a file; of one that is far away, only their bytes and the footer are fetched."""
    try:
        table = _read(dataset, path, names)
    except (pa.ArrowInvalid, MissingFileError) as error:
        raise IntegrityError(
            f"{dataset.address}: {path} cannot be read ({error}): fetch or build the dataset again"
        ) from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise IntegrityError(f"{dataset.address}: {path} lacks the columns {', '.join(missing)}")
    return table.replace_schema_metadata(None)


def _read(dataset: OpenDataset, path: str, names: Sequence[str]) -> pa.Table:
    if dataset.folder is not None:
        with pq.ParquetFile(dataset.folder / path) as file:
            return file.read(list(names))

    def footer(source: Any) -> pq.FileMetaData:
        return dataset.keep(("footer", path), lambda: pq.read_metadata(source))

    try:
        with dataset.store.open(path) as source:
            return pq.ParquetFile(source, metadata=footer(source), pre_buffer=True).read(list(names))
    except pa.ArrowInvalid:
        raise
    except ValueError:  # so fsspec says that a server gives no ranges
        whole = io.BytesIO(dataset.store.read(path))
        return pq.read_table(whole, columns=list(names))
