"""Some columns of a Parquet file, wherever it is, and no byte of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from shiftdata.errors import IntegrityError
from shiftdata.places.search import Place, filesystem, persistently


def read_columns(place: Place, path: str, names: Sequence[str]) -> pa.Table:
    """Read columns of a dataset's file; of one that is far away, only their bytes and the footer come."""
    try:
        if place.folder is not None:
            table = pq.read_table(place.folder / path, columns=list(names))
        else:
            table = persistently(lambda: _from_afar(place, path, names))
    except (pa.ArrowInvalid, FileNotFoundError) as error:
        raise IntegrityError(
            f"{place.source}: {path} cannot be read ({error}): fetch or build the dataset again"
        ) from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise IntegrityError(f"{place.source}: {path} lacks the columns {', '.join(missing)}")
    return table.replace_schema_metadata(None)


def _from_afar(place: Place, path: str, names: Sequence[str]) -> pa.Table:
    system, root = filesystem(place.address)
    try:
        # fsspec would read megabytes ahead; pyarrow knows which bytes it needs, and asks for them at once.
        with system.open(f"{root}/{path}", "rb", cache_type="none") as file:
            return pq.ParquetFile(file, pre_buffer=True).read(list(names))
    except pa.ArrowInvalid:
        raise
    except ValueError:  # so fsspec says that a server gives no ranges
        whole = system.cat_file(f"{root}/{path}")
        return pq.read_table(pa.BufferReader(whole), columns=list(names))
