"""Byte ranges of a shard, merged where they lie near each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Request", "Wanted", "merged"]

LARGEST = 8 * 2**20  # of one request: a longer one could not be shared by several connections


@dataclass(frozen=True)
class Wanted:
    """One example: its row in the base, and where its bytes lie."""

    row: int
    shard: str
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.offset + self.length


@dataclass(frozen=True)
class Request:
    """A stretch of a shard with the examples in it."""

    shard: str
    start: int
    end: int
    examples: tuple[Wanted, ...]


def merged(wanted: Sequence[Wanted], tolerance: int) -> Iterator[Request]:
    """Requests that cover all examples; a gap of at most `tolerance` bytes is read with them."""
    held: list[Wanted] = []
    for one in sorted(wanted, key=lambda one: (one.shard, one.offset)):
        if held:
            end = max(other.end for other in held[-1:])
            near = one.shard == held[0].shard and one.offset - end <= tolerance
            if not near or one.end - held[0].offset > LARGEST:
                yield _request(held)
                held = []
        held.append(one)
    if held:
        yield _request(held)


def _request(held: list[Wanted]) -> Request:
    return Request(held[0].shard, held[0].offset, max(one.end for one in held), tuple(held))
