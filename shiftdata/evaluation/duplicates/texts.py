"""Near-duplicates among texts, by the words that they share, and among rows of a table, by rounded values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftdata.data.arrays import IntArray
from shiftdata.stable import hash64, rng

#: Words of a shingle; a text of fewer words is one.
WORDS = 2
#: MinHash: two texts that share half of their shingles agree in a band with a probability of .99.
BANDS, ROWS = 32, 3
#: Significant digits of numbers that count as equal.
DIGITS = 3


def text_pairs(texts: Sequence[str]) -> tuple[IntArray, NDArray[np.float64]]:
    """Return pairs of texts, and 1 - the share of their shingles that both have."""
    shingles = [_shingles(text) for text in texts]
    factors = rng("minhash").integers(1, 1 << 63, (BANDS * ROWS, 1), np.uint64) * 2 + 1
    least = np.stack([(factors * of[None]).min(1) for of in shingles]) if shingles else np.empty((0, 1))
    pairs = set[tuple[int, int]]()
    for band in range(BANDS):
        keys = map(bytes, np.ascontiguousarray(least[:, band * ROWS : (band + 1) * ROWS]))
        pairs |= set(_linked(keys))
    rows = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return rows, np.array([_apart(shingles[a], shingles[b]) for a, b in rows.tolist()], np.float64)


def _shingles(text: str) -> NDArray[np.uint64]:
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    grams = {" ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1))}
    return np.array(sorted(hash64(gram) for gram in grams), np.uint64)


def _apart(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    both = len(np.intersect1d(a, b, assume_unique=True))
    return 1 - both / (len(a) + len(b) - both)


def table_pairs(rows: Sequence[Mapping[str, Any]]) -> tuple[IntArray, NDArray[np.float64]]:
    """Return pairs of rows that agree in every feature once numbers are rounded, and by how much they differ.

    The distance is the largest difference of two numbers as a share of the larger one.
    """
    pairs = np.array(list(_linked(tuple(map(_rounded, row.values())) for row in rows)), np.int64)
    pairs = pairs.reshape(-1, 2)
    return pairs, np.array([_difference(rows[a], rows[b]) for a, b in pairs.tolist()], np.float64)


def _rounded(value: Any) -> Hashable:
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    return value.strip().casefold() if isinstance(value, str) else value


def _difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    shares = [
        abs(x - y) / max(abs(x), abs(y))
        for x, y in zip(a.values(), b.values(), strict=True)
        if isinstance(x, float) and isinstance(y, float) and x != y
    ]
    return max(shares, default=0.0)


def _linked(keys: Iterator[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield each place with the one before that has the same key: a chain, however many are equal."""
    last = dict[Hashable, int]()
    for place, key in enumerate(keys):
        if key in last:
            yield last[key], place
        last[key] = place
