"""Read columns of a dataset's Parquet file, here or far away, without the bytes of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.data.dataset import OpenDataset
from shiftdata.data.format.bounds import unpacked_fault
from shiftdata.data.places.client import NoRangesError
from shiftdata.data.places.store import MissingFileError
from shiftdata.errors import IntegrityError

#: Files of fewer bytes are read whole, once: most of their bytes are footer and columns anyway.
SMALL = 1 << 18

T = TypeVar("T")


def read_columns(
    dataset: OpenDataset,
    path: str,
    names: Sequence[str],
    *,
    groups: Sequence[int] | None = None,
    coded: Sequence[str] = (),
) -> pa.Table:
    """Read columns of a file, or of some row groups; `coded` are texts to read with a dictionary.

    Of a file that is far away, only their bytes and the footer are fetched.
    """

    def table(file: pq.ParquetFile) -> pa.Table:
        return file.read(list(names)) if groups is None else file.read_row_groups(list(groups), list(names))

    return _opened(dataset, path, names, table, coded).replace_schema_metadata(None)


def read_footer(dataset: OpenDataset, path: str, names: Sequence[str]) -> pq.FileMetaData:
    """Return the footer of a file, which must have these columns; read once for an opened dataset."""
    return _opened(dataset, path, names, lambda file: file.metadata)


def _opened(
    dataset: OpenDataset,
    path: str,
    names: Sequence[str],
    use: Callable[[pq.ParquetFile], T],
    coded: Sequence[str] = (),
) -> T:
    record = dataset.manifest.files.get(path)

    def checked(source: Any, **options: Any) -> T:
        with pq.ParquetFile(source, read_dictionary=list(coded), **options) as file:
            if record is not None and (fault := unpacked_fault(file.metadata, record.bytes)):
                raise IntegrityError(f"{dataset.address}: {path} {fault}")
            missing = [name for name in names if name not in file.schema_arrow.names]
            if missing:
                raise IntegrityError(f"{dataset.address}: {path} lacks the columns {', '.join(missing)}")
            return use(file)

    def whole() -> T:
        most = record.bytes if record else SMALL
        data = dataset.keep(("file", path), lambda: dataset.store.read(path, most))
        return checked(pa.BufferReader(data))

    try:
        if dataset.folder is not None:
            dataset.store.info(path)  # refuses a pipe, which has no end
            return checked(dataset.folder / path)
        if record is not None and record.bytes <= SMALL:
            return whole()
        try:
            with dataset.store.open(path) as source:
                footer = dataset.keep(("footer", path), lambda: pq.read_metadata(source))
                return checked(source, metadata=footer, pre_buffer=True)
        except NoRangesError:
            return whole()
    except (pa.ArrowInvalid, MissingFileError) as error:
        dataset.check_unchanged(force=True)
        raise IntegrityError(
            f"{dataset.address}: {path} cannot be read ({error}): fetch or build the dataset again"
        ) from error
