"""Some columns of a dataset's Parquet file, wherever it lies, without the bytes of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.dataset import OpenDataset
from shiftdata.errors import IntegrityError
from shiftdata.format.bounds import unpacked_fault
from shiftdata.places.client import NoRangesError
from shiftdata.places.store import MissingFileError

#: Files of fewer bytes are read whole, once: their footer and a column are most of them anyway.
SMALL = 1 << 18


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
        dataset.store.info(path)  # it is a file, which has an end
        with pq.ParquetFile(dataset.folder / path) as file:
            _check_size(dataset, path, file.metadata)
            return file.read(list(names))

    def whole() -> pa.Table:
        data = dataset.keep(
            ("file", path), lambda: dataset.store.read(path, record.bytes if record else SMALL)
        )
        file = pq.ParquetFile(pa.BufferReader(data))
        _check_size(dataset, path, file.metadata)
        return file.read(list(names))

    record = dataset.manifest.files.get(path)
    if record is not None and record.bytes <= SMALL:
        return whole()
    try:
        with dataset.store.open(path) as source:
            footer = dataset.keep(("footer", path), lambda: pq.read_metadata(source))
            _check_size(dataset, path, footer)
            return pq.ParquetFile(source, metadata=footer, pre_buffer=True).read(list(names))
    except NoRangesError:
        return whole()


def _check_size(dataset: OpenDataset, path: str, footer: pq.FileMetaData) -> None:
    """Refuse a file that unpacks to more memory than it can need."""
    record = dataset.manifest.files.get(path)
    if record is not None and (fault := unpacked_fault(footer, record.bytes)):
        raise IntegrityError(f"{dataset.address}: {path} {fault}")
