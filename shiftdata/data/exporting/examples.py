"""Examples to export: read a few megabytes at a time, named by their format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

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
