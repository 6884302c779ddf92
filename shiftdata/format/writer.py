"""Write Parquet shards; encoded images lie verbatim in the file, and we say where each one lies."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftdata.errors import IntegrityError
from shiftdata.files import whole_file
from shiftdata.format.schema import FEATURE_TYPES, POINTER_COLUMNS

#: A row group holds a stretch of one group, so that a filter skips the others: at most so much of it ...
ROWS_PER_GROUP = 40
BYTES_PER_GROUP = 1 << 20
#: ... and shorter stretches than this share one.
SMALL_STRETCH = 16
BYTES_PER_SHARD = 256 << 20
METADATA_ROWS_PER_GROUP = 20_000

#: Nobody filters by these: statistics on them would only make the footer longer.
UNFILTERED = {"license", "attribution", "params", "image", "text", *POINTER_COLUMNS}
#: Nearly every row has its own value: a dictionary would only repeat them.
DISTINCT = {"key", "quantile", "params", "image", "text", "sha256", "offset"}


def within_limits(
    rows: NDArray[np.int64], sizes: NDArray[np.int64], most_rows: int
) -> list[NDArray[np.int64]]:
    """Cut rows into stretches of about equal length below the limits of rows and bytes."""
    count = max(1, -(-len(rows) // most_rows))
    while True:
        pieces = np.array_split(rows, count)
        if count >= len(rows) or max(sizes[piece].sum() for piece in pieces) <= BYTES_PER_GROUP:
            return pieces
        count += 1


def write_shard(path: Path, schema: pa.Schema, groups: Iterator[pa.Table]) -> None:
    """Write one data file, a row group a table. Images stay as they are, all else is compressed."""
    compression = dict.fromkeys(schema.names, "zstd")
    if schema.field(-1).type == FEATURE_TYPES["image"]:
        name = schema.names[-1]
        del compression[name]
        compression |= {f"{name}.bytes": "none", f"{name}.path": "zstd"}
    with (
        whole_file(path) as temporary,
        pq.ParquetWriter(
            temporary,
            schema,
            compression=compression,
            **_options(schema),
            use_content_defined_chunking=True,
        ) as writer,
    ):
        for group in groups:
            writer.write_table(group, row_group_size=len(group))


def write_metadata(path: Path, table: pa.Table) -> None:
    """Write one metadata file."""
    with whole_file(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            row_group_size=METADATA_ROWS_PER_GROUP,
            **_options(table.schema),
        )


def write_keys(path: Path, table: pa.Table) -> None:
    """Write one frozen canonical split: key, split, count."""
    with whole_file(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", use_dictionary=["split", "count"])


def rows_in(path: Path) -> int:
    """How many rows a Parquet file holds."""
    rows: int = pq.read_metadata(path).num_rows
    return rows


def offsets(path: Path, images: Iterator[bytes]) -> Iterator[int]:
    """Where each image begins in a written shard, by one forward scan of the file."""
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        position = 0
        for number, image in enumerate(images):
            found = content.find(image, position)
            if found < 0:
                raise IntegrityError(f"{path}: image {number} is not in the file as it was encoded")
            yield found
            position = found + len(image)


def _options(schema: pa.Schema) -> dict[str, list[str]]:
    """Which columns get statistics, and which a dictionary."""
    return {
        "write_statistics": [name for name in schema.names if name not in UNFILTERED],
        "use_dictionary": [name for name in schema.names if name not in DISTINCT],
    }
