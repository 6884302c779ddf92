"""Named sets of rows to export, which protocols make elsewhere, and how their examples are read and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.data.metadata import Metadata


@dataclass(frozen=True)
class NamedRows:
    """Rows of a base by their positions in its metadata; the first of `roles` is the set's own.

    `counts` says how often each row was drawn. `hidden` are keys to show instead of the rows' own: then
    nothing else that tells the label is shown either.
    """

    rows: IntArray
    roles: Sequence[str]
    counts: IntArray | None = None
    hidden: pa.Array | None = None

    @property
    def times(self) -> IntArray:
        """The count of each row."""
        return np.ones(len(self.rows), np.int64) if self.counts is None else self.counts


@dataclass(frozen=True)
class NamedSets:
    """Sets of rows of one base; `protocol` and `summary` describe them on cards, `identity` hashes them."""

    metadata: Metadata
    sets: Mapping[str, NamedRows]
    protocol: str
    summary: str
    identity: str = ""


#: How much is read at once: enough that neighbours in a file come by one request, and memory stays small.
BATCH_BYTES = 16 << 20
BATCH_ROWS = 1000

#: How files of a format begin, and their usual ending.
FORMATS = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
)


def batches(rows: Iterable[int], lengths: NDArray[np.integer]) -> Iterator[list[int]]:
    """Cut rows, in their order, into batches by the bytes of their examples."""
    batch: list[int] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += int(lengths[row])
        if size >= BATCH_BYTES or len(batch) >= BATCH_ROWS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def ending_of(data: bytes) -> str:
    """Return the file ending of an encoded image by its first bytes; metadata does not have it.

    >>> ending_of(b"RIFF....WEBPVP8 ")
    '.webp'
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((ending for start, ending in FORMATS if data.startswith(start)), ".img")
