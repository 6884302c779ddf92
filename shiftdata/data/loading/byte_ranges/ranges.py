"""Join byte ranges that lie close to each other, so that fewer requests fetch them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

#: Of all bytes that are asked for, at most this part may be fetched in vain between them.
WASTE = 1 / 50
WIDEST = 64 * 2**10
#: The most bytes of one request: more would keep other connections waiting.
LONGEST = 4 * 2**20


class Piece(NamedTuple):
    """The bytes of one example in a shard; `position` is its row in the base, `row` that in the shard."""

    position: int
    row: int
    start: int
    length: int
    sha256: bytes | None = None

    @property
    def end(self) -> int:
        return self.start + self.length


class Span(NamedTuple):
    """One request: a byte range and the pieces in it."""

    pieces: Sequence[Piece]

    @property
    def start(self) -> int:
        return self.pieces[0].start

    @property
    def end(self) -> int:
        return max(piece.end for piece in self.pieces)


def spans(pieces: Sequence[Piece], *, neighbours: bool = False) -> Iterator[Span]:
    """Join the pieces of a shard over gaps of at most `WIDEST` bytes, the narrowest gaps first.

    `neighbours`: rows that follow each other are joined whatever the waste. In a tar a header and padding lie
    between them, which are more than a small example.

    >>> near = [Piece(0, 0, 0, 500), Piece(1, 1, 510, 500), Piece(2, 2, 9000, 500)]
    >>> [(span.start, span.end) for span in spans(near)]
    [(0, 1010), (9000, 9500)]
    """
    ordered = sorted(pieces, key=lambda piece: (piece.start, piece.length))
    if not ordered:
        return
    starts = np.array([piece.start for piece in ordered])
    ends = np.maximum.accumulate([piece.end for piece in ordered])
    gaps = np.maximum(starts[1:] - ends[:-1], 0)
    order = np.argsort(gaps, kind="stable")
    allowed = sum(piece.length for piece in ordered) * WASTE
    bridged = np.zeros(len(gaps), dtype=bool)
    bridged[order] = np.cumsum(gaps[order]) <= allowed
    if neighbours:
        bridged |= np.diff([piece.row for piece in ordered]) == 1
    bridged &= gaps <= WIDEST
    first = 0
    for number, joined in enumerate(bridged.tolist(), start=1):
        if not joined or ordered[number].end - ordered[first].start > LONGEST:
            yield Span(ordered[first:number])
            first = number
    yield Span(ordered[first:])
