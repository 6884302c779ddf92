"""Joins and order of millions of texts, a part of them at a time.

A table of all texts is far larger than the processor's caches, and each look-up in it waits for memory.
Parts of a few thousand texts, by hash or by range, are joined and sorted in the cache, by the same functions
of Arrow and with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shiftdata.data.arrays import RADIX, IntArray, by_code, stretches
from shiftdata.data.metadata.columns import as_array

#: Bytes above which one array of texts needs wider offsets.
MOST_TEXT = 1 << 31
#: The texts of a part, on average.
PART = 1 << 13
#: Of this many texts one is looked at, to find the bounds of ranges.
SAMPLED = 32
#: Texts that are hashed at once, and the bytes at their ends that count.
AT_ONCE, LONGEST = 1 << 15, 128
#: Of each word of a text: powers of Knuth's multiplier, 2^64 divided by the golden ratio.
MULTIPLIERS = np.cumprod(np.full(LONGEST // 8, 0x9E3779B97F4A7C15, np.uint64))


def parts_of(count: int) -> int:
    """Return the number of parts for `count` texts, a power of two."""
    return min(RADIX, 1 << max(0, (count // PART).bit_length()))


def spread(texts: pa.Array, parts: int) -> NDArray[np.uint16]:
    """Return the part of each text, below `parts`, by a hash that is stored nowhere."""
    result = np.zeros(len(texts), np.uint16)
    shift = np.uint64(65 - parts.bit_length())
    for at in stretches(len(texts) if parts > 1 else 0, AT_ONCE):
        words, length = _words(texts.slice(at.start, AT_ONCE))
        # Words of zeros must add nothing: a text is padded to the longest one that is hashed with it.
        hashes = length.astype(np.uint64)
        for word, multiplier in zip(words.T, MULTIPLIERS, strict=False):
            hashes += word * multiplier
        hashes ^= hashes >> np.uint64(32)
        # The high bits of a product depend on all bits of its factors.
        result[at] = (hashes * MULTIPLIERS[0]) >> shift
    return result


def _words(texts: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.integer]]:
    """Return the last bytes of each text as words of 8, padded with zeros, and its length."""
    texts = pc.fill_null(texts.cast(pa.large_string()), "")
    length = as_array(pc.binary_length(texts))
    width = -(-int(length.max(initial=1)) // 8) * 8
    if width > LONGEST:
        width, binary = LONGEST, texts.view(pa.large_binary())
        texts = pc.binary_slice(binary, -LONGEST, None).view(pa.large_string())
    padded = pc.ascii_rpad(texts, width, "\0")
    first = np.frombuffer(padded.buffers()[1], np.int64)[padded.offset]
    data = np.frombuffer(padded.buffers()[2] or b"", np.uint8)[first : first + width * len(texts)]
    return data.view(np.uint64).reshape(len(texts), width // 8), length


def joined_texts(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return texts as one array, with offsets as wide as they need: a copy may be gigabytes."""
    texts = texts if texts.nbytes < MOST_TEXT else texts.cast(pa.large_string())
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def positions(texts: pa.Array, among: pa.Array) -> IntArray:
    """Return the position of each text among others, of equal ones the first; -1 for none."""
    parts = parts_of(len(among))
    result = np.empty(len(texts), np.int64)
    pairs = zip(_split(texts, parts), _split(among, parts), strict=True)
    for mine, theirs in pairs:
        pair = (
            of.take(pa.array(rows)).cast(pa.large_string()) for of, rows in ((texts, mine), (among, theirs))
        )
        found = pc.index_in(*pair)
        # The last is for -1.
        result[mine] = np.append(theirs, -1)[as_array(pc.fill_null(found, -1))]
    return result


def _taken(texts: pa.Array, rows: IntArray) -> pa.Array:
    return texts.take(pa.array(rows)).cast(pa.large_string())


def _split(texts: pa.Array, parts: int) -> Iterator[IntArray]:
    """Yield the positions of the texts of each part, in their order."""
    order, counts = by_code(spread(texts, parts), parts)
    yield from np.split(order, np.cumsum(counts)[:-1])


def text_order(texts: pa.Array) -> IntArray:
    """Return the positions of texts in the order of their bytes, which is that of `pc.sort_indices`.

    Texts are put into ranges by the eight bytes after what all begin with, and each range is sorted.
    """
    if len(texts) <= 2 * PART:
        return as_array(pc.sort_indices(texts)).astype(np.int64)
    least, most = (end.as_py().encode() for end in pc.min_max(texts).values())
    pairs = enumerate(zip(least, most, strict=False))
    begin = next((place for place, (left, right) in pairs if left != right), len(least))
    words = np.empty(len(texts), np.uint64)
    for at in stretches(len(texts), AT_ONCE):
        part = texts.slice(at.start, AT_ONCE).cast(pa.large_string()).view(pa.large_binary())
        part = pc.binary_slice(part, begin, begin + 8)
        words[at] = _words(part.view(pa.large_string()))[0][:, 0].byteswap()
    bounds = np.unique(np.sort(words[::SAMPLED])[:: PART // SAMPLED])
    if len(bounds) < 2:
        return as_array(pc.sort_indices(texts)).astype(np.int64)
    bounds = bounds[:: -(-len(bounds) // RADIX)][1:]
    codes = np.empty(len(texts), np.uint16)
    for at in stretches(len(texts)):
        codes[at] = np.searchsorted(bounds, words[at], side="right")
    order, counts = by_code(codes, len(bounds) + 1)
    for end, count in zip(np.cumsum(counts).tolist(), counts.tolist(), strict=True):
        rows = order[end - count : end]
        if count:
            order[end - count : end] = rows[text_order(texts.take(pa.array(rows)))]
    return order
